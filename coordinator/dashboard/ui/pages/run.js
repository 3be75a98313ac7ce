// Run: where it stands and why, its result, what happened, what it was given, who is told.
import { html, useEffect, useMemo, useState } from "../base.js";
import { ApiError, get, newKey, now, seg } from "../lib/api.js";
import { address, navigate, query, setQuery } from "../lib/router.js";
import { count, plural } from "../lib/format.js";
import { Badge, Button, Card, Confirm, Copy, Facts, Hostile, Icon, Id, JsonView, Loaded, Loading, Menu, Page, Problem, Status, Text, Time, Took, toast, useEvery, useResource } from "../lib/components.js";
import { ended, onlyPrompt, redeliver, retryRun, stopRun } from "../lib/runs.js";
import { steps, useEvents, usageOf } from "../lib/events.js";
import { Outcome, Refused, Step, Usage, Verdict, anchor } from "../lib/conversation.js";
import { Phases, Story, Why } from "./run_story.js";

const largest = 262144; // bytes of a result; the rest is a download

async function load(id, signal) {
  const [run, why] = await Promise.all([get(`/runs/${seg(id)}`, {}, { signal }), get(`/runs/${seg(id)}/explain`, {}, { signal }).catch((err) => (err instanceof ApiError && err.status !== 401 ? { failed: err } : Promise.reject(err)))]);
  return { run, why, result: ended(run) ? await loadResult(run, signal) : undefined };
}

// loadResult is the result document; null without one. A run that did not complete may have one: wait tells, without an error.
async function loadResult(run, signal) {
  if (run.status === "completed") return get(`/runs/${seg(run.run_id)}/result`, { max_bytes: largest }, { signal });
  return (await get(`/runs/${seg(run.run_id)}/wait`, { timeout_seconds: 1 }, { signal })).result;
}

/** Run is one run. */
export default function Run({ id }) {
  const page = useResource((signal) => load(id, signal), [id]);
  const run = page.data?.run;
  const events = useEvents(run?.session_id, page.reload, () => ended(run) || page.reload());
  useEvery(10, page.reload, Boolean(run && !ended(run)));
  const own = useMemo(() => events.events.filter((e) => e.run_id === id), [events.events, id]);
  const settled = events.ready || events.error; // what stands below the events comes with them, so that nothing moves
  return html`<${Page} title=${run ? `${run.agent_name}: run` : "Run"} crumbs=${[{ label: "Runs", href: "/ui/runs" }]}
    heading=${run ? html`<${Text} text=${run.agent_name} /><${Status} status=${run.status} />` : "Run"} actions=${run && html`<${Actions} run=${run} reload=${page.reload} />`}>
    <${Loaded} resource=${page} what="The run">${({ run, why, result }) => html`
      <${Why} run=${run} why=${why} />
      <div class="split">
        <div class="stack">
          <${ResultCard} run=${run} result=${result} rejected=${why.rejected ?? []} />
          <${EventsCard} run=${run} events=${own} state=${events} />
          ${settled && html`<${Input} run=${run} />`}
        </div>
        <aside class="stack aside2" aria-label="About the run"><${Times} run=${run} why=${why} /><${About} run=${run} events=${own} />${settled && html`<${Told} run=${run} reload=${page.reload} />`}</aside>
      </div>`}<//>
  <//>`;
}

function Actions({ run, reload }) {
  const [asking, setAsking] = useState(null);
  const [key, setKey] = useState("");
  const over = ended(run);
  const ask = (what) => (setKey(newKey()), setAsking(what));
  const stop = async (tree) => {
    const answer = await stopRun(run.run_id, tree);
    const open = answer?.open_below?.count;
    toast(open && !answer.open_below.stopping ? `The run is being stopped; ${plural(open, "run")} below it continue` : "The run is being stopped");
    reload();
  };
  const again = async () => {
    const made = await retryRun(run.run_id, key);
    toast(made.agent_changed ? "Started again with the agent as it is now: it has changed since" : "Started again", { kind: "good" });
    navigate("/ui/runs/" + seg(made.run_id));
  };
  const close = () => setAsking(null);
  return html`<${Button} icon="sessions" href=${"/ui/sessions/" + seg(run.session_id)}>Session<//><${Button} icon="tree" href=${`/ui/sessions/${seg(run.session_id)}/tree`}>Tree<//>
    <${Button} icon="retry" needs="POST /runs/:id/retry" why=${over ? undefined : "The run has not ended yet"} onClick=${() => ask("again")}>Run again<//>
    <${Button} icon="stop" kind="danger" needs="POST /runs/:id/stop" why=${over ? "The run has ended" : run.status === "stopping" ? "It is being stopped" : undefined} onClick=${() => ask("stop")}>Stop<//>
    <${Menu} label="More" items=${[
      { label: "Run again with changes", icon: "edit", href: `/ui/new?agent=${seg(run.agent_name)}&retry=${seg(run.run_id)}`, needs: "POST /runs" },
      { label: "Stop with all below", icon: "stop", needs: "POST /runs/:id/stop", run: () => ask("tree") },
      { label: "Runs like this one", icon: "runs", href: "/ui/runs?agent_name=" + seg(run.agent_name) },
      { label: "Retries of this run", icon: "retry", href: "/ui/runs?retry_of=" + seg(run.run_id) }]} />
    ${asking === "stop" && html`<${Confirm} title="Stop this run" verb="Stop it" kind="danger" run=${() => stop(false)} onClose=${close}><p>Its program is stopped within five seconds. What it has already done is not undone. Runs that it started continue.</p><//>`}
    ${asking === "tree" && html`<${Confirm} title="Stop this run and all below" verb="Stop the tree" kind="danger" run=${() => stop(true)} onClose=${close}><p>The run and every run below its session are stopped, however deep. No callbacks are delivered below it.</p><//>`}
    ${asking === "again" && html`<${Confirm} title="Run again" verb="Run again" run=${again} onClose=${close}><p>A new run of <b><${Text} text=${run.agent_name} /></b> with the same input starts in a new session. It costs again, and side effects may happen twice.</p>
      <p><a href=${`/ui/new?agent=${seg(run.agent_name)}&retry=${seg(run.run_id)}`}>Run again with changes</a></p><//>`}`;
}

function ResultCard({ run, result, rejected }) {
  const final = run.error?.error === "OutputSchemaValidationError" ? run.error : null;
  const actions = result && html`<${Verdict} check=${result.schema_validation} />${result.exit_code !== undefined && result.exit_code !== null && html`<${Badge} kind=${result.exit_code === 0 ? "" : "bad"}>exit ${result.exit_code}<//>`}<${Download} run=${run} />`;
  return html`<${Card} title="Result" actions=${actions}>
    ${run.error && html`<div class="problem" role="status"><${Icon} name="warn" /><div><p><code><${Hostile} text=${run.error.error} /></code></p><p class="said"><${Hostile} text=${run.error.message} lines=${true} /></p></div></div>`}
    ${result ? html`<${Outcome} result=${result} />` : !ended(run) ? html`<p class="faint">The run has not ended yet.</p>` : !run.error && html`<p class="faint">The run ended without a result.</p>`}
    ${final && rejected.length === 0 && html`<${Refused} answer=${final.last_output} errors=${final.errors} />`}
    ${rejected.length > 0 && html`<h3 class="gap">${plural(rejected.length, "answer was", "answers were")} rejected</h3>${rejected.map((r) => html`<div class="rejected"><p class="faint">Answer ${r.answer} of ${r.of}${run.max_attempts > 1 && `, attempt ${r.attempt}`}, <${Time} at=${r.at} as="clock" />${r.truncated && html` <${Badge} kind="warn">truncated<//>`}</p>
      <${Refused} answer=${r.output} errors=${r.errors} /></div>`)}`}
  <//>`;
}

const Download = ({ run }) => html`<${Button} small=${true} kind="plain" icon="download" label="Download the result" title="Download the result" href=${`/runs/${seg(run.run_id)}/result?download=true`} download=${run.run_id + ".json"} />`;

const kinds = [["", "All"], ["message", "Messages"], ["tool", "Tools"], ["rejection", "Rejections"], ["result", "Result"]];
const shownAtFirst = 150;

// useSteps is what the events show, by kind and text. Handlers of the card below must not hold events: an element that was
// replaced may live on with its handlers.
function useSteps(events, kind, text) {
  const all = useMemo(() => steps(events), [events]);
  const fits = (s) => (!kind || (kind === "message" ? ["assistant", "user", "note"].includes(s.kind) : s.kind === kind)) && (!text || searchable(s).includes(text));
  return [all, useMemo(() => (kind || text ? all.filter(fits) : all), [all, kind, text])];
}

const EventFilter = ({ kind }) => html`<div class="row"><select aria-label="Kind of events" value=${kind} onChange=${(e) => setQuery({ events: e.currentTarget.value })}>${kinds.map(([v, l]) => html`<option value=${v} selected=${v === kind}>${l}</option>`)}</select>
  <input type="search" aria-label="Find in events" placeholder="Find" value=${query.value.get("find") ?? ""} onInput=${(e) => setQuery({ find: e.currentTarget.value })} /></div>`;

function EventsCard({ run, events, state }) {
  const kind = query.value.get("events") ?? "";
  const [most, setMost] = useState(shownAtFirst);
  const target = address.value.hash.slice(1);
  const [all, list] = useSteps(events, kind, (query.value.get("find") ?? "").toLowerCase());
  const at = target ? list.findIndex((s) => anchor(s.event) === target) : -1;
  const first = at >= 0 ? Math.max(0, Math.min(at - 20, list.length - most)) : Math.max(0, list.length - most);
  useEffect(() => {
    if (at >= 0) document.getElementById(target)?.scrollIntoView({ block: "center" });
  }, [target, at >= 0]);
  const link = (e) => location.pathname + location.search + "#" + anchor(e);
  return html`<${Card} title=${html`Events <span class="faint">${list.length === all.length ? count(all.length) : `${count(list.length)} of ${count(all.length)}`}</span>`} actions=${html`<${EventFilter} kind=${kind} />`} id="events">
    ${state.error && html`<${Problem} error=${state.error} />`}
    ${state.ready && first === 0 && state.left > 0 && html`<p class="faint">This page keeps the newest events of the session and leaves out ${count(state.left)} older ones. <code>ao events ${run.run_id}</code> prints all.</p>`}
    ${!state.ready ? html`<${Loading} lines=${4} />` : list.length === 0 ? html`<p class="faint">${all.length === 0 ? (ended(run) ? "No events were recorded." : "No events yet.") : "No event matches."}</p>` : html`<div class="stack events">
      ${first > 0 && html`<${Button} kind="plain" icon="up" onClick=${() => setMost(most + 400)}>Show earlier: ${plural(first, "event")}<//>`}
      ${list.slice(first, first + Math.max(most, 1)).map((s) => html`<${Step} key=${s.event.n} step=${s} href=${link} target=${target} />`)}</div>`}
  <//>`;
}

const searchable = (s) => [s.kind, s.text, s.name, s.input?.text, s.output?.text, s.event.result_text, s.event.error?.message].filter(Boolean).join(" ").toLowerCase();

function Input({ run }) {
  const prompt = run.parameters && onlyPrompt(run.parameters);
  return html`<${Card} title="Parameters">${prompt !== undefined ? html`<div class="jsonbox bare"><div class="said"><${Hostile} text=${prompt} lines=${true} /></div><${Copy} text=${prompt} label="Copy the prompt" /></div>` : html`<${JsonView} value=${run.parameters ?? "null"} label="parameters" />`}<//>`;
}

const Times = ({ run, why }) => html`<${Card} title="Timeline" class="timeline"><${Phases} run=${run} /><${Story} story=${why?.story} run=${run} /><//>`;

function About({ run, events }) {
  const usage = useMemo(() => usageOf(events), [events]);
  const d = run.demands ?? {};
  const demands = [["type", d.executor_type], ["profile", d.executor_profile], ["hostname", d.hostname], ["project_dir", d.project_dir], ...(d.tags ?? []).map((t) => ["tag", t])].filter(([, v]) => v).map((pair) => pair.join("="));
  const left = run.timeout_at && !ended(run) ? Date.parse(run.timeout_at) - now() : 0;
  return html`<${Card} title="Run"><${Facts} of=${[
    ["Id", html`<${Id} id=${run.run_id} />`], ["Session", html`<${Id} id=${run.session_id} href=${"/ui/sessions/" + seg(run.session_id)} />`],
    ["Agent", html`<a href=${"/ui/agents/" + seg(run.agent_name)}><${Text} text=${run.agent_name} /></a>`],
    ["Definition", run.agent_hash ? html`<a href=${`/runs/${seg(run.run_id)}/definition`} target="_blank" title="The agent as this run was accepted with"><code>${run.agent_hash}</code></a> <a href=${"/ui/runs?agent_hash=" + seg(run.agent_hash)}>its runs</a>` : null],
    ["Type", run.type === "resume_session" ? "a turn of an existing session" : "starts a session"], ["Mode", run.mode],
    ["Attempt", html`${run.attempt}${run.max_attempts > 1 && ` of ${run.max_attempts}`}`],
    ["Runner", run.runner_id ? html`<${Id} id=${run.runner_id} href=${"/ui/runs?runner_id=" + seg(run.runner_id)} />` : null],
    ["Parent", run.parent_session_id ? html`<${Id} id=${run.parent_session_id} href=${"/ui/sessions/" + seg(run.parent_session_id)} />${run.parent_gone && html` <${Badge} kind="warn">deleted<//>`}` : null],
    ["Stopped with", run.stopped_with ? html`the tree of <${Id} id=${run.stopped_with} href=${`/ui/sessions/${seg(run.stopped_with)}/tree`} />` : null],
    ["Retry of", run.retry_of ? html`<${Id} id=${run.retry_of} href=${"/ui/runs/" + seg(run.retry_of)} />` : null],
    ["Demands", demands.length > 0 ? html`<span class="row wrap">${demands.map((x) => html`<code><${Hostile} text=${x} /></code>`)}</span>` : null],
    ["Created", html`<${Time} at=${run.created_at} focus=${true} />`], ["Started", run.started_at ? html`<${Time} at=${run.started_at} focus=${true} />` : null],
    ["Ended", run.completed_at ? html`<${Time} at=${run.completed_at} focus=${true} />` : null], ["Duration", html`<${Took} from=${run.started_at} to=${run.completed_at} running=${!ended(run) && Boolean(run.started_at)} />`],
    ["Times out", left > 0 ? html`<${Time} at=${run.timeout_at} as="ago" focus=${true} />` : null], ["Usage", html`<${Usage} usage=${usage} />`]]} /><//>`;
}

function Told({ run, reload }) {
  const { callback: c, http_callback: h } = run;
  if (!c && !h) return null;
  const again = async () => {
    try {
      await redeliver(run.run_id);
      toast("The webhook is being delivered again");
      reload();
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
  };
  return html`<${Card} title="Callbacks">
    ${c && html`<${Facts} of=${[["Parent", html`<${Status} status=${c.status} />`], ["Turn", c.callback_run_id ? html`<${Id} id=${c.callback_run_id} href=${"/ui/runs/" + seg(c.callback_run_id)} />` : null], ["Reason", c.reason ? html`<code><${Hostile} text=${c.reason} /></code>` : null]]} />`}
    ${h && html`<${Facts} of=${[["Webhook", html`<${Status} status=${h.status} />`], ["To", run.callback_url ? html`<code><${Hostile} text=${run.callback_url} /></code>` : null], ["Attempts", h.tries ?? null], ["Last answer", h.http_status ? html`<code>${h.http_status}</code>` : null],
      ["Reason", h.reason ? html`<${Hostile} text=${h.reason} />` : null], ["Next attempt", h.next_try_at ? html`<${Time} at=${h.next_try_at} as="ago" focus=${true} />` : null]]} />
      <${Button} small=${true} icon="callbacks" needs="POST /callbacks/:id/redeliver" why=${["owed", "dead"].includes(h.status) ? undefined : `It is ${h.status}`} onClick=${again}>Redeliver now<//>`}
  <//>`;
}
