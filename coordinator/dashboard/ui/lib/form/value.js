// A JSON value that a form changes: nodes of json.js, {kind, text, name, items}. A change copies the nodes above it and
// leaves the texts of all others alone, so digits, order and duplicate keys stay.
import { check, parse, quote } from "../json.js";

/** read makes a node of a JSON text. A text that is no JSON is a node of kind "typed": what somebody has typed so far. */
export function read(text) {
  return check(text) ? { kind: "typed", text } : parse(text);
}

/** write is the JSON text of a node. The text of a node of kind "typed" stands in it as it was typed. */
export function write(node) {
  if (node.text !== undefined) return node.kind === "typed" ? node.text : node.text.trim();
  if (node.kind === "array") return "[" + node.items.map(write).join(",") + "]";
  return "{" + node.items.map((m) => quote(m.name) + ":" + write(m)).join(",") + "}";
}

/** typed tells whether something in a node is no JSON yet. */
export const typed = (node) => node.kind === "typed" || (node.items ?? []).some(typed);

export const string = (s) => ({ kind: "string", text: quote(s) });
export const emptyObject = () => ({ kind: "object", items: [] });
export const emptyArray = () => ({ kind: "array", items: [] });

/** stringOf is the value of a string node; undefined for another kind. */
export const stringOf = (node) => (node?.kind === "string" ? JSON.parse(node.text) : undefined);

/** member is the last member of that name, as who reads JSON takes it; undefined without one. */
export const member = (node, name) => (node?.kind === "object" ? node.items.findLast((m) => m.name === name) : undefined);

/**
 * withMember is the object with another value for a member; undefined takes the member away. A new member stands where
 * order, the names of all members, has it.
 */
export function withMember(node, name, value, order = []) {
  const at = node.items.findLastIndex((m) => m.name === name);
  const items = [...node.items];
  if (value === undefined) return { kind: "object", items: items.filter((m) => m.name !== name) };
  const next = { ...value, name };
  if (at >= 0) items[at] = next;
  else items.splice(placeFor(items, name, order), 0, next);
  return { kind: "object", items };
}

// placeFor is in front of the first member that order has behind name.
function placeFor(items, name, order) {
  const later = new Set(order.slice(order.indexOf(name) + 1));
  const at = order.includes(name) ? items.findIndex((m) => later.has(m.name)) : -1;
  return at < 0 ? items.length : at;
}

/** withItem is the array with another item at i; undefined takes it away. */
export function withItem(node, i, value) {
  const items = [...node.items];
  if (value === undefined) items.splice(i, 1);
  else items[i] = value;
  return { kind: "array", items };
}
