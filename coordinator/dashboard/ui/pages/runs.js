// Runs: filters in the address, roots with what is below them folded, live, actions on many.
import { html, useEffect, useRef, useState } from "../base.js";
import { ApiError, get, getAt, now, withQuery } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { useLive } from "../lib/live.js";
import { plural } from "../lib/format.js";
import { Button, Choice, Dot, Empty, Failed, Hostile, Icon, Id, Loading, Menu, Page, Search, Status, Table, Text, Time, Took, rowLink, toast, useEvery, useResource } from "../lib/components.js";
import { About, agentNames, ended, exportRuns, newer, selects, statuses } from "../lib/runs.js";
import { BulkBar } from "./runs_bulk.js";

const pageSize = 200;
const enough = 50; // rows that a search goes on for
const spans = { "15m": 900, "1h": 3600, "24h": 86400, "7d": 604800 };

const filterNames = ["status", "agent_name", "session_id", "parent_session_id", "runner_id", "retry_of", "agent_hash", "q"];

// The filters of the address as the API takes them.
function filtersOf(q) {
  const f = {};
  for (const name of filterNames) if (q.get(name)) f[name] = q.get(name);
  const span = spans[q.get("within")];
  const after = q.get("created_after") ?? (span && new Date(Math.floor((now() - span * 1000) / 60000) * 60000).toISOString());
  if (after) f.created_after = after;
  return f;
}

const narrowed = (f) => Object.keys(f).some((k) => k !== "created_after");

/** Runs is the list of runs. */
export default function Runs() {
  const q = query.value;
  const filters = filtersOf(q);
  const folded = !narrowed(filters) && q.get("flat") !== "1";
  const asked = folded ? { ...filters, roots: "true" } : filters;
  const key = JSON.stringify(asked);
  return html`<${Page} title="Runs" actions=${html`<${Export} filters=${filters} />`}>
    <${Filters} q=${q} filters=${filters} folded=${folded} />
    <${List} key=${key} filters=${filters} asked=${asked} folded=${folded} paused=${q.get("live") === "off"} />
  <//>`;
}

function Filters({ q, filters, folded }) {
  const agents = useResource(agentNames, []);
  const chosen = new Set((q.get("status") ?? "").split(",").filter(Boolean));
  const toggle = (s) => {
    chosen.has(s) ? chosen.delete(s) : chosen.add(s);
    setQuery({ status: statuses.filter((x) => chosen.has(x)).join(",") }, { push: true });
  };
  const names = agents.data ?? [];
  const agent = q.get("agent_name") ?? "";
  const other = ["session_id", "parent_session_id", "runner_id", "retry_of", "agent_hash", "created_after"].filter((n) => q.get(n));
  return html`<div class="filters" role="search" aria-label="Filters of runs">
    <${Search} value=${q.get("q")} placeholder="Id, agent, error, prompt" label="Search runs" onChange=${(text) => setQuery({ q: text })} />
    <div class="chips" role="group" aria-label="Status">${statuses.map((s) => html`<button type="button" class="chip" aria-pressed=${chosen.has(s)} onClick=${() => toggle(s)}><${Dot} status=${s} />${s}</button>`)}</div>
    <${Choice} label="Agent" value=${agent} onChange=${(v) => setQuery({ agent_name: v }, { push: true })} options=${[{ value: "", label: "Any agent" }, ...(agent && !names.includes(agent) ? [agent] : []), ...names]} />
    <${Choice} label="Created" value=${q.get("within") ?? ""} onChange=${(v) => setQuery({ within: v, created_after: null }, { push: true })}
      options=${[{ value: "", label: "Any time" }, { value: "15m", label: "Last 15 minutes" }, { value: "1h", label: "Last hour" }, { value: "24h", label: "Last 24 hours" }, { value: "7d", label: "Last 7 days" }]} />
    ${other.map((n) => html`<span class="chip set">${n.replaceAll("_", " ")} <code><${Hostile} text=${q.get(n)} /></code><button type="button" class="copy" aria-label=${"Remove the filter " + n} onClick=${() => setQuery({ [n]: null }, { push: true })}><${Icon} name="cross" /></button></span>`)}
    <${Button} small=${true} kind="plain" icon="tree" aria-pressed=${folded} why=${narrowed(filters) ? "With a filter, all matching runs are listed, children too" : undefined}
      onClick=${() => setQuery({ flat: folded ? "1" : null }, { push: true })}>${folded ? "Children folded" : "All runs listed"}<//>
    ${(narrowed(filters) || filters.created_after) && html`<${Button} small=${true} kind="plain" icon="cross" onClick=${() => setQuery(Object.fromEntries(["q", "status", "agent_name", "within", ...other].map((n) => [n, null])), { push: true })}>Clear<//>`}
  </div>`;
}

function Export({ filters }) {
  const [busy, setBusy] = useState(false);
  const run = async (kind) => {
    setBusy(true);
    try {
      await exportRuns(kind, filters);
      toast("The matching runs were exported", { kind: "good" });
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
    setBusy(false);
  };
  return html`<${Menu} label="Export matching runs" items=${[{ label: "As CSV", icon: "download", run: () => run("csv") }, { label: "As JSON, one run per line", icon: "download", run: () => run("ndjson") }]}><${Icon} name="download" />${busy ? "Exporting…" : "Export"}<//>`;
}

// made is when a run was made. Its id does not always tell: some follow from a key.
const made = (run) => Date.parse(run.created_at);

// useRuns loads pages of runs and keeps them live: known rows change in place. Others wait in `fresh`: new runs, and older
// ones that match now. A run that a further page will bring does not.
function useRuns(asked, paused) {
  const [state, setState] = useState({ rows: [], loading: true });
  const store = useRef({ byId: new Map(), order: [], listed: new Set(), fresh: new Map(), cursor: "", loading: false, gone: new AbortController() }).current;
  const show = (more) => setState((s) => ({ ...s, rows: store.order.map((id) => store.byId.get(id)), fresh: store.fresh.size, newest: [...store.fresh.values()].every(isNewest), ...more }));
  const isNewest = (r) => store.order.length === 0 || made(r) >= made(store.byId.get(store.order[0]));
  const comesLater = (r) => store.cursor && store.order.length > 0 && made(r) < made(store.byId.get(store.order.at(-1)));
  const load = async (again) => {
    if (store.loading) return;
    store.loading = true;
    try {
      const first = again || !store.started;
      const next = (cursor) => getAt("/runs", { ...asked, limit: pageSize, cursor }, { signal: store.gone.signal });
      let { data, at } = await next(first ? "" : store.cursor);
      if (first) Object.assign(store, { started: true, order: [], listed: new Set(), fresh: new Map() });
      // A search takes a request for each part of the history; what was found is shown meanwhile.
      for (let found = data.runs.length; ; found += data.runs.length) {
        for (const r of data.runs) take(r);
        store.cursor = data.next_cursor ?? "";
        const searching = Boolean(data.partial && store.cursor && found < enough);
        show({ loading: false, searching, error: undefined, more: Boolean(store.cursor), ...(first && { missed: false, from: at }) });
        if (!searching) break;
        ({ data } = await next(store.cursor));
      }
    } catch (error) {
      if (!store.gone.signal.aborted) show({ loading: false, error });
    } finally {
      store.loading = false;
    }
    if (again && store.again) (store.again = false, load(true));
  };
  const take = (r) => {
    if (!store.listed.has(r.run_id)) {
      store.listed.add(r.run_id);
      store.order.push(r.run_id);
    }
    store.fresh.delete(r.run_id);
    store.byId.set(r.run_id, newer(store.byId.get(r.run_id), r));
  };
  const reload = () => (store.loading ? (store.again = true) : load(true));
  // What waits gets its place among the others, newest first, once it is asked for.
  const admit = () => {
    const waiting = [...store.fresh.values()].sort((a, b) => made(a) - made(b));
    const order = [];
    for (const id of store.order.toReversed()) {
      while (waiting.length > 0 && made(waiting[0]) < made(store.byId.get(id))) order.push(waiting.shift().run_id);
      order.push(id);
    }
    for (const [id, r] of store.fresh) {
      store.byId.set(id, r);
      store.listed.add(id);
    }
    store.order = [...order, ...waiting.map((r) => r.run_id)].reverse();
    store.fresh = new Map();
    show();
  };
  const arrive = (runs) => {
    for (const r of runs) {
      const known = store.listed.has(r.run_id) && store.byId.get(r.run_id);
      if (known) store.byId.set(r.run_id, newer(known, r));
      else if (selects(asked.status, r) && !(asked.roots && r.parent_session_id) && !comesLater(r)) store.fresh.set(r.run_id, newer(store.fresh.get(r.run_id), r));
      else store.fresh.delete(r.run_id);
    }
    show();
  };
  const forget = (ids) => {
    for (const id of ids) {
      store.byId.delete(id);
      store.fresh.delete(id);
    }
    if (ids.length > 0) store.order = store.order.filter((id) => store.byId.has(id));
  };
  useEffect(() => {
    load();
    return () => store.gone.abort();
  }, []);
  const { status, ...path } = asked;
  const stream = paused || state.from === undefined ? "" : withQuery("/sse/runs", path);
  useLive(stream, {
    onItems: (items) => {
      for (const i of items) {
        if (i.event === "runs") {
          forget(i.data().deleted ?? []);
          arrive(i.data().runs);
        } else if (i.event === "more") show({ missed: true });
      }
    },
    onGap: reload,
    onState: (live) => live === "live" && show({ streamError: undefined }),
    onError: (error) => show({ streamError: error }),
  }, state.from);
  return { ...state, loadMore: () => state.more && load(), reload, admit };
}

function List({ filters, asked, folded, paused }) {
  const runs = useRuns(asked, paused);
  const total = useResource(async (signal) => get("/runs/count", asked, { signal }).catch((err) => (err instanceof ApiError ? {} : Promise.reject(err))), []);
  useEvery(10, total.reload, !paused);
  const below = useBelow();
  const [picked, setPicked] = useState(new Map());
  const box = useRef();
  const idle = () => {
    const scroller = box.current?.closest("[data-scroller]");
    return scroller && scroller.scrollTop < 8 && !box.current.querySelector("tbody:hover") && !box.current.querySelector("tbody")?.contains(document.activeElement) && picked.size === 0;
  };
  const admit = () => {
    runs.admit();
    total.reload();
  };
  useEffect(() => {
    if (runs.fresh > 0 && idle()) admit();
  }, [runs.fresh]);
  const rows = folded ? below.unfold(runs.rows) : runs.rows;
  if (runs.error && runs.rows.length === 0) return html`<${Failed} error=${runs.error} reload=${runs.reload} what="The list of runs" />`;
  if (runs.loading) return html`<${Loading} lines=${12} />`;
  const n = total.data?.count;
  return html`<div ref=${box} class="runs">
    <div class="listbar">
      <span class="soft">${n === undefined ? plural(runs.rows.length, "run") + (runs.more ? " or more" : "") : `${total.data.exact === false ? "about " : ""}${plural(n, "run")}`}${folded && ", not counting children"}${runs.searching && html` <span role="status">· searching…</span>`}</span>
      <span class="grow">${runs.fresh > 0 && html`<${Button} small=${true} kind="primary" icon="up" onClick=${() => (admit(), runs.newest && box.current.closest("[data-scroller]").scrollTo({ top: 0 }))}>${plural(runs.fresh, runs.newest ? "new run" : "more run")}<//>`}
        ${runs.missed && html`<${Button} small=${true} icon="retry" onClick=${runs.reload}>Many runs changed: reload<//>`}
        ${runs.streamError && html`<span class="warn"><${Icon} name="warn" /><${Text} text=${runs.streamError.message} /></span>`}</span>
      <${Button} small=${true} icon=${paused ? "play" : "pause"} onClick=${() => setQuery({ live: paused ? null : "off" })}>${paused ? "Resume" : "Pause"}<//>
    </div>
    ${rows.length === 0 && runs.searching ? html`<${Loading} />` : rows.length === 0 ? html`<${Nothing} filters=${filters} />` : html`<${Table} label="Runs" rows=${rows} rowKey=${(r) => r.run_id} total=${n === undefined ? undefined : Math.max(n, rows.length)} onNear=${runs.loadMore}
      select=${selection(rows, picked, setPicked)} rowClass=${(r) => [picked.has(r.run_id) && "picked", !selects(filters.status, r) && "past"].filter(Boolean).join(" ") || undefined}
      rowProps=${(r) => rowLink("/ui/runs/" + encodeURIComponent(r.run_id))} columns=${columns(folded, below)} more=${runs.more ? "Loading more…" : undefined} />`}
    <${BulkBar} picked=${picked} clear=${() => setPicked(new Map())} filters=${filters} total=${n} shown=${runs.rows.length} />
  </div>`;
}

function Nothing({ filters }) {
  if (narrowed(filters) || filters.created_after) return html`<${Empty} icon="filter" title="No run matches" text="Remove a filter, or look further back."><${Button} onClick=${() => setQuery(Object.fromEntries([...query.value.keys()].map((k) => [k, null])), { push: true })}>Clear the filters<//><//>`;
  return html`<${Empty} icon="runs" title="No runs yet" text="A run is one execution of an agent. Start one from a form, or watch five on the Overview."><${Button} kind="primary" icon="plus" href="/ui/new" needs="POST /runs">New run<//><${Button} href="/ui/">Show me<//><//>`;
}

function columns(folded, below) {
  return [
    { id: "status", label: "Status", width: "112px", class: "stat", render: (r) => html`<${Status} status=${r.status} />` },
    { id: "run", label: "Run", width: "34%", render: (r) => html`<div class="runcell" style=${r.level ? { paddingInlineStart: r.level * 18 + "px" } : undefined}>
        ${folded && html`<${Fold} run=${r} below=${below} />`}
        <a class="name" href=${"/ui/runs/" + encodeURIComponent(r.run_id)}><${Text} text=${r.agent_name} /></a>
        ${r.type === "resume_session" && html`<span class="badge" title="Another turn of an existing session">turn</span>`}${r.attempt > 1 && html`<span class="badge warn" title=${`Attempt ${r.attempt} of ${r.max_attempts ?? r.attempt}`}>attempt ${r.attempt}</span>`}
        <span class="faint hide3"><${Id} id=${r.run_id} /></span></div>` },
    { id: "about", label: "Summary", hide: 3, render: (r) => html`<${About} run=${r} />` },
    { id: "session", label: "Session", width: "140px", hide: 1, render: (r) => html`<${Id} id=${r.session_id} href=${"/ui/sessions/" + encodeURIComponent(r.session_id)} copy=${false} />` },
    { id: "created", label: "Created", width: "92px", end: true, render: (r) => html`<${Time} at=${r.created_at} as="ago" />` },
    { id: "took", label: "Duration", width: "84px", end: true, hide: 3, render: (r) => html`<${Took} from=${r.started_at} to=${r.completed_at} running=${!ended(r) && Boolean(r.started_at)} />` },
  ];
}

function Fold({ run, below }) {
  const count = run.below;
  if (!count) return html`<span class="nofold"></span>`;
  const open = below.open.has(run.session_id);
  return html`<button type="button" class="fold" aria-expanded=${open} aria-label=${`${open ? "Fold" : "Show"} ${plural(count, "run")} below ${run.agent_name}`} onClick=${() => below.toggle(run.session_id)}>
    <${Icon} name=${open ? "down" : "chevron"} /><span class="num">${count}</span></button>`;
}

// useBelow is which sessions are unfolded, and the runs below them, which one request brings whole.
function useBelow() {
  const [open, setOpen] = useState(new Map()); // session → its rows, null while they load
  const toggle = async (session) => {
    const next = new Map(open);
    if (next.delete(session)) return setOpen(next);
    setOpen(next.set(session, []));
    try {
      const { sessions } = await get(`/sessions/${encodeURIComponent(session)}/tree`, { limit: 500 });
      setOpen((m) => (m.has(session) ? new Map(m).set(session, rowsOf(sessions, session)) : m));
    } catch (err) {
      toast(err.message, { kind: "bad" });
      setOpen((m) => (m = new Map(m), m.delete(session), m));
    }
  };
  const unfold = (rows) => rows.flatMap((r) => {
    const first = r.type === "start_session";
    const row = { ...r, below: first ? r.children : 0 };
    return first && open.get(r.session_id) ? [row, ...open.get(r.session_id)] : [row];
  });
  return { open, toggle, unfold };
}

const rowsOf = (sessions, root) => sessions.filter((s) => s.session_id !== root).flatMap((s) => s.runs.map((r) => ({ ...r, session_id: s.session_id, agent_name: s.agent_name, level: s.depth - (sessions[0]?.depth ?? 0) })));

// selection is what the table's checkboxes do; with Shift from the one before to this one.
function selection(rows, picked, setPicked) {
  const change = (list, on) => {
    const next = new Map(picked);
    for (const r of list) on ? next.set(r.run_id, r) : next.delete(r.run_id);
    setPicked(next);
  };
  const all = rows.length > 0 && rows.every((r) => picked.has(r.run_id));
  return {
    has: (id) => picked.has(id), all, none: picked.size === 0,
    onAll: () => change(rows, !all),
    toggle: (row, range) => {
      const on = !picked.has(row.run_id);
      const last = rows.findIndex((r) => r.run_id === [...picked.keys()].at(-1));
      const at = rows.indexOf(row);
      change(range && last >= 0 ? rows.slice(Math.min(last, at), Math.max(last, at) + 1) : [row], on);
    },
  };
}
