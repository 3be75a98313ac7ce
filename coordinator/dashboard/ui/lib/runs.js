// Runs as pages show them: which state is newer, which filter they match, what they are about in one line.
import { html } from "../base.js";
import { get, request, seg, send, withQuery } from "./api.js";
import { object, quote } from "./json.js";
import { Hostile, Icon, Id, JsonLine, Text } from "./components.js";

export const statuses = ["pending", "claimed", "running", "stopping", "completed", "failed", "stopped"];

const rank = { parked: 0, pending: 0, claimed: 1, running: 2, stopping: 3, completed: 4, failed: 4, stopped: 4 };

export const ended = (run) => rank[run.status] === 4;

// An attempt that failed and is followed by another is over, though its run is pending again.
const step = (run) => (run.next_attempt_at && !ended(run) ? 3.5 : rank[run.status]);

/** newer is the later of two states of one run: a terminal one never changes, attempts only grow. */
export function newer(old, next) {
  if (!old) return next;
  const behind = (ended(old) && !ended(next)) || (next.attempt ?? 0) < (old.attempt ?? 0) || (next.attempt === old.attempt && step(next) < step(old));
  return behind ? old : { ...next, children: next.children ?? old.children };
}

/** selects tells whether a run matches the statuses of a filter; its other filters the server has applied. */
export const selects = (status, run) => !status || status.split(",").includes(run.status);

/** About is what a run is about, on one line: why it failed, why it waits, or what it was given. */
export function About({ run }) {
  if (run.error && run.status !== "completed") return html`<span class=${run.status === "failed" ? "bad" : "soft"}><code><${Hostile} text=${run.error.error} /></code> <${Text} text=${run.error.message} /></span>`;
  if (run.status === "pending" && run.waiting_for) return html`<span class="soft"><${Text} text=${run.waiting_for} /></span>`;
  if (run.parameters === undefined && run.callback) return html`<span class="soft called"><${Icon} name="callbacks" />callback ${run.callback.status}</span>`;
  return html`<${Given} parameters=${run.parameters} omitted=${run.parameters_omitted} />`;
}

/** Given is a run's input on one line: the prompt, or the parameters as they came. */
export function Given({ parameters, omitted, most = 200 }) {
  if (omitted) return html`<span class="faint">large parameters</span>`;
  if (!parameters) return html`<span class="none">–</span>`;
  const prompt = onlyPrompt(parameters);
  const turn = prompt !== undefined && calledBack(prompt);
  if (turn) return html`<span class="soft called"><${Icon} name="callbacks" />${turn.count ? `callbacks from ${turn.count} child runs` : html`callback: ${turn.status} <${Id} id=${turn.session} copy=${false} />`}</span>`;
  if (prompt !== undefined) return html`<span class="soft"><${Hostile} text=${prompt.slice(0, most).replace(/\s+/g, " ")} /></span>`;
  return html`<${JsonLine} value=${parameters} most=${most} />`;
}

/** onlyPrompt is the prompt of parameters that have nothing else, undefined otherwise. */
export function onlyPrompt(parameters) {
  if (parameters?.members.length !== 1) return undefined;
  return parameters.member("prompt")?.string();
}

/** promptOf is the prompt of parameters, undefined without one that is a text. */
export const promptOf = (parameters) => parameters?.member("prompt")?.string();

// calledBack is what a callback turn's prompt says it tells; of one sentence only, for a list.
function calledBack(prompt) {
  const one = /^<agent-callback session="([^"<>]+)" status="([a-z]+)">/.exec(prompt);
  if (one) return { session: one[1], status: one[2] };
  const many = /^<agent-callback type="aggregated" count="(\d+)">/.exec(prompt);
  return many ? { count: many[1] } : undefined;
}

/** stopRun and the like do what their buttons say; they return what the API answers. */
export const stopRun = (id, tree) => send("POST", `/runs/${seg(id)}/stop`, tree ? '{"tree":true}' : undefined);
export const retryRun = (id, key, changes = "{}") => send("POST", `/runs/${seg(id)}/retry`, changes, { headers: { "Idempotency-Key": key } });
export const redeliver = (id) => send("POST", `/callbacks/${seg(id)}/redeliver`);

const callbackFilters = ["agent_name", "session_id", "parent_session_id", "created_after"];

/**
 * redeliverable is the filter of the HTTP callbacks that can be delivered again, of those that a filter selects; undefined
 * where there are none, or where callbacks cannot be filtered so.
 */
export function redeliverable({ status, ...filter }) {
  const chosen = (status || "dead,owed").split(",").filter((s) => s === "dead" || s === "owed");
  if (chosen.length === 0 || Object.keys(filter).some((name) => filter[name] && !callbackFilters.includes(name))) return undefined;
  return { ...filter, status: chosen.join(",") };
}

/** countCallbacks is how many HTTP callbacks a filter of redeliverable selects. */
export async function countCallbacks(filter, signal) {
  let n = 0, cursor = "";
  do {
    const page = await get("/callbacks", { ...filter, limit: 1000, cursor }, { signal });
    n += page.callbacks.filter((r) => r.http_callback && filter.status.split(",").includes(r.http_callback.status)).length;
    cursor = page.next_cursor ?? "";
  } while (cursor);
  return n;
}

/** each calls act for every id, four at a time, and returns how many succeeded and the errors by id. */
export async function each(ids, act, onProgress) {
  const errors = new Map();
  const rest = [...ids];
  let done = 0;
  const worker = async () => {
    for (let id; (id = rest.shift()) !== undefined;) {
      try {
        await act(id);
      } catch (err) {
        errors.set(id, err);
      }
      onProgress?.(++done);
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return { done: done - errors.size, errors };
}

/**
 * doMany has the coordinator do something with all that a filter selects, a thousand at a time. The first call is refused
 * where that are not `expect`. It returns how many it was done with, and the errors of the others.
 */
export async function doMany(path, filter, expect, key, onProgress) {
  const pairs = Object.entries(filter).filter(([, v]) => v).map(([k, v]) => [k, quote(v)]);
  const refused = [];
  for (let part = 0, went = 0, more = ["expect", String(expect)]; ; part++) {
    const answer = await send("POST", path, object([...pairs, more]), { headers: { "Idempotency-Key": `${key}-${part}` } });
    went += answer.count;
    refused.push(...(answer.refused ?? []).map((r) => r.error ?? r));
    onProgress?.(went);
    if (!answer.next_cursor) return { went, refused };
    more = ["cursor", quote(answer.next_cursor)];
  }
}

/** exportRuns offers the runs that a filter selects as a file, which the coordinator writes: "csv", or "ndjson", a run a line. */
export async function exportRuns(format, filters) {
  const { response } = await request("GET", withQuery("/runs", { ...filters, format }), { raw: true });
  save("runs." + format, await response.blob());
}

/** save offers a blob as a file. */
export function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const a = document.createElement("a");
  [a.href, a.download] = [url, name];
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** agentNames are the names of all agents, for choices. */
export const agentNames = async (signal) => (await get("/agents", {}, { signal })).agents.map((a) => a.name).sort();
