// The plain members of a definition, its MCP servers, and all of it as JSON.
import { html, useState } from "../../base.js";
import { check, object, prettify, quote, Json } from "../../lib/json.js";
import { Card, Field, Hostile, Icon } from "../../lib/components.js";
import { Editor } from "../../lib/editor.js";
import { emptyObject, read, string, stringOf, withMember, write, member } from "../../lib/form/value.js";

const stringAt = (definition, name) => {
  const text = definition.value(name);
  return text === undefined ? "" : stringOf(read(text)) ?? text;
};

/** Line is one member that is a string; an empty one is left out, but for description and system_prompt. */
function Line({ definition, name, label, hint, lines = false, empty = "null" }) {
  const value = stringAt(definition, name);
  const input = (e) => definition.set(name, e.currentTarget.value === "" ? empty : quote(e.currentTarget.value));
  const props = { value, readonly: Boolean(definition.fixed), onInput: input, spellcheck: lines };
  return html`<${Field} label=${label} hint=${hint} optional=${true}>${(c) => (lines ? html`<textarea class="auto" rows="2" ...${props} ...${c}></textarea>` : html`<input type="text" autocomplete="off" ...${props} ...${c} />`)}<//>`;
}

/** Digits is one member that is a whole number, as it was typed. */
function Digits({ definition, name, label, hint, unit }) {
  const text = definition.value(name) ?? "";
  const bad = text !== "" && !/^\d+$/.test(text) ? `${text} is not a whole number` : undefined;
  return html`<${Field} label=${label} hint=${hint} error=${bad} optional=${true}>${(c) => html`<span class="row"><input type="text" inputmode="numeric" class="number" autocomplete="off" value=${text} readonly=${Boolean(definition.fixed)}
    onInput=${(e) => definition.set(name, e.currentTarget.value.trim() || "null")} ...${c} />${unit && html`<span class="faint">${unit}</span>`}</span>`}<//>`;
}

/** words turns a list that is typed with commas into a JSON array, and back. */
const wordsOf = (text) => (text === undefined ? "" : (read(text).items ?? []).map((n) => stringOf(n) ?? n.text).join(", "));
const arrayOf = (typed) => {
  const all = typed.split(",").map((w) => w.trim()).filter(Boolean);
  return all.length ? "[" + all.map(quote).join(",") + "]" : "null";
};

function Words({ label, hint, value, onChange, fixed }) {
  const [typed, setTyped] = useState(null);
  const text = typed !== null && arrayOf(typed) === (value ?? "null") ? typed : wordsOf(value);
  return html`<${Field} label=${label} hint=${hint} optional=${true}>${(c) => html`<input type="text" autocomplete="off" spellcheck=${false} value=${text} readonly=${Boolean(fixed)}
    onInput=${(e) => (setTyped(e.currentTarget.value), onChange(arrayOf(e.currentTarget.value)))} ...${c} />`}<//>`;
}

const demanded = [
  ["executor_type", "Executor type", "autonomous or procedural"], ["executor_profile", "Runner profile", "Only on runners with this executor profile"],
  ["hostname", "Host", "Only on runners on this host"], ["project_dir", "Project folder", "An absolute path"],
];

/** Demands are what runs of the agent ask of a runner. value and onChange are JSON text. */
export function Demands({ value, onChange, fixed }) {
  const node = value === undefined ? emptyObject() : read(value);
  const set = (name, v) => {
    const next = withMember(node.kind === "object" ? node : emptyObject(), name, v);
    onChange(next.items.length ? write(next) : "null");
  };
  const tags = member(node, "tags");
  return html`<div class="grid tight">${demanded.map(([name, label, hint]) => html`<${Field} key=${name} label=${label} hint=${hint} optional=${true}>${(c) => html`<input type="text" autocomplete="off" spellcheck=${false}
      value=${stringOf(member(node, name)) ?? ""} readonly=${Boolean(fixed)} onInput=${(e) => set(name, e.currentTarget.value ? string(e.currentTarget.value) : undefined)} ...${c} />`}<//>`)}
    <${Words} label="Tags" hint="A runner must have all of them. Separate with commas." fixed=${fixed} value=${tags && write(tags)} onChange=${(t) => set("tags", t === "null" ? undefined : read(t))} /></div>`;
}

export function General({ definition, agent }) {
  const procedural = agent.type === "procedural";
  return html`<div class="grid">
    <${Card} title="About"><div class="stack">
      <${Line} definition=${definition} name="description" label="Description" lines=${true} empty='""' hint="For people, and for agents that choose which agent to ask." />
      <${Words} label="Tags" hint="Some runners only take agents that share one of their tags. Separate with commas." fixed=${definition.fixed} value=${definition.value("tags")} onChange=${(t) => definition.set("tags", t)} />
      ${agent.command && html`<${Field} label="Command" hint="The program that the runner starts.">${(c) => html`<input type="text" readonly value=${agent.command} ...${c} />`}<//>`}</div><//>
    <${Card} title="How it runs"><div class="stack">
      ${!procedural && html`<${Line} definition=${definition} name="model" label="Model" hint="If the profile allows it. Default: the profile's model." />
        <${Digits} definition=${definition} name="max_turns" label="Model turns in one run" hint="Limited by the profile." />`}
      <${Digits} definition=${definition} name="timeout_seconds" label="Time limit" unit="seconds" hint=${`The upper limit for every run. Default: ${procedural ? 300 : 3600}.`} />
      <${Digits} definition=${definition} name="max_attempts" label="Attempts" hint="How many attempts a run has when they fail or are lost. Default: 1." /></div><//>
    <${Card} title="Where it runs"><div class="stack"><${Line} definition=${definition} name="executor_profile" label="Executor profile" hint="The executor profile its runs need." />
      <${Demands} value=${definition.value("demands")} fixed=${definition.fixed} onChange=${(t) => definition.set("demands", t)} /></div><//>
  </div>`;
}

const masked = "••••";

export function Servers({ definition }) {
  const was = definition.value("mcp_servers") ?? "";
  const [text, setText] = useState(() => pretty(was));
  const change = (next) => (setText(next), definition.set("mcp_servers", next.trim() === "" ? "null" : next));
  const shown = was === "" && !check(text) ? "" : text; // after a discard
  return html`<${Card} title="MCP servers"><div class="stack">
    <p class="soft">Servers whose tools the agent may use, by name. <code>\${AGENT_ORCHESTRATOR_MCP_URL}</code> is the orchestrator's own URL; values such as <code>\${TOKEN}</code> come from the worker's environment.</p>
    ${was.includes(masked) && html`<div class="banner"><${Icon} name="shield" /><span>Secrets are hidden: your token may not see them.</span></div>`}
    <${Editor} label="MCP servers" value=${shown} onChange=${change} readOnly=${Boolean(definition.fixed)} placeholder='{"files": {"command": "mcp-files", "args": ["/srv"]}}' /></div><//>`;
}

export function JsonTab({ definition }) {
  const [text, setText] = useState(() => pretty(definition.text()));
  const [error, setError] = useState(null);
  const change = (next) => {
    setText(next);
    const wrong = check(next);
    const object = !wrong && new Json(next).kind === "object";
    setError(wrong ? "This is not valid JSON: the changes are not applied yet" : object ? null : "A definition is a JSON object");
    if (object) definition.apply(next);
  };
  return html`<${Card} title="The definition"><div class="stack">
    <p class="soft">Everything that can be changed, in the form <code>PATCH /agents/${definition.agent.name}</code> takes. Changes show in the other tabs; a member that you remove is removed from the agent.</p>
    ${error && html`<p class="bad" role="alert"><${Hostile} text=${error} /></p>`}
    <${Editor} label="Definition" value=${text} onChange=${change} readOnly=${Boolean(definition.fixed)} /></div><//>`;
}

function pretty(text) {
  try {
    return prettify(text);
  } catch {
    return text;
  }
}

/** bodyOf is a request's body of [name, text] pairs without what is not given. */
export const bodyOf = (pairs) => object(pairs.filter(([, text]) => text !== undefined && text !== "null"));
