// A tree of sessions: what the API tells of it, kept live, and the rows that are shown of it.
import { useEffect, useRef, useState } from "../base.js";
import { backoff, getAt, seg } from "./api.js";
import { useLive } from "./live.js";
import { ended, newer } from "./runs.js";
import { ms } from "./format.js";

const pageSize = 1000;
const most = 20000; // sessions

/** useTree loads the tree below a session and keeps it live. It returns {nodes, root, error, loading, cut, reload}. */
export function useTree(id) {
  const [state, setState] = useState({ loading: true, nodes: new Map() });
  const store = useRef(null);
  if (!store.current) store.current = { nodes: new Map(), runs: new Map(), busy: false, again: false, due: 0, gone: new AbortController() };
  const s = store.current;
  const show = (more) => setState((old) => ({ ...old, nodes: new Map(s.nodes), root: s.nodes.get(id), ...more }));
  const load = async () => {
    if (s.busy) return void (s.again = true);
    s.busy = true;
    for (let tries = 0; ; tries++) {
      try {
        show({ loading: false, error: undefined, ...(await read(id, s, show)) });
        break;
      } catch (error) {
        if (s.gone.signal.aborted) break;
        show({ loading: error.passing, error });
        if (!error.passing) break;
        await new Promise((done) => setTimeout(done, backoff(tries, error.retryAfter)));
      }
    }
    s.busy = false;
    if (s.again && !s.gone.signal.aborted) {
      s.again = false;
      load();
    }
  };
  useEffect(() => {
    load();
    return () => (s.gone.abort(), clearTimeout(s.due));
  }, []);
  const soon = () => (s.due ||= setTimeout(() => ((s.due = 0), load()), 1500));
  useLive(state.from === undefined ? "" : "/sse/runs", {
    onItems: (items) => {
      let changed = false;
      for (const i of items) {
        if (i.event === "runs") {
          for (const r of i.data().runs) {
            if (over(s.runs.get(r.run_id), r)) soon(); // what became of that attempt stands in the tree alone
            changed = take(s, r) || changed;
          }
          if (i.data().deleted?.some((r) => s.runs.has(r))) soon();
        }
        if (i.event === "more") soon();
      }
      if (changed) show();
    },
    onGap: load,
  }, state.from);
  return { ...state, reload: load };
}

async function read(id, s, show) {
  let from;
  for (let cursor = ""; ;) {
    const { data, at } = await getAt(`/sessions/${seg(id)}/tree`, { limit: pageSize, cursor }, { signal: s.gone.signal });
    from ??= at; // of the first page: what the others lack of it comes again
    for (const t of data.sessions) {
      const node = s.nodes.get(t.session_id) ?? { runs: [] };
      s.nodes.set(t.session_id, { ...node, ...t, runs: node.runs });
      for (const r of t.runs ?? []) put(s, t.session_id, r);
    }
    cursor = data.next_cursor;
    if (!cursor || s.nodes.size >= most) return { cut: Boolean(cursor), from };
    show({ loading: false });
  }
}

// What a run has of its attempt: of another one nothing of it stays.
const ofAttempt = ["runner_id", "claimed_at", "started_at", "completed_at", "error", "next_attempt_at"];

// over tells whether the attempt that is known of a run is over by what is told of it now, and another follows.
const over = (known, run) => Boolean(known && (run.attempt > known.attempt || (run.next_attempt_at && !known.next_attempt_at)));

function put(s, session, run) {
  const node = s.nodes.get(session);
  const known = s.runs.get(run.run_id);
  const kept = { ...known };
  if (over(known, run)) for (const name of ofAttempt) delete kept[name];
  const next = newer(known, { ...kept, ...run });
  s.runs.set(run.run_id, next);
  const at = node.runs.findIndex((r) => r.run_id === run.run_id);
  const runs = at < 0 ? [...node.runs, next].sort((a, b) => (a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0)) : node.runs.with(at, next);
  s.nodes.set(session, { ...node, runs });
}

// take puts a run of the live stream into the tree, and its session where that is new below one of the tree.
function take(s, run) {
  const parent = s.nodes.get(run.parent_session_id);
  if (!s.nodes.has(run.session_id)) {
    if (!parent) return false;
    s.nodes.set(run.session_id, { session_id: run.session_id, parent_session_id: run.parent_session_id, depth: parent.depth + 1, agent_name: run.agent_name, created_at: run.created_at, runs: [] });
  }
  put(s, run.session_id, run);
  return true;
}

/** statusOf is a session's status by its runs: that of the one under way, else of the last. */
export function statusOf(node) {
  if (node.deleted) return "deleted";
  const open = node.runs.find((r) => !ended(r) && r.status !== "pending") ?? node.runs.find((r) => !ended(r));
  return (open ?? node.runs.at(-1))?.status ?? node.status ?? "pending";
}

/** pieces are the bars of a run: each attempt that another followed, from where the one before ended, and the run as it is. */
export function pieces(run) {
  let from = run.created_at;
  const list = [];
  for (const e of run.earlier_attempts ?? []) {
    const times = { created_at: from, claimed_at: e.claimed_at, started_at: e.started_at, completed_at: e.completed_at ?? e.claimed_at };
    list.push({ ...run, reports: undefined, status: "failed", attempt: e.attempt, next_attempt_at: undefined, error: e.error, earlier: true, ...times });
    from = list.at(-1).completed_at;
  }
  return [...list, { ...run, created_at: from }];
}

/** failed tells whether a session's last run failed. */
export const failed = (node) => statusOf(node) === "failed";

/**
 * layout orders the nodes as a tree: rows of what is unfolded, with level, children and how many below failed or run.
 * isOpen(node, summary) tells whether a node is unfolded; only(node, summary) leaves out what it is false for.
 */
export function layout(nodes, root, isOpen, only) {
  if (!root) return { rows: [], sums: new Map() };
  const below = new Map();
  for (const n of nodes.values()) {
    if (n === root || n.session_id === root.session_id) continue;
    const up = nodes.has(n.parent_session_id) ? n.parent_session_id : root.session_id;
    if (below.has(up)) below.get(up).push(n);
    else below.set(up, [n]);
  }
  for (const list of below.values()) list.sort((a, b) => (a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0));
  const sums = new Map();
  const order = []; // parents first, without recursion: a tree may be deep
  for (const stack = [root]; stack.length > 0;) {
    const n = stack.pop();
    order.push(n);
    stack.push(...(below.get(n.session_id) ?? []));
  }
  for (const n of order.toReversed()) {
    const sum = { sessions: 0, failed: 0, live: 0 };
    for (const c of below.get(n.session_id) ?? []) {
      const s = sums.get(c.session_id);
      sum.sessions += s.sessions + 1;
      sum.failed += s.failed + (failed(c) ? 1 : 0);
      sum.live += s.live + (c.runs.some((r) => !ended(r)) ? 1 : 0);
    }
    sums.set(n.session_id, sum);
  }
  const rows = [];
  for (const stack = [[root, 0]]; stack.length > 0;) {
    const [node, level] = stack.pop();
    const sum = sums.get(node.session_id);
    if (only && level > 0 && !only(node, sum)) continue;
    const children = below.get(node.session_id) ?? [];
    const open = children.length > 0 && isOpen(node, sum);
    rows.push({ node, level, sum, children: children.length, open });
    if (open) for (const c of children.toReversed()) stack.push([c, level + 1]);
  }
  return { rows, sums };
}

/** span is the time that a tree takes: from its first run to its last end, or now. */
export function span(nodes, now) {
  let from = Infinity, to = -Infinity, live = false;
  for (const n of nodes.values()) {
    for (const r of n.runs) {
      from = Math.min(from, ms(r.created_at));
      if (ended(r)) to = Math.max(to, ms(r.completed_at ?? r.created_at));
      else live = true;
    }
  }
  if (live) to = Math.max(to, now);
  if (!Number.isFinite(from)) [from, to] = [now - 1000, now];
  return { from, to: Math.max(to, from + 10), live };
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 21600000, 43200000, 86400000, 604800000];

/** ticks are the marks of a time axis: at most `n` of them, as milliseconds after `from`. */
export function ticks(from, to, n = 6) {
  const step = steps.find((s) => (to - from) / s <= n) ?? steps.at(-1) * Math.ceil((to - from) / steps.at(-1) / n);
  const list = [];
  for (let t = 0; t <= to - from; t += step) list.push(t);
  return list;
}
