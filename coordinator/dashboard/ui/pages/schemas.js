// Output schemas that have a name: who uses each, make one, look, delete, and try an answer against it.
import { html, useState } from "../base.js";
import { get, request, seg, send } from "../lib/api.js";
import { object, quote } from "../lib/json.js";
import { navigate, path } from "../lib/router.js";
import { Badge, Button, Card, Confirm, Dialog, Empty, Field, Hostile, JsonView, Loaded, Menu, Page, Problem, Table, Text, Time, toast, useResource, visible } from "../lib/components.js";
import { SchemaEditor, judgeSchema } from "../lib/agents.js";
import { plural } from "../lib/format.js";
import { Playground } from "./schemas/playground.js";

export default function Schemas({ name }) {
  return name === undefined ? html`<${All} />` : html`<${One} key=${name} name=${name} />`;
}

const New = ({ onClick }) => html`<${Button} kind="primary" icon="plus" needs="POST /schemas" onClick=${onClick}>New schema<//>`;

function All() {
  const resource = useResource((signal) => get("/schemas", {}, { signal }), []);
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const actions = html`<${New} onClick=${() => setDialog({ kind: "new" })} />`;
  return html`<${Page} title="Schemas" actions=${actions}>
    <p class="soft">Output schemas that agents and callers use by name. A schema never changes: create another name for a new version.</p>
    <${Loaded} resource=${resource} what="The list of schemas">${(data) => (data.schemas.length === 0
      ? html`<${Empty} icon="schemas" title="No named schemas yet" text="Create one, then use it as the output schema of agents or of a single run."><${New} onClick=${() => setDialog({ kind: "new" })} /><//>`
      : html`<${Table} label="Schemas" rows=${data.schemas} rowKey=${(s) => s.name} rowHeight=${48} columns=${columns(setDialog)} />`)}<//>
    ${(resource.data || resource.error) && html`<${Card} title="Playground"><${Playground} schema=${null} /><//>`}
    ${dialog?.kind === "new" && html`<${Create} onClose=${close} />`}
    ${dialog?.kind === "delete" && html`<${Remove} name=${dialog.name} onClose=${close} done=${resource.reload} />`}<//>`;
}

// users are the agents that need a schema: it can be deleted without them only.
const users = (s) => [...new Set([...(s.used_by ?? []), ...(s.referred_by ?? [])])];

const inUse = (s) => (users(s).length > 0 ? `${plural(users(s).length, "agent")} ${users(s).length === 1 ? "uses" : "use"} it: ${visible(users(s).slice(0, 5).join(", "))}` : undefined);

const columns = (act) => [
  { id: "name", label: "Schema", render: (s) => html`<div class="two"><a class="cut" href=${path(["schemas", s.name])}><${Hostile} text=${s.name} /></a><span class="faint cut"><${Text} text=${s.description} /></span></div>` },
  { id: "users", label: "Used by", hide: 3, render: (s) => html`<${Users} names=${users(s)} />` },
  { id: "made", label: "Created", width: "150px", hide: 2, render: (s) => html`<${Time} at=${s.created_at} as="ago" />` },
  { id: "do", label: html`<span class="offscreen">Actions</span>`, width: "60px", end: true, class: "acts", render: (s) => html`<div class="row"><${Menu} label=${`Actions for ${s.name}`} items=${[
    { label: "Open", icon: "edit", run: () => navigate(path(["schemas", s.name])) },
    { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /schemas/:name", why: inUse(s), run: () => act({ kind: "delete", name: s.name }) }]} /></div>` },
];

function Users({ names }) {
  if (names.length === 0) return html`<span class="faint">no agent</span>`;
  return html`<span class="row">${names.slice(0, 3).map((n) => html`<a href=${path(["agents", n], { tab: "output" })}><${Hostile} text=${n} /></a>`)}${names.length > 3 && html`<span class="faint">and ${names.length - 3} more</span>`}</span>`;
}

function One({ name }) {
  const resource = useResource((signal) => get("/schemas/" + seg(name), {}, { signal }), [name]);
  const [dialog, setDialog] = useState(null);
  const crumbs = [{ label: "Schemas", href: path(["schemas"]) }];
  const data = resource.data;
  const actions = data && html`<${Button} icon="copy" needs="POST /schemas" onClick=${() => setDialog("copy")}>Copy<//><${Button} icon="trash" kind="danger" needs="DELETE /schemas/:name" why=${inUse(data)} onClick=${() => setDialog("delete")}>Delete<//>`;
  return html`<${Page} title=${name} heading=${html`<${Hostile} text=${name} />`} crumbs=${crumbs} actions=${actions}><${Loaded} resource=${resource} what="The schema">${(schema) => html`<div class="row wrap"><${Badge}>immutable<//><span class="soft"><${Text} text=${schema.description || "No description"} /></span></div>
      <div class="grid"><${Card} title="Schema" actions=${html`<span class="faint">created <${Time} at=${schema.created_at} /></span>`}><div class="stack"><${JsonView} value=${schema.schema.pretty()} label="Schema" />
        <p class="row wrap"><span class="faint">${users(schema).length ? "Used by" : "Used by no agent"}</span>${users(schema).length > 0 && html`<${Users} names=${users(schema)} />`}</p></div><//>
      <${Card} title="Playground"><${Playground} schema=${schema.schema.pretty()} /><//></div>`}<//>
    ${dialog === "copy" && html`<${Create} from=${data} onClose=${() => setDialog(null)} />`}
    ${dialog === "delete" && html`<${Remove} name=${name} onClose=${() => setDialog(null)} done=${() => navigate(path(["schemas"]))} />`}<//>`;
}

function Remove({ name, onClose, done }) {
  const run = async () => {
    await request("DELETE", "/schemas/" + seg(name));
    toast(`${name} is deleted`, { kind: "good" });
    done();
  };
  return html`<${Confirm} title="Delete this schema?" verb=${"Delete " + name} kind="danger" needs="DELETE /schemas/:name" run=${run} onClose=${onClose}>
    <p>Accepted runs keep their copy of <strong><${Hostile} text=${name} /></strong>. New runs that name it are refused.</p><//>`;
}

function Create({ from, onClose }) {
  const [name, setName] = useState(from ? from.name + "-2" : "");
  const [about, setAbout] = useState(from?.description ?? "");
  const [text, setText] = useState(from ? from.schema.pretty() : "");
  const [errors, setErrors] = useState([]);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const create = async () => {
    setBusy(true);
    setError(null);
    try {
      const wrong = await judgeSchema(text);
      if (wrong.length) throw new Error(`This is not a valid JSON Schema: ${wrong[0].path ?? ""} ${wrong[0].message}`);
      await send("POST", "/schemas", object([["name", quote(name)], ["description", about ? quote(about) : undefined], ["schema", text.trim()]]));
      onClose();
      navigate(path(["schemas", name]));
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  const why = !name ? "Give it a name" : text.trim() === "" ? "Define the schema" : errors.length ? "Fix the schema first" : undefined;
  const footer = html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" needs="POST /schemas" why=${why} busy=${busy} onClick=${create}>Create<//>`;
  return html`<${Dialog} title="New schema" wide=${true} onClose=${onClose} footer=${footer}>
    <div class="grid tight"><${Field} label="Name" hint="It cannot be changed later, and neither can the schema.">${(c) => html`<input type="text" autofocus autocomplete="off" spellcheck=${false} value=${name} onInput=${(e) => setName(e.currentTarget.value.trim())} ...${c} />`}<//>
      <${Field} label="Description" optional=${true}>${(c) => html`<input type="text" value=${about} onInput=${(e) => setAbout(e.currentTarget.value)} ...${c} />`}<//></div>
    <${SchemaEditor} label="Schema" value=${text} onChange=${setText} onErrors=${setErrors} />
    ${error && html`<${Problem} error=${error} />`}<//>`;
}
