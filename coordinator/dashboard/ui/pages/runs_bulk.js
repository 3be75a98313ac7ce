// Actions on many runs: those that are picked, or all that match the filters. The count is named and confirmed.
import { html, useState } from "../base.js";
import { newKey, send } from "../lib/api.js";
import { object, quote } from "../lib/json.js";
import { plural } from "../lib/format.js";
import { Button, Confirm, toast } from "../lib/components.js";
import { each, ended, redeliver, retryRun, stopRun } from "../lib/runs.js";

const mostAtOnce = 1000;

const actions = {
  stop: {
    verb: "Stop", icon: "stop", kind: "danger", one: "POST /runs/:id/stop", many: "POST /runs/stop", path: "/runs/stop", can: (r) => !ended(r), none: "None of them is waiting or running",
    say: "Programs that run are ended; what waits is not begun. A run that has ended stays as it is.", act: (id) => stopRun(id), done: "stopped",
  },
  retry: {
    verb: "Run again", icon: "retry", kind: "primary", one: "POST /runs/:id/retry", many: "POST /runs/retry", path: "/runs/retry", can: ended, none: "None of them has ended",
    say: "Each becomes a new run with the same input. It costs again, and what an agent does to the outside may happen twice.", act: (id, key) => retryRun(id, `${key}-${id}`), done: "started again",
  },
  redeliver: {
    verb: "Redeliver", icon: "callbacks", kind: "primary", one: "POST /callbacks/:id/redeliver", many: "POST /callbacks/redeliver", path: "/callbacks/redeliver",
    can: (r) => ["owed", "dead"].includes(r.http_callback?.status), none: "None of them owes an HTTP callback", say: "Their receivers are told of the end once more, now.", act: (id) => redeliver(id), done: "tried again",
  },
};

/** BulkBar is shown while runs are picked. */
export function BulkBar({ picked, clear, filters, total, shown }) {
  const [asking, setAsking] = useState(null);
  const [all, setAll] = useState(false);
  if (picked.size === 0) return null;
  const rows = [...picked.values()];
  const narrowed = Object.keys(filters).length > 0;
  const whole = all && narrowed;
  return html`<div class="bulk" role="region" aria-label="Actions on the picked runs">
    <span><b>${whole ? `All ${plural(total, "run")} that match` : plural(picked.size, "run")}</b> picked</span>
    ${narrowed && total > shown && html`<${Button} small=${true} kind="plain" onClick=${() => setAll(!all)}>${whole ? "Only those that are picked" : `Take all ${plural(total, "run")} that match`}<//>`}
    <span class="grow"></span>
    ${Object.entries(actions).map(([name, a]) => {
      const fit = rows.filter(a.can);
      return html`<${Button} icon=${a.icon} kind=${a.kind === "danger" ? "danger" : ""} needs=${whole ? a.many : a.one} why=${!whole && fit.length === 0 ? a.none : undefined} onClick=${() => setAsking({ ...a, fit, whole, key: newKey() })}>${a.verb}${!whole && fit.length > 0 && fit.length < rows.length ? ` ${fit.length}` : ""}<//>`;
    })}
    <${Button} kind="plain" icon="cross" label="Pick none" onClick=${clear} />
    ${asking && html`<${Ask} action=${asking} filters=${filters} total=${total} onClose=${() => setAsking(null)} done=${clear} />`}
  </div>`;
}

function Ask({ action, filters, total, onClose, done }) {
  const [progress, setProgress] = useState(0);
  const n = action.whole ? Math.min(total, mostAtOnce) : action.fit.length;
  const run = async () => {
    if (action.whole) {
      const body = object([...Object.entries(filters).map(([k, v]) => [k, quote(v)]), ["expect", String(total)], ...(action.path === "/runs/retry" ? [["limit", String(mostAtOnce)]] : [])]);
      const { count } = await send("POST", action.path, body, { headers: { "Idempotency-Key": action.key } });
      toast(`${plural(count, "run")} ${action.done}`, { kind: "good" });
      return done();
    }
    const { done: went, errors } = await each(action.fit.map((r) => r.run_id), (id) => action.act(id, action.key), setProgress);
    if (errors.size > 0) throw new Error(`${plural(went, "run")} ${action.done}; ${plural(errors.size, "was", "were")} refused: ${[...errors.values()][0].message}`);
    toast(`${plural(went, "run")} ${action.done}`, { kind: "good" });
    done();
  };
  return html`<${Confirm} title=${`${action.verb}: ${plural(n, "run")}`} verb=${`${action.verb} ${plural(n, "run")}`} kind=${action.kind} run=${run} onClose=${onClose}>
    <p>${action.say}</p>
    ${action.whole && total > mostAtOnce && html`<p class="warn">${plural(mostAtOnce, "run")} are done at a time. Repeat it for the rest.</p>`}
    ${progress > 0 && html`<progress max=${n} value=${progress} aria-label="Done"></progress>`}
  <//>`;
}
