// A session's events: read in pages, then as the live stream brings them. An event has a position in both streams of the
// coordinator, so none is missing and none is there twice.
import { useEffect, useRef, useState } from "../base.js";
import { backoff, request, seg, withQuery } from "./api.js";
import { subscribe } from "./live.js";

const pageSize = 500;
const fullPage = 4 << 20; // bytes from which on a page may have ended before all was read
const pace = 250; // milliseconds between two renderings of what the stream brings
const calm = 800; // and while pages are read
const longest = 15000; // milliseconds for an answer; then it is asked for again
const largest = 65536; // bytes of an event; what is longer is cut by the coordinator
const most = 5000; // events that a page keeps; older ones are left out
const mostBytes = 8 << 20; // of their text

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
    const reader = new Reader(session, (more) => setState((s) => ({ ...s, ...more })));
    const later = (act) => {
      let timer = 0;
      return [() => (clearTimeout(timer), (timer = setTimeout(() => reader.closed || act.current?.(), 120))), () => clearTimeout(timer)];
    };
    const [change, noChange] = later(changed), [open, notOpen] = later(opened);
    let stop = () => {};
    reader.read().then(() => {
      if (reader.closed || !reader.ready) return;
      stop = subscribe(withQuery("/sse/sessions", { session_id: session, max_bytes: largest }), {
        from: reader.position,
        onItems: (items) => {
          reader.arrive(items.filter((i) => i.event === "event"));
          if (items.some((i) => i.event === "init")) reader.read(); // after a gap: the stream begins anew
          if (items.some((i) => i.event !== "event" && i.event !== "init")) change();
        },
        onGap: () => (reader.read(), change()),
        onState: (live) => {
            const on = live === "live" || live === "polling";
            if (on) setState((s) => ({ ...s, error: undefined }));
            on ? open() : notOpen();
          },
        onError: (error) => setState((s) => ({ ...s, error })),
      });
    });
    return () => {
      reader.close();
      noChange();
      notOpen();
      stop();
    };
  }, [session]);
  return state;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Events that follow from a record of a run; the others are messages of its executor.
const ofRecords = new Set(["run_start", "result", "run_completed", "run_failed", "run_stopped"]);

// A position, <runs>-<events>[.<items>[.<packed>]], as two places that only grow: [record, items of the next one] and
// [message, events of the next one].
function placesOf(position) {
  const [runs, rest = ""] = position.split("-");
  const [events, items, packed] = rest.split(".");
  return { runs: [Number(runs) || 0, Number(items) || 0], events: [Number(events) || 0, Number(packed) || 0] };
}

const beyond = (a, b) => a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]);

class Reader {
  constructor(session, show) {
    Object.assign(this, { session, show, gone: new AbortController(), at: placesOf(""), kept: [], left: 0, numbers: new Map(), waiting: [] });
    Object.assign(this, { ready: false, busy: false, again: false, tries: 0, due: 0, shown: 0 });
  }

  get closed() {
    return this.gone.signal.aborted;
  }

  get position() {
    const { runs, events } = this.at;
    return `${runs[0]}-${events[0]}` + (runs[1] || events[1] ? `.${runs[1]}` : "") + (events[1] ? `.${events[1]}` : "");
  }

  close() {
    this.gone.abort();
    clearTimeout(this.due);
  }

  // read reads all pages behind the position. What the stream brings meanwhile waits.
  async read() {
    if (this.busy) return void (this.again = true);
    this.busy = true;
    do {
      this.again = false;
      try {
        await this.pages();
        this.tries = 0;
      } catch (error) {
        if (this.closed) return;
        const passing = error.passing || error.name === "TimeoutError";
        if (error.name !== "TimeoutError") this.show({ error });
        if (!passing) break;
        this.again = true;
        await pause(backoff(this.tries++, error.retryAfter));
      }
    } while (this.again && !this.closed);
    this.busy = false;
    this.take();
  }

  async pages() {
    for (; ;) {
      const path = withQuery(`/sessions/${seg(this.session)}/events`, { after: this.position, limit: pageSize, max_bytes: largest });
      const { data: { events, next }, text, headers } = await request("GET", path, { signal: AbortSignal.any([this.gone.signal, AbortSignal.timeout(longest)]) });
      this.keep(events, text.length);
      const before = this.position;
      this.advance(placesOf(next));
      const whole = text.length + events.reduce((n, e) => n + (e.bytes ?? 0), 0);
      const end = (events.length < pageSize && whole < fullPage) || this.position === before;
      // The history of the other sessions up to the answer's own position is nothing to this one.
      if (end) this.advance(placesOf(headers.get("Ao-Position") ?? ""));
      this.ready ||= end;
      if (end || performance.now() - this.shown > calm) this.render();
      if (end) return;
    }
  }

  // advance moves on in both streams, never back.
  advance(places) {
    for (const name of ["runs", "events"]) if (beyond(places[name], this.at[name])) this.at[name] = places[name];
  }

  arrive(items) {
    this.waiting.push(...items);
    if (items.length > 0) this.due ||= setTimeout(() => ((this.due = 0), this.take()), Math.max(0, this.shown + pace - performance.now()));
  }

  // take adds what came by the stream and is not here yet.
  take() {
    if (this.busy || this.closed) return;
    let fresh = [], bytes = 0, any = false;
    const put = () => {
      this.keep(fresh, bytes);
      [fresh, bytes, any] = [[], 0, true];
    };
    for (const i of this.waiting.splice(0)) {
      const places = placesOf(i.id), event = i.data();
      const part = ofRecords.has(event.event_type) ? "runs" : "events";
      if (!beyond(places[part], this.at[part])) continue;
      this.advance(places);
      fresh.push({ ...event });
      bytes += i.text.length;
      if (fresh.length === pageSize) put();
    }
    if (fresh.length > 0) put();
    if (any) this.render();
  }

  render() {
    this.shown = performance.now();
    this.show({ events: this.kept.flatMap((k) => k.events), left: this.left, ready: this.ready, error: undefined });
  }

  // keep adds events and leaves out the oldest: whole answers, since what is kept of one keeps all of its text. Short answers
  // are put together.
  keep(events, bytes) {
    for (const e of events) {
      e.n = (this.numbers.get(e.run_id) ?? 0) + 1;
      this.numbers.set(e.run_id, e.n);
    }
    const { kept } = this, last = kept.at(-1);
    if (last && last.events.length + events.length <= pageSize) kept[kept.length - 1] = { events: [...last.events, ...events], bytes: last.bytes + bytes };
    else if (events.length > 0) kept.push({ events, bytes });
    const sum = (of) => kept.reduce((n, k) => n + of(k), 0);
    while (kept.length > 1 && (sum((k) => k.events.length) > most || sum((k) => k.bytes) > mostBytes)) this.left += kept.shift().events.length;
  }
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
