import { html } from "../base.js";
import { get } from "../lib/api.js";
import { Card, Facts, Loaded, Num, Page, Time, useResource } from "../lib/components.js";

/** Overview is how everything stands. */
export default function Overview() {
  const status = useResource((signal) => get("/status", {}, { signal }), []);
  return html`<${Page} title="Overview"><${Loaded} resource=${status} what="The status">${(s) => html`<${Card} title="Now"><${Facts} of=${[
    ["As of", html`<${Time} at=${s.at} as="exact" />`], ["Waiting", html`<${Num} value=${s.runs.pending} />`], ["Running", html`<${Num} value=${s.runs.running} />`],
    ["Slots", html`<${Num} value=${s.slots.taken} /> of <${Num} value=${s.slots.all} />`]]} /><//>`}<//><//>`;
}
