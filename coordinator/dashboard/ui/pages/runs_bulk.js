// Actions on many runs: those that are picked, or all that match the filters. The count is named and confirmed.
import { html, useState } from "../base.js";
import { get, newKey } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { Button, Confirm, toast } from "../lib/components.js";
import { countCallbacks, doMany, each, ended, redeliver, redeliverable, retryRun, stopRun } from "../lib/runs.js";

const actions = {
  stop: {
    narrow: (filters) => narrow(filters, ["pending", "claimed", "running"]), count: countRuns,
    verb: "Stop", icon: "stop", kind: "danger", one: "POST /runs/:id/stop", many: "POST /runs/stop", path: "/runs/stop", can: (r) => !ended(r), none: "None of the selected runs is waiting or running",
    say: "Running programs are stopped, and waiting runs will not start. Runs that have ended do not change.", act: (id) => stopRun(id), done: "stopped",
  },
  retry: {
    narrow: (filters) => narrow(filters, ["completed", "failed", "stopped"]), count: countRuns,
    verb: "Run again", icon: "retry", kind: "primary", one: "POST /runs/:id/retry", many: "POST /runs/retry", path: "/runs/retry", can: ended, none: "None of the selected runs has ended",
    say: "Each starts a new run with the same input. It costs again, and side effects may happen twice.", act: (id, key) => retryRun(id, `${key}-${id}`), done: "started again",
  },
  redeliver: {
    narrow: (filters) => redeliverable({ ...filters, status: "" }), count: countCallbacks,
    verb: "Redeliver", icon: "callbacks", kind: "primary", one: "POST /callbacks/:id/redeliver", many: "POST /callbacks/redeliver", path: "/callbacks/redeliver",
    can: (r) => ["owed", "dead"].includes(r.http_callback?.status), none: "None of the selected runs has an owed or dead webhook", cannot: "Callbacks cannot be filtered like this: select runs, or filter by agent", say: "Their webhooks are sent again now.", act: (id) => redeliver(id), done: "redelivered",
  },
};

// narrow is the filter of the runs that match and have one of the statuses; undefined where none has.
function narrow({ status, ...rest }, statuses) {
  const chosen = statuses.filter((s) => !status || status.split(",").includes(s));
  return chosen.length > 0 ? { ...rest, status: chosen.join(",") } : undefined;
}

async function countRuns(filter) {
  return (await get("/runs/count", filter)).count;
}

/** BulkBar is shown while runs are picked. */
export function BulkBar({ picked, clear, filters, total, shown }) {
  const [asking, setAsking] = useState(null);
  const [all, setAll] = useState(false);
  if (picked.size === 0) return null;
  const rows = [...picked.values()];
  const narrowed = Object.keys(filters).length > 0;
  const whole = all && narrowed;
  const ask = async (a, fit) => {
    try {
      setAsking({ ...a, fit, key: newKey(), whole: whole ? await matching(a.narrow(filters), a.count) : undefined });
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
  };
  return html`<div class="bulk" role="region" aria-label="Actions on the selected runs">
    <span><b>${whole ? `All ${plural(total, "matching run")}` : plural(picked.size, "run")}</b> selected</span>
    ${narrowed && total > shown && html`<${Button} small=${true} kind="plain" onClick=${() => setAll(!all)}>${whole ? "Only the selected runs" : `Select all ${plural(total, "matching run")}`}<//>`}
    <span class="grow"></span>
    ${Object.entries(actions).map(([name, a]) => {
      const fit = rows.filter(a.can);
      return html`<${Button} key=${name} icon=${a.icon} kind=${a.kind === "danger" ? "danger" : ""} needs=${whole ? a.many : a.one} why=${whole ? a.narrow(filters) === undefined && (a.cannot ?? a.none) : fit.length === 0 && a.none} onClick=${() => ask(a, fit)}>${a.verb}${!whole && fit.length > 0 && fit.length < rows.length ? ` ${fit.length}` : ""}<//>`;
    })}
    <${Button} kind="plain" icon="cross" label="Clear the selection" onClick=${clear} />
    ${asking && html`<${Ask} action=${asking} onClose=${() => setAsking(null)} done=${clear} />`}
  </div>`;
}

// matching is the filter of what an action is about, and how many that are now.
const matching = async (filter, count) => ({ filter, count: await count(filter) });

function Ask({ action, onClose, done }) {
  const [progress, setProgress] = useState(0);
  const n = action.whole ? action.whole.count : action.fit.length;
  const run = async () => {
    const { went, refused } = await (action.whole ? doMany(action.path, action.whole.filter, action.whole.count, action.key, setProgress) : byOne(action, setProgress));
    if (refused.length > 0) throw new Error(`${plural(went, "run")} ${action.done}; ${plural(refused.length, "was", "were")} refused: ${refused[0].message}`);
    toast(`${plural(went, "run")} ${action.done}`, { kind: "good" });
    done();
  };
  return html`<${Confirm} title=${`${action.verb}: ${plural(n, "run")}`} verb=${`${action.verb} ${plural(n, "run")}`} kind=${action.kind} why=${n === 0 ? action.none : undefined} run=${run} onClose=${onClose}>
    <p>${action.say}</p>
    ${progress > 0 && html`<progress max=${n} value=${progress} aria-label="Done"></progress>`}
  <//>`;
}

async function byOne(action, onProgress) {
  const { done, errors } = await each(action.fit.map((r) => r.run_id), (id) => action.act(id, action.key), onProgress);
  return { went: done, refused: [...errors.values()] };
}
