// Agents' definitions and their schemas: what several pages need of them.
import { html } from "../base.js";
import { request, seg, send } from "./api.js";
import { Json, object, parse, quote } from "./json.js";
import { write } from "./form/value.js";
import { Badge, Hostile, Id } from "./components.js";
import { Editor } from "./editor.js";

/** answered are the members of a definition that only answers have: nobody sends them. */
const answered = new Set(["created_at", "modified_at", "runner_id", "runners", "origin", "path", "editable", "reason", "command", "drafts", "agent_hash", "unused_file"]);

/** loadAgent reads an agent: its text, its ETag, and its members. */
export async function loadAgent(name, signal) {
  const { data, text, headers } = await request("GET", "/agents/" + seg(name), { signal });
  return { ...data, text, etag: headers.get("ETag") };
}

/** members are the definition's own members, in order: [[name, JSON text], …]. */
export function members(text) {
  return parse(text).items.filter((m) => !answered.has(m.name)).map((m) => [m.name, m.text]);
}

/** changed is the definition with changes: {name: JSON text}; "null" takes a member away. */
export function changed(text, changes) {
  const own = members(text).map(([name, value]) => [name, changes[name] ?? value]);
  const more = Object.entries(changes).filter(([name]) => !own.some(([n]) => n === name));
  return object([...own, ...more].filter(([, value]) => value !== "null"));
}

/** copyAgent makes an agent of the API of another one's definition. */
export async function copyAgent(text, name, changes = {}) {
  return send("POST", "/agents", changed(text, { ...changes, name: quote(name), status: quote("active") }));
}

/** noCopy says why an agent cannot be copied; undefined where it can. */
export const noCopy = (agent) => (agent.type === "procedural" ? "Procedural agents belong to runners: copy the file in the runner's agents_dir" : undefined);

/** noChange says why an agent cannot be changed or deleted here; undefined where it can. */
export const noChange = (agent) => (agent.editable ? undefined : agent.reason || "It cannot be changed here");

/** Origin tells where a definition comes from. */
export function Origin({ agent }) {
  if (agent.origin === "runner") return html`<span class="row"><${Badge} title="Registered by a runner">runner<//>${agent.runner_id && html`<${Id} id=${agent.runner_id} href="/ui/runners" copy=${false} />`}</span>`;
  if (agent.origin === "file") return html`<span class="row cut"><${Badge} title=${agent.path ?? "Defined by a file"}>file<//>${agent.path && html`<span class="faint cut" title=${agent.path}><${Hostile} text=${agent.path.split("/").slice(-2).join("/")} /></span>`}</span>`;
  return html`<${Badge} kind="accent" title="Created through the API">API<//>`;
}

/** SchemaBadges tells at a glance which schemas an agent has, and whether a draft waits. */
export function SchemaBadges({ agent }) {
  const output = agent.output_schema || agent.output_schema_name;
  const drafts = agent.drafts ?? [];
  return html`<span class="row">${agent.parameters_schema && html`<${Badge} kind="accent" title="It has a custom input schema">input<//>`}
    ${output && html`<${Badge} kind="good" title=${agent.output_schema_name ? `Its output schema is ${agent.output_schema_name}` : "It has a custom output schema"}>output<//>`}
    ${drafts.length > 0 && html`<${Badge} kind="warn" title=${`A draft that is not active: ${drafts.join(", ")}`}>draft<//>`}</span>`;
}

/** judgeSchema asks the coordinator whether a text is a JSON Schema, and returns its errors. */
export async function judgeSchema(text) {
  const verdict = await send("POST", "/schemas/validate", object([["schema_text", quote(text)]]));
  return verdict.errors ?? [];
}

const keywords = [
  ["type", "object, string, …"], ["properties", "members by name"], ["required", "names"], ["items", "of an array"], ["enum", "values"], ["const", "one value"],
  ["title"], ["description"], ["default"], ["examples"], ["format", "uri, date, …"], ["pattern", "regular expression"], ["minimum"], ["maximum"],
  ["exclusiveMinimum"], ["exclusiveMaximum"], ["multipleOf"], ["minLength"], ["maxLength"], ["minItems"], ["maxItems"], ["uniqueItems"], ["contains"],
  ["additionalProperties"], ["patternProperties"], ["propertyNames"], ["minProperties"], ["maxProperties"], ["dependencies"], ["allOf"], ["anyOf"], ["oneOf"],
  ["not"], ["if"], ["then"], ["else"], ["$ref", "#/definitions/…"], ["definitions"], ["$schema"],
].map(([name, detail]) => ({ name, detail }));

const example = '{"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}';

/** SchemaEditor edits a JSON Schema; the coordinator's verdict stands at the line. */
export const SchemaEditor = (props) => html`<${Editor} placeholder=${example} judge=${judgeSchema} keywords=${keywords} ...${props} />`;

/** textOf is a definition's member as it is edited: pretty, "" where there is none. */
export function textOf(agent, name) {
  const value = new Json(agent.text).member(name);
  return value && !value.isNull ? value.pretty() : "";
}

/** sameJson tells whether two texts have the same tokens, whatever stands between them. */
export function sameJson(a, b) {
  const compact = (text) => {
    try {
      return write(withoutSpace(parse(text)));
    } catch {
      return text;
    }
  };
  return a === b || compact(a) === compact(b);
}

const withoutSpace = (node) => (node.items ? { kind: node.kind, name: node.name, items: node.items.map(withoutSpace) } : node);
