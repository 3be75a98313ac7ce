// Tree: a session and all below it, in time. One row a session, one bar a run: turns and retries have bars of their own.
import { html, useMemo, useRef, useState } from "../base.js";
import { now, seg, send } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { duration, exact, ms, plural, tick } from "../lib/format.js";
import { Badge, Button, Confirm, Empty, Failed, Hostile, Icon, Loading, Page, Status, Dot, Switch, Table, Text, toast, visible } from "../lib/components.js";
import { ended } from "../lib/runs.js";
import { failed, layout, pieces, span, statusOf, ticks, useTree } from "../lib/tree.js";

const small = 150; // a tree up to this many sessions is unfolded whole
const mostBars = 40;

/** Tree is a session with all below it. */
export default function Tree({ id }) {
  const tree = useTree(id);
  const root = tree.root;
  return html`<${Page} title=${root ? `${root.agent_name}: tree` : "Tree"} crumbs=${[{ label: "Sessions", href: "/ui/sessions" }, { label: root?.agent_name ?? "session", href: "/ui/sessions/" + seg(id) }]}
    heading=${root ? html`Tree<${Status} status=${statusOf(root)} />` : "Tree"} actions=${root && html`<${Actions} tree=${tree} />`}>
    ${root ? html`<${Gantt} tree=${tree} />` : tree.error && !tree.loading ? html`<${Failed} error=${tree.error} reload=${tree.reload} what="The tree" />` : html`<${Loading} lines=${10} />`}
  <//>`;
}

// Actions are the way up, and the stop of all that the page shows.
function Actions({ tree: { root, nodes, reload } }) {
  const [asking, setAsking] = useState(false);
  const { live } = count(nodes);
  const stop = async () => {
    await send("POST", `/sessions/${seg(root.session_id)}/stop`, '{"tree":true}');
    toast("The tree is being stopped");
    reload();
  };
  return html`${root.parent_session_id && html`<${Button} icon="up" href=${`/ui/sessions/${seg(root.parent_session_id)}/tree`}>Parent<//>`}
    <${Button} icon="stop" kind="danger" needs="POST /sessions/:id/stop" why=${live > 0 ? undefined : "Nothing in it is running or waiting"} onClick=${() => setAsking(true)}>Stop all<//>
    ${asking && html`<${Confirm} title="Stop the session and all below" verb="Stop the tree" kind="danger" run=${stop} onClose=${() => setAsking(false)}><p>Everything that is running or waiting in <b><${Text} text=${root.agent_name} /></b> and below it is stopped: ${plural(live, "run")}. No callbacks are delivered below it.</p><//>`}`;
}

function Gantt({ tree }) {
  const { nodes, root } = tree;
  const [folds, setFolds] = useState(new Map()); // session → open, where the reader said so
  const [zoom, setZoom] = useState(1);
  const onlyFailed = query.value.get("show") === "failed";
  const whole = nodes.size <= small;
  const isOpen = (n, sum) => folds.get(n.session_id) ?? (whole || n === root || onlyFailed || sum.failed > 0 || sum.live > 0);
  const only = onlyFailed ? (n, sum) => failed(n) || sum.failed > 0 : undefined;
  const { rows, sums } = useMemo(() => layout(nodes, root, isOpen, only), [nodes, folds, onlyFailed]);
  const all = useMemo(() => count(nodes), [nodes]);
  const time = span(nodes, now());
  if (time.live) tick.value;
  const view = { from: zoom === 1 ? time.from : time.to - (time.to - time.from) / zoom, to: time.to };
  const fold = (n, open) => setFolds(new Map(folds).set(n.session_id, open));
  const box = useRef();
  const seen = useRef(-1);
  const next = () => {
    const at = rows.findIndex((r, i) => i > seen.current && failed(r.node));
    seen.current = at >= 0 ? at : rows.findIndex((r) => failed(r.node));
    const scroller = box.current.closest("[data-scroller]");
    const body = box.current.querySelector("tbody");
    if (seen.current >= 0) scroller.scrollTo({ top: scroller.scrollTop + body.getBoundingClientRect().top - scroller.getBoundingClientRect().top + seen.current * 34 - 140 });
  };
  const sum = sums.get(root.session_id) ?? { failed: 0 };
  return html`<div ref=${box} class="gantt">
    <div class="listbar">
      <span>${plural(nodes.size, "session")}, ${plural(all.runs, "run")}</span>
      ${all.live > 0 && html`<${Status} status="running" label=${`${all.live} in progress`} />`}
      ${all.failed > 0 && html`<${Status} status="failed" label=${`${plural(all.failed, "run")} failed`} />`}
      ${tree.cut && html`<${Badge} kind="warn">only the first ${plural(nodes.size, "session")}<//>`}
      <span class="grow"></span>
      ${sum.failed > 0 && html`<${Button} small=${true} icon="down" onClick=${next}>Next failed<//><${Switch} on=${onlyFailed} onChange=${(on) => setQuery({ show: on ? "failed" : null })}>Failed only<//>`}
      <${Button} small=${true} kind="plain" onClick=${() => setFolds(new Map([...nodes.keys()].map((k) => [k, true])))}>Expand all<//>
      <${Button} small=${true} kind="plain" onClick=${() => setFolds(new Map([...nodes.keys()].map((k) => [k, k === root.session_id])))}>Collapse all<//>
      <span class="zoom" role="group" aria-label="Time"><${Button} small=${true} label="Zoom out" title="Zoom out" disabled=${zoom === 1} onClick=${() => setZoom(Math.max(1, zoom / 2))}>−<//><${Button} small=${true} label="Zoom in on the end" title="Zoom in on the end" onClick=${() => setZoom(zoom * 2)}>+<//></span>
    </div>
    ${tree.error && html`<div class="banner warn" role="status"><${Icon} name="warn" /><span><${Text} text=${tree.error.message} /></span></div>`}
    <${Table} label="Sessions over time" rows=${rows} rowKey=${(r) => r.node.session_id} rowHeight=${34} rowClass=${(r) => (failed(r.node) ? "isfailed" : undefined)} columns=${[
      { id: "name", label: "Session", width: "44%", render: (r) => html`<${Name} row=${r} fold=${fold} />` },
      { id: "time", label: html`<${Axis} view=${view} origin=${time.from} />`, class: "timecell", render: (r) => html`<${Bars} node=${r.node} view=${view} />` },
      { id: "took", label: "Duration", width: "84px", end: true, hide: 3, render: (r) => html`<${Total} node=${r.node} />` }]} />
    ${nodes.size === 1 && html`<${Empty} icon="tree" title="No child sessions" text="Agents that are started with this session as their parent appear here." />`}
  </div>`;
}

function count(nodes) {
  const n = { runs: 0, failed: 0, live: 0 };
  for (const node of nodes.values()) {
    for (const r of node.runs) {
      n.runs++;
      if (r.status === "failed") n.failed++;
      if (!ended(r)) n.live++;
    }
  }
  return n;
}

function Name({ row, fold }) {
  const { node, level, children, open, sum } = row;
  const status = statusOf(node);
  const bad = node.runs.findLast((r) => r.status === "failed");
  const key = (e) => {
    if (e.key === "ArrowRight" && children > 0 && !open) fold(node, true);
    else if (e.key === "ArrowLeft" && open) fold(node, false);
  };
  return html`<div class="treename" style=${{ paddingInlineStart: Math.min(level, 24) * 18 + "px" }} onKeyDown=${key}>
    ${children > 0 ? html`<button type="button" class="fold" aria-expanded=${open} aria-label=${`${open ? "Collapse" : "Expand"} ${plural(sum.sessions, "session")} below ${visible(node.agent_name)}`} onClick=${() => fold(node, !open)}><${Icon} name=${open ? "down" : "chevron"} /></button>` : html`<span class="nofold"></span>`}
    <span class="row" title=${status}><${Dot} status=${status} /></span><span class="offscreen">level ${level + 1}, ${status}: </span>
    ${node.deleted ? html`<span class="faint">deleted session</span>` : html`<a class="name" href=${"/ui/sessions/" + seg(node.session_id)}><${Text} text=${node.agent_name} /></a>`}
    ${children > 0 && !open && html`<${Badge}>${sum.sessions}<//>`}${!open && sum.failed > 0 && html`<${Badge} kind="bad">${sum.failed} failed<//>`}
    ${bad?.error && status === "failed" && html`<a class="cut bad" href=${"/ui/runs/" + seg(bad.run_id)} title=${visible(bad.error.message)}><${Hostile} text=${bad.error.message} /></a>`}
    ${node.runs.some((r) => r.callback?.status === "undeliverable") && html`<${Badge} kind="bad">callback undeliverable<//>`}${node.runs.some((r) => r.callback?.status === "suppressed") && html`<${Badge}>callback suppressed<//>`}
  </div>`;
}

const place = (t, view) => Math.min(100, Math.max(0, ((t - view.from) / (view.to - view.from)) * 100));

const short = (t) => (t === 0 ? "0" : duration(t).replace(/\.0+(?= )/, "").replace(/(\.\d*?)0+(?= )/, "$1").replace(/ 00s$/, ""));

function Axis({ view, origin }) {
  const marks = ticks(view.from, view.to).filter((t) => place(view.from + t, view) < 92);
  return html`<span class="axis"><span class="offscreen">Time since the first run</span>${marks.map((t) => html`<span aria-hidden="true" key=${t} style=${{ insetInlineStart: place(view.from + t, view) + "%" }}>${short(view.from - origin + t)}</span>`)}</span>`;
}

function Bars({ node, view }) {
  const all = node.runs.slice(-mostBars).flatMap(pieces), list = all.slice(-mostBars);
  const more = Math.max(0, node.runs.length - mostBars) + (node.runs_omitted ?? 0) + all.length - list.length;
  const first = node.runs_omitted ? "" : node.runs[0]?.run_id;
  return html`<div class="bars">${more > 0 && html`<span class="earlier">+${more}</span>`}${list.map((r) => html`<${Bar} key=${r.run_id + (r.earlier ? " " + r.attempt : "")} run=${r} turn=${r.run_id !== first} view=${view} />`)}</div>`;
}

function Bar({ run, turn, view }) {
  const created = ms(run.created_at), began = ms(run.started_at ?? run.claimed_at), end = ended(run) ? ms(run.completed_at ?? run.created_at) : now();
  if (end < view.from) return null;
  const from = Number.isFinite(began) ? began : end;
  const [a, b, c] = [place(created, view), place(from, view), place(end, view)];
  const told = run.reports?.length;
  const n = run.next_attempt_at ? run.attempt + 1 : run.attempt;
  const attempt = run.earlier || n > 1 ? `, attempt ${n}` : "";
  const label = `${turn ? (told ? `callback turn for ${plural(told, "run")}` : "turn") : "run"} ${run.status}${attempt}, ${duration(end - created)}`;
  return html`<a class=${"bar s-" + run.status + (told ? " told" : "") + (run.earlier ? " earlier" : "")} href=${"/ui/runs/" + seg(run.run_id)} style=${{ insetInlineStart: a + "%", width: `max(${c - a}%, 4px)` }}
      title=${`${label}\n${exact(created)}${run.error ? "\n" + visible(run.error.message) : ""}`} aria-label=${label}>
    ${b > a && html`<i class="wait" style=${{ width: c > a ? ((b - a) / (c - a)) * 100 + "%" : "0" }}></i>`}${Number.isFinite(began) && html`<i class="work"></i>`}
    ${!run.earlier && run.attempt > 1 && html`<b>×${run.attempt}</b>`}</a>`;
}

function Total({ node }) {
  const first = node.runs[0], last = node.runs.at(-1);
  if (!first) return html`<span class="none">–</span>`;
  const open = node.runs.some((r) => !ended(r));
  const busy = node.runs.reduce((n, r) => n + (r.started_at ? (ended(r) ? ms(r.completed_at) : now()) - ms(r.started_at) : 0), 0);
  return html`<span class="num" title=${`${duration((open ? now() : ms(last.completed_at)) - ms(first.created_at))} from the first to the last`}>${duration(busy)}</span>`;
}
