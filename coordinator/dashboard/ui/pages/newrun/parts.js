// The parts of an order: session, agent, parameters, output schema, where it goes.
import { html, useMemo, useState } from "../../base.js";
import { path, setQuery } from "../../lib/router.js";
import { Card, Details, Field, Hostile, Loading, Tabs, Text } from "../../lib/components.js";
import { SchemaBadges, SchemaEditor } from "../../lib/agents.js";
import { Form, canForm } from "../../lib/form.js";
import { Editor } from "../../lib/editor.js";
import { read, write } from "../../lib/form/value.js";
import { prettify } from "../../lib/json.js";
import { Demands } from "../agent/general.js";
import { Named, Options } from "../agent/schemas.js";

const Line = ({ label, hint, value, onInput, optional = true, error, ...rest }) => html`<${Field} label=${label} hint=${hint} optional=${optional} error=${error}>${(c) => html`<input type="text" autocomplete="off" spellcheck=${false} value=${value} onInput=${(e) => onInput(e.currentTarget.value.trim())} ...${rest} ...${c} />`}<//>`;

const Radios = ({ name, legend, value, onChange, options }) => html`<fieldset class="modes"><legend class="offscreen">${legend}</legend>${options.map(([id, label, hint]) => html`<label class="choice"><input type="radio" name=${name} value=${id} checked=${value === id} onChange=${() => onChange(id)} /><span><strong>${label}</strong> <span class="faint">${hint}</span></span></label>`)}</fieldset>`;

export const SessionCard = ({ order, set }) => html`<${Card} title="Session"><div class="stack">
  <${Radios} name="session" legend="Session" value=${order.session} onChange=${(session) => set({ session })} options=${[["new", "A new session", "An agent starts with its parameters."], ["resume", "Continue a session", "Another turn: send a prompt, the session remembers the rest."]]} />
  ${order.session === "resume" && html`<${Line} label="Session" optional=${false} hint="ses_…, of an autonomous agent" value=${order.resume} onInput=${(resume) => set({ resume })} />`}</div><//>`;

export function AgentCard({ agents, known, order, set }) {
  const groups = ["autonomous", "procedural"].map((type) => [type, agents.filter((a) => a.type === type)]).filter(([, list]) => list.length);
  const missing = order.agent && !known;
  const filled = (m) => m.kind !== "object" || m.items.length > 0; // what the form of another agent has laid out is none of this one's
  const choose = (agent) => (setQuery({ agent }), set({ agent, parameters: order.parameters.items ? { kind: "object", items: order.parameters.items.filter(filled) } : order.parameters }));
  return html`<${Card} title="Agent"><div class="stack"><${Field} label="Agent" error=${missing ? `There is no agent ${order.agent}` : undefined} hint=${agents.length === 0 ? html`There are no agents yet: <a href=${path(["agents"])}>create one</a>.` : undefined}>${(c) => html`<select value=${order.agent} onChange=${(e) => choose(e.currentTarget.value)} ...${c}>
      <option value="">Choose an agent…</option>${groups.map(([type, list]) => html`<optgroup label=${type}>${list.map((a) => html`<option value=${a.name} selected=${a.name === order.agent} disabled=${a.status !== "active"}>${a.name}${a.status === "active" ? "" : " (inactive)"}</option>`)}</optgroup>`)}</select>`}<//>
    ${known && html`<div class="row wrap"><span class="soft"><${Text} text=${known.description} /></span><${SchemaBadges} agent=${known} /><a href=${path(["agents", known.name])}>Open the agent</a></div>`}</div><//>`;
}

/** Parameters are a prompt for a resume, else a form or JSON. */
export function Parameters({ order, set, schema, errors, run }) {
  const [tab, setTab] = useState("form");
  const able = useMemo(() => schema && order.parameters.kind === "object" && canForm(schema, order.parameters), [schema, order.parameters]);
  if (order.session === "resume") {
    return html`<${Card} title="Prompt"><${Field} label="Prompt" error=${errors[0]?.message}>${(c) => html`<textarea class="auto" rows="4" value=${order.prompt} onInput=${(e) => set({ prompt: e.currentTarget.value })} ...${c}></textarea>`}<//><//>`;
  }
  if (!order.agent) return null;
  if (schema === undefined) return html`<${Card} title="Parameters"><${Loading} /><//>`;
  const shown = able ? tab : "json";
  const why = schema === null ? "This agent has no schema: any JSON object is accepted." : !able ? "There is no form for this: edit it as JSON." : null;
  return html`<${Card} title="Parameters"><${Tabs} label="Parameters" tabs=${able ? [{ id: "form", label: "Form" }, { id: "json", label: "JSON" }] : [{ id: "json", label: "JSON" }]} selected=${shown} onSelect=${setTab}>
    ${shown === "form" ? html`<${Form} schema=${schema} value=${order.parameters} errors=${errors} onChange=${(parameters) => set({ parameters })} />`
      : html`<${JsonParameters} order=${order} set=${set} schema=${schema} errors=${errors} why=${why} key=${order.agent + (run ? run.run_id : "")} />`}<//><//>`;
}

function JsonParameters({ order, set, schema, errors, why }) {
  const [text, setText] = useState(() => (order.parameters.kind === "typed" ? order.parameters.text : prettify(write(order.parameters))));
  const change = (next) => (setText(next), set({ parameters: read(next.trim() === "" ? "{}" : next.trim()) }));
  return html`<div class="stack">${why && html`<p class="faint">${why}</p>`}
    <${Editor} label="Parameters" value=${text} onChange=${change} />
    ${errors.length > 0 && html`<ul class="mistakes">${errors.map((e) => html`<li><code><${Hostile} text=${e.path} /></code> <${Hostile} text=${e.message} /></li>`)}</ul>`}
    ${schema && html`<${Details} summary="The schema"><pre class="json" tabindex="0"><${Hostile} text=${prettify(schema)} lines=${true} /></pre><//>`}</div>`;
}

export function OutputCard({ order, set, known, run }) {
  const o = order.output;
  const put = (change) => set({ output: { ...o, ...change } });
  const own = !known ? "The schema that the agent has." : known.output_schema_name ? `Schema ${known.output_schema_name}.` : known.output_schema ? "The agent has a custom schema." : "The agent has none: the answer is plain text.";
  const first = run ? ["agent", "As before", "The schema of the first run."] : ["agent", "The agent's schema", order.session === "resume" ? "The schema of the session's agent." : own];
  return html`<${Card} title="Output schema"><div class="stack">
    <${Radios} name="output" legend="Output schema" value=${o.kind} onChange=${(kind) => put({ kind, options: kind === "agent" ? "null" : o.options })} options=${[first, ["name", "By name", "A named schema."], ["inline", "Inline", "For this run only."]]} />
    ${o.kind === "name" && html`<${Named} value=${o.name} onChange=${(name) => put({ name })} />`}
    ${o.kind === "inline" && html`<${SchemaEditor} label="Output schema" value=${o.text} onChange=${(text) => put({ text })} />`}
    ${o.kind !== "agent" && html`<${Options} value=${o.options} onChange=${(options) => put({ options })} retries="the coordinator's (2)" />`}</div><//>`;
}

const modes = [
  ["async_poll", "Do not wait", "Returns at once; the page of the run shows its progress."], ["sync", "Wait for the end", "The request returns the answer."],
  ["async_callback", "Call back", "The parent session continues with the result."],
];

export function Placement({ order, set, run }) {
  const number = (text) => (text !== "" && !/^\d+$/.test(text) ? `${text} is not a whole number` : undefined);
  const before = run ? "Empty fields stay as they were in the first run." : undefined;
  return html`<${Card} title="How and where"><div class="stack">${before && html`<p class="faint">${before}</p>`}
    <div class="grid tight"><${Line} label="Time limit" hint="Seconds; at most the agent's limit" value=${order.timeout} error=${number(order.timeout)} inputmode="numeric" onInput=${(timeout) => set({ timeout })} />
      <${Line} label="Attempts" hint="1 to 100" value=${order.attempts} error=${number(order.attempts)} inputmode="numeric" onInput=${(attempts) => set({ attempts })} /></div>
    <${Details} summary="Which runner">${html`<div class="stack"><${Line} label="Project folder of the run" hint="An absolute path on the runner" value=${order.projectDir} onInput=${(projectDir) => set({ projectDir })} /><${Demands} value=${order.demands === "null" ? undefined : order.demands} onChange=${(demands) => set({ demands })} /></div>`}<//>
    <${Details} summary="Mode, parent and callbacks">${html`<div class="stack"><${Radios} name="mode" legend="Mode" value=${order.mode} onChange=${(mode) => set({ mode })} options=${modes} />
      <${Line} label="Parent session" hint="ses_… that this run belongs to" value=${order.parent} onInput=${(parent) => set({ parent })} />
      ${order.session === "new" && !run && html`<${Line} label="Session id" hint="ses_ and 1 to 64 letters, digits, _ and -. By default the coordinator makes one" value=${order.own} onInput=${(own) => set({ own })} />`}
      <${Line} label="Callback URL" hint="Gets a webhook when the run ends, if the coordinator allows the host" value=${order.callback} onInput=${(callback) => set({ callback })} /></div>`}<//></div><//>`;
}
