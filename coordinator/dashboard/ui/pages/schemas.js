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
    <p class="soft">Output schemas that agents and callers use by name. One of the API never changes: create another name for a new version.</p>
    <${Loaded} resource=${resource} what="The list of schemas">${(data) => (data.schemas.length === 0
      ? html`<${Empty} icon="schemas" title="No named schemas yet" text="Create one, then use it as the output schema of agents or of a single run."><${New} onClick=${() => setDialog({ kind: "new" })} /><//>`
      : html`<${Table} label="Schemas" rows=${data.schemas} rowKey=${(s) => s.name} rowHeight=${48} columns=${columns(setDialog)} />`)}<//>
    ${(resource.data || resource.error) && html`<${Card} title="Playground"><${Playground} schema=${null} /><//>`}
    ${dialog?.kind === "new" && html`<${Create} onClose=${close} />`}
    ${dialog?.kind === "delete" && html`<${Remove} name=${dialog.name} onClose=${close} done=${resource.reload} />`}<//>`;
}

// users are what needs a schema, agents and other schemas: it can be deleted without them only.
const users = [
  { member: "used_by", label: "Used by", one: "agent", uses: ["uses it", "use it"], href: (name) => path(["agents", name], { tab: "output" }) },
  { member: "referred_by", label: "Referred to by", one: "schema", uses: ["refers to it", "refer to it"], href: (name) => path(["schemas", name]) },
];

// noDelete says why a schema cannot be deleted here; undefined where it can.
function noDelete(s) {
  if (s.origin === "file") return "It is defined by a file in AO_SCHEMAS_DIR: remove the file";
  const whys = users.filter((u) => s[u.member].length > 0).map((u) => {
    const names = s[u.member];
    return `${plural(names.length, u.one)} ${u.uses[names.length === 1 ? 0 : 1]}: ${visible(names.slice(0, 5).join(", "))}`;
  });
  return whys.length > 0 ? whys.join(". ") : undefined;
}

const FileBadge = ({ schema: s }) => (s.origin === "file" ? html`<${Badge} title="Defined by a file in AO_SCHEMAS_DIR; an edit counts at once">file<//>` : "");

const columns = (act) => [
  { id: "name", label: "Schema", render: (s) => html`<div class="two"><span class="row cut">${s.error ? html`<${Hostile} text=${s.name} />` : html`<a class="cut" href=${path(["schemas", s.name])}><${Hostile} text=${s.name} /></a>`}<${FileBadge} schema=${s} /></span>${s.error ? html`<span class="bad cut" title=${visible(s.error)}><${Hostile} text=${s.error} /></span>` : html`<span class="faint cut"><${Text} text=${s.description} /></span>`}</div>` },
  ...users.map((u) => ({ id: u.member, label: u.label, hide: 3, render: (s) => html`<${Users} names=${s[u.member]} of=${u} />` })),
  { id: "made", label: "Created", width: "150px", hide: 2, render: (s) => html`<${Time} at=${s.created_at} as="ago" />` },
  { id: "do", label: html`<span class="offscreen">Actions</span>`, width: "60px", end: true, class: "acts", render: (s) => html`<div class="row"><${Menu} label=${`Actions for ${s.name}`} items=${[
    { label: "Open", icon: "edit", why: s.error && "Its file cannot be used", run: () => navigate(path(["schemas", s.name])) },
    { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /schemas/:name", why: noDelete(s), run: () => act({ kind: "delete", name: s.name }) }]} /></div>` },
];

function Users({ names, of }) {
  if (names.length === 0) return html`<span class="faint">no ${of.one}</span>`;
  return html`<span class="row">${names.slice(0, 3).map((n) => html`<a href=${of.href(n)}><${Hostile} text=${n} /></a>`)}${names.length > 3 && html`<span class="faint">and ${names.length - 3} more</span>`}</span>`;
}

function One({ name }) {
  const resource = useResource(async (signal) => {
    const [one, all] = await Promise.all([get("/schemas/" + seg(name), {}, { signal }), get("/schemas", {}, { signal })]);
    return { ...one, referred_by: all.schemas.find((s) => s.name === name)?.referred_by ?? [] };
  }, [name]);
  const [dialog, setDialog] = useState(null);
  const crumbs = [{ label: "Schemas", href: path(["schemas"]) }];
  const data = resource.data;
  const actions = data && html`<${Button} icon="copy" needs="POST /schemas" onClick=${() => setDialog("copy")}>Copy<//><${Button} icon="trash" kind="danger" needs="DELETE /schemas/:name" why=${noDelete(data)} onClick=${() => setDialog("delete")}>Delete<//>`;
  return html`<${Page} title=${name} heading=${html`<${Hostile} text=${name} />`} crumbs=${crumbs} actions=${actions}><${Loaded} resource=${resource} what="The schema">${(schema) => html`<div class="row wrap">${schema.origin === "file" ? html`<${FileBadge} schema=${schema} />` : html`<${Badge}>immutable<//>`}<span class="soft"><${Text} text=${schema.description || "No description"} /></span></div>
      <div class="grid"><${Card} title="Schema" actions=${html`<span class="faint">created <${Time} at=${schema.created_at} /></span>`}><div class="stack"><${JsonView} value=${schema.schema.pretty()} label="Schema" />
        ${users.map((u) => html`<p class="row wrap"><span class="faint">${u.label}</span> <${Users} names=${schema[u.member]} of=${u} /></p>`)}</div><//>
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
