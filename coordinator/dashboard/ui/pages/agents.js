// The agents there are: where each comes from, which schemas it has, and what of the files could not be read.
import { html, useState } from "../base.js";
import { get } from "../lib/api.js";
import { navigate, path, query, setQuery } from "../lib/router.js";
import { Badge, Button, Card, Choice, Empty, Hostile, Loaded, Menu, Page, Search, Status, Table, Text, useEvery, useResource } from "../lib/components.js";
import { Origin, SchemaBadges, noChange, noCopy } from "../lib/agents.js";
import { count, plural } from "../lib/format.js";
import { Act } from "./agent/acts.js";

async function load(signal) {
  const [all, broken] = await Promise.all([get("/agents", {}, { signal }), get("/agents", { status: "broken" }, { signal })]);
  return { agents: all.agents, broken: broken.agents };
}

export default function Agents() {
  const resource = useResource(load, []);
  const [dialog, setDialog] = useState(null);
  useEvery(10, resource.reload);
  const actions = html`<${Button} kind="primary" icon="plus" needs="POST /agents" onClick=${() => setDialog({ kind: "new" })}>New agent<//>`;
  return html`<${Page} title="Agents" actions=${actions}>
    <${Loaded} resource=${resource} what="The list of agents">${(data) => html`<${List} ...${data} act=${setDialog} />`}<//>
    ${dialog && html`<${Act} ...${dialog} onClose=${() => setDialog(null)} done=${resource.reload} />`}
  <//>`;
}

function List({ agents, broken, act }) {
  const q = query.value;
  const words = (q.get("q") ?? "").toLowerCase();
  const [type, status] = [q.get("type") ?? "", q.get("status") ?? ""];
  const rows = agents.filter((a) => (!type || a.type === type) && (!status || a.status === status) &&
    (!words || `${a.name} ${a.description} ${(a.tags ?? []).join(" ")}`.toLowerCase().includes(words)));
  return html`<div class="row wrap filters">
      <div class="grow"><${Search} value=${q.get("q") ?? ""} label="Search agents" placeholder="Name, description or tag" onChange=${(v) => setQuery({ q: v })} /></div>
      <${Choice} label="Type" value=${type} options=${[{ value: "", label: "All types" }, "autonomous", "procedural"]} onChange=${(v) => setQuery({ type: v })} />
      <${Choice} label="Status" value=${status} options=${[{ value: "", label: "Any status" }, "active", "inactive"]} onChange=${(v) => setQuery({ status: v })} />
      <span class="faint num">${rows.length === agents.length ? plural(rows.length, "agent") : `${count(rows.length)} of ${count(agents.length)}`}</span>
    </div>
    <${Broken} files=${broken} />
    ${agents.length === 0 ? html`<${None} act=${act} />`
      : rows.length === 0 ? html`<${Empty} icon="filter" title="No agent matches"><${Button} onClick=${() => setQuery({ q: null, type: null, status: null })}>Show all<//><//>`
      : html`<${Table} label="Agents" rows=${rows} rowKey=${(a) => a.name} rowHeight=${48} columns=${columns(act)} />`}`;
}

const None = ({ act }) => html`<${Empty} icon="agents" title="No agents yet" text="Create one here, put agent.json files into AGENT_ORCHESTRATOR_AGENTS_DIR, or start a runner that has its own.">
  <${Button} needs="POST /agents" kind="primary" onClick=${() => act({ kind: "new" })}>New agent<//><//>`;

const columns = (act) => [
  { id: "name", label: "Agent", class: "main", render: (a) => html`<div class="two"><a class="cut" href=${path(["agents", a.name])}><${Hostile} text=${a.name} /></a><span class="faint cut"><${Text} text=${a.description} /></span></div>` },
  { id: "type", label: "Type", width: "110px", hide: 2, render: (a) => a.type },
  { id: "from", label: "From", width: "240px", hide: 1, render: (a) => html`<${Origin} agent=${a} />` },
  { id: "schemas", label: "Custom schemas", width: "160px", hide: 3, render: (a) => html`<${SchemaBadges} agent=${a} />` },
  { id: "status", label: "Status", width: "100px", class: "stat", render: (a) => html`<${Status} status=${a.status} />` },
  { id: "do", label: html`<span class="offscreen">Actions</span>`, width: "96px", end: true, class: "acts", render: (a) => html`<div class="row">
    <${Button} small=${true} icon="play" label=${`Run ${a.name}`} title="New run" needs="POST /runs" why=${a.status === "active" ? undefined : "It is inactive"} href=${path(["new"], { agent: a.name })} />
    <${Menu} label=${`Actions for ${a.name}`} items=${actions(a, act)} /></div>` },
];

/** actions are what can be done with an agent, as items of a menu. */
function actions(a, act) {
  const why = noChange(a);
  const [patch, on] = ["PATCH /agents/:name", a.status === "active"];
  return [
    { label: "Open", icon: "edit", run: () => navigate(path(["agents", a.name])) },
    { label: "Copy", icon: "copy", needs: "POST /agents", why: noCopy(a), run: () => act({ kind: "copy", agent: a }) },
    { label: on ? "Deactivate" : "Activate", icon: on ? "pause" : "play", needs: patch, why, run: () => act({ kind: on ? "deactivate" : "activate", agent: a }) },
    { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /agents/:name", why, run: () => act({ kind: "delete", agent: a }) },
  ];
}

function Broken({ files }) {
  if (files.length === 0) return null;
  return html`<${Card} title=${`${plural(files.length, "broken definition")}`}><ul class="stack">${files.map((f) => html`<li>
    <div class="row wrap"><${Badge} kind="bad">broken<//> <strong><${Hostile} text=${f.name} /></strong> <code class="faint"><${Hostile} text=${f.path} /></code></div>
    <p class="bad"><${Hostile} text=${f.error} lines=${true} /></p></li>`)}</ul>
    <p class="faint">Fix the file: it is read again when it changes.</p><//>`;
}
