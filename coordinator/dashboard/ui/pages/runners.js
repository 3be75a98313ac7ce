// Runners: who takes runs, what runs in each slot, and draining one.
import { html, useState } from "../base.js";
import { get, seg, send } from "../lib/api.js";
import { query, setQuery } from "../lib/router.js";
import { plural } from "../lib/format.js";
import { Button, Card, Choice, Confirm, Empty, Hostile, Id, Loaded, Page, Status, Text, Time, Took, toast, useEvery, useResource } from "../lib/components.js";
import { StartWorker } from "../lib/worker.js";

// The runners, and the runs that they have now.
async function load(signal) {
  const [{ runners }, { runs }] = await Promise.all([
    get("/runners", {}, { signal }), get("/runs", { status: "claimed,running,stopping", limit: 500 }, { signal }),
  ]);
  const by = Map.groupBy(runs, (r) => r.runner_id);
  return runners.map((r) => ({ ...r, here: by.get(r.runner_id) ?? [] }));
}

/** Runners is the list of runners. */
export default function Runners() {
  const runners = useResource(load, []);
  const [drain, setDrain] = useState(null);
  const status = query.value.get("status") ?? "";
  useEvery(3, runners.reload);
  return html`<${Page} title="Runners" actions=${html`<${Choice} label="Status" value=${status} onChange=${(v) => setQuery({ status: v }, { push: true })}
      options=${[{ value: "", label: "Any status" }, "online", "unable", "unresponsive", "draining", "stale"]} />`}>
    <${Loaded} resource=${runners} what="The list of runners" lines=${10}>${(all) => html`<${Shown} all=${all} status=${status} onDrain=${setDrain} />`}<//>
    ${drain && html`<${Drain} runner=${drain} onClose=${() => setDrain(null)} reload=${runners.reload} />`}
  <//>`;
}

function Shown({ all, status, onDrain }) {
  const shown = all.filter((r) => !status || r.status === status);
  if (all.length === 0) {
    return html`<${Empty} icon="runners" title="No runners yet" text="A runner is one executor profile of a worker. Runs wait until one is online.">
      <${StartWorker} /><//>`;
  }
  if (shown.length === 0) return html`<${Empty} icon="filter" title=${`No runner is ${status}`}><${Button} onClick=${() => setQuery({ status: null }, { push: true })}>Show all<//><//>`;
  return html`<div class="grid">${shown.map((r) => html`<${Runner} key=${r.runner_id} runner=${r} onDrain=${() => onDrain(r)} />`)}</div>`;
}

function Runner({ runner: r, onDrain }) {
  const title = html`<span class="row"><${Status} status=${r.status} /> <${Text} text=${r.executor_profile || r.executor_type} /></span>`;
  const why = r.status === "draining" ? "It is already draining" : undefined;
  return html`<${Card} title=${title} id=${r.runner_id} actions=${html`<${Button} small=${true} icon="pause" needs="DELETE /runners/:id" why=${why} onClick=${onDrain}>Drain<//>`}>
    <div class="stack">
      ${r.why && html`<p class="soft">It takes no runs: <${Text} text=${r.why} />${r.unable?.next_look_at && html` It looks again <${Time} at=${r.unable.next_look_at} as="ago" />.`}</p>`}
      <${Slots} runner=${r} />
      <dl class="facts">
        <div><dt>Runner</dt><dd><${Id} id=${r.runner_id} href=${"/ui/runs?runner_id=" + seg(r.runner_id)} /></dd></div>
        <div><dt>Host</dt><dd><${Hostile} text=${r.hostname} /></dd></div>
        <div><dt>Project folder</dt><dd><code><${Hostile} text=${r.project_dir} /></code></dd></div>
        <div><dt>Type</dt><dd><${Hostile} text=${r.executor_type} /></dd></div>
        ${(r.tags?.length > 0 || r.require_matching_tags) && html`<div><dt>Tags</dt><dd>${(r.tags ?? []).map((t) => html`<span class="badge"><${Hostile} text=${t} /></span> `)}${r.require_matching_tags && html`<span class="faint">only runs that ask for one of these</span>`}</dd></div>`}
        ${r.agents?.length > 0 && html`<div><dt>Agents</dt><dd>${r.agents.map((a, i) => html`${i > 0 && ", "}<a href=${"/ui/agents/" + seg(a)}><${Text} text=${a} /></a>`)}</dd></div>`}
        <div><dt>Heartbeat</dt><dd><${Time} at=${r.last_heartbeat} as="ago" focus=${true} /></dd></div>
        <div><dt>Since</dt><dd><${Time} at=${r.registered_at} focus=${true} /></dd></div>
      </dl>
    </div><//>`;
}

function Slots({ runner: r }) {
  const all = r.max_concurrent_runs ?? r.here.length;
  const free = Math.max(0, all - r.here.length);
  return html`<div class="stack"><p class="soft">${r.here.length} of ${plural(all, "slot")} taken</p>
    <div class="slots" aria-hidden="true">${Array.from({ length: Math.min(all, 64) }, (_, i) => html`<span class=${i < r.here.length ? "slot taken" : "slot"}></span>`)}</div>
    ${r.here.length > 0 && html`<ul class="links">${r.here.slice(0, 8).map((x) => html`<li key=${x.run_id}><a class="cut" href=${"/ui/runs/" + seg(x.run_id)}><${Text} text=${x.agent_name} /></a>
      <span class="faint"><${Took} from=${x.started_at ?? x.claimed_at} running=${true} /></span></li>`)}${r.here.length > 8 && html`<li><a href=${"/ui/runs?status=running&runner_id=" + seg(r.runner_id)}>${r.here.length - 8} more</a></li>`}</ul>`}
    ${free === 0 && all > 0 && html`<p class="faint">New runs wait until a slot is free.</p>`}</div>`;
}

function Drain({ runner: r, onClose, reload }) {
  const run = async () => {
    await send("DELETE", "/runners/" + seg(r.runner_id));
    toast("The runner is draining: it takes no more runs and leaves this list", { kind: "good" });
    reload();
  };
  return html`<${Confirm} title="Drain this runner?" verb="Drain" kind="danger" needs="DELETE /runners/:id" run=${run} onClose=${onClose}>
    <p><${Id} id=${r.runner_id} full=${true} /> on <${Hostile} text=${r.hostname} /> takes no more runs${r.here.length > 0 && `, finishes the ${plural(r.here.length, "run")} it has,`} and leaves this list. Start its worker again to bring it back.</p>
    <p class="soft">Runs that only this runner matches wait for another one; their pages say for how long.</p><//>`;
}
