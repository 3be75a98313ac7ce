// Overview: how everything stands, what is wrong, and the proof that nothing was lost.
import { html, useEffect, useMemo, useRef, useState } from "../base.js";
import { get, seg } from "../lib/api.js";
import { query } from "../lib/router.js";
import { may, me } from "../lib/rights.js";
import { count, ms, plural } from "../lib/format.js";
import { Card, Hostile, Icon, Loaded, Loading, Page, Status, Text, Time, Took, useEvery, useResource, visible } from "../lib/components.js";
import { About, ended } from "../lib/runs.js";
import FirstMinute from "./firstminute.js";
import { Proof } from "./proof.js";

const kept = 90; // answers of /status that rates and curves are made of, one every two seconds

/** Overview is the first page. */
export default function Overview() {
  const [points, setPoints] = useState([]);
  const status = useResource(async (signal) => {
    const s = await get("/status", {}, { signal });
    setPoints((p) => [...(p.at(-1)?.since === s.since ? p : []), s].slice(-kept));
    return s;
  }, []);
  useEvery(2, status.reload);
  const empty = status.data && Object.values(status.data.runs).every((n) => n === 0);
  const first = empty || query.value.has("first");
  const doctor = useDoctor(status.data?.runners.online);
  const late = useLate(1000);
  const ready = late || doctor.data || doctor.error; // what the doctor finds stands above the rest
  return html`<${Page} title="Overview" actions=${html`<${Proof} kind=${first ? "" : "primary"} />`}>
    ${ready ? html`<${Warnings} checks=${doctor.data?.checks ?? []} />
      ${first && html`<${FirstMinute} />`}
      <${Loaded} resource=${status} what="The status">${(s) => !empty && html`<${Now} status=${s} points=${points} />`}<//>` : html`<${Loading} />`}
  <//>`;
}

// useDoctor asks the doctor again once runners came or went: what it said of them is over.
function useDoctor(online) {
  const doctor = useResource((signal) => (may("GET /doctor") ? get("/doctor", {}, { signal }) : { checks: [] }), [me.value?.scope]);
  useEvery(60, doctor.reload);
  const before = useRef();
  useEffect(() => {
    if (before.current !== undefined && before.current !== online) doctor.reload();
    before.current = online;
  }, [online]);
  return doctor;
}

// useLate turns true after that many milliseconds.
function useLate(after) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => setLate(true), after);
    return () => clearTimeout(t);
  }, []);
  return late;
}

function Warnings({ checks }) {
  const bad = checks.filter((c) => c.verdict === "warn" || c.verdict === "fail");
  if (bad.length === 0) return null;
  return html`<section class="stack warnings" aria-label="Warnings of the doctor">${bad.map((c) => html`<div class=${"banner " + (c.verdict === "fail" ? "bad" : "warn")} key=${c.check}><${Icon} name="warn" /><div><p><b>${c.check}</b> <${Text} text=${c.what} /></p>${c.advice && html`<p><${Text} text=${c.advice} /></p>`}</div></div>`)}</section>`;
}

// rate is how many a second, over the answers of the last `seconds`.
function rate(points, of, seconds = 20) {
  const last = points.at(-1);
  const first = points.findLast((p) => ms(last.at) - ms(p.at) >= seconds * 1000) ?? points[0];
  const span = (ms(last.at) - ms(first.at)) / 1000;
  return span < 1 ? undefined : (of(last) - of(first)) / span;
}

const perSecond = (r) => (r === undefined ? "–" : r >= 100 ? count(Math.round(r)) : r >= 10 ? r.toFixed(1) : r.toFixed(2));

function Now({ status: s, points }) {
  const done = (p) => p.totals.completed + p.totals.failed + p.totals.stopped;
  const curves = useMemo(() => ({ done: deltas(points, done), accepted: deltas(points, (p) => p.totals.accepted), failed: deltas(points, (p) => p.totals.failed) }), [points]);
  const oldest = [s.not_queued?.oldest_since, ...s.queues.map((l) => l.oldest_since)].filter(Boolean).sort()[0];
  const online = s.runners.online ?? 0;
  const others = Object.entries(s.runners).filter(([k, n]) => k !== "online" && n > 0).map(([k, n]) => `${n} ${k}`);
  return html`<div class="figures">
      <${Figure} label="Waiting" value=${s.runs.pending} href="/ui/runs?status=pending" note=${oldest ? html`oldest <${Time} at=${oldest} as="ago" />` : "none waiting"} bad=${s.runs.pending > s.max_pending * 0.9} />
      <${Figure} label="Running" value=${s.runs.running + s.runs.claimed} href="/ui/runs?status=claimed,running" note=${s.runs.stopping > 0 ? count(s.runs.stopping) + " stopping" : html`<${Slots} slots=${s.slots} />`} />
      <${Figure} label="Accepted per second" value=${perSecond(rate(points, (p) => p.totals.accepted))} note=${html`<${Curve} values=${curves.accepted} />`} />
      <${Figure} label="Ended per second" value=${perSecond(rate(points, done))} note=${html`<${Curve} values=${curves.done} />`} />
      <${Figure} label="Failed" value=${s.totals.failed} href="/ui/runs?status=failed" note=${html`of ${count(done(s))} since <${Time} at=${s.since} />`} />
      <${Figure} label="Runners online" value=${online} href="/ui/runners" note=${others.length > 0 ? others.join(", ") : html`${plural(s.slots.all, "slot")}`} bad=${online === 0} />
    </div>
    <div class="grid two">
      <${Queues} status=${s} />
      <${Recent} title="In progress" filter=${{ status: "claimed,running,stopping" }} href="/ui/runs?status=claimed,running,stopping" none="Nothing is running." seq=${s.sequence} />
      <${Recent} title="Latest failures" filter=${{ status: "failed" }} href="/ui/runs?status=failed" none="No run has failed." seq=${s.sequence} />
      <${Recent} title="Latest runs" filter=${{}} href="/ui/runs" none="No runs yet." seq=${s.sequence} />
    </div>`;
}

const Figure = ({ label, value, note, href, bad }) => html`<div class=${"figure " + (bad ? "bad" : "")}><span class="label">${href ? html`<a href=${href}>${label}</a>` : label}</span><b class="num">${typeof value === "number" ? count(value) : value}</b><span class="note">${note}</span></div>`;

const Slots = ({ slots }) => html`<span class="slots"><meter min="0" max=${slots.all || 1} value=${slots.taken} aria-label="Slots taken"></meter>${slots.taken} of ${plural(slots.all, "slot")}</span>`;

const deltas = (points, of) => points.slice(1).map((p, i) => Math.max(0, of(p) - of(points[i])));

// Curve is the last minutes as a line; it says nothing that the number beside it does not.
function Curve({ values }) {
  if (values.length < 4) return html`<span class="faint">counting…</span>`;
  const most = Math.max(1, ...values), w = 120, h = 20;
  const x = (i) => (w * i) / (kept - 2) + w - (w * (values.length - 1)) / (kept - 2);
  const line = values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${(h - 1 - (v / most) * (h - 3)).toFixed(1)}`).join("");
  return html`<svg class="curve" viewBox=${`0 0 ${w} ${h}`} width=${w} height=${h} aria-hidden="true"><path d=${line} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" /></svg>`;
}

function Queues({ status: s }) {
  const rows = s.queues.slice(0, 12);
  return html`<${Card} title="Queues" class="flush" actions=${html`<a href="/ui/queues">All ${plural(s.queues.length, "queue")}</a>`}>
    ${rows.length === 0 && !s.not_queued?.waiting ? html`<p class="faint pad">No run is waiting, and no runner serves a queue.</p>` : html`<table class="table fixed" aria-label="Queues"><thead><tr><th scope="col">Queue</th><th scope="col" class="end narrow">Waiting</th><th scope="col" class="end narrow hide3">Oldest</th><th scope="col" class="mid">Served</th></tr></thead><tbody>
      ${rows.map((l) => html`<tr key=${l.queue}><td><code class="clamp" title=${visible(l.queue)}><${Hostile} text=${l.queue} /></code></td><td class="end num">${count(l.waiting)}</td><td class="end hide3">${l.oldest_since ? html`<${Time} at=${l.oldest_since} as="ago" />` : html`<span class="none">–</span>`}</td><td>${l.served ? html`<${Status} status="online" label="yes" />` : html`<${Status} status="stale" label="no" />`}</td></tr>`)}
      ${s.not_queued?.waiting > 0 && html`<tr><td class="soft">not queued yet</td><td class="end num">${count(s.not_queued.waiting)}</td><td class="end hide3">${s.not_queued.oldest_since && html`<${Time} at=${s.not_queued.oldest_since} as="ago" />`}</td><td></td></tr>`}</tbody></table>`}
  <//>`;
}

// Recent is a short list of runs, asked for anew when records were written.
function Recent({ title, filter, href, none, seq }) {
  const runs = useResource((signal) => get("/runs", { ...filter, limit: 7 }, { signal }), []);
  const last = useRef(seq);
  useEffect(() => {
    if (seq === last.current) return;
    last.current = seq;
    runs.reload();
  }, [seq]);
  return html`<${Card} title=${title} class="flush" actions=${html`<a href=${href}>All</a>`}><${Loaded} resource=${runs} lines=${3}>${(data) => (data.runs.length === 0 ? html`<p class="faint pad">${none}</p>` : html`<ul class="recent">${data.runs.map((r) => html`<li key=${r.run_id}><${Status} status=${r.status} label="" /><span class="offscreen">${r.status}</span><a href=${"/ui/runs/" + seg(r.run_id)}><${Text} text=${r.agent_name} /></a><span class="cut grow"><${About} run=${r} /></span>
    <span class="faint num">${ended(r) ? html`<${Time} at=${r.completed_at ?? r.created_at} as="ago" />` : html`<${Took} from=${r.started_at ?? r.created_at} running=${true} />`}</span></li>`)}</ul>`)}<//><//>`;
}
