// The input and the output schema of an agent: a switch, an editor that is shown only then, a draft that is kept.
import { html } from "../../base.js";
import { get } from "../../lib/api.js";
import { prettify, quote } from "../../lib/json.js";
import { path } from "../../lib/router.js";
import { Badge, Button, Card, Details, Field, Hostile, Icon, JsonView, Switch, Time, useResource } from "../../lib/components.js";
import { SchemaEditor } from "../../lib/agents.js";
import { emptyArray, emptyObject, member, read, stringOf, withItem, withMember, write } from "../../lib/form/value.js";

export function Input({ definition, agent, preview }) {
  const { input, fixed } = definition;
  const about = agent.type === "procedural" ? "Without one, any JSON object is accepted." : "Without one, a run takes only a prompt.";
  return html`<div class="editing"><${Card} title="Input" actions=${html`<${Switch} on=${input.on} why=${fixed} onChange=${input.setOn}>Custom input schema<//>`}>
      <div class="stack"><p class="soft">A JSON Schema (draft-07) for a run's parameters. It is used as it is: nothing is added. ${about}</p>
      <${Side} side=${input} fixed=${fixed} label="Custom input schema" off="The custom input schema is off." /></div><//>
    <${Effective} definition=${definition} agent=${agent} preview=${preview} /></div>`;
}

/** Side is the editor of one schema, or what says that it is off. */
function Side({ side, fixed, label, off }) {
  if (!side.on) {
    return html`<p class="row wrap"><span class="faint">${off}</span>${side.text.trim() !== "" && html`<${Badge} kind="warn">draft<//><span class="faint">The text is kept as a draft until you turn it on.</span>`}<${Saved} kept=${side.kept} /></p>`;
  }
  return html`<${Others} side=${side} /><${SchemaEditor} label=${label} value=${side.text} onChange=${side.set} readOnly=${Boolean(fixed)} tools=${html`<${Saved} kept=${side.kept} />`} />
    ${side.empty && html`<p class="row warn"><${Icon} name="warn" /> The editor is empty: no schema is active.</p>`}
    ${!fixed && side.drafted && html`<p class="row wrap faint">${side.was ? "This text is a draft; another schema is active." : "This text is a draft until it is saved."}
      ${side.was && html`<${Button} small=${true} kind="plain" onClick=${side.reset}>Revert to the active schema<//>`}</p>`}`;
}

const saying = { saving: "Keeping the draft…", saved: "Kept as a draft", failed: "The draft could not be kept" };

const Saved = ({ kept }) => html`<span class=${kept.state === "failed" ? "bad" : "faint"} role="status">${saying[kept.state] ?? ""}</span>`;

/** Others says that the draft was changed elsewhere, and lets choose. */
function Others({ side }) {
  if (side.kept.state !== "other") return null;
  return html`<div class="banner warn" role="alert"><${Icon} name="warn" /><div class="stack grow"><span>This draft was changed elsewhere, in another tab or by somebody else.</span>
    <${Details} summary="Their draft"><pre class="json" tabindex="0"><${Hostile} text=${side.kept.theirs || "(none)"} lines=${true} /></pre><//>
    <div class="row"><${Button} small=${true} onClick=${side.take}>Take theirs<//><${Button} small=${true} onClick=${side.kept.overwrite}>Keep mine<//></div></div></div>`;
}

/** Effective shows what a start of the agent must send, and whether that has a prompt. */
function Effective({ definition, agent, preview }) {
  const schema = preview.data?.parameters_schema;
  const text = schema?.text ?? null;
  return html`<${Card} title="What a new run must send"><div class="stack">
    ${preview.error && html`<p class="bad"><${Hostile} text=${preview.error.message} /></p>`}
    ${preview.data && !preview.error && (text ? html`<${PromptNote} text=${text} definition=${definition} agent=${agent} /><${JsonView} value=${schema.pretty()} label="The effective schema" />` : html`<p>Any JSON object.</p>`)}
    ${agent.type !== "procedural" && html`<p class="faint">Resuming a session always sends only a prompt.</p>`}</div><//>`;
}

function PromptNote({ text, definition, agent }) {
  const schema = read(text);
  const named = member(member(schema, "properties"), "prompt");
  const needed = (member(schema, "required")?.items ?? []).some((n) => stringOf(n) === "prompt");
  const says = named || needed ? html`<code>prompt</code> is <strong>${needed ? "required" : "optional"}</strong>.` : html`<code>prompt</code> is <strong>not a field</strong> of this schema.`;
  const add = () => definition.input.set(prettify(write(withPrompt(read(definition.input.text)))));
  const can = definition.input.on && !named && agent.type !== "procedural" && read(definition.input.text).kind === "object";
  return html`<p class="row wrap"><span>${says}</span>${can && html`<${Button} small=${true} icon="plus" why=${definition.fixed} onClick=${add}>Add prompt<//>`}</p>`;
}

/** withPrompt is a schema that has a required prompt besides what it has. */
export function withPrompt(schema) {
  const properties = member(schema, "properties");
  const prompt = read('{"type":"string","minLength":1,"description":"What to do"}');
  const required = member(schema, "required") ?? emptyArray();
  const has = required.items?.some((n) => stringOf(n) === "prompt");
  const out = withMember(schema, "properties", withMember(properties?.kind === "object" ? properties : emptyObject(), "prompt", prompt), ["type", "required", "properties"]);
  return has || required.kind !== "array" ? out : withMember(out, "required", withItem(required, required.items.length, read(quote("prompt"))));
}

const modes = [
  ["none", "None", "The answer is plain text."],
  ["name", "By name", "A named schema that agents share."],
  ["inline", "Custom output schema", "A schema for this agent only."],
];

export function Output({ definition }) {
  const { output, fixed } = definition;
  const options = html`<${Options} value=${output.options} onChange=${output.setOptions} fixed=${fixed} retries=${1} />`;
  return html`<${Card} title="Output"><div class="stack">
    <p class="soft">What the answer must match. The agent is given the schema, its answer is checked, and it is asked again if the check fails. A schema from the caller replaces this one.</p>
    <fieldset class="modes"><legend class="offscreen">Output schema</legend>${modes.map(([id, label, hint]) => html`<label class="choice"><input type="radio" name="output-mode" value=${id} checked=${output.mode === id} disabled=${Boolean(fixed)} onChange=${() => output.setMode(id)} />
      <span><strong>${label}</strong> <span class="faint">${hint}</span></span></label>`)}</fieldset>
    ${output.mode === "name" && html`<${Named} value=${output.name} onChange=${output.setName} fixed=${fixed}>${options}<//>`}
    ${output.mode !== "name" && html`<${Side} side=${output} fixed=${fixed} label="Custom output schema" off="" />`}
    ${output.mode === "inline" && options}</div><//>`;
}

/** Named chooses a schema of the registry and shows it; children follow once it is loaded. */
export function Named({ value, onChange, fixed, children }) {
  const all = useResource((signal) => get("/schemas", {}, { signal }), []);
  const one = useResource(async (signal) => (value ? get("/schemas/" + encodeURIComponent(value), {}, { signal }) : null), [value]);
  const names = (all.data?.schemas ?? []).filter((s) => !s.error).map((s) => s.name);
  const shown = value && !names.includes(value) ? [value, ...names] : names;
  return html`<${Field} label="Schema" error=${one.error && value ? one.error.message : undefined} hint=${all.data?.schemas.length === 0 ? html`There are no named schemas yet: <a href=${path(["schemas"])}>create one</a>.` : undefined}>${(c) => html`<select value=${value} disabled=${Boolean(fixed)} onChange=${(e) => onChange(e.currentTarget.value)} ...${c}>
      <option value="">Choose…</option>${shown.map((n) => html`<option value=${n} selected=${n === value}>${n}</option>`)}</select>`}<//>
    ${one.data && html`<div class="stack"><p class="faint"><${Hostile} text=${one.data.description || "No description"} /> · since <${Time} at=${one.data.created_at} /></p><${JsonView} value=${one.data.schema.pretty()} label=${"Schema " + value} /></div>`}
    ${(one.data !== undefined || one.error) && children}`;
}

/** Options are output_schema_options, as JSON text; what is not given is left out. */
export function Options({ value, onChange, fixed, retries }) {
  const node = value && value !== "null" ? read(value) : emptyObject();
  const set = (name, v) => {
    const next = withMember(node, name, v);
    onChange(next.items.length ? write(next) : "null");
  };
  const tries = member(node, "max_retries")?.text ?? "";
  const strict = member(node, "strict_json_only")?.text ?? member(node, "validation_mode")?.text;
  const bad = tries !== "" && !/^(?:10|\d)$/.test(tries) ? "From 0 to 10" : undefined;
  const retry = (e) => set("max_retries", e.currentTarget.value.trim() === "" ? undefined : { kind: "typed", text: e.currentTarget.value.trim() });
  return html`<div class="grid tight"><${Field} label="Retries" optional=${true} error=${bad} hint=${`How often the agent is asked again if its answer does not match. Default: ${retries}.`}>${(c) => html`<input type="text" inputmode="numeric" class="number" autocomplete="off" readonly=${Boolean(fixed)} value=${tries} onInput=${retry} ...${c} />`}<//>
    <${Field} label="What counts as the answer" hint="Either JSON is searched for in the text, or the whole text must be JSON.">${(c) => html`<select disabled=${Boolean(fixed)} value=${strict === "true" ? "true" : strict === "false" ? "false" : ""} onChange=${(e) => set("strict_json_only", e.currentTarget.value ? read(e.currentTarget.value) : undefined)} ...${c}>
      <option value="" selected=${!strict}>The coordinator's default</option><option value="false" selected=${strict === "false"}>JSON anywhere in the text</option><option value="true" selected=${strict === "true"}>The whole text must be JSON</option></select>`}<//></div>`;
}
