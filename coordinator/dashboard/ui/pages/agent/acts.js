// What is done with an agent as a whole: make, copy, activate, deactivate, reset, delete.
import { html, useState } from "../../base.js";
import { request, seg, send } from "../../lib/api.js";
import { object, quote } from "../../lib/json.js";
import { navigate, path } from "../../lib/router.js";
import { Button, Confirm, Dialog, Field, Hostile, Problem, toast } from "../../lib/components.js";
import { copyAgent, loadAgent } from "../../lib/agents.js";

/** Act is the dialog of an action: kind is new, copy, activate, deactivate, reset or delete. changes go into a copy. */
export function Act({ kind, agent, text, changes, onClose, done }) {
  if (kind === "new" || kind === "copy") return html`<${Create} from=${agent} text=${text} changes=${changes} onClose=${onClose} />`;
  const to = "/agents/" + seg(agent.name);
  const finish = (sentence) => (toast(sentence, { kind: "good" }), done(kind));
  if (kind === "delete") {
    const run = async () => (await request("DELETE", to), finish(`${agent.name} is deleted`));
    return html`<${Confirm} title="Delete this agent?" verb=${"Delete " + agent.name} kind="danger" needs="DELETE /agents/:name" run=${run} onClose=${onClose}>
      <p>The definition of <strong><${Hostile} text=${agent.name} /></strong> and its drafts are deleted. Accepted runs keep their copy and continue.</p><//>`;
  }
  if (kind === "reset") {
    const headers = agent.etag ? { "If-Match": agent.etag } : {};
    const run = async () => (await request("POST", to + "/reset", { headers }), finish(`${agent.name} is as in its file`));
    return html`<${Confirm} title="Take the agent's file?" verb=${"Reset " + agent.name} kind="danger" needs="POST /agents/:name/reset" run=${run} onClose=${onClose}>
      <p>What was edited here is replaced by <code><${Hostile} text=${agent.unused_file.path} /></code>. From then on, changes of that file take effect again. Drafts and accepted runs stay as they are.</p><//>`;
  }
  const on = kind === "activate";
  const run = async () => (await send("PATCH", to, object([["status", quote(on ? "active" : "inactive")]])), finish(`${agent.name} is ${on ? "active" : "inactive"}`));
  return html`<${Confirm} title=${on ? "Activate this agent?" : "Deactivate this agent?"} verb=${(on ? "Activate " : "Deactivate ") + agent.name} needs="PATCH /agents/:name" run=${run} onClose=${onClose}>
    <p>${on ? "New runs of it are accepted again." : "New runs of it are refused (409 agent_inactive). Running and waiting runs continue."}</p><//>`;
}

const goodName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$/;

function Create({ from, text, changes, onClose }) {
  const [name, setName] = useState(from ? from.name.slice(0, 55) + "-copy" : "");
  const [about, setAbout] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const bad = name && !goodName.test(name) ? "1 to 60 letters, digits, _ and -, starting with a letter or a digit" : undefined;
  const create = async (e) => {
    e?.preventDefault();
    if (!name || bad || busy) return;
    setBusy(true);
    setError(null);
    try {
      if (from) await copyAgent(text ?? (await loadAgent(from.name)).text, name, changes);
      else await send("POST", "/agents", object([["name", quote(name)], ["description", quote(about)], ["type", quote("autonomous")]]));
      onClose();
      navigate(path(["agents", name]));
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  const footer = html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" needs="POST /agents" busy=${busy} disabled=${!name || Boolean(bad)} onClick=${create}>Create<//>`;
  return html`<${Dialog} title=${from ? `Copy ${from.name}` : "New agent"} onClose=${onClose} footer=${footer}><form class="stack" onSubmit=${create}>
    <${Field} label="Name" error=${bad} hint="Callers use this name. It cannot be changed later.">${(c) => html`<input type="text" autofocus autocomplete="off" spellcheck=${false} value=${name} onInput=${(e) => setName(e.currentTarget.value)} ...${c} />`}<//>
    ${!from && html`<${Field} label="Description" optional=${true} hint="For people, and for agents that choose which agent to ask.">${(c) => html`<input type="text" value=${about} onInput=${(e) => setAbout(e.currentTarget.value)} ...${c} />`}<//>
      <p class="faint">The agent is autonomous: it works through a program such as Claude Code. Procedural agents come from a runner's folder.</p>`}
    ${error && html`<${Problem} error=${error} />`}<input type="submit" hidden /></form><//>`;
}
