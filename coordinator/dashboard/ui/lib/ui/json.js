// A JSON value as it came: its digits, its order, its duplicate keys.
import { html, useState } from "../../base.js";
import { Json, check, prettyTokens } from "../json.js";
import { bytes } from "../format.js";
import { Copy, visible, Hostile } from "./text.js";
import { Button } from "./controls.js";

const coloured = 1200; // tokens; what is beyond is shown without colours, so that the document stays small
const shown = 200000; // characters

/** JsonView shows a Json or a JSON text, coloured and indented, with a button that copies the text as it came. */
export function JsonView({ value, label = "JSON", bare = false }) {
  const text = value instanceof Json ? value.text : String(value ?? "null");
  const [all, setAll] = useState(false);
  if (check(text)) return html`<pre class="json" tabindex="0" aria-label=${label}><${Hostile} text=${text.slice(0, shown)} lines=${true} /></pre>`;
  const tokens = prettyTokens(text);
  const first = tokens.slice(0, coloured);
  const rest = tokens.slice(coloured).map((t) => t.text).join("");
  const part = all ? rest : rest.slice(0, shown);
  return html`<div class=${"jsonbox " + (bare ? "bare" : "")}>
    <pre class="json" tabindex="0" aria-label=${label}>${merge(first).map((t) => (t.type === "space" || t.type === "mark" ? t.text : html`<span class=${"j-" + t.type}>${visible(t.text)}</span>`))}${visible(part)}</pre>
    ${part.length < rest.length && html`<${Button} small=${true} onClick=${() => setAll(true)}>Show all ${bytes(rest.length)}<//>`}
    <${Copy} text=${text} label=${"Copy " + label} /></div>`;
}

// merge joins marks and spaces that follow each other into one text.
function merge(tokens) {
  const out = [];
  for (const t of tokens) {
    const last = out.at(-1);
    if (last && isPlain(last) && isPlain(t)) last.text += t.text;
    else out.push({ ...t });
  }
  return out;
}

const isPlain = (t) => t.type === "space" || t.type === "mark";

/** JsonLine shows a value on one line, cut after `most` characters. */
export function JsonLine({ value, most = 120 }) {
  const text = visible((value instanceof Json ? value.text : String(value ?? "")).replace(/\s+/g, " "));
  return html`<code class="jsonline"><bdi>${text.length > most ? text.slice(0, most) + "…" : text}</bdi></code>`;
}
