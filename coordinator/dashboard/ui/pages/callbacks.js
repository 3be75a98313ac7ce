// Callbacks: which ends of runs somebody is told of, what is owed, what nobody could be told, and telling it again.
import { html, useState } from "../base.js";
import { get, newKey, send, seg } from "../lib/api.js";
import { countCallbacks, doMany, redeliverable } from "../lib/runs.js";
import { query, setQuery } from "../lib/router.js";
import { plural } from "../lib/format.js";
import { Button, Card, Confirm, Dot, Empty, Failed, Hostile, Id, Loading, Page, Status, Table, Text, Time, toast, useEvery, useResource } from "../lib/components.js";

const statuses = ["waiting", "owed", "delivered", "undeliverable", "suppressed", "dead"];
const pageSize = 200;

/** Callbacks is the list of runs that call back. */
export default function Callbacks() {
  const q = query.value;
  const chosen = (q.get("status") ?? "").split(",").filter(Boolean);
  const filters = { status: chosen.join(","), agent_name: q.get("agent_name"), session_id: q.get("session_id"), parent_session_id: q.get("parent_session_id") };
  const key = JSON.stringify(filters);
  const toggle = (s) => setQuery({ status: statuses.filter((x) => (x === s) !== chosen.includes(x)).join(",") }, { push: true });
  return html`<${Page} title="Callbacks">
    <div class="filters" role="search" aria-label="Filters of callbacks"><div class="chips" role="group" aria-label="Status">
      ${statuses.map((s) => html`<button type="button" class="chip" aria-pressed=${chosen.includes(s)} onClick=${() => toggle(s)}><${Dot} status=${s} />${s}</button>`)}</div></div>
    <${List} key=${key} filters=${filters} />
  <//>`;
}

function List({ filters }) {
  const first = useResource((signal) => get("/callbacks", { ...filters, limit: pageSize }, { signal }), []);
  const [older, setOlder] = useState({ rows: [], cursor: undefined });
  const [ask, setAsk] = useState(null);
  useEvery(5, first.reload, older.rows.length === 0);
  if (first.data === undefined) return first.error ? html`<${Failed} error=${first.error} reload=${first.reload} what="The list of callbacks" />` : html`<${Loading} lines=${10} />`;
  const rows = [...first.data.callbacks, ...older.rows];
  const cursor = older.cursor ?? first.data.next_cursor ?? "";
  const more = async () => {
    try {
      const next = await get("/callbacks", { ...filters, limit: pageSize, cursor });
      setOlder({ rows: [...older.rows, ...next.callbacks], cursor: next.next_cursor ?? "" });
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
  };
  if (rows.length === 0) {
    return html`<${Empty} icon="callbacks" title=${filters.status ? "No callback has this status" : "No callbacks yet"} text="A run with mode async_callback calls back its parent session when it ends. A run with a callback_url calls a webhook.">
      ${filters.status ? html`<${Button} onClick=${() => setQuery({ status: null }, { push: true })}>Show all<//>` : html`<${Button} href="/ui/new" needs="POST /runs">New run<//>`}<//>`;
  }
  const due = redeliverable(filters) && rows.some(canRedeliver);
  return html`<div class="listbar"><span class="soft">${plural(rows.length, "callback")}${cursor && " or more"}</span><span class="grow"></span>
      <${Button} small=${true} icon="retry" needs="POST /callbacks/redeliver" why=${!due ? "No webhook here is owed or dead" : undefined} onClick=${() => setAsk({ many: redeliverable(filters), key: newKey() })}>Redeliver all matching<//></div>
    <${Card} class="flush"><${Table} label="Callbacks" rows=${rows} rowKey=${(r) => r.run_id} rowHeight=${40} columns=${columns(setAsk)} onNear=${undefined}
      more=${cursor ? html`<${Button} small=${true} onClick=${more}>Load older<//>` : undefined} /><//>
    ${ask && html`<${Redeliver} ask=${ask} onClose=${() => setAsk(null)} reload=${first.reload} />`}`;
}

const canRedeliver = (r) => r.http_callback && (r.http_callback.status === "owed" || r.http_callback.status === "dead");

const columns = (ask) => [
  { id: "status", label: "Status", width: "140px", render: (r) => html`<${Status} status=${(r.http_callback ?? r.callback)?.status ?? "waiting"} />` },
  { id: "run", label: "Run", width: "26%", render: (r) => html`<span class="row"><a class="cut" href=${"/ui/runs/" + seg(r.run_id)}><${Text} text=${r.agent_name} /></a><span class="faint"><${Id} id=${r.run_id} /></span></span>` },
  { id: "to", label: "Receiver", hide: 1, render: (r) => html`<${Told} run=${r} />` },
  { id: "why", label: "Details", hide: 3, render: (r) => html`<span class="cut"><${About} run=${r} /></span>` },
  { id: "ended", label: "Ended", width: "100px", hide: 2, end: true, render: (r) => html`<${Time} at=${r.completed_at} as="ago" />` },
  { id: "act", label: "", width: "110px", end: true, render: (r) => r.http_callback && html`<${Button} small=${true} icon="retry" needs="POST /callbacks/:id/redeliver"
      why=${canRedeliver(r) ? undefined : "Only owed or dead callbacks can be redelivered"} onClick=${() => ask({ run: r })}>Redeliver<//>` },
];

function Told({ run: r }) {
  if (r.callback) {
    return html`<span class="row"><span class="faint">session</span> <${Id} id=${r.parent_session_id} href=${"/ui/sessions/" + seg(r.parent_session_id)} />
      ${r.callback.callback_run_id && html`<span class="faint">in</span> <${Id} id=${r.callback.callback_run_id} href=${"/ui/runs/" + seg(r.callback.callback_run_id)} copy=${false} />`}</span>`;
  }
  return html`<span class="row"><span class="faint">webhook</span> <span class="cut"><${Hostile} text=${r.callback_url ?? "a URL"} /></span></span>`;
}

function About({ run: r }) {
  const h = r.http_callback;
  if (!h) return html`<${Hostile} text=${r.callback?.reason ?? ""} />`;
  return html`${h.tries !== undefined && plural(h.tries, "try", "tries")}${h.http_status ? `, last answer ${h.http_status}` : ""}${h.reason && html` · <${Hostile} text=${h.reason} />`}${h.next_try_at && html` · next <${Time} at=${h.next_try_at} as="ago" />`}`;
}

// One is delivered again by its id; all that match, with the count that is shown here, so that nobody delivers what he did not see.
function Redeliver({ ask, onClose, reload }) {
  const counted = useResource(async (signal) => (ask.many ? countCallbacks(ask.many, signal) : 1), []);
  const n = counted.data;
  const run = async () => {
    if (!ask.many) await send("POST", `/callbacks/${seg(ask.run.run_id)}/redeliver`);
    const { went, refused } = ask.many ? await doMany("/callbacks/redeliver", ask.many, n, ask.key) : { went: 1, refused: [] };
    reload();
    if (refused.length > 0) throw new Error(`${plural(went, "callback")} redelivered; ${plural(refused.length, "was", "were")} refused: ${refused[0].message}`);
    toast(`${plural(went, "callback")} redelivered`, { kind: "good" });
  };
  return html`<${Confirm} title=${ask.many ? "Redeliver these callbacks?" : "Redeliver this callback?"} verb=${n === undefined ? "Counting…" : `Redeliver ${n}`} why=${n ? undefined : "There is nothing to redeliver"}
    needs=${ask.many ? "POST /callbacks/redeliver" : "POST /callbacks/:id/redeliver"} run=${run} onClose=${onClose}>
    <p>${ask.many ? `Every webhook that matches the filters and is owed or dead is sent now: ${n ?? "…"} in all.` : html`The end of run <${Id} id=${ask.run.run_id} full=${true} /> is sent to its receiver now.`} A receiver may get the same webhook twice; its webhook-id stays the same.</p><//>`;
}
