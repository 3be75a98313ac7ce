// The first minute: see a parent with four children work, see proof that nothing was lost, kill a worker.
import { html, useRef, useState } from "../base.js";
import { get, newKey, now, seg, send } from "../lib/api.js";
import { object, quote } from "../lib/json.js";
import { query, setQuery } from "../lib/router.js";
import { plural } from "../lib/format.js";
import { Button, Card, Details, Hostile, Icon, Num, Problem, Status, Text, Took, useEvery, useResource } from "../lib/components.js";
import { WorkerLine } from "../lib/worker.js";
import { Proof } from "./proof.js";

// The agents that play it are shipped for nothing else: what users make of their own agents does not break it.
const [showMe, summary] = ["show-me", "show-me-summary"];

// What the profile test does by itself, without any model: see the directives in worker/testexec.
const child = (agent, prompt) => `@child ${agent} async_callback ${object([["prompt", quote(prompt)]])}`;
const script = [
  "@say I am asking four other agents. I continue when they have answered.",
  child(summary, "@sleep 4s\n@say Reading the document\n@sleep 3s\n@json {\"wrong\":1}"),
  child(showMe, "@sleep 2s\n@say Looking for names\n@sleep 8s"),
  child(showMe, "@sleep 5s\n@fail source_unreachable The source does not answer"),
  child(showMe, "@sleep 12s\n@say Scanning the code"),
].join("\n");

const runBody = (agent, prompt, more = []) => object([["agent_name", quote(agent)], ["prompt", quote(prompt)], ...more]);

/** FirstMinute is what an Overview without runs shows. Its session stands in the address, so that a reload goes on with it. */
export default function FirstMinute() {
  const session = query.value.get("first");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const show = async () => {
    setBusy(true);
    setError(null);
    try {
      const made = await send("POST", "/runs", runBody(showMe, script), { headers: { "Idempotency-Key": key.current } });
      setQuery({ first: made.session_id }, { push: true });
    } catch (err) {
      setError(err);
    }
    setBusy(false);
  };
  const missing = useResource((signal) => (session ? "" : missingOf(signal)), [session]);
  useEvery(2, missing.reload, Boolean(missing.data));
  const why = missing.data || undefined;
  return html`<${Card} title="The first minute" class="firstminute">
    ${!session ? html`<div class="state"><${Icon} name="tree" /><h2>See it work</h2><p>An agent starts four others. One answer is rejected and corrected, one child fails, and the parent gets a callback from each. It takes about 20 seconds and needs no model.</p>
      <div class="actions"><${Button} kind="primary" icon="play" needs="POST /runs" why=${why} busy=${busy} onClick=${show}>Show me<//></div>${error && html`<${Problem} error=${error} />`}</div>`
      : html`<div class="stack"><${Live} session=${session} /><div class="row wrap"><${Proof} kind="primary" /><span class="soft">Reads every record in the log and recounts it, whatever the coordinators remember.</span></div><${Kill} /></div>`}<//>`;
}

// missingOf says what the demonstration lacks.
async function missingOf(signal) {
  const [{ runners }, { agents }] = await Promise.all([get("/runners", {}, { signal }), get("/agents", { status: "active" }, { signal })]);
  if (!runners.some((r) => r.status === "online" && r.executor_profile === "test")) return "No runner with the profile test is online. It needs no model: scripts/up starts one, and compose starts one unless AO_TEST_WORKERS is 0.";
  const away = [showMe, summary].filter((name) => !agents.some((a) => a.name === name));
  return away.length > 0 ? `The agents of the demonstration are not here: ${away.join(", ")}. scripts/up has them.` : "";
}

const over = (sessions) => sessions.length > 4 && sessions.every((s) => s.runs.every((r) => ["completed", "failed", "stopped"].includes(r.status))) && sessions[0].runs.length > 1;

// The tree as it grows.
function Live({ session }) {
  const tree = useResource((signal) => get(`/sessions/${seg(session)}/tree`, { limit: 200 }, { signal }), [session]);
  const sessions = tree.data?.sessions ?? [];
  const done = over(sessions);
  useEvery(0.5, tree.reload, !done);
  const begin = Date.parse(sessions[0]?.created_at ?? "");
  const all = sessions.flatMap((s) => s.runs);
  const end = Math.max(begin + 20000, ...all.map((r) => Date.parse(r.completed_at ?? "") || 0));
  const place = (t) => `${(100 * (Date.parse(t) - begin)) / (end - begin)}%`;
  const width = (r) => `max(4px, ${(100 * ((Date.parse(r.completed_at ?? "") || now()) - Date.parse(r.started_at ?? r.created_at))) / (end - begin)}%)`;
  return html`<div class="stack" aria-live="off"><p class="row"><span class="grow soft">${done ? "Everything has ended. The parent got a callback from each child, the failed one too." : "Working…"}</span><a href=${`/ui/sessions/${seg(session)}/tree`}>Open the tree</a><a href=${`/ui/sessions/${seg(session)}`}>Open the conversation</a></p>
    ${tree.error && html`<${Problem} error=${tree.error} />`}
    <ul class="minitree">${sessions.flatMap((s) => s.runs.map((r, i) => html`<li key=${r.run_id} class=${"level" + Math.min(s.depth, 3)}>
      <a class="cut" href=${"/ui/runs/" + seg(r.run_id)}><${Text} text=${s.agent_name} />${i > 0 && html` <span class="faint">${r.reports?.length ? `callback from ${plural(r.reports.length, "child", "children")}` : "continues"}</span>`}</a>
      <${Status} status=${r.status} /><span class="lane" aria-hidden="true"><span class=${"piece look-" + r.status} style=${{ insetInlineStart: place(r.started_at ?? r.created_at), width: width(r) }}></span></span>
      <span class="faint"><${Took} from=${r.started_at} to=${r.completed_at} running=${Boolean(r.started_at)} /></span>
      ${r.error && html`<span class="bad about"><${Hostile} text=${r.error.message ?? r.error.error} /></span>`}</li>`))}</ul></div>`;
}

const second = {
  flags: " -x test",
  after: " & sleep 12; kill -9 $!",
  does: "starts a second worker and kills it with SIGKILL after 12 seconds. Start the runs meanwhile.",
  otherwise: "Start a second worker with the profile test, and kill it with SIGKILL after 12 seconds. Start the runs meanwhile.",
};

// Sixteen runs that may be attempted again, on two workers, one of which is killed.
function Kill() {
  const [started, setStarted] = useState(null);
  const [error, setError] = useState(null);
  const key = useRef(newKey());
  const start = async () => {
    setError(null);
    try {
      const since = new Date().toISOString();
      const made = await Promise.all(Array.from({ length: 16 }, (_, i) => send("POST", "/runs", runBody(showMe, "@sleep 15s\n@say done", [["max_attempts", "3"]]), { headers: { "Idempotency-Key": `${key.current}-${i}` } })));
      setStarted({ since, ids: new Set(made.map((m) => m.run_id)) });
    } catch (err) {
      setError(err);
    }
  };
  return html`<${Details} class="kill" summary="Kill a worker yourself"><div class="stack"><${WorkerLine} ...${second} />
    <p class="soft">Within one lease (15 s) the other worker takes over the runs of the dead one.</p><div><${Button} icon="play" needs="POST /runs" why=${started ? "They have started" : undefined} onClick=${start}>Start 16 runs<//></div>
    ${error && html`<${Problem} error=${error} />`}${started && html`<${Takeover} ids=${started.ids} />`}</div><//>`;
}

function Takeover({ ids }) {
  const runs = useResource(async (signal) => (await get("/runs", { agent_name: showMe, limit: 200 }, { signal })).runs.filter((r) => ids.has(r.run_id)), []);
  const rows = runs.data ?? [];
  const open = rows.filter((r) => !["completed", "failed", "stopped"].includes(r.status));
  useEvery(1, runs.reload, rows.length === 0 || open.length > 0);
  const by = Map.groupBy(open.filter((r) => r.runner_id), (r) => r.runner_id);
  const again = rows.filter((r) => r.attempt > 1).length;
  return html`<div class="stack"><p><${Num} value=${rows.filter((r) => r.status === "completed").length} /> of 16 completed. ${again > 0 && html`<strong>${plural(again, "run")} taken over from the worker that was killed.</strong>`}</p>
    <ul class="links">${[...by].map(([id, mine]) => html`<li><a href="/ui/runners"><${Hostile} text=${id} /></a><span>${plural(mine.length, "run")}</span></li>`)}<li><span class="soft">waiting</span><span>${open.filter((r) => !r.runner_id).length}</span></li></ul></div>`;
}
