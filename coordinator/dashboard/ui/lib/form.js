// A form made of a JSON Schema. It knows no rule of its own: what a value must be, the coordinator says, and its errors
// are shown at the fields that they name.
import { html, useEffect, useId, useMemo, useRef } from "../base.js";
import { Button, Hostile } from "./components.js";
import { Editor } from "./editor.js";
import { leaves, place, plan } from "./form/plan.js";
import { emptyArray, emptyObject, read, string, stringOf, typed, withItem, withMember, write } from "./form/value.js";

/** canForm tells whether a schema has fields to show for a value; else it is edited as JSON. */
export function canForm(schemaText, value) {
  return plan(schemaText, value).kind === "group";
}

/** formValue is the value of a form that nobody has filled in: the objects that the schema requires are there, empty. */
export function formValue(schemaText) {
  const fill = (f) => f.fields.filter((x) => x.kind === "group" && x.required).reduce((node, x) => withMember(node, x.name, fill(x), f.order), emptyObject());
  const f = plan(schemaText, undefined);
  return f.kind === "group" ? fill(f) : emptyObject();
}

/**
 * Form shows the fields of a schema. value is a node of form/value.js, onChange gets another one. errors are those of the
 * API: [{path, message}]; those that no field is named for are shown above the form.
 */
export function Form({ schema, value, onChange, errors = [], label = "Parameters" }) {
  const root = useMemo(() => plan(schema, value), [schema, value]);
  const at = useMemo(() => byField(root, errors), [root, errors]);
  return html`<div class="form" role="group" aria-label=${label}>${at.get("$")?.map((m) => html`<p class="error" role="alert"><${Hostile} text=${m} /></p>`)}
    <${Fields} field=${root} value=${value} onChange=${onChange} errors=${at} /></div>`;
}

/** byField sorts errors to the paths of the fields that show them. */
function byField(root, errors) {
  const fields = leaves(root);
  const at = new Map();
  for (const e of errors) {
    const path = place(fields, e.path)?.path ?? "$";
    const text = path === e.path ? e.message : `${e.path}: ${e.message}`;
    at.set(path, [...(at.get(path) ?? []), text]);
  }
  return at;
}

function Fields({ field, value, onChange, errors }) {
  const set = (name) => (v) => onChange(withMember(value ?? emptyObject(), name, v, field.order));
  return html`${field.fields.map((f) => html`<${Field} key=${f.name} field=${f} onChange=${set(f.name)} errors=${errors} />`)}
    ${field.others.map((f) => html`<${Field} key=${"other:" + f.name} field=${f} onChange=${set(f.name)} errors=${errors} other=${true} />`)}`;
}

const parts = { text: TextInput, number: NumberInput, boolean: BooleanInput, choice: ChoiceInput, json: JsonInput };

/** Field is one line of the form: label, what stands about it in the schema, control, errors. */
function Field({ field: f, onChange, errors, other = false }) {
  const id = useId();
  const mine = errors.get(f.path) ?? [];
  if (f.kind === "group" || f.kind === "list") return html`<${Nested} field=${f} onChange=${onChange} errors=${errors} mine=${mine} />`;
  const Part = parts[f.kind];
  const unread = f.kind === "number" && f.value?.kind === "typed";
  const wrong = unread ? [f.value.text ? `${f.value.text} is no number` : "A number is needed", ...mine] : mine;
  const control = {
    id, "aria-required": f.required ? "true" : undefined, "aria-invalid": wrong.length ? "true" : undefined,
    "aria-describedby": [id + "-hint", wrong.length && id + "-error"].filter(Boolean).join(" "), "data-path": f.path,
  };
  return html`<div class=${"field " + (wrong.length ? "wrong" : "")}>
    <div class="row"><label for=${id}><${Name} field=${f} /></label>${other && html`<span class="faint">not in the schema</span><${Button} small=${true} kind="plain" icon="cross" label=${"Remove " + f.name} onClick=${() => onChange(undefined)} />`}</div>
    <${Part} field=${f} control=${control} onChange=${onChange} />
    <${About} field=${f} id=${id + "-hint"} onChange=${onChange} />
    ${wrong.length > 0 && html`<div class="error" id=${id + "-error"}>${wrong.map((m) => html`<p><${Hostile} text=${m} /></p>`)}</div>`}</div>`;
}

const Name = ({ field: f }) => html`<${Hostile} text=${f.title ?? f.name ?? "item"} />${f.required && f.name !== undefined && html`<span class="needed" title="required" aria-hidden="true"> *</span>`}
  ${f.title && f.title !== f.name && html` <code class="faint"><${Hostile} text=${f.name ?? ""} /></code>`}`;

// About is the description, the bounds, the default, and examples that can be taken.
function About({ field: f, id, onChange }) {
  const trailing = f.kind === "text" && /[\r\n]$/.test(stringOf(f.value) ?? "");
  const facts = [...f.hints, f.preset && `default ${write(f.preset)}`].filter(Boolean);
  return html`<p class="hint" id=${id}>${f.description && html`<${Hostile} text=${f.description} lines=${true} />`}
    ${facts.length > 0 && html`<span class="bounds">${f.description ? " · " : ""}<${Hostile} text=${facts.join(" · ")} /></span>`}
    ${trailing && html`<span class="warn"> · The value ends with a line break</span>`}
    ${f.examples.slice(0, 3).map((e) => html` <button type="button" class="example" title="Use this example" onClick=${() => onChange(read(write(e)))}><${Hostile} text=${stringOf(e) ?? write(e)} /></button>`)}</p>`;
}

function TextInput({ field: f, control, onChange }) {
  const text = stringOf(f.value) ?? "";
  const input = (e) => onChange(e.currentTarget.value === "" ? undefined : string(e.currentTarget.value));
  if (f.lines || /[\r\n]/.test(text)) return html`<textarea class="auto" rows="1" spellcheck=${false} value=${text} onInput=${input} ...${control}></textarea>`;
  return html`<input type="text" spellcheck=${false} autocomplete="off" value=${text} onInput=${input} ...${control} />`;
}

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

// A number is a text field: a browser's own number field rounds, and drops what it does not like.
function NumberInput({ field: f, control, onChange }) {
  const input = (e) => {
    const text = e.currentTarget.value.trim();
    onChange(text === "" ? undefined : { kind: number.test(text) ? "number" : "typed", text });
  };
  return html`<input type="text" inputmode=${f.whole ? "numeric" : "decimal"} autocomplete="off" class="number" value=${f.value?.text ?? ""} onInput=${input} ...${control} />`;
}

const none = (f) => (f.required ? "Choose…" : f.preset ? `Not given (${write(f.preset)})` : "Not given");

function BooleanInput({ field: f, control, onChange }) {
  const change = (e) => onChange(e.currentTarget.value ? { kind: "boolean", text: e.currentTarget.value } : undefined);
  const value = f.value?.text ?? "";
  return html`<select value=${value} onChange=${change} ...${control}>${["", "true", "false"].map((v) => html`<option value=${v} selected=${v === value}>${v || none(f)}</option>`)}</select>`;
}

function ChoiceInput({ field: f, control, onChange }) {
  const at = f.value ? f.options.findIndex((o) => o.text === f.value.text) : -1;
  const change = (e) => onChange(e.currentTarget.value === "" ? undefined : read(f.options[Number(e.currentTarget.value)].text));
  const value = at < 0 ? "" : String(at);
  return html`<select value=${value} onChange=${change} ...${control}>
    <option value="" selected=${at < 0}>${f.value && at < 0 ? write(f.value) : none(f)}</option>
    ${f.options.map((o, i) => html`<option key=${i} value=${String(i)} selected=${at === i}>${o.label}</option>`)}</select>`;
}

function JsonInput({ field: f, control, onChange }) {
  const text = f.value ? write(f.value) : "";
  return html`<${Editor} label=${f.title ?? f.name ?? "JSON"} value=${text} small=${true} control=${control} onChange=${(t) => onChange(t.trim() === "" ? undefined : read(t))} />`;
}

/** first is the value of an item that was just added. */
function first(f) {
  switch (f.kind) {
    case "text": return string("");
    case "number": return { kind: "typed", text: "" };
    case "boolean": return { kind: "boolean", text: "false" };
    case "choice": return read(f.options[0]?.text ?? "null");
    case "list": return emptyArray();
    default: return emptyObject();
  }
}

/** Nested is an object or an array within the form: absent until it is added, where it is optional. */
function Nested({ field: f, onChange, errors, mine }) {
  const id = useId();
  const absent = f.value === undefined;
  const make = f.kind === "list" ? emptyArray : emptyObject;
  return html`<fieldset class=${"nested " + (mine.length ? "wrong" : "")} aria-describedby=${id} data-path=${f.path}>
    <legend><${Name} field=${f} /></legend>
    <${About} field=${f} id=${id} onChange=${onChange} />
    ${mine.map((m) => html`<p class="error"><${Hostile} text=${m} /></p>`)}
    ${f.kind === "list" ? html`<${Items} field=${f} onChange=${onChange} errors=${errors} />` : !absent && html`<${Fields} field=${f} value=${f.value} onChange=${onChange} errors=${errors} />`}
    <div class="row">${absent && f.kind === "group" && html`<${Button} small=${true} icon="plus" onClick=${() => onChange(make())}>Add ${f.title ?? f.name}<//>`}
      ${!absent && !f.required && html`<${Button} small=${true} kind="plain" icon="cross" onClick=${() => onChange(undefined)}>Remove<//>`}</div>
  </fieldset>`;
}

function Items({ field: f, onChange, errors }) {
  const ref = useRef();
  const grown = useRef(false);
  const value = f.value ?? emptyArray();
  useEffect(() => {
    if (grown.current) ref.current.lastElementChild?.querySelector("input, textarea, select")?.focus();
    grown.current = false;
  }, [value.items.length]);
  const add = () => ((grown.current = true), onChange(withItem(value, value.items.length, first(f.item))));
  return html`<ol class="items" ref=${ref}>${f.items.map((item, i) => html`<li key=${i}>
      <${Field} field=${{ ...item, title: item.title ?? `Item ${i + 1}` }} errors=${errors} onChange=${(v) => onChange(withItem(value, i, v ?? first(item)))} />
      <${Button} small=${true} kind="plain" icon="cross" label=${`Remove item ${i + 1} of ${f.name ?? "the list"}`} onClick=${() => onChange(withItem(value, i, undefined))} /></li>`)}</ol>
    <div class="row"><${Button} small=${true} icon="plus" onClick=${add}>Add an item<//></div>`;
}

/** unfinished tells whether a value holds something typed that is no JSON: then it cannot be sent. */
export const unfinished = typed;

/** focusError moves the focus to the first field that has an error. */
export function focusError(within) {
  const wrong = within?.querySelector("[aria-invalid=true], fieldset.wrong input, fieldset.wrong button");
  wrong?.focus();
  wrong?.scrollIntoView({ block: "center" });
}
