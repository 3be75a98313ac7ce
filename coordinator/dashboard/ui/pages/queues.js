// Queues: what waits in each, what its runs want, and who serves it.
import { html } from "../base.js";
import { get, seg } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { Badge, Button, Card, Empty, Facts, Hostile, Loaded, Num, Page, Table, Time, useEvery, useResource } from "../lib/components.js";
import { StartWorker } from "../lib/worker.js";

/** Queues is the list of queues. */
export default function Queues() {
  const status = useResource((signal) => get("/status", {}, { signal }), []);
  useEvery(2, status.reload);
  return html`<${Page} title="Queues"><${Loaded} resource=${status} what="The list of queues" lines=${8}>${(s) => html`<${Shown} status=${s} />`}<//><//>`;
}

function Shown({ status: s }) {
  const rest = s.not_queued ?? { waiting: 0 };
  const unserved = s.queues.filter((q) => !q.served && q.waiting > 0);
  return html`
    ${unserved.length > 0 && html`<div class="banner warn" role="status"><span>${plural(unserved.length, "queue")} ${unserved.length === 1 ? "has" : "have"} waiting runs and no online runner. The runs fail unless a matching runner comes online.</span></div>`}
    <div class="grid"><${Card} title="Waiting"><${Facts} of=${[
      ["In queues", html`<${Num} value=${s.queues.reduce((n, q) => n + q.waiting, 0)} />`],
      ["Not in a queue yet", html`<${Num} value=${rest.waiting} /> <span class="faint">waiting for their session's turn, a retry or a matching runner</span>`],
      ["Oldest of these", rest.oldest_since && html`<${Time} at=${rest.oldest_since} as="ago" focus=${true} />`],
      ["Limit", html`<${Num} value=${s.max_pending} />`]]} /><//>
      <${Card} title="Slots"><${Facts} of=${[["Taken", html`<${Num} value=${s.slots.taken} /> of <${Num} value=${s.slots.all} />`], ["Runners online", html`<a href="/ui/runners?status=online"><${Num} value=${s.runners.online} /></a>`]]} /><//></div>
    ${s.queues.length === 0
      ? html`<${Empty} icon="queues" title="No queues yet" text="A queue appears with the first runner that registers, or the first run that waits for one."><${StartWorker} /><${Button} href="/ui/runners">Runners<//><//>`
      : html`<${Card} class="flush"><${Table} label="Queues" rows=${s.queues} rowKey=${(q) => q.queue} columns=${columns} rowHeight=${40} /><//>`}`;
}

const columns = [
  { id: "queue", label: "Queue", width: "28%", class: "main", render: (q) => html`<code class="clamp" title=${q.queue}><${Hostile} text=${q.queue} /></code>` },
  { id: "waiting", label: "Waiting", width: "90px", class: "slim", end: true, render: (q) => html`<${Num} value=${q.waiting} />` },
  { id: "oldest", label: "Oldest", width: "100px", class: "slim", end: true, render: (q) => html`<${Time} at=${q.oldest_since} as="ago" focus=${Boolean(q.oldest_since)} />` },
  { id: "served", label: "Served", width: "110px", hide: 1, render: (q) => (q.served ? html`<${Badge} kind="good">yes<//>` : html`<${Badge} kind=${q.waiting ? "bad" : ""}>no<//>`) },
  { id: "wants", label: "Required of a runner", hide: 2, render: (q) => html`<${Wants} of=${q.wants ?? {}} />` },
  { id: "runs", label: "", width: "70px", hide: 3, end: true, render: (q) => (q.waiting > 0 ? html`<a href=${"/ui/runs?status=pending" + (q.wants?.agents?.length === 1 ? "&agent_name=" + seg(q.wants.agents[0]) : "")}>Runs</a>` : "") },
];

const names = { executor_type: "type", executor_profile: "profile", hostname: "host", project_dir: "folder", tags: "tags", agents: "agents" };

function Wants({ of }) {
  const said = Object.entries(names).filter(([k]) => of[k] && of[k].length > 0);
  if (said.length === 0) return html`<span class="faint">any runner</span>`;
  return html`<span class="cut">${said.map(([k, label], i) => html`${i > 0 && " · "}<span class="faint">${label}</span> <${Hostile} text=${Array.isArray(of[k]) ? of[k].join(", ") : of[k]} />`)}</span>`;
}
