// What a run's events look like: messages, tool calls, rejected answers, results.
import { html } from "../base.js";
import { Badge, Copy, Details, Hostile, Icon, Id, JsonLine, JsonView, Markdown, Status, Text, Time } from "./components.js";
import { bytes, count, ms, duration } from "./format.js";
import { Json, check } from "./json.js";
import { rejectedAnswer } from "./events.js";

/** Permalink is a link to one event. */
const Permalink = ({ event, href }) => html`<a class="permalink" href=${href(event)} ><span class="offscreen">Link to event ${event.n}, </span><${Time} at=${event.timestamp} as="clock" /></a>`;

/** Step shows one of events.js's steps. href(event) is the event's own address; target is the id that the address names. */
export function Step({ step, href, target }) {
  const View = views[step.kind] ?? Other;
  const id = anchor(step.event);
  return html`<article class=${"step " + step.kind + (target === id ? " target" : "")} id=${id}><${View} ...${step} at=${html`<${Permalink} event=${step.event} href=${href} />`} /></article>`;
}

/** anchor is the id of an event within a page. */
export const anchor = (e) => `${e.run_id}-${e.n}`;

const Assistant = ({ text, event, at }) => html`<header><${Icon} name="agents" /><b>Agent</b>${event.truncated && html`<${Cut} event=${event} />`}<span class="grow"></span><${Copy} text=${text} label="Copy the message" />${at}</header><${Answer} text=${text} />`;

// Answer shows a message: JSON as JSON, else markdown.
function Answer({ text }) {
  const t = text.trim();
  if (/^[[{]/.test(t) && (check(t)?.tooDeep ?? true)) return html`<${JsonView} value=${t} label="the message" />`;
  return html`<${Markdown} text=${text} />`;
}

const User = ({ text, at }) => html`<header><${Icon} name="sessions" /><b>Input</b><span class="grow"></span><${Copy} text=${text} label="Copy the input" />${at}</header><div class="said"><${Hostile} text=${text} lines=${true} /></div>`;
const Note = ({ text, at }) => html`<header><${Icon} name="info" /><b>System</b><span class="grow"></span>${at}</header><div class="said soft"><${Hostile} text=${text} lines=${true} /></div>`;

function Tool({ name, input, output, failure, end, event, at }) {
  const took = end && end !== event ? ms(end.timestamp) - ms(event.timestamp) : undefined;
  const summary = html`<span class="toolname"><${Icon} name="tool" /><code><${Hostile} text=${name} /></code></span><span class="cut grow"><${JsonLine} value=${input ?? ""} /></span>
    ${failure ? html`<${Badge} kind="bad">failed<//>` : end ? took !== undefined && html`<span class="faint num">${duration(took)}</span>` : html`<${Status} status="running" label="running" />`}`;
  return html`${at}<${Details} class="tool" summary=${summary}>
    <h4>Input</h4>${input ? html`<${JsonView} value=${input} label="input" />` : html`<p class="none">none</p>`}
    ${end && html`<h4>Output</h4>`}${failure && html`<p class="bad"><${Hostile} text=${typeof failure === "string" ? failure : failure.message ?? "failed"} lines=${true} /></p>`}
    ${output && !output.isNull && html`<${Value} value=${output} label="output" />`}${(end ?? event).truncated && html`<${Head} event=${end ?? event} /><${Cut} event=${end ?? event} />`}
  <//>`;
}

/** Value shows any JSON value: a text as text, else as JSON. */
export function Value({ value, label }) {
  const text = value instanceof Json ? value.string() : undefined;
  if (text === undefined) return html`<${JsonView} value=${value} label=${label} />`;
  return html`<div class="jsonbox"><pre class="json" tabindex="0" aria-label=${label}><${Hostile} text=${text} lines=${true} /></pre><${Copy} text=${text} label=${"Copy " + label} /></div>`;
}

// Head is how a member begins that was too large to be sent.
const Head = ({ event }) => event.head && html`<pre class="json" tabindex="0" aria-label="How it begins"><${Hostile} text=${event.head} lines=${true} />…</pre>`;

const Cut = ({ event }) => html`<${Badge} kind="warn">cut, ${event.bytes ? bytes(event.bytes) : "large"} in total<//>`;

/** Rejection is an answer that was refused, beside the sentences that refused it. */
function Rejection({ event, at }) {
  const r = event.rejection;
  return html`<header><${Icon} name="cross" /><b>Answer rejected</b><${Badge} kind="bad">${r.attempt} of ${r.of}<//><span class="grow"></span>${at}</header><${Refused} answer=${rejectedAnswer(event)} errors=${r.errors} />`;
}

/** Refused shows an answer and, beside it, each sentence that refused it. */
export const Refused = ({ answer, errors }) => html`<div class="refused"><div>${answer === undefined ? html`<p class="none">The events have the answer</p>` : html`<${Answer} text=${answer} />`}</div>
  <ul>${(errors ?? []).map((e) => html`<li><code><${Hostile} text=${e.path} /></code> <${Hostile} text=${e.message} /></li>`)}</ul></div>`;

/** Verdict says whether an answer matched its output schema. */
export function Verdict({ check: v }) {
  if (!v) return null;
  const from = { request: "the request's schema", registry: "", blueprint: "the agent's schema" }[v.schema_source] ?? v.schema_source;
  return html`<span class=${"verdict " + (v.valid ? "good" : "bad")}><${Icon} name=${v.valid ? "check" : "cross"} />${v.valid ? "Matches " : "Does not match "}${v.schema_name ? html`<a href=${"/ui/schemas/" + encodeURIComponent(v.schema_name)}><${Text} text=${v.schema_name} /></a>` : from}</span>
    ${v.retry_count > 0 && html`<${Badge} kind="warn">asked again ${v.retry_count === 1 ? "once" : v.retry_count + " times"}<//>`}${v.candidates > 1 && html`<${Badge}>${v.candidates} candidates<//>`}`;
}

/** Outcome is a result document. */
export function Outcome({ result }) {
  return html`<${Given} result=${result} />${result.note && html`<p class="faint"><${Text} text=${result.note} /></p>`}`;
}

function Given({ result }) {
  if (result.truncated) return html`<${Whole} result=${{ ...result, truncated: false }} /><${Cut} event=${result} />`;
  return html`<${Whole} result=${result} />`;
}

function Whole({ result }) {
  if (result.head) return html`<${Head} event=${result} />`;
  if (result.result_data) return html`<${Value} value=${result.result_data} label="result" />`;
  if (typeof result.result_text === "string") return result.result_text ? html`<${Answer} text=${result.result_text} />` : html`<p class="none">The answer is empty.</p>`;
  return html`<p class="none">No result</p>`;
}

const Result = ({ event, at }) => html`<header><${Icon} name="schemas" /><b>Result</b><${Verdict} check=${event.schema_validation} />${event.truncated && html`<${Cut} event=${event} />`}<span class="grow"></span>${at}</header><${Outcome} result=${event} />`;

/** Usage is what an executor told of tokens and cost; a dash where it told nothing. */
export function Usage({ usage }) {
  if (!usage) return html`<span class="none" title="The executor reported no usage">–</span>`;
  const parts = [usage.input !== undefined && `${count(usage.input)} in`, usage.output !== undefined && `${count(usage.output)} out`, usage.cacheRead !== undefined && `${count(usage.cacheRead)} cached`].filter(Boolean);
  return html`<span class="usage"><span class="num">${parts.length > 0 ? parts.join(" · ") + " tokens" : ""}${usage.cost !== undefined && html`${parts.length > 0 && " · "}$${usage.cost.toFixed(4)}`}</span>${usage.model && html` <span class="faint"><${Text} text=${usage.model} /></span>`}</span>`;
}

const Facts = ({ facts, at }) => html`${at}<${Details} class="tool" summary=${html`<span class="toolname"><${Icon} name="info" />Usage</span><span class="cut grow"><${JsonLine} value=${facts ?? ""} /></span>`}><${JsonView} value=${facts} label="usage" /><//>`;

const line = (icon, text) => ({ at, event }) => html`<p class="moment"><${Icon} name=${icon} /><span class="what">${typeof text === "function" ? text(event) : text}</span>${at}</p>`;

const failed = (e) => html`<span class="bad">Failed: <code><${Hostile} text=${e.error?.error} /></code> <${Text} text=${e.error?.message} /></span>`;
const started = (e) => html`${e.attempt > 1 ? `Attempt ${e.attempt} started` : "Started"}${e.runner_id && html` on <${Id} id=${e.runner_id} copy=${false} />`}`;

const Other = ({ event, at }) => html`<p class="moment"><${Icon} name="info" /><${Hostile} text=${event.event_type} /><span class="grow"></span>${at}</p>`;

const views = {
  assistant: Assistant, user: User, note: Note, tool: Tool, rejection: Rejection, result: Result, usage: Facts,
  run_start: line("play", started), run_completed: line("check", "Completed"), run_failed: line("cross", failed), run_stopped: line("stop", "Stopped"),
};
