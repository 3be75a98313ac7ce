// Paste an answer: which JSON is found in it, which of it counts, and what the coordinator says to it.
import { html, useEffect, useRef, useState } from "../../base.js";
import { ApiError, send } from "../../lib/api.js";
import { check, object, quote } from "../../lib/json.js";
import { refusal } from "../../lib/rights.js";
import { Badge, Field, Hostile, Icon, Problem } from "../../lib/components.js";
import { SchemaEditor } from "../../lib/agents.js";
import { plural } from "../../lib/format.js";

const route = "POST /schemas/validate";
const sources = { whole_text: "the whole text", fenced_block: "a fenced block", embedded: "within the text" };

/** Playground judges an answer against a schema; without one it has an editor for it. */
export function Playground({ schema }) {
  const [own, setOwn] = useState("");
  const [answer, setAnswer] = useState("");
  const [strict, setStrict] = useState(false);
  const text = schema ?? own;
  const { verdict, error } = useVerdict(text, answer, strict);
  const why = refusal(route);
  if (why) return html`<p class="faint">${why}</p>`;
  return html`<div class="stack">${schema === null && html`<${SchemaEditor} label="Schema to try" value=${own} onChange=${setOwn} />`}
    <${Field} label="An answer, as a model might write it" hint="Text, JSON, or JSON in a fenced block. Nothing is saved.">${(c) => html`<textarea class="code auto" rows="6" spellcheck=${false} value=${answer} onInput=${(e) => setAnswer(e.currentTarget.value)} ...${c}></textarea>`}<//>
    <label class="row"><input type="checkbox" checked=${strict} onChange=${(e) => setStrict(e.currentTarget.checked)} /> The whole answer must be JSON</label>
    ${error && html`<${Problem} error=${error} />`}
    ${verdict && html`<${Verdict} verdict=${verdict} asked=${answer.trim() !== ""} />`}</div>`;
}

function useVerdict(schema, answer, strict) {
  const [state, setState] = useState({});
  const running = useRef(null);
  useEffect(() => {
    running.current?.abort();
    if (schema.trim() === "" || check(schema) || answer.trim() === "" || refusal(route)) return setState({});
    const timer = setTimeout(async () => {
      const mine = (running.current = new AbortController());
      const body = object([["schema_text", quote(schema)], ["answer", quote(answer)], ["options", strict ? '{"strict_json_only":true}' : undefined]]);
      try {
        const verdict = await send("POST", "/schemas/validate", body, { signal: mine.signal });
        if (!mine.signal.aborted) setState({ verdict });
      } catch (error) {
        if (!mine.signal.aborted) setState({ error: error instanceof ApiError ? error : new Error(String(error)) });
      }
    }, 350);
    return () => clearTimeout(timer);
  }, [schema, answer, strict]);
  useEffect(() => () => running.current?.abort(), []);
  return state;
}

function Verdict({ verdict, asked }) {
  const found = verdict.answer;
  if (!verdict.valid) return html`<p class="row bad"><${Icon} name="warn" /> The schema itself is not valid.</p>`;
  if (!asked || !found) return null;
  const list = found.candidates ?? [];
  const n = found.found ?? list.length;
  return html`<div class="stack" role="status"><p class=${"row " + (found.valid ? "good" : "bad")}><${Icon} name=${found.valid ? "check" : "warn"} /> <strong>${found.valid ? "It matches." : list.length === 0 ? "No JSON was found in it." : "It does not match: the agent would be asked again."}</strong></p>
    ${list.length > 0 && html`<p class="faint">${plural(n, "candidate")} ${n === 1 ? "was" : "were"} found, the preferred one first.</p>`}
    <ol class="stack">${list.map((c, i) => html`<li class="candidate"><div class="row wrap">${c.valid ? html`<${Badge} kind="good">matches<//>` : html`<${Badge} kind="bad">does not match<//>`}
      ${found.chosen === i && html`<${Badge} kind="accent">this one is used<//>`}${c.source && html`<span class="faint">${sources[c.source] ?? c.source}</span>`}</div>
      <pre class="json" tabindex="0"><${Hostile} text=${c.text} lines=${true} />${c.truncated ? "…" : ""}</pre>
      ${(c.errors ?? []).map((e) => html`<p class="bad"><code><${Hostile} text=${e.path} /></code> <${Hostile} text=${e.message} /></p>`)}</li>`)}</ol></div>`;
}
