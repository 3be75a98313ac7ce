// Saving a definition: judged before, with the ETag it was read with, and both versions shown where somebody else was first.
import { html, useState } from "../../base.js";
import { ApiError, request, seg } from "../../lib/api.js";
import { Json, object, prettify } from "../../lib/json.js";
import { Button, Dialog, Hostile, JsonView, toast } from "../../lib/components.js";
import { judgeSchema } from "../../lib/agents.js";

class NotSaved extends Error {
  constructor(tab, message) {
    super(message);
    this.tab = tab;
  }
}

/** useSave returns {busy, error, conflict, run(), force(), leave()}. go shows the tab where something has to be mended. */
export function useSave(definition, reload, go) {
  const [state, setState] = useState({ busy: false });
  const now = JSON.stringify(definition.changes);
  const attempt = async (etag) => {
    if (state.busy) return;
    setState({ busy: true });
    try {
      await judge(definition);
      await settle(definition, false);
      await patch(definition, etag);
      await settle(definition, true);
      setState({ busy: false });
      toast(sentence(definition), { kind: "good" });
      await reload();
    } catch (error) {
      if (error instanceof ApiError && error.status === 412) return setState({ busy: false, conflict: { etag: error.body.etag, text: error.body.current?.text ?? "{}" } });
      if (!(error instanceof ApiError) && !(error instanceof NotSaved)) console.error(error);
      if (error.tab ?? tabOf(error)) go(error.tab ?? tabOf(error));
      setState({ busy: false, error, of: now });
    }
  };
  return {
    ...state,
    error: state.of === now ? state.error : undefined, // of another text nothing is known
    run: () => attempt(definition.agent.etag),
    force: () => attempt(state.conflict.etag),
    leave: () => (setState({ busy: false }), definition.discard(), reload()),
    close: () => setState({ busy: false }),
  };
}

const tabs = { parameters_schema: "input", output_schema: "output", output_schema_name: "output", output_schema_options: "output", mcp_servers: "servers", system_prompt: "prompt" };
const tabOf = (error) => tabs[error.body?.field?.split(".")[0]];

function sentence({ agent, input, output }) {
  const empty = [input.empty && !input.was && "input", output.empty && !output.was && "output"].filter(Boolean);
  return empty.length ? `Saved. The ${empty.join(" and ")} editor is empty: no custom schema is active` : `${agent.name} is saved`;
}

// judge asks the coordinator about both schemas before anything is written.
async function judge({ input, output, broken, changes }) {
  if (input.empty && input.was) throw new NotSaved("input", "The editor is empty. Turn “Custom input schema” off to remove the schema, or define one.");
  if (output.empty && output.was) throw new NotSaved("output", "The editor is empty. Choose “None” to remove the schema, or define one.");
  const bad = broken();
  if (bad && bad !== "parameters_schema" && bad !== "output_schema") throw new NotSaved(tabs[bad], `${bad} is not valid: ${changes[bad]}`);
  await judgeOne("input", input.on, input.text, changes.parameters_schema);
  await judgeOne("output", output.mode === "inline", output.text, changes.output_schema);
}

async function judgeOne(tab, on, text, change) {
  if (!on || change === undefined || text.trim() === "") return;
  const [first, ...more] = await judgeSchema(text);
  if (!first) return;
  const where = first.line ? `line ${first.line}: ` : "";
  throw new NotSaved(tab, `The ${tab} schema is not valid, ${where}${first.path ? first.path + " " : ""}${first.message}${more.length ? ` (and ${more.length} more)` : ""}`);
}

// settle keeps what will not be active as a draft, before the change; the drafts of what is active go after it.
const settle = ({ input, output }, on) => Promise.all([input, output].filter((side) => side.on === on).map((side) => side.settle()));

async function patch({ agent, changes }, etag) {
  const headers = etag ? { "If-Match": etag } : {};
  await request("PATCH", "/agents/" + seg(agent.name), { body: object(Object.entries(changes)), headers });
}

/** Conflict shows both versions of what was changed here, where somebody else has saved meanwhile. */
export function Conflict({ definition, save }) {
  const other = new Json(save.conflict.text);
  const show = (text) => (text === undefined || text === "null" ? html`<p class="faint">None</p>` : html`<${JsonView} value=${pretty(text)} />`);
  const footer = html`<${Button} onClick=${save.close}>Keep editing<//><${Button} onClick=${save.leave}>Take theirs<//>
    <${Button} kind="danger" needs="PATCH /agents/:name" busy=${save.busy} onClick=${save.force}>Overwrite with mine<//>`;
  return html`<${Dialog} title="Somebody else changed this agent" wide=${true} onClose=${save.close} footer=${footer}>
    <p>It was saved elsewhere after you opened this page. You changed the members below; nothing is lost until you choose.</p>
    ${Object.keys(definition.changes).map((name) => html`<section class="versions"><h3><code><${Hostile} text=${name} /></code></h3>
      <div class="grid"><div><h4>Theirs, saved</h4>${show(other.member(name)?.text)}</div><div><h4>Yours</h4>${show(definition.changes[name])}</div></div></section>`)}<//>`;
}

function pretty(text) {
  try {
    return prettify(text);
  } catch {
    return text;
  }
}
