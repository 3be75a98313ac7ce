// Sessions: conversations, the newest first.
import { html, useEffect, useRef, useState } from "../base.js";
import { getAt } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { useLive } from "../lib/live.js";
import { count } from "../lib/format.js";
import { Button, Choice, Dot, Empty, Failed, Hostile, Icon, Id, Loading, Page, Status, Table, Text, Time, rowLink, useResource } from "../lib/components.js";
import { agentNames } from "../lib/runs.js";

const statuses = ["pending", "running", "idle", "stopping", "finished", "stopped", "failed"];
const names = ["status", "agent_name", "parent_session_id"];

/** Sessions is the list of sessions. */
export default function Sessions() {
  const q = query.value;
  const filters = Object.fromEntries(names.filter((n) => q.get(n)).map((n) => [n, q.get(n)]));
  const agents = useResource(agentNames, []);
  const chosen = new Set((q.get("status") ?? "").split(",").filter(Boolean));
  const toggle = (s) => {
    chosen.has(s) ? chosen.delete(s) : chosen.add(s);
    setQuery({ status: statuses.filter((x) => chosen.has(x)).join(",") }, { push: true });
  };
  return html`<${Page} title="Sessions">
    <div class="filters" role="search" aria-label="Filters of sessions">
      <div class="chips" role="group" aria-label="Status">${statuses.map((s) => html`<button type="button" class="chip" aria-pressed=${chosen.has(s)} onClick=${() => toggle(s)}><${Dot} status=${s} />${s}</button>`)}</div>
      <${Choice} label="Agent" value=${q.get("agent_name") ?? ""} onChange=${(v) => setQuery({ agent_name: v }, { push: true })} options=${[{ value: "", label: "Any agent" }, ...(agents.data ?? [])]} />
      ${q.get("parent_session_id") && html`<span class="chip set">children of <code><${Hostile} text=${q.get("parent_session_id")} /></code><button type="button" class="copy" aria-label="Remove this filter" onClick=${() => setQuery({ parent_session_id: null }, { push: true })}><${Icon} name="cross" /></button></span>`}
      ${Object.keys(filters).length > 0 && html`<${Button} small=${true} kind="plain" icon="cross" onClick=${() => setQuery(Object.fromEntries(names.map((n) => [n, null])), { push: true })}>Clear<//>`}
    </div>
    <${List} key=${JSON.stringify(filters)} filters=${filters} />
  <//>`;
}

function useSessions(filters) {
  const store = useRef({ byId: new Map(), order: [], cursor: "", busy: false, gone: new AbortController() }).current;
  const [state, setState] = useState({ loading: true, rows: [] });
  const show = (more) => setState((s) => ({ ...s, rows: store.order.map((id) => store.byId.get(id)).filter(Boolean), ...more }));
  const load = async (again) => {
    if (store.busy) return void (store.again ||= again);
    store.busy = true;
    try {
      const { data, at } = await getAt("/sessions", { ...filters, limit: 200, cursor: again ? "" : store.cursor }, { signal: store.gone.signal });
      if (again) store.order = [];
      for (const s of data.sessions) {
        if (!store.order.includes(s.session_id)) store.order.push(s.session_id);
        store.byId.set(s.session_id, s);
      }
      store.cursor = data.next_cursor ?? "";
      show({ loading: false, error: undefined, more: Boolean(store.cursor), ...(again && { from: at }) });
    } catch (error) {
      if (!store.gone.signal.aborted) show({ loading: false, error });
    }
    store.busy = false;
    if (store.again) {
      store.again = false;
      load(true);
    }
  };
  useEffect(() => {
    load(true);
    return () => store.gone.abort();
  }, []);
  // Of a session whose run changed its newest state is asked for, a moment later and once for many.
  const due = useRef(0);
  useLive("/sse/runs", {
    onItems: (items) => {
      if (!items.some((i) => i.event === "runs" || i.event === "more")) return;
      due.current ||= setTimeout(() => {
        due.current = 0;
        if (!store.gone.signal.aborted && store.order.length <= 200) load(true);
      }, 1000);
    },
    onGap: () => load(true),
  });
  return { ...state, loadMore: () => state.more && load(false), reload: () => load(true) };
}

function List({ filters }) {
  const list = useSessions(filters);
  if (list.error && list.rows.length === 0) return html`<${Failed} error=${list.error} reload=${list.reload} what="The list of sessions" />`;
  if (list.loading) return html`<${Loading} lines=${12} />`;
  if (list.rows.length === 0) return Object.keys(filters).length > 0
    ? html`<${Empty} icon="filter" title="No session matches" text="Remove a filter." />`
    : html`<${Empty} icon="sessions" title="No sessions yet" text="A session is a conversation with an agent. It starts with a run."><${Button} kind="primary" icon="plus" href="/ui/new" needs="POST /runs">New run<//><//>`;
  const at = (s) => "/ui/sessions/" + encodeURIComponent(s.session_id);
  return html`<${Table} label="Sessions" rows=${list.rows} rowKey=${(s) => s.session_id} onNear=${list.loadMore} rowProps=${(s) => rowLink(at(s))} more=${list.more ? "Loading more…" : undefined} columns=${[
    { id: "status", label: "Status", width: "112px", class: "stat", render: (s) => html`<${Status} status=${s.status} />` },
    { id: "session", label: "Session", class: "main", render: (s) => html`<div class="runcell"><a class="name" href=${at(s)}><${Text} text=${s.agent_name} /></a><span class="faint hide3"><${Id} id=${s.session_id} /></span></div>` },
    { id: "runs", label: "Runs", width: "64px", end: true, render: (s) => count(s.runs) },
    { id: "parent", label: "Parent", width: "160px", hide: 2, render: (s) => (s.parent_session_id ? html`<${Id} id=${s.parent_session_id} href=${"/ui/sessions/" + encodeURIComponent(s.parent_session_id)} copy=${false} />` : html`<span class="none">–</span>`) },
    { id: "tree", label: html`<span class="offscreen">Tree</span>`, width: "72px", hide: 3, render: (s) => html`<a href=${at(s) + "/tree"} aria-label=${"Tree of " + s.agent_name}>Tree</a>` },
    { id: "created", label: "Created", width: "96px", hide: 3, end: true, render: (s) => html`<${Time} at=${s.created_at} as="ago" />` },
    { id: "changed", label: "Updated", width: "92px", end: true, render: (s) => html`<${Time} at=${s.modified_at} as="ago" />` },
  ]} />`;
}
