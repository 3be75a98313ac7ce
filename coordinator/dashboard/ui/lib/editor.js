// The JSON editor: CodeMirror where it can be loaded, else a plain text field. Its text is the user's, never reformatted
// but by Prettify.
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../base.js";
import { check, prettify, JsonError } from "./json.js";
import { Button, Hostile, announce, toast } from "./components.js";
import { create } from "./editor/codemirror.js";

/**
 * Editor edits a text that is to be JSON. judge(text, signal) asks the coordinator: it returns its errors, [{message,
 * path, line, column}], and is asked only of what is JSON. keywords are proposed as names of members. onErrors is told
 * what is wrong. A text that is changed from outside replaces what stands in the editor.
 */
export function Editor({ label, value, onChange, judge, onErrors, keywords, readOnly = false, small = false, control = {}, tools, placeholder }) {
  const [errors, setErrors] = useState([]);
  const holder = useRef();
  const view = useRef(null);
  const hint = useId();
  const [plain, setPlain] = useState(false);
  const [lines] = useState(() => value.split("\n").length); // the height that the box keeps until CodeMirror is loaded
  const latest = useRef({});
  latest.current = {
    change: (text) => onChange?.(text), judge,
    errors: (list) => (setErrors(list), onErrors?.(list)),
  };
  useEffect(() => {
    let gone = false;
    const attributes = { "aria-label": label, "aria-describedby": [hint, control["aria-describedby"]].filter(Boolean).join(" "), id: control.id, "data-path": control["data-path"] };
    create(holder.current, { text: value, latest, keywords, readOnly, placeholder, attributes })
      .then((v) => (gone ? v.destroy() : (view.current = v)), () => gone || setPlain(true));
    return () => {
      gone = true;
      view.current?.destroy();
      view.current = null;
    };
  }, [readOnly]);
  useLayoutEffect(() => view.current?.replace(value), [value]);
  useEffect(() => view.current?.invalid(control["aria-invalid"] === "true" || errors.length > 0), [control["aria-invalid"], errors]);

  const arrange = () => {
    try {
      const text = prettify(value);
      view.current?.replace(text);
      onChange(text);
      announce("Prettified");
    } catch (err) {
      if (!(err instanceof JsonError)) throw err;
      toast(`It cannot be prettified: ${err.message}`, { kind: "bad" });
      view.current?.go(err.line, err.column);
    }
  };
  return html`<div class=${"editor " + (small ? "small " : "") + (readOnly ? "fixed" : "")}>
    ${plain ? html`<textarea class="code" aria-label=${label} readonly=${readOnly} spellcheck=${false} value=${value} onInput=${(e) => onChange(e.currentTarget.value)} ...${control}></textarea>` : html`<div class="codebox" ref=${holder} style=${{ "--lines": lines }}></div>`}
    <div class="under"><div class="row wrap">${!readOnly && html`<${Button} small=${true} onClick=${arrange} disabled=${value.trim() === ""}>Prettify<//>`}${tools}</div>
      <span class="leave" id=${hint}>${readOnly ? "Read only" : "Tab indents. Esc, then Tab, leaves the editor."}</span></div>
    ${errors.length > 0 && !small && html`<ul class="mistakes" aria-label="What is wrong">${errors.slice(0, 20).map((e) => html`<li><button type="button" class="plain" onClick=${() => view.current?.go(e.line, e.column)}>
      ${e.line ? html`<span class="num">Line ${e.line}</span>` : ""} ${e.path && html`<code><${Hostile} text=${e.path} /></code>`} <${Hostile} text=${e.message} /></button></li>`)}</ul>`}
  </div>`;
}

/** syntaxErrors is what is wrong with a text as JSON, as judge would return it. An empty text is not wrong. */
export function syntaxErrors(text) {
  const err = text.trim() === "" ? null : check(text);
  return err ? [{ message: err.message.replace(/ \(line.*$/, ""), line: err.line, column: err.column }] : [];
}
