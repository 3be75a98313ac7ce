// Settings: who am I and what may I, what the doctor finds, the settings in force, and who did what.
import { html, useState } from "../base.js";
import { get, now, seg } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { plural } from "../lib/format.js";
import { may, me, refusal } from "../lib/rights.js";
import { Badge, Button, Card, Choice, Dot, Empty, Facts, Failed, Hostile, Icon, Id, JsonLine, Loaded, Loading, NoPermission, Page, Search, Status, Table, Tabs, Text, Time, toast, useResource } from "../lib/components.js";

const tabs = [["me", "Me"], ["doctor", "Doctor", "GET /doctor"], ["settings", "Effective settings", "GET /settings"], ["audit", "Audit", "GET /audit"]];
const parts = { me: Me, doctor: Doctor, settings: Settings, audit: Audit };

/** SettingsPage shows the deployment itself. */
export default function SettingsPage() {
  const chosen = parts[query.value.get("tab")] ? query.value.get("tab") : "me";
  const Part = parts[chosen];
  const route = tabs.find(([id]) => id === chosen)[2];
  return html`<${Page} title="Settings"><${Tabs} label="Parts of the settings" selected=${chosen} onSelect=${(id) => setQuery({ tab: id === "me" ? null : id }, { push: true })} tabs=${tabs.map(([id, label]) => ({ id, label }))}>
    ${route && !may(route) ? html`<${NoPermission} route=${route} text=${refusal(route)} />` : html`<${Part} />`}<//><//>`;
}

function Me() {
  const who = me.value;
  const known = { none: "No login: this coordinator asks for no token", token: "An API token", cookie: "A login in this browser", session: "A session's token" };
  return html`<div class="grid">
    <${Card} title="You"><${Facts} of=${[
      ["Signed in with", known[who.kind] ?? who.kind], ["Name", who.name ? html`<${Hostile} text=${who.name} />` : null], ["Scope", html`<${Badge}>${who.scope}<//>`],
      ["Expires", who.expires_at && html`<${Time} at=${who.expires_at} as="exact" />`], ["Coordinator", html`<code><${Hostile} text=${who.version} /></code>`],
      ["Deployment", html`<${Id} id=${who.deployment} full=${true} />`]]} />
      ${who.kind === "none" && html`<p class="faint">The coordinator listens on this machine only. Every local program may do everything. Other local servers see this browser's cookies, since cookies ignore ports.</p>`}<//>
    <${Card} title="What you may do"><ul class="rights">${[...who.may].sort(byPath).map((r) => html`<li><code>${r}</code></li>`)}</ul><//></div>`;
}

const byPath = (a, b) => a.slice(a.indexOf(" ")).localeCompare(b.slice(b.indexOf(" "))) || a.localeCompare(b);

const order = { fail: 0, warn: 1, skip: 2, ok: 3 };

function Doctor() {
  const doctor = useResource((signal) => get("/doctor", {}, { signal }), []);
  return html`<${Loaded} resource=${doctor} what="The doctor's findings" lines=${10}>${(d) => {
    const found = d.checks.toSorted((a, b) => (order[a.verdict] ?? 1) - (order[b.verdict] ?? 1));
    const odd = found.filter((c) => c.verdict === "fail" || c.verdict === "warn").length;
    return html`<div class="stack"><div class="listbar"><span class=${odd ? "warn" : "good"}>${odd ? `${odd} of ${found.length} checks need attention` : `All ${found.length} checks passed`}</span><span class="grow"></span>
        <span class="faint">as of <${Time} at=${d.at} as="clock" /></span><${Button} small=${true} icon="retry" onClick=${doctor.reload}>Check again<//></div>
      <${Card} class="flush"><ul class="checks">${found.map((c) => html`<li><${Status} status=${c.verdict} /><div><p><${Hostile} text=${c.what} lines=${true} /></p>${c.advice && html`<p class="soft"><${Hostile} text=${c.advice} lines=${true} /></p>`}</div><code class="faint">${c.check}</code></li>`)}</ul><//></div>`;
  }}<//>`;
}

function Settings() {
  const settings = useResource((signal) => get("/settings", {}, { signal }), []);
  const q = (query.value.get("q") ?? "").toLowerCase();
  const changed = query.value.get("changed") === "1";
  return html`<${Loaded} resource=${settings} what="The settings" lines=${12}>${({ settings: all }) => {
    const shown = all.filter((s) => (!q || (s.name + " " + s.help).toLowerCase().includes(q)) && (!changed || s.source !== "default"));
    return html`<div class="stack"><div class="filters"><${Search} value=${query.value.get("q")} placeholder="Name or what it does" label="Search settings" onChange=${(t) => setQuery({ q: t })} />
        <button type="button" class="chip" aria-pressed=${changed} onClick=${() => setQuery({ changed: changed ? null : "1" })}>Changed only</button></div>
      ${shown.length === 0 ? html`<${Empty} icon="filter" title="No setting matches"><${Button} onClick=${() => setQuery({ q: null, changed: null })}>Show all<//><//>`
        : html`<${Card} class="flush"><ul class="settings">${shown.map((s) => html`<li key=${s.name}><div><code>${s.name}</code> ${s.source !== "default" && html`<${Badge} kind="accent">${s.source}<//>`}${s.secret && html`<${Badge}>secret<//>`}</div>
          <code class="value"><${Hostile} text=${s.value === "" ? "–" : s.value} /></code><p class="faint"><${Hostile} text=${s.help} />${s.default && s.source !== "default" ? html` <span class="nowrap">Default: <code><${Hostile} text=${s.default} /></code></span>` : ""}</p></li>`)}</ul><//>`}</div>`;
  }}<//>`;
}

function Audit() {
  const filters = Object.fromEntries(["actor", "action", "run"].map((n) => [n, query.value.get(n) ?? ""]));
  const hours = Number(query.value.get("hours")) || 0;
  if (hours > 0) filters.after = new Date(Math.floor((now() - hours * 3600000) / 60000) * 60000).toISOString();
  const field = (name, label) => html`<${Search} value=${filters[name]} placeholder=${label} label=${label} onChange=${(t) => setQuery({ [name]: t })} />`;
  return html`<div class="stack"><div class="filters" role="search" aria-label="Filters of the audit log">${field("actor", "Actor")}${field("action", "Action")}${field("run", "Run")}
      <${Choice} label="Since" value=${String(hours || "")} onChange=${(v) => setQuery({ hours: v }, { push: true })} options=${[{ value: "", label: "Any time" }, { value: "1", label: "Last hour" }, { value: "24", label: "Last 24 hours" }, { value: "168", label: "Last 7 days" }]} /></div>
    <${Entries} key=${JSON.stringify(filters)} filters=${filters} /></div>`;
}

function Entries({ filters }) {
  const first = useResource((signal) => get("/audit", { ...filters, limit: 200 }, { signal }), []);
  const [older, setOlder] = useState({ rows: [], gaps: [], cursor: undefined });
  if (first.data === undefined) return first.error ? html`<${Failed} error=${first.error} reload=${first.reload} what="The audit log" />` : html`<${Loading} lines=${10} />`;
  const rows = [...first.data.entries, ...older.rows];
  const cursor = older.cursor ?? first.data.next_cursor ?? "";
  const more = async () => {
    try {
      const next = await get("/audit", { ...filters, limit: 200, cursor });
      setOlder({ rows: [...older.rows, ...next.entries], gaps: [...older.gaps, ...(next.gaps ?? [])], cursor: next.next_cursor ?? "" });
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
  };
  const gaps = [...(first.data.gaps ?? []), ...older.gaps];
  if (rows.length === 0 && gaps.length === 0 && !cursor) return html`<${Empty} icon="shield" title="No matching entries" text="Writes, logins and refusals are kept for 30 days." />`;
  return html`${gaps.map((g) => html`<div class="banner warn" role="status"><${Icon} name="warn" /><span>${g.count ? plural(g.count, "entry is", "entries are") : "Entries are"} missing between <${Time} at=${g.after} /> and <${Time} at=${g.before} />: NATS was unavailable for too long, or lost them.</span></div>`)}
    <${Card} class="flush"><${Table} label="Audit log" rows=${rows} rowKey=${(e, i) => e.id ?? `${e.time}-${e.action}-${e.request_id ?? ""}-${rows.indexOf(e)}`} rowHeight=${36} columns=${auditColumns}
      more=${cursor ? html`<${Button} small=${true} onClick=${more}>Load older<//>` : undefined} /><//>`;
}

const actorOf = (a) => a?.name || a?.credential || a?.session_id || a?.kind || "–";
// What an entry is about, by the words that are shown for its members.
const details = { run_id: "run", session_id: "session", agent_name: "agent", schema_name: "schema", runner_id: "runner", tree: "with all below", runs: "runs", count: "entries", route: "route", door: "via", from: "from", request: "request" };
const entryPoints = { http: "the HTTP API", mcp: "MCP", nats: "NATS", inbox: "the NATS inbox", fleet: "a worker", clock: "a timer" };
const target = (e) => Object.keys(details).filter((k) => e[k] !== undefined && e[k] !== "").map((k) => [k, details[k], k === "door" ? entryPoints[e[k]] ?? e[k] : e[k] === true ? "" : e[k]]);
const outcome = (e) => [e.status ?? (e.error ? "" : "done"), e.error].filter(Boolean).join(" ");

const auditColumns = [
  { id: "time", label: "Time", width: "150px", class: "slim", render: (e) => html`<${Time} at=${e.time} focus=${true} />` },
  { id: "actor", label: "Actor", width: "18%", render: (e) => html`<span class="cut"><${Hostile} text=${typeof e.actor === "string" ? e.actor : actorOf(e.actor)} /></span>` },
  { id: "action", label: "Action", width: "20%", class: "main", render: (e) => html`<code class="clamp"><${Hostile} text=${e.action} /></code>` },
  { id: "outcome", label: "Outcome", width: "130px", hide: 1, render: (e) => html`<span class="row"><${Dot} status=${/^(2\d\d|done)/.test(outcome(e)) ? "ok" : "fail"} /><span class="cut"><${Text} text=${outcome(e)} /></span></span>` },
  { id: "about", label: "Details", hide: 2, render: (e) => html`<span class="cut">${target(e).map(([k, word, v], i) => html`${i > 0 && " · "}<span class="faint">${word}</span> ${k === "run_id" ? html`<a href=${"/ui/runs/" + seg(v)}><${Hostile} text=${v} /></a>` : html`<${Hostile} text=${v} />`}`)}</span>` },
];
