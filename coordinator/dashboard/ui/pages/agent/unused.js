// The file that an agent does not use because its copy was edited here: what is changed in it has no effect.
import { html } from "../../base.js";
import { Button, Hostile, Icon } from "../../lib/components.js";
import { noChange } from "../../lib/agents.js";

/** Unused names the file, and offers to take it. */
export function Unused({ agent, dirty, act }) {
  const file = agent.unused_file;
  if (!file) return null;
  const why = noChange(agent) ?? (dirty ? "Save or discard the changes first" : undefined);
  return html`<div class=${"banner " + (file.changed ? "warn" : "")}><${Icon} name=${file.changed ? "warn" : "info"} /><div class="grow">
      <strong>${file.changed ? "Its file has changed, to no effect." : "Its file is not used."}</strong> The agent was edited here, so changes of <code><${Hostile} text=${file.path} /></code> have no effect.</div>
    <${Button} small=${true} needs="POST /agents/:name/reset" why=${why} onClick=${() => act({ kind: "reset" })}>Take the file<//></div>`;
}
