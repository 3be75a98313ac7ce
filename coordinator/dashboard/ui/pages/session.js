// Session: the conversation first; what waits, a box to go on, what is below and above.
import { html, useEffect, useMemo, useRef, useState } from "../base.js";
import { get, newKey, seg, send } from "../lib/api.js";
import { object, quote } from "../lib/json.js";
import { address, navigate } from "../lib/router.js";
import { count, plural } from "../lib/format.js";
import { Button, Card, Confirm, Details, Facts, Hostile, Icon, Id, JsonView, Loaded, Menu, Page, Problem, Status, Text, Time, Took, toast, useResource } from "../lib/components.js";
import { ended, onlyPrompt, promptOf } from "../lib/runs.js";
import { steps, textOf, useEvents, usageOf } from "../lib/events.js";
import { Step, Usage } from "../lib/conversation.js";

const window0 = 120; // steps that are shown at first
const mostRuns = 500; // of a session, that are loaded

async function load(id, signal) {
  const [session, own, below] = await Promise.all([
    get(`/sessions/${seg(id)}`, {}, { signal }), get("/runs", { session_id: id, limit: mostRuns }, { signal }), get("/runs", { parent_session_id: id, limit: 500 }, { signal }),
  ]);
  return { session, runs: own.runs.reverse(), more: Boolean(own.next_cursor), children: below.runs.filter((r) => r.session_id !== id) };
}

/** Session is one conversation. */
export default function Session({ id }) {
  const page = useResource((signal) => load(id, signal), [id]);
  const events = useEvents(id, page.reload, () => page.data?.runs.every(ended) || page.reload());
  const s = page.data?.session;
  return html`<${Page} title=${s ? `${s.agent_name}: session` : "Session"} crumbs=${[{ label: "Sessions", href: "/ui/sessions" }]}
    heading=${s ? html`<${Text} text=${s.agent_name} /><${Status} status=${s.status} />` : "Session"} actions=${s && html`<${Actions} session=${s} own=${page.data.runs.filter((r) => !ended(r)).length} reload=${page.reload} />`}>
    <${Loaded} resource=${page} what="The session">${(data) => html`<div class="split talk"><${Conversation} data=${data} events=${events} reload=${page.reload} /><${Side} data=${data} events=${events} /></div>`}<//>
  <//>`;
}

function Actions({ session, own, reload }) {
  const [asking, setAsking] = useState(null);
  const id = session.session_id;
  const live = ["pending", "running", "stopping", "idle"].includes(session.status);
  const open = session.open_below?.count ?? 0; // at any depth
  const all = own + open;
  const stop = async (tree) => {
    try {
      await send("POST", `/sessions/${seg(id)}/stop`, tree ? `{"tree":true${own < mostRuns ? `,"expect":${all}` : ""}}` : undefined);
      toast("The session is being stopped");
    } finally {
      reload(); // what is open now, where that are others
    }
  };
  const remove = async () => {
    await send("DELETE", `/sessions/${seg(id)}`);
    toast("The session is deleted", { kind: "good" });
    navigate("/ui/sessions");
  };
  return html`<${Button} icon="tree" href=${`/ui/sessions/${seg(id)}/tree`}>Tree<//>
    <${Button} icon="stop" kind="danger" needs="POST /sessions/:id/stop" why=${live || open > 0 ? undefined : "Nothing in it or below it is running or waiting"} onClick=${() => setAsking(live ? "stop" : "tree")}>${live || open === 0 ? "Stop" : "Stop all below"}<//>
    <${Menu} label="More" items=${[
      { label: "Stop with all below", icon: "stop", needs: "POST /sessions/:id/stop", run: () => setAsking("tree") },
      { label: "Runs of this session", icon: "runs", href: "/ui/runs?session_id=" + seg(id) },
      { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /sessions/:id", why: live ? "Something in it is running or waiting" : undefined, run: () => setAsking("delete") }]} />
    ${asking === "stop" && html`<${Confirm} title="Stop the session" verb="Stop it" kind="danger" run=${() => stop(false)} onClose=${() => setAsking(null)}><p>The running turn of <b><${Text} text=${session.agent_name} /></b> is stopped, and waiting turns will not start.${open > 0 && ` ${plural(open, "run")} below it continue.`} The session can be resumed later.</p><//>`}
    ${asking === "tree" && html`<${Confirm} title="Stop the session and all below" verb="Stop the tree" kind="danger" run=${() => stop(true)} onClose=${() => setAsking(null)}><p>Everything that is running or waiting in the session and below it is stopped: ${plural(all, "run")}${own > 0 && open > 0 ? `, ${open} of them below it` : ""}. No callbacks are delivered below it.</p><//>`}
    ${asking === "delete" && html`<${Confirm} title="Delete the session" verb="Delete it" kind="danger" run=${remove} onClose=${() => setAsking(null)}><p>The session <${Id} id=${id} copy=${false} /> with its ${plural(session.runs, "run")}, events and results is deleted permanently.</p><//>`}`;
}

function Conversation({ data, events, reload }) {
  const [shown, setShown] = useState(window0);
  const end = useRef(), box = useRef();
  const byRun = useMemo(() => Map.groupBy(events.events, (e) => e.run_id), [events.events]);
  const target = address.value.hash.slice(1);
  const turns = useMemo(() => data.runs.map((run) => ({ run, steps: steps(byRun.get(run.run_id) ?? []) })), [data.runs, byRun]);
  let room = shown;
  const visible = [];
  for (const t of turns.toReversed()) {
    if (room <= 0 && !target) break;
    visible.unshift({ ...t, cut: target ? 0 : Math.max(0, t.steps.length - room), steps: target ? t.steps : t.steps.slice(-room) });
    room -= t.steps.length + 1;
  }
  const hidden = turns.reduce((n, t) => n + t.steps.length, 0) - visible.reduce((n, t) => n + t.steps.length, 0);
  const follow = useFollow(box, events.events.length + data.runs.length, events.ready && data.runs.some((r) => !ended(r)));
  useEffect(() => {
    if (target && events.ready) document.getElementById(target)?.scrollIntoView({ block: "center" });
  }, [target, events.ready]);
  return html`<div class="conversation" ref=${box}>
    ${hidden === 0 && events.left > 0 && html`<p class="faint">This page keeps the newest events and leaves out ${count(events.left)} older ones. <code>ao events ${data.session.session_id}</code> prints all.</p>`}
    ${(hidden > 0 || turns.length > visible.length) && html`<${Button} kind="plain" icon="up" onClick=${() => setShown(shown + 400)}>Show earlier: ${plural(hidden, "step")}<//>`}
    ${visible.map((t) => html`<${Turn} key=${t.run.run_id} turn=${t} children=${data.children} target=${target} />`)}
    ${events.error && html`<${Problem} error=${events.error} />`}
    <div ref=${end}></div>
    ${follow.away && html`<button type="button" class="button newest" onClick=${follow.go}><${Icon} name="down" />Jump to the newest</button>`}
    <${Resume} session=${data.session} runs=${data.runs} reload=${reload} />
  </div>`;
}

// useFollow keeps the end in sight while the reader is at the end, and tells when they are not.
function useFollow(box, size, live) {
  const [away, setAway] = useState(false);
  const at = useRef(true), began = useRef(false);
  const scroller = () => box.current?.closest("[data-scroller]");
  const go = () => scroller()?.scrollTo({ top: scroller().scrollHeight });
  useEffect(() => {
    const s = scroller();
    const watch = () => {
      at.current = s.scrollHeight - s.scrollTop - s.clientHeight < 80;
      setAway(!at.current && live);
    };
    s.addEventListener("scroll", watch, { passive: true });
    return () => s.removeEventListener("scroll", watch);
  }, [live]);
  useEffect(() => {
    if (!live || location.hash) return;
    if (at.current || !began.current) requestAnimationFrame(go);
    began.current = true;
  }, [size, live]);
  return { away, go };
}

const link = (e) => `#${e.run_id}-${e.n}`;

function Turn({ turn, children, target }) {
  const { run } = turn;
  const prompt = run.parameters && onlyPrompt(run.parameters);
  const told = children.filter((c) => c.callback?.callback_run_id === run.run_id);
  const list = turn.steps.filter((s, i) => !(s.kind === "user" && s.text === prompt && i < 3) && !(s.kind === "result" && sameAnswer(turn.steps, i)) && s.kind !== "run_start" | (s.kind === "run_start" && s.event.attempt > 1));
  return html`<section class="turn" aria-label=${"Turn " + run.run_id}>
    <h2 class="offscreen">Turn, ${run.status}</h2><header class="turnhead"><a href=${"/ui/runs/" + seg(run.run_id)}><${Status} status=${run.status} /></a><${Id} id=${run.run_id} href=${"/ui/runs/" + seg(run.run_id)} /><span class="grow"></span>
      <span class="faint"><${Time} at=${run.created_at} /></span>${run.started_at && html`<span class="faint"><${Took} from=${run.started_at} to=${run.completed_at} running=${!ended(run)} /></span>`}</header>
    ${told.length > 0 ? html`<${Callbacks} told=${told} prompt=${prompt} />` : html`<${Input} run=${run} prompt=${prompt} />`}
    ${turn.cut > 0 && html`<p class="faint">${plural(turn.cut, "earlier step")} of this turn are not shown</p>`}
    ${list.map((s) => html`<${Step} key=${s.event.n} step=${s} href=${link} target=${target} />`)}
    ${!ended(run) && html`<p class="moment soft"><${Status} status=${run.status} label=${run.status === "pending" ? "waiting" : run.status} />${run.waiting_for && html` <${Text} text=${run.waiting_for} />`} <a href=${"/ui/runs/" + seg(run.run_id)}>Why?</a></p>`}
  </section>`;
}

// sameAnswer tells whether a result says again what the last message said.
function sameAnswer(list, i) {
  const e = list[i].event;
  if (e.result_data || e.schema_validation) return false;
  const before = list.slice(0, i).findLast((s) => s.kind === "assistant");
  return before && textOf(before.event).trim() === (e.result_text ?? "").trim();
}

// Input is what a turn was given: its prompt as text, and all of the parameters where there are others.
function Input({ run, prompt }) {
  if (run.parameters_omitted) return html`<article class="step user"><a href=${"/ui/runs/" + seg(run.run_id)}>Large parameters: open the run</a></article>`;
  const text = prompt ?? promptOf(run.parameters);
  if (text === undefined) return html`<article class="step user"><${JsonView} value=${run.parameters ?? "null"} label="parameters" bare=${true} /></article>`;
  return html`<article class="step user"><div class="said"><${Hostile} text=${text} lines=${true} /></div>
    ${prompt === undefined && html`<${Details} summary=${html`<span class="soft">All parameters</span>`}><${JsonView} value=${run.parameters} label="parameters" bare=${true} /><//>`}</article>`;
}

// Callbacks are the children whose ends this turn was told. Which these are the coordinator says, not the text.
function Callbacks({ told, prompt }) {
  return html`<div class="callbacks">${told.map((c) => html`<a class="callback" key=${c.run_id} href=${"/ui/sessions/" + seg(c.session_id)}><${Icon} name="callbacks" /><span class="grow"><b><${Text} text=${c.agent_name} /></b> called back${c.error && html`: <span class="bad"><${Text} text=${c.error.message} /></span>`}</span><${Status} status=${c.status} /></a>`)}
    ${prompt && html`<${Details} summary=${html`<span class="faint">Message to the agent</span>`}><div class="said"><${Hostile} text=${prompt} lines=${true} /></div><//>`}</div>`;
}

function Resume({ session, runs, reload }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const key = useRef(newKey());
  const why = session.agent_type === "procedural" ? "A procedural agent is stateless: start a new run instead" : undefined;
  const waits = runs.filter((r) => !ended(r)).length;
  const go = async () => {
    if (!text.trim() || busy) return;
    setBusy(true);
    setError(null);
    try {
      const body = object([["type", quote("resume_session")], ["session_id", quote(session.session_id)], ["parameters", object([["prompt", quote(text)]])]]);
      await send("POST", "/runs", body, { headers: { "Idempotency-Key": key.current } });
      setText("");
      key.current = newKey();
      reload();
    } catch (err) {
      setError(err);
    }
    setBusy(false);
  };
  return html`<form class="resume" onSubmit=${(e) => (e.preventDefault(), go())}>
    <label class="offscreen" for="resume">Continue this session</label>
    <textarea id="resume" rows="3" placeholder=${why ?? "Continue this session: what should the agent do next?"} value=${text} disabled=${Boolean(why)}
      onInput=${(e) => (setText(e.currentTarget.value), setError(null))} onKeyDown=${(e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && go()}></textarea>
    <div class="row"><span class="faint grow">${waits > 0 ? `${plural(waits, "turn")} ${waits === 1 ? "is" : "are"} in progress; yours comes next` : "Ctrl + Enter to send"}</span><${Button} type="submit" kind="primary" needs="POST /runs" why=${why} busy=${busy} disabled=${!text.trim()}>Send<//></div>
    ${error && html`<${Problem} error=${error} />`}</form>`;
}

function Side({ data, events }) {
  const { session: s, children, runs } = data;
  const usage = useMemo(() => usageOf(events.events), [events.events]);
  return html`<aside class="stack aside" aria-label="About the session">
    <${Card} title="Session"><${Facts} of=${[
      ["Id", html`<${Id} id=${s.session_id} />`], ["Agent", html`<a href=${"/ui/agents/" + seg(s.agent_name)}><${Text} text=${s.agent_name} /></a>`],
      ["Runs", html`<a href=${"/ui/runs?session_id=" + seg(s.session_id)}>${plural(s.runs, "run")}</a>`], ["Usage", html`<${Usage} usage=${usage} />`],
      ["Parent", s.parent_session_id ? html`<${Id} id=${s.parent_session_id} href=${"/ui/sessions/" + seg(s.parent_session_id)} />${s.parent_gone && html` <span class="badge warn">deleted</span>`}` : null],
      ["Project folder", s.project_dir ? html`<code><${Hostile} text=${s.project_dir} /></code>` : null],
      ["Created", html`<${Time} at=${s.created_at} focus=${true} />`], ["Updated", html`<${Time} at=${s.modified_at} as="ago" focus=${true} />`]]} /><//>
    <${Card} title=${plural(new Set(children.map((c) => c.session_id)).size, "child session")} actions=${children.length > 0 && html`<a href=${`/ui/sessions/${seg(s.session_id)}/tree`}>Tree</a>`}>
      ${children.length === 0 ? html`<p class="faint">It has started no other agents.</p>` : html`<ul class="links">${children.slice(0, 50).map((c) => html`<li key=${c.run_id}><a href=${"/ui/sessions/" + seg(c.session_id)}><${Status} status=${c.status} label=${html`<${Text} text=${c.agent_name} />`} /></a>${c.callback && html`<span class="faint">callback ${c.callback.status}</span>`}</li>`)}</ul>`}<//>
    <${Card} title="Turns"><ul class="links">${runs.slice(-50).map((r) => html`<li key=${r.run_id}><a href=${"/ui/runs/" + seg(r.run_id)}><${Status} status=${r.status} label=${r.run_id.slice(-8)} /></a><span class="faint"><${Time} at=${r.created_at} as="ago" /></span></li>`)}</ul><//>
  </aside>`;
}
