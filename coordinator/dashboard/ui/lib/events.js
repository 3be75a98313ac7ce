// A session's events: read page by page, and again from where it stopped whenever the live stream says that there is more.
// The stream only wakes the reader, so nothing is missed and nothing comes twice.
import { useEffect, useRef, useState } from "../base.js";
import { backoff, request, seg, withQuery } from "./api.js";
import { subscribe } from "./live.js";

const pageSize = 500;
const pace = 250; // milliseconds between two reads
const largest = 65536; // bytes of an event; what is longer is cut by the coordinator
const most = 5000; // events that a page keeps; older ones are left out
const mostBytes = 8 << 20; // of their text
const calm = 800; // milliseconds between two renderings while much is read

/**
 * useEvents reads the events of a session and keeps them live. onChange is called when a run or the session changed, onOpen
 * when the stream is open (again): what was loaded before may have changed meanwhile. It returns {events, left, ready, error}: each event has n, its number within its run; left is how many older were left out.
 */
export function useEvents(session, onChange, onOpen) {
  const [state, setState] = useState({ events: [], left: 0, ready: false });
  const changed = useRef(onChange), opened = useRef(onOpen);
  changed.current = onChange;
  opened.current = onOpen;
  useEffect(() => {
    if (!session) return;
    const gone = new AbortController();
    const reader = { next: "", kept: [], left: 0, shown: 0, numbers: new Map(), busy: false, again: false, tries: 0 };
    const read = async () => {
      if (reader.busy) return void (reader.again = true);
      reader.busy = true;
      reader.again = false;
      try {
        await readOn(session, reader, gone.signal, () => setState({ events: reader.kept.flatMap((k) => k.events), left: reader.left, ready: reader.ready }));
        reader.tries = 0;
      } catch (error) {
        if (!gone.signal.aborted) setState((s) => ({ ...s, error }));
        reader.again = error.passing;
        if (error.passing) await pause(backoff(reader.tries++, error.retryAfter));
      }
      await pause(pace);
      reader.busy = false;
      if (reader.again && !gone.signal.aborted) read();
    };
    read();
    let due = 0, open = 0;
    const change = () => {
      clearTimeout(due);
      due = setTimeout(() => gone.signal.aborted || changed.current?.(), 120);
    };
    const stop = subscribe("/sse/sessions?session_id=" + seg(session), {
      onItems: (items) => {
        if (items.some((i) => i.event === "event" || i.event === "init")) read();
        if (items.some((i) => i.event !== "event" && i.event !== "init")) change();
      },
      onGap: () => (read(), change()),
      onState: (live) => {
        clearTimeout(open);
        if (live === "live" || live === "polling") open = setTimeout(() => gone.signal.aborted || opened.current?.(), 120);
      },
      onError: (error) => setState((s) => ({ ...s, error })),
    });
    return () => {
      gone.abort();
      clearTimeout(due);
      clearTimeout(open);
      stop();
    };
  }, [session]);
  return state;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function readOn(session, reader, signal, show) {
  for (; ;) {
    const path = withQuery(`/sessions/${seg(session)}/events`, { after: reader.next, limit: pageSize, max_bytes: largest });
    const { data: { events, next }, text } = await request("GET", path, { signal });
    for (const e of events) {
      e.n = (reader.numbers.get(e.run_id) ?? 0) + 1;
      reader.numbers.set(e.run_id, e.n);
    }
    keep(reader, events, text.length);
    const end = events.length < pageSize || next === reader.next;
    reader.next = next || reader.next;
    if (end) reader.ready = true;
    if (end || performance.now() - reader.shown > calm) {
      show();
      reader.shown = performance.now();
    }
    if (end) return;
  }
}

// keep puts what was read behind what is kept, and leaves out the oldest of it: whole answers, since what is kept of one keeps
// all of its text. Short answers are put together.
function keep(reader, events, bytes) {
  const { kept } = reader, last = kept.at(-1);
  if (last && last.events.length + events.length <= pageSize) kept[kept.length - 1] = { events: [...last.events, ...events], bytes: last.bytes + bytes };
  else if (events.length > 0) kept.push({ events, bytes });
  const sum = (of) => kept.reduce((n, k) => n + of(k), 0);
  while (kept.length > 1 && (sum((k) => k.events.length) > most || sum((k) => k.bytes) > mostBytes)) reader.left += kept.shift().events.length;
}

const mark = "\nThe rejected output:\n";

/** rejectedAnswer is the answer in a message about a rejection. */
export function rejectedAnswer(e) {
  const text = textOf(e);
  const at = text.indexOf(mark);
  return at < 0 ? undefined : text.slice(at + mark.length);
}

/** textOf is the text of a message. */
export const textOf = (e) => (e.content ?? []).map((c) => c.text ?? "").join("");

/**
 * steps makes of a run's events what a reader wants to see: messages, tool calls with what came of them, rejections, the
 * result. Each is {kind, event, …}.
 */
export function steps(events) {
  const out = [], open = [];
  for (const e of events) {
    switch (e.event_type) {
      case "message":
        out.push({ kind: e.rejection ? "rejection" : e.role === "system" ? "note" : e.role, event: e, text: textOf(e) });
        break;
      case "pre_tool":
        open.push({ kind: "tool", event: e, name: e.tool_name, input: e.tool_input });
        out.push(open.at(-1));
        break;
      case "post_tool":
        answer(open, out, e);
        break;
      case "result":
        out.push({ kind: "result", event: e });
        break;
      case "metadata":
        out.push({ kind: "usage", event: e, facts: e.metadata });
        break;
      default:
        out.push({ kind: e.event_type, event: e });
    }
  }
  return out;
}

// answer puts what came of a tool call beside the call: the oldest open one of that name and, where it is told, that input.
function answer(open, out, e) {
  const same = open.filter((s) => s.name === e.tool_name);
  const call = same.find((s) => s.input?.text === e.tool_input?.text) ?? same[0];
  const what = { output: e.tool_output, failure: e.error, end: e };
  if (!call) return void out.push({ kind: "tool", event: e, name: e.tool_name, input: e.tool_input, ...what });
  open.splice(open.indexOf(call), 1);
  Object.assign(call, what);
}

/** usageOf adds up what executors told of tokens and cost; undefined where none told anything. */
export function usageOf(events) {
  let sum;
  for (const e of events) {
    if (e.event_type !== "metadata" || e.metadata?.kind !== "object") continue;
    const number = (json, name) => (json?.kind === "object" && json.member(name)?.kind === "number" ? Number(json.member(name).text) : undefined);
    const usage = e.metadata.member("usage");
    const facts = { input: number(usage, "input_tokens"), output: number(usage, "output_tokens"), cacheRead: number(usage, "cache_read_tokens") ?? number(usage, "cache_read_input_tokens"), cost: number(e.metadata, "total_cost_usd") ?? number(e.metadata, "cost_usd") };
    for (const [name, value] of Object.entries(facts)) if (value !== undefined) (sum ??= {})[name] = (sum[name] ?? 0) + value;
    const model = e.metadata.member("model")?.string();
    if (model) (sum ??= {}).model = model;
  }
  return sum;
}
