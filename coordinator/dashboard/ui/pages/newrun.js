// Start a run: a form made of the agent's schema or JSON, what the answer must match, where it goes; and the lines of ao
// and curl that do the same. With ?retry=run_… it does a run again, with changes.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../base.js";
import { get, newKey, seg, send } from "../lib/api.js";
import { me, refusal } from "../lib/rights.js";
import { navigate, path, query } from "../lib/router.js";
import { Button, Card, CodeLine, Hostile, Icon, Id, Loaded, Page, Problem, Tabs, useResource } from "../lib/components.js";
import { formValue, canForm, focusError } from "../lib/form.js";
import { member, read, stringOf } from "../lib/form/value.js";
import { aoLine, bodyText, changesOf, curlLine, fresh, pairs, problems } from "./newrun/order.js";
import { AgentCard, OutputCard, Parameters, Placement, SessionCard } from "./newrun/parts.js";
import { useVerdict } from "./newrun/verdict.js";

async function load(retry, signal) {
  const [agents, run] = await Promise.all([get("/agents", {}, { signal }), retry ? get("/runs/" + seg(retry), {}, { signal }) : null]);
  return { agents: agents.agents.filter((a) => a.status !== "broken"), run };
}

export default function NewRun() {
  const q = query.value;
  const retry = q.get("retry");
  const resource = useResource((signal) => load(retry, signal), [retry]);
  const title = retry ? "Run again" : "New run";
  const crumbs = retry ? [{ label: "Runs", href: path(["runs"]) }, { label: "Run", href: path(["runs", retry]) }] : [];
  if (resource.data === undefined) return html`<${Page} title=${title} crumbs=${crumbs}><${Loaded} resource=${resource} what="The page" /><//>`;
  return html`<${Page} title=${title} crumbs=${crumbs}><${Order} key=${retry} ...${resource.data} first=${q} /><//>`;
}

function begin(run, first) {
  const order = fresh(run?.agent_name ?? first.get("agent") ?? "");
  if (run?.parameters) order.parameters = read(run.parameters.text.trim());
  if (run?.type === "resume_session") Object.assign(order, into("same_session", order, run));
  if (first.get("session")) Object.assign(order, { session: "resume", resume: first.get("session") });
  if (first.get("parent")) order.parent = first.get("parent");
  return order;
}

// into is where a run that is done again goes: a further turn of its session is a prompt and nothing else.
const into = (where, order, run) => (where === "same_session"
  ? { in: where, session: "resume", resume: run.session_id, prompt: order.prompt || (stringOf(member(order.parameters, "prompt")) ?? "") } : { in: where, session: "new" });

function Order({ agents, run, first }) {
  const [order, setOrder] = useState(() => begin(run, first));
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [tried, setTried] = useState(false);
  const box = useRef();
  const set = (change) => (setError(null), setOrder((o) => ({ ...o, ...change })));
  const known = agents.find((a) => a.name === order.agent);
  const list = run ? changesOf(order, run) : pairs(order);
  const body = bodyText(list);
  const key = useMemo(newKey, [body]); // a double click is one run; another body is another
  const wrong = problems(order);
  const verdict = useVerdict(run ? bodyText(pairs(order)) : body, wrong.length === 0, order);
  const schema = order.session === "new" && order.agent ? verdict.schema : null;
  const ready = useRef(false); // the cards below the parameters wait for the first schema: they would move
  ready.current ||= schema !== undefined;
  usePrefill(order, set, schema, known, Boolean(run));
  const start = async () => {
    setTried(true);
    if (busy || wrong.length) return void focusError(box.current);
    setBusy(true);
    try {
      const to = run ? `/runs/${seg(run.run_id)}/retry` : "/runs";
      const answer = await send("POST", to, body, { headers: { "Idempotency-Key": key } });
      navigate(path(["runs", answer.run_id]));
    } catch (err) {
      setError(err);
      setBusy(false);
      requestAnimationFrame(() => focusError(box.current));
    }
  };
  const errors = errorsOf(error, verdict, tried);
  const keys = (e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.defaultPrevented && (e.preventDefault(), start());
  return html`<div class="editing neworder" ref=${box} onKeyDown=${keys}><div class="stack">
      ${run ? html`<${Again} run=${run} known=${known} order=${order} set=${set} />` : html`<${SessionCard} order=${order} set=${set} />`}
      ${order.session === "new" && !run && html`<${AgentCard} agents=${agents} known=${known} order=${order} set=${set} />`}
      <${Parameters} order=${order} set=${set} schema=${schema} errors=${errors} run=${run} />
      ${ready.current && html`<${OutputCard} order=${order} set=${set} known=${known} run=${run} />
        <${Placement} order=${order} set=${set} run=${run} />`}</div>
    <div class="aside"><${Start} run=${run} busy=${busy} start=${start} wrong=${wrong} verdict=${verdict} error=${error} tried=${tried} order=${order} />
      <${Lines} list=${list} run=${run} /></div></div>`;
}

// usePrefill lays out the objects that the schema requires, once for each agent, where nobody has typed anything.
function usePrefill(order, set, schema, known, retry) {
  const done = useRef("");
  useLayoutEffect(() => {
    if (retry || !schema || done.current === order.agent) return;
    done.current = order.agent;
    if (order.parameters.items?.length === 0 && canForm(schema)) set({ parameters: formValue(schema) });
  }, [schema, order.agent]);
}

// errorsOf are the coordinator's errors of the parameters. What is missing is told once a start was tried.
function errorsOf(error, verdict, tried) {
  const found = error?.body?.validation_errors ?? verdict.error?.body?.validation_errors ?? [];
  return tried ? found : found.filter((e) => !/(^|\.)required$/.test(e.schema_path ?? "") && !/minLength$/.test(e.schema_path ?? ""));
}

const Again = ({ run, known, order, set }) => html`<${Card} title="Run again"><div class="stack">
  <p>A new run like <${Id} id=${run.run_id} href=${path(["runs", run.run_id])} /> of <strong><${Hostile} text=${run.agent_name} /></strong>, with your changes. Everything else stays as it was.</p>
  <div class="banner warn"><${Icon} name="warn" /><span>It is a separate run: it costs again, and side effects may happen twice.</span></div>
  ${known?.type !== "procedural" && html`<fieldset class="modes"><legend class="offscreen">Where it goes</legend>${[["new_session", "A new session", "It knows nothing of the first run."], ["same_session", "Another turn of the same session", "Only a prompt: the session remembers the rest."]].map(([id, label, hint]) => html`<label class="choice"><input type="radio" name="in" value=${id} checked=${order.in === id} onChange=${() => set(into(id, order, run))} /><span><strong>${label}</strong> <span class="faint">${hint}</span></span></label>`)}</fieldset>`}</div><//>`;

function Start({ run, busy, start, wrong, verdict, error, tried, order }) {
  const route = run ? "POST /runs/:id/retry" : "POST /runs";
  return html`<${Card} title=${run ? "Run again" : "Start"}><div class="stack">
    <${Button} kind="primary" icon=${run ? "retry" : "play"} needs=${route} busy=${busy} onClick=${start}>${run ? "Run again" : order.session === "resume" ? "Send" : "Start run"}<//>
    ${wrong.length > 0 ? html`<ul class=${tried ? "bad" : "faint"}>${wrong.map((w) => html`<li>${w}</li>`)}</ul>` : html`<${Verdict} verdict=${verdict} tried=${tried} why=${refusal(route)} />`}
    <p class="faint bykey">Ctrl + Enter starts it too.</p>
    ${error && html`<${Problem} error=${error} />`}</div><//>`;
}

// Verdict is what would come of a start: why is why the caller may not start anything.
function Verdict({ verdict, tried, why }) {
  if (verdict.ok && why) return html`<p class="row warn"><${Icon} name="warn" /><span>You cannot start it. ${why}</span></p>`;
  if (verdict.ok) {
    const d = verdict.ok;
    return html`<p class="row good"><${Icon} name="check" /> It would be accepted</p>
      ${d.runner_available === false && html`<p class="row warn"><${Icon} name="warn" /> No online runner matches now: the run would wait${d.demands.executor_profile && html` for one with the profile <${Hostile} text=${d.demands.executor_profile} />`}.</p>`}
      ${d.output && html`<p class="faint">The answer must match ${d.output.schema_name ? html`schema <strong><${Hostile} text=${d.output.schema_name} /></strong>` : `the ${{ request: "schema given here", blueprint: "agent's schema", registry: "named schema" }[d.output.schema_source] ?? "schema"}`}.</p>`}`;
  }
  if (!verdict.error) return html`<p class="faint">Checking…</p>`;
  const list = verdict.error.body?.validation_errors;
  const missing = list?.filter((e) => e.schema_path?.endsWith("required"));
  if (!tried && missing?.length && missing.length === list.length) return html`<p class="faint">Missing: ${missing.map((e, i) => html`${i > 0 && ", "}<code><${Hostile} text=${e.path.replace(/^\$\.?/, "")} /></code>`)}</p>`;
  return html`<div class="bad"><p class="row"><${Icon} name="warn" /> It would be refused</p>${list ? html`<ul>${list.slice(0, 8).map((e) => html`<li><code><${Hostile} text=${e.path} /></code> <${Hostile} text=${e.message} /></li>`)}</ul>` : html`<p><${Hostile} text=${verdict.error.message} lines=${true} /></p>`}</div>`;
}

const Shown = ({ text }) => (text === null ? html`<p class="faint">ao has no flags for some of this: use curl.</p>` : html`<${CodeLine} text=${text} />`);

function Lines({ list, run }) {
  const [which, setWhich] = useState("ao");
  const body = bodyText(list);
  const url = location.origin + (run ? `/runs/${encodeURIComponent(run.run_id)}/retry` : "/runs");
  const curl = curlLine(url, body, me.value?.login);
  const tabs = run ? [{ id: "curl", label: "curl" }, { id: "json", label: "JSON" }] : [{ id: "ao", label: "ao" }, { id: "curl", label: "curl" }, { id: "json", label: "JSON" }];
  const shown = tabs.some((t) => t.id === which) ? which : tabs[0].id;
  return html`<${Card} title="From the command line"><${Tabs} label="From the command line" tabs=${tabs} selected=${shown} onSelect=${setWhich}>
    <${Shown} text=${{ ao: run ? "" : aoLine(location.origin, list), curl, json: body }[shown]} />
    ${me.value?.login && shown !== "json" && html`<p class="hint faint">The token is read from <code>AO_TOKEN</code>.</p>`}<//><//>`;
}
