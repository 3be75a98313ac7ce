// One agent: its definition, its schemas, what is really sent, who would take it. What was changed is saved as a whole.
import { html, useEffect, useRef, useState } from "../base.js";
import { guard, navigate, path, query, setQuery } from "../lib/router.js";
import { may } from "../lib/rights.js";
import { Badge, Button, Hostile, Icon, Loaded, Menu, Page, Problem, Status, Tabs, useResource } from "../lib/components.js";
import { Origin, SchemaBadges, loadAgent, noChange, noCopy } from "../lib/agents.js";
import { loadDraft } from "../lib/drafts.js";
import { Unused } from "./agent/unused.js";
import { useDefinition } from "./agent/definition.js";
import { Conflict, useSave } from "./agent/save.js";
import { Act } from "./agent/acts.js";
import { General, JsonTab, Servers } from "./agent/general.js";
import { Input, Output } from "./agent/schemas.js";
import { Prompt, Runners, usePreview } from "./agent/preview.js";

async function load(name, signal) {
  const agent = await loadAgent(name, signal);
  const kept = noChange(agent) || !may("GET /agents/:name/drafts/:side") ? [] : agent.drafts ?? [];
  const [input, output] = await Promise.all(["input", "output"].map((side) => (kept.includes(side) ? loadDraft(name, side, signal) : null)));
  return { agent, drafts: { input, output } };
}

export default function Agent({ name }) {
  const resource = useResource((signal) => load(name, signal), [name]);
  const crumbs = [{ label: "Agents", href: path(["agents"]) }];
  if (resource.data === undefined) return html`<${Page} title=${name} crumbs=${crumbs}><${Loaded} resource=${resource} what="The agent" /><//>`;
  const { agent, drafts } = resource.data;
  return html`<${Edited} key=${agent.name + agent.etag + agent.modified_at} agent=${agent} drafts=${drafts} crumbs=${crumbs} reload=${resource.reload} />`;
}

function Edited({ agent, drafts, crumbs, reload }) {
  const definition = useDefinition(agent, drafts);
  const [dialog, setDialog] = useState(null);
  const tab = query.value.get("tab") ?? "general";
  const go = (id) => setQuery({ tab: id === "general" ? null : id }, { push: true });
  const save = useSave(definition, reload, go);
  const preview = usePreview(definition, ["input", "prompt", "runners"].includes(tab));
  const lost = useRef(false);
  lost.current = definition.dirty && !definition.kept;
  useEffect(() => guard(() => lost.current && "You have unsaved changes. Leave the page?"), []);
  const done = (kind) => (kind === "delete" ? ((lost.current = false), navigate(path(["agents"]))) : reload());
  const Part = tabs.find((t) => t.id === tab)?.part ?? General;
  const shown = tabs.map((t) => ({ id: t.id, label: t.label, badge: t.badge?.(definition) }));
  return html`<${Page} title=${agent.name} crumbs=${crumbs} heading=${html`<${Hostile} text=${agent.name} /><${Status} status=${agent.status} />`}
    actions=${html`<${Actions} definition=${definition} save=${save} act=${setDialog} />`}>
    <${About} agent=${agent} definition=${definition} act=${setDialog} />
    ${save.error && html`<${Problem} error=${save.error} />`}
    <${Tabs} label="Parts of the agent" tabs=${shown} selected=${tab} onSelect=${go}><${Part} definition=${definition} agent=${agent} preview=${preview} /><//>
    ${save.conflict && html`<${Conflict} definition=${definition} save=${save} />`}
    ${dialog && html`<${Act} agent=${agent} text=${agent.text} changes=${definition.changes} ...${dialog} onClose=${() => setDialog(null)} done=${done} />`}
  <//>`;
}

const mark = (on) => (on ? "on" : undefined);
const tabs = [
  { id: "general", label: "General", part: General },
  { id: "input", label: "Input", part: Input, badge: (d) => mark(d.input.on) },
  { id: "output", label: "Output", part: Output, badge: (d) => (d.output.mode === "name" ? "by name" : mark(d.output.mode === "inline")) },
  { id: "prompt", label: "Prompt", part: Prompt },
  { id: "servers", label: "MCP servers", part: Servers },
  { id: "runners", label: "Runners", part: Runners },
  { id: "json", label: "JSON", part: JsonTab },
];

function Actions({ definition, save, act }) {
  const { agent, dirty, kept, fixed } = definition;
  const on = agent.status === "active";
  const patch = "PATCH /agents/:name";
  const items = [
    { label: "Copy", icon: "copy", needs: "POST /agents", why: noCopy(agent), run: () => act({ kind: "copy" }) },
    { label: on ? "Deactivate" : "Activate", icon: on ? "pause" : "play", needs: patch, why: fixed ?? (dirty ? "Save or discard the changes first" : undefined), run: () => act({ kind: on ? "deactivate" : "activate" }) },
    { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /agents/:name", why: fixed, run: () => act({ kind: "delete" }) },
  ];
  return html`${dirty && html`<${Badge} kind="warn">${kept ? "kept as a draft" : "unsaved"}<//><${Button} onClick=${definition.discard}>Discard<//>`}
    <${Button} kind="primary" needs=${patch} why=${fixed ?? (dirty ? undefined : "There are no changes to save")} busy=${save.busy} onClick=${save.run}>Save<//>
    <${Button} icon="play" needs="POST /runs" why=${on ? undefined : "It is inactive"} href=${path(["new"], { agent: agent.name })}>Run<//>
    <${Menu} label="More actions" items=${items} />`;
}

function About({ agent, definition, act }) {
  return html`<div class="row wrap"><${Badge}>${agent.type}<//><${Origin} agent=${agent} /><${SchemaBadges} agent=${agent} /></div>
    ${definition.fixed && html`<div class="banner"><${Icon} name="info" /><div class="grow"><strong>Read only.</strong> <${Hostile} text=${definition.fixed} /></div>
      <${Button} small=${true} icon="copy" needs="POST /agents" why=${noCopy(agent)} onClick=${() => act({ kind: "copy" })}>Save as a copy<//></div>`}
    <${Unused} agent=${agent} dirty=${definition.dirty} act=${act} />`;
}
