// Why a run waits or ended as it did, in the coordinator's own words, and its story in time.
import { html, useState } from "../base.js";
import { coarse, duration, ms, plural, tick } from "../lib/format.js";
import { now, seg } from "../lib/api.js";
import { Button, Details, Hostile, Icon, Id, Status, Text, Time } from "../lib/components.js";
import { ended } from "../lib/runs.js";

const tone = { completed: "good", failed: "bad", stopped: "", pending: "warn", stopping: "warn" };

/** Why is explain's sentence; below it what a run that waits waits for. */
export function Why({ run, why }) {
  if (why.failed) return html`<div class="banner warn" role="status"><${Icon} name="info" /><span><${Text} text=${why.failed.message} /></span></div>`;
  const w = why.waits_for;
  return html`<section class=${"why banner " + (tone[run.status] ?? "")} aria-label="Why"><${Icon} name=${run.status === "failed" ? "warn" : run.status === "completed" ? "check" : "info"} /><div class="grow">
    <p class="summary"><${Hostile} text=${why.summary} lines=${true} /></p>
    ${why.incomplete && html`<p class="warn">The full history cannot be read right now. This is what the coordinator knows.</p>`}
    ${w && html`<${Waits} waits=${w} run=${run} />`}</div></section>`;
}

function Waits({ waits: w, run }) {
  tick.value;
  const [misfits, fits] = [true, false].map((wrong) => (w.runners ?? []).filter((r) => Boolean(r.mismatches?.length) === wrong));
  const left = w.until ? ms(w.until) - now() : NaN;
  return html`<div class="waits">
    ${w.since && html`<span class="soft">since <${Time} at=${w.since} as="ago" /></span>`}${left > 0 && html`<span class="soft">until <${Time} at=${w.until} as="clock" />, in ${coarse(left)}</span>`}
    ${w.run_id && w.run_id !== run.run_id && html`<span>ahead of it: <${Id} id=${w.run_id} href=${"/ui/runs/" + seg(w.run_id)} /></span>`}${w.runs_ahead > 0 && html`<span>${plural(w.runs_ahead, "run")} ahead</span>`}
    ${w.queue && html`<span>queue <code><${Hostile} text=${w.queue} /></code></span>`}${w.slots && html`<span>${w.slots.taken} of ${plural(w.slots.all, "slot")} taken</span>`}
    ${w.holds?.length > 0 && html`<${Details} summary=${`What holds the slots: ${plural(w.holds.length, "run")}`}><ul>${w.holds.map((h) => html`<li><${Id} id=${h.run_id ?? h} href=${"/ui/runs/" + seg(h.run_id ?? h)} /></li>`)}</ul><//>`}
    ${fits.length > 0 && html`<${Details} summary=${plural(fits.length, "matching runner")}><ul>${fits.map((r) => html`<li><${Id} id=${r.runner_id} href="/ui/runners" /> <${Hostile} text=${r.hostname} />, ${r.running} of ${plural(r.max_concurrent_runs, "slot")} in use</li>`)}</ul><//>`}
    ${misfits.length > 0 && html`<${Details} open=${true} summary=${`Why no runner matches: ${plural(misfits.length, "runner")}, the closest first`}><${Mismatches} runners=${misfits} agent=${run.agent_name} more=${w.more_runners ?? 0} /><//>`}
  </div>`;
}

const closest = 5; // runners that are shown at first

/** Mismatches is what keeps each runner from taking a run of an agent. more is how many runners there are besides. */
export function Mismatches({ runners, agent, more = 0 }) {
  const [all, setAll] = useState(false);
  const shown = all ? runners : runners.slice(0, closest);
  const left = runners.length - shown.length;
  return html`<${MismatchTable} runners=${shown} agent=${agent} />
    ${left > 0 && html`<${Button} small=${true} kind="plain" onClick=${() => setAll(true)}>Show ${plural(left, "other runner")}<//>`}
    ${left === 0 && more > 0 && html`<p class="faint">and ${plural(more, "other runner")}</p>`}`;
}

// concerned leaves out the other agents that a runner should have registered, and says how many they are.
function concerned(list, agent) {
  const agents = list.filter((m) => m.field === "agent");
  const own = agents.find((m) => m.wanted === agent) ?? agents[0];
  return list.filter((m) => m.field !== "agent" || m === own).map((m) => (m === own ? { ...m, others: agents.length - 1 } : m));
}

const MismatchTable = ({ runners, agent }) => html`<div class="scrollx"><table class="plain"><thead><tr><th scope="col">Runner</th><th scope="col">Host</th><th scope="col">Mismatch</th><th scope="col">Required</th><th scope="col">Actual</th></tr></thead><tbody>${runners.map((r) => {
  const list = r.mismatches?.length > 0 ? concerned(r.mismatches, agent) : [{ field: "–" }];
  return list.map((m, i) => html`<tr key=${r.runner_id + i}>${i === 0 && html`<td rowspan=${list.length}><${Status} status=${r.status} label=${html`<${Id} id=${r.runner_id} href="/ui/runners" />`} /></td><td rowspan=${list.length}><${Hostile} text=${r.hostname} /></td>`}
    <td><${Text} text=${m.message ?? m.field} />${m.others > 0 && `, and ${plural(m.others, "other agent")}`}</td><td><code><${Hostile} text=${show(m.wanted)} /></code></td><td><code><${Hostile} text=${show(m.has)} /></code></td></tr>`);
})}</tbody></table></div>`;

const show = (v) => (v === undefined || v === null || v === "" ? "nothing" : Array.isArray(v) ? (v.length > 0 ? v.join(", ") : "nothing") : String(v));

/** Phases is the time of a run as one bar: how long it waited, was prepared, and ran. */
export function Phases({ run }) {
  if (!ended(run)) tick.value;
  const end = run.completed_at ? ms(run.completed_at) : now();
  const marks = [["Waited", ms(run.created_at), "waited"], ["Prepared", ms(run.claimed_at), "claimed"], ["Ran", ms(run.started_at), "ran"]].filter(([, at]) => Number.isFinite(at));
  const parts = marks.map(([label, from, kind], i) => ({ label, kind, took: Math.max(0, (marks[i + 1]?.[1] ?? end) - from) }));
  const all = parts.reduce((n, p) => n + p.took, 0) || 1;
  return html`<div class="phases"><div class="bars" aria-hidden="true">${parts.map((p) => html`<span class=${p.kind + (ended(run) ? "" : " open")} style=${{ flexGrow: Math.max(p.took / all, 0.02) }}></span>`)}</div>
    <ul>${parts.map((p) => html`<li class=${p.kind}><i aria-hidden="true"></i>${p.label} <b class="num">${duration(p.took)}</b></li>`)}</ul></div>`;
}

const signs = { completed: "check", failed: "cross", stopped: "stop", lost: "cross", attempt_failed: "cross", attempt_lost: "cross", rejected: "cross", started: "play", claimed: "runners", queued: "queues", moved: "queues", callback: "callbacks", webhook: "callbacks", stopping: "stop", checked: "shield", offered: "shield" };
const words = { attempt_failed: "attempt failed", attempt_lost: "attempt lost", left_out: "left out", offered: "result sent", bound: "session stored", moved: "moved", stopping: "stop requested" };

/** Story is what the records tell, with the time between them. */
export function Story({ story, run }) {
  if (!story) return null;
  let before;
  return html`<ol class="story">${story.map((s) => {
    const at = ms(s.at);
    const gap = Number.isFinite(at) && Number.isFinite(before) ? at - before : NaN;
    if (Number.isFinite(at)) before = at;
    const bad = ["failed", "lost", "attempt_failed", "attempt_lost", "rejected"].includes(s.what);
    return html`<li class=${bad ? "bad" : s.what === "completed" ? "good" : ""}><span class="sign"><${Icon} name=${signs[s.what] ?? "info"} /></span><div><p><b>${words[s.what] ?? s.what}</b> ${gap >= 1 && html`<span class="faint num">+${duration(gap)}</span>`}<span class="grow"></span><span class="faint" title=${s.sequence ? `record ${s.sequence}` : undefined}><${Time} at=${s.at} as="clock" /></span></p>
      ${s.detail && html`<p class="soft"><${Hostile} text=${s.detail} lines=${true} /></p>`}</div></li>`;
  })}${!ended(run) && html`<li class="open"><span class="sign"><${Status} status=${run.status} label="" /></span><div><p class="soft">in progress</p></div></li>`}</ol>`;
}
