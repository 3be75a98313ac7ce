import { html } from "../base.js";
import { Button, Empty, Page } from "../lib/components.js";

/** NotFound is what an address shows that is no page's. */
export default function NotFound() {
  return html`<${Page} title="Page not found"><${Empty} title="Page not found" text="The address may be mistyped. Ctrl-K finds runs, sessions and agents by their id or name.">
    <${Button} href="/ui/">Overview<//><${Button} href="/ui/runs">Runs<//><//><//>`;
}
