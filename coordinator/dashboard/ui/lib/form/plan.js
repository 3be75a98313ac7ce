// What a form shows for a JSON Schema and a value: a tree of fields. What the schema asks beyond that is the
// coordinator's to judge: no field refuses what the coordinator would take.
import { parse } from "../json.js";
import { member, stringOf } from "./value.js";

const deepest = 6; // levels of fields; what is below is edited as JSON
const mostFields = 500; // with more the page would be slow: the whole is edited as JSON
const mostOptions = 500; // likewise: the value is typed
const scalars = new Set(["string", "number", "integer", "boolean"]);

/**
 * plan reads a schema (a JSON text) and a value (a node) and returns the field of the whole: {kind, path, …}. kind:
 * group {fields, others}, list {items, item}, text, number, boolean, choice {options}, or json for anything else.
 */
export function plan(schemaText, value) {
  const root = parse(schemaText);
  const left = { fields: mostFields };
  const whole = field({ root, schema: root, value, path: "$", required: true, depth: 0, left });
  return left.fields < 0 ? { ...about(root), value, path: "$", required: true, kind: "json" } : whole;
}

/** leaves are all fields of a plan, itself first. */
export const leaves = (f) => [f, ...[...(f.fields ?? []), ...(f.items ?? []), ...(f.others ?? [])].flatMap(leaves)];

/** place finds the field that an error's path belongs to: the deepest one that contains it. */
export function place(fields, path) {
  const holds = (f) => path === f.path || (path.startsWith(f.path) && (path[f.path.length] === "." || path[f.path.length] === "["));
  return fields.filter(holds).reduce((best, f) => (!best || f.path.length >= best.path.length ? f : best), undefined);
}

const plainName = /^[\p{L}_][\p{L}\p{Nd}_]*$/u;
const controls = { "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t" };

/** below is the path of a member, written as the coordinator writes it. */
export function below(path, name) {
  if (plainName.test(name)) return path + "." + name;
  const escaped = name.replace(/['\\]/g, "\\$&").replace(/[\b\f\n\r\t]/g, (c) => "\\" + controls[c]);
  return `${path}['${escaped}']`;
}

// follow resolves references into the schema itself; another one is left for the JSON editor.
function follow(root, schema, hops = 0) {
  const ref = stringOf(member(schema, "$ref"));
  if (ref === undefined) return schema;
  if (hops > 20 || !ref.startsWith("#")) return undefined;
  let at = root;
  for (const part of ref.slice(1).split("/").slice(1)) {
    const name = decodePart(part);
    at = at?.kind === "array" ? at.items[Number(name)] : member(at, name);
  }
  return at && follow(root, at, hops + 1);
}

function decodePart(part) {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return part;
  }
}

function field(at) {
  if (--at.left.fields < 0) return { kind: "json", examples: [], hints: [], path: at.path, name: at.name };
  const schema = follow(at.root, at.schema);
  const f = { ...about(schema), value: at.value, path: at.path, name: at.name, required: at.required };
  const make = schema && at.depth <= deepest ? makerOf(schema) : undefined;
  return Object.assign(f, make?.({ ...at, schema }) ?? { kind: "json" });
}

// makerOf chooses how a schema is shown.
function makerOf(schema) {
  if (member(schema, "enum") || member(schema, "const")) return enumeration;
  if (constants(schema)) return alternatives;
  const type = stringOf(member(schema, "type"));
  if (type === "object" || (type === undefined && member(schema, "properties"))) return group;
  if (type === "array") return list;
  return scalars.has(type) ? scalar : undefined;
}

function about(schema) {
  const text = (name) => stringOf(member(schema, name));
  const examples = member(schema, "examples");
  return {
    title: text("title"), description: text("description"), preset: member(schema, "default"),
    examples: examples?.kind === "array" ? examples.items : [], hints: hints(schema),
  };
}

const bounds = [
  ["minimum", "at least #"], ["exclusiveMinimum", "more than #"], ["maximum", "at most #"], ["exclusiveMaximum", "less than #"],
  ["multipleOf", "a multiple of #"], ["minLength", "at least # characters"], ["maxLength", "at most # characters"],
  ["minItems", "at least # items"], ["maxItems", "at most # items"], ["format", "format #"], ["pattern", "matches #"],
];

// hints are what a schema asks of a value, in words.
function hints(schema) {
  const found = bounds.map(([name, words]) => [words, member(schema, name), name]).filter(([, node, name]) =>
    node && node.kind !== "boolean" && !(name === "minLength" && node.text === "1"));
  return found.map(([words, node]) => words.replace("#", () => stringOf(node) ?? node.text));
}

const labelOf = (node) => stringOf(node) ?? node.text;

function enumeration({ schema }) {
  const one = member(schema, "const");
  const all = one ? [one] : member(schema, "enum").items ?? [];
  if (all.length > mostOptions) return { kind: all.every((n) => n.kind === "string") ? "text" : "json" };
  return { kind: "choice", options: all.map((n) => ({ text: n.text, label: labelOf(n) })) };
}

// constants are the branches of oneOf or anyOf where each is a const.
function constants(schema) {
  const branches = (member(schema, "oneOf") ?? member(schema, "anyOf"))?.items;
  return branches?.length > 0 && branches.length <= mostOptions && branches.every((b) => member(b, "const")) ? branches : undefined;
}

function alternatives({ schema }) {
  return {
    kind: "choice",
    options: constants(schema).map((b) => {
      const value = member(b, "const");
      return { text: value.text, label: stringOf(member(b, "title")) ?? stringOf(member(b, "description")) ?? labelOf(value) };
    }),
  };
}

function scalar({ schema, value }) {
  const type = stringOf(member(schema, "type"));
  if (value && !fits(type, value)) return { kind: "json" };
  if (type === "boolean") return { kind: "boolean" };
  if (type !== "string") return { kind: "number", whole: type === "integer" };
  const short = Number(member(schema, "maxLength")?.text ?? Infinity) <= 120;
  return { kind: "text", lines: !short && !member(schema, "format") && !member(schema, "pattern") };
}

// A value of another type than the schema's is shown as the JSON it is.
const fits = (type, value) => value.kind === (type === "integer" ? "number" : type) || (value.kind === "typed" && type !== "string");

function list({ root, schema, value, path, depth, left }) {
  const items = member(schema, "items");
  if (!items || items.kind !== "object" || (value && value.kind !== "array")) return { kind: "json" };
  const one = (v, i) => field({ root, schema: items, value: v, path: `${path}[${i}]`, required: v !== undefined, depth: depth + 1, left });
  const item = one(undefined, 0);
  if (item.kind === "json") return { kind: "json" };
  return { kind: "list", item, items: (value?.items ?? []).map(one) };
}

// group has no fields while its value is absent and may be: a schema that refers to itself has no end.
function group({ root, schema, value, path, required, depth, left }) {
  const properties = member(schema, "properties")?.items ?? [];
  const needed = new Set((member(schema, "required")?.items ?? []).map(stringOf).filter((n) => n !== undefined));
  if (properties.length + needed.size === 0 || (value && value.kind !== "object")) return { kind: "json" };
  if (!value && !required) return { kind: "group", fields: [], others: [], order: [] };
  const order = [...new Set(properties.map((p) => p.name))];
  const make = (name, of) => field({ root, schema: of, value: member(value, name), path: below(path, name), name, required: needed.has(name), depth: depth + 1, left });
  const known = order.map((name) => make(name, properties.findLast((p) => p.name === name)));
  const missing = [...needed].filter((n) => !order.includes(n)).map((name) => make(name, undefined));
  const shown = new Set([...order, ...missing.map((f) => f.name)]);
  const others = [...new Set((value?.items ?? []).map((m) => m.name))].filter((n) => !shown.has(n)).map((name) => make(name, undefined));
  return {
    kind: "group", fields: [...known, ...missing], others, order: [...order, ...missing.map((f) => f.name)], asked: required,
    open: member(schema, "additionalProperties")?.text !== "false",
  };
}
