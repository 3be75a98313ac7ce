// Live streams, read with fetch: the position is kept, refusals and resets are tried again with back-off, 401 leads to the
// login. One tab of a browser reads each stream (its leader, by Web Locks) and tells the others (BroadcastChannel).
// Where connections are scarce hidden tabs give theirs up. Without Web Locks each tab reads for itself while it is visible, and catches up when it becomes so.
import { signal, useEffect, useRef } from "../base.js";
import { ApiError, backoff, login, notePosition } from "./api.js";
import { decode } from "./json.js";

const locks = globalThis.isSecureContext && navigator.locks ? navigator.locks : null;
const channel = globalThis.BroadcastChannel ? new BroadcastChannel("ao-live") : null;
const slots = 4; // of the six connections a browser has for a host, so that requests find one
const silence = 45000; // heartbeats come every 15 s

/** liveState is how this page's streams stand: "off", "connecting", "live", "retrying", "polling". The shell shows it. */
export const liveState = signal("off");

const streams = new Map(); // by path

function overall() {
  const states = [...streams.values()].map((s) => s.state);
  liveState.value = ["retrying", "connecting", "polling", "live"].find((s) => states.includes(s)) ?? "off";
}

/** behind tells whether position a is older than b, as far as both are known. A position may have parts: `<runs>-<events>`. */
export function behind(a, b) {
  if (!a || !b) return false;
  const [x, y] = [a, b].map((p) => p.split("-").map((n) => parseInt(n, 10) || 0));
  return x[0] < y[0] || (x[1] ?? 0) < (y[1] ?? 0);
}

// note keeps the position of an item; that of a session's stream counts events, too, and is no position of a list.
const note = (id) => /^\d+$/.test(id ?? "") && notePosition(id);

// A Stream is what this tab knows of one path: it leads (reads it) or follows another tab that does.
class Stream {
  constructor(path) {
    this.path = path;
    this.readers = new Set();
    this.last = "";
    this.state = "connecting";
    this.queue = []; // items that the readers of this tab are yet to get
    this.told = []; // items that the other tabs are yet to get
    this.stop = null;
  }

  open() {
    if (this.stop) return;
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.setState("connecting");
    channel?.postMessage({ path: this.path, kind: "hello" });
    const lead = () => this.lead(signal);
    if (locks && channel) locks.request("ao-live:" + this.path, { signal }, lead).catch(() => {});
    else lead();
  }

  close() {
    this.stop?.abort();
    this.stop = null;
    this.leading = false;
    this.setState("off");
  }

  setState(state) {
    if (this.state === state) return;
    this.state = state;
    overall();
    for (const r of this.readers) r.onState?.(state);
    if (this.leading) this.tell({ kind: "state", state, last: this.last });
  }

  tell(message) {
    channel?.postMessage({ path: this.path, ...message });
  }

  // heard is a message of another tab about this path.
  heard(m) {
    if (m.kind === "hello") {
      if (this.leading) this.tell({ kind: "state", state: this.state, last: this.last });
      return;
    }
    if (this.leading || !this.stop) return;
    if (m.kind === "state") {
      for (const r of this.readers) if (behind(r.from, m.last) && !r.joined) r.onGap?.();
      this.joined();
      this.last = m.last || this.last;
      note(m.last);
      this.setState(m.state);
    } else if (m.kind === "items") for (const i of m.items) this.item(i.id, i.event, i.text);
    else if (m.kind === "failed") this.fail(new ApiError(m.status, m.code, m.message));
  }

  joined() {
    for (const r of this.readers) r.joined = true;
  }

  async lead(signal) {
    this.leading = true;
    this.last ||= [...this.readers].map((r) => r.from).find(Boolean) ?? "";
    for (let n = 0; !signal.aborted;) {
      const slot = (await takeSlot(signal)) ?? (await askForSlot(signal));
      try {
        await this.read(signal, slot ? 0 : 1500, () => (n = 0));
      } catch (err) {
        if (signal.aborted) break;
        if (!this.mayRetry(err)) break;
        this.setState("retrying");
        await sleep(backoff(n++, err.retryAfter), signal);
        continue;
      } finally {
        slot?.();
      }
      if (!slot) {
        this.setState("polling");
        await sleep(4000, signal);
      } else if (!signal.aborted) await sleep(backoff(n++), signal);
    }
    this.leading = false;
  }

  mayRetry(err) {
    if (err.status === 401) {
      login();
      return false;
    }
    if (!(err instanceof ApiError) || err.passing) return true;
    this.tell({ kind: "failed", status: err.status, code: err.code, message: err.message });
    this.fail(err);
    return false;
  }

  fail(err) {
    this.setState("off");
    for (const r of this.readers) r.onError?.(err);
  }

  // read reads the stream until it ends; with a limit for that long only, counted from when it was open.
  async read(signal, limit, onOpen) {
    const inner = new AbortController();
    const abort = () => inner.abort();
    signal.addEventListener("abort", abort, { once: true });
    let watchdog = setTimeout(abort, silence);
    try {
      const headers = { Accept: "text/event-stream", "X-Requested-With": "ao" };
      if (this.last) headers["Last-Event-ID"] = this.last;
      const res = await fetch(this.path, { headers, signal: inner.signal, cache: "no-store", credentials: "same-origin" });
      if (!res.ok) throw await refused(res);
      onOpen();
      this.joined();
      this.setState(limit ? "polling" : "live");
      if (limit) setTimeout(abort, limit);
      const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new Parser((id, event, data) => this.arrived(id, event, data));
      for (; ;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(abort, silence);
        parser.push(value);
        this.pass();
      }
    } catch (err) {
      if (limit && inner.signal.aborted && !signal.aborted) return;
      throw err;
    } finally {
      this.pass();
      clearTimeout(watchdog);
      signal.removeEventListener("abort", abort);
      inner.abort();
    }
  }

  arrived(id, event, data) {
    if (event === "error") throw streamError(data);
    this.told.push({ id, event, text: data });
    this.item(id, event, data);
  }

  // pass gives the other tabs what came with one chunk of the stream: a timer would be late in a tab that is hidden.
  pass() {
    if (this.told.length > 0) this.tell({ kind: "items", items: this.told.splice(0) });
  }

  item(id, event, data) {
    if (id) {
      this.last = id;
      note(id);
    }
    if (event === "gap") return this.readers.forEach((r) => r.onGap?.());
    this.queue.push({ id, event, text: data });
    if (this.queue.length === 1) soon(() => this.deliver());
  }

  deliver() {
    const items = this.queue.splice(0);
    for (const i of items) i.data = lazily(i.text);
    for (const r of this.readers) r.onItems(items);
  }
}

// lazily decodes an item once, when its first reader asks.
function lazily(text) {
  let data, done = false;
  return () => (done ? data : ((done = true), (data = decode(text))));
}

// soon runs once a frame while the page is seen, so that a burst is one rendering.
function soon(act) {
  if (document.hidden) setTimeout(act, 200);
  else requestAnimationFrame(() => act());
}

function sleep(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}

async function refused(res) {
  let body = {};
  try {
    body = decode(await res.text());
  } catch { /* no JSON: the status tells enough */ }
  const retryAfter = parseInt(res.headers.get("Retry-After"), 10);
  return new ApiError(res.status, body.error ?? "http_" + res.status, body.message ?? `The stream answered ${res.status}`, body, Number.isFinite(retryAfter) ? retryAfter : undefined);
}

function streamError(text) {
  const body = decode(text);
  const status = body.error === "unauthorized" ? 401 : body.error === "forbidden" ? 403 : 503;
  return new ApiError(status, body.error, body.message ?? "The stream ended", body);
}

// takeSlot reserves one of the connections that this browser spends on streams; undefined where none is free.
async function takeSlot(signal) {
  if (!locks) return () => {};
  for (let i = 0; i < slots; i++) {
    const free = await new Promise((taken) => {
      locks.request("ao-slot-" + i, { ifAvailable: true }, (lock) => {
        if (!lock || signal.aborted) return taken(undefined);
        return new Promise((release) => taken(release));
      }).catch(() => taken(undefined));
    });
    if (free) return free;
  }
}

// askForSlot has hidden tabs give up their streams, which they catch up with when they are seen again.
async function askForSlot(signal) {
  channel?.postMessage({ kind: "slot" });
  await sleep(200, signal);
  return takeSlot(signal);
}

// A Parser reads text/event-stream.
class Parser {
  constructor(onItem) {
    this.onItem = onItem;
    this.rest = "";
    this.fields = { id: "", event: "", data: null };
  }

  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    const f = this.fields;
    if (line === "") {
      if (f.data !== null) this.onItem(f.id, f.event || "message", f.data);
      this.fields = { id: "", event: "", data: null };
      return;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") f.data = f.data === null ? value : f.data + "\n" + value;
    else if (name === "id" || name === "event") f[name] = value;
  }
}

channel?.addEventListener("message", (e) => {
  if (e.data.kind !== "slot") streams.get(e.data.path)?.heard(e.data);
  else if (document.hidden) streams.forEach((s) => s.close());
});

let hideTimer;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hideTimer);
  if (!document.hidden) return streams.forEach((s) => s.open());
  if (!locks) hideTimer = setTimeout(() => streams.forEach((s) => s.close()), 1000);
});

/**
 * subscribe reads a stream. from is the position of what the reader has already (Ao-Position of its list); onItems gets
 * arrays of {id, event, text, data()}, once a frame at most; onGap says that something may be missing: load again. It
 * returns what ends the subscription.
 */
export function subscribe(path, { from = "", onItems, onGap, onState, onError }) {
  let s = streams.get(path);
  if (!s) streams.set(path, (s = new Stream(path)));
  const reader = { from, onItems, onGap, onState, onError, joined: false };
  if (s.readers.size > 0 && behind(from, s.last)) queueMicrotask(() => onGap?.());
  s.readers.add(reader);
  if (locks || !document.hidden) s.open();
  onState?.(s.state);
  overall();
  return () => {
    s.readers.delete(reader);
    if (s.readers.size > 0) return;
    s.close();
    streams.delete(path);
    overall();
  };
}

/** useLive subscribes while the component is shown and path is not empty; handlers may change without a new stream. */
export function useLive(path, handlers, from) {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    if (!path) return;
    const call = (name) => (x) => latest.current[name]?.(x);
    return subscribe(path, { from, onItems: call("onItems"), onGap: call("onGap"), onState: call("onState"), onError: call("onError") });
  }, [path]);
}

addEventListener("pagehide", () => streams.forEach((s) => s.close()));
addEventListener("pageshow", (e) => e.persisted && streams.forEach((s) => s.open()));
