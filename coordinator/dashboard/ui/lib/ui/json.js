// A JSON value as it came: its digits, its order, its duplicate keys.
import { html, useMemo, useState } from "../../base.js";
import { Json, check, prettyTokens } from "../json.js";
import { bytes } from "../format.js";
import { Copy, visible, Hostile } from "./text.js";
import { Button } from "./controls.js";
import { Icon } from "./icons.js";

const coloured = 1200; // tokens; what is beyond is shown without colours, so that the document stays small
const shown = 200000; // characters
const largest = 524288; // characters that are read as JSON at all; what is longer is shown as it begins

/** JsonView shows a Json or a JSON text, coloured and indented, with a button that copies the text as it came. */
export function JsonView({ value, label = "JSON", bare = false }) {
  const text = value instanceof Json ? value.text : String(value ?? "null");
  const [all, setAll] = useState(false);
  const read = useMemo(() => pretty(text), [text]);
  if (!read.first) return html`${read.why && html`<p class="row warn"><${Icon} name="warn" />${read.why}</p>`}<div class=${"jsonbox " + (bare ? "bare" : "")}><pre class="json" tabindex="0" aria-label=${label}><${Hostile} text=${text} lines=${true} /></pre><${Copy} text=${text} label=${"Copy " + label} /></div>`;
  const { first, rest } = read;
  const part = all ? rest : rest.slice(0, shown);
  return html`<div class=${"jsonbox " + (bare ? "bare" : "")}>
    <pre class="json" tabindex="0" aria-label=${label}>${merge(first).map((t) => (t.type === "space" || t.type === "mark" ? t.text : html`<span class=${"j-" + t.type}>${visible(t.text)}</span>`))}${visible(part)}</pre>
    ${part.length < rest.length && html`<${Button} small=${true} onClick=${() => setAll(true)}>Show all ${bytes(rest.length)}<//>`}
    <${Copy} text=${text} label=${"Copy " + label} /></div>`;
}

// pretty is the first tokens and the text of those behind them. What is too long, or no JSON, has none; why says so where it
// is not seen.
function pretty(text) {
  if (text.length > largest) return {};
  const wrong = check(text);
  if (wrong) return { why: wrong.tooDeep && "It is nested too deeply to be laid out: this is the text as it came." };
  const tokens = prettyTokens(text);
  return { first: tokens.slice(0, coloured), rest: tokens.slice(coloured).map((t) => t.text).join("") };
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
