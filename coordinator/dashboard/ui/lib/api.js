// The coordinator's API. Bodies are JSON text, made by json.js; answers are read without loss of users' values.
import { signal } from "../base.js";
import { decode, Json } from "./json.js";
import { returnTo } from "./router.js";

/** reachable is false while the coordinator does not answer, or answers 503. */
export const reachable = signal(true);

/** serverOffset is the server's clock minus ours, in milliseconds. */
export const serverOffset = signal(0);

/** An ApiError is an answer that is no success, or none at all (status 0). */
export class ApiError extends Error {
  constructor(status, code, message, body, retryAfter) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { status, code, body: body ?? {}, retryAfter });
  }

  /** passing tells whether the same request may succeed soon. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

// The newest position in the coordinator's history that this page has seen. Readers send it, so that a coordinator which is
// behind does not answer with an older state.
let seen = 0;

/** notePosition keeps the newer of two positions: the number of a record. */
export function notePosition(next) {
  const n = Number(next);
  if (Number.isSafeInteger(n) && n > seen) seen = n;
}

const pause = (ms, signal) =>
  new Promise((done, stop) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), stop(signal.reason)), { once: true });
  });

/** longestPause is the most milliseconds between two tries, unless the coordinator asks for more. */
export const longestPause = 5000;

/** backoff is the pause before retry n: half a second, doubled up to longestPause, less a random part of up to a half. */
export function backoff(n, retryAfter) {
  const most = Math.min(longestPause, 500 * 2 ** Math.min(n, 5));
  return Math.max((retryAfter ?? 0) * 1000, most * (0.5 + Math.random() / 2));
}

/**
 * request sends one request. body is JSON text. Reads are tried again while the coordinator is away or busy, for `patience`
 * milliseconds; writes are sent once. It returns {status, data, text, headers}.
 */
export async function request(method, path, { body, headers, signal, patience = method === "GET" ? 8000 : 0, raw = false } = {}) {
  const until = performance.now() + patience;
  for (let n = 0; ; n++) {
    try {
      return await once(method, path, { body, headers, signal, raw });
    } catch (err) {
      if (signal?.aborted) throw err;
      const wait = backoff(n, err.retryAfter);
      if (err.code === "position_unknown" && seen) {
        seen = 0; // the history is another one: begin anew
        continue;
      }
      if (!(err instanceof ApiError) || !err.passing || performance.now() + wait > until) throw err;
      await pause(wait, signal);
    }
  }
}

let logins = 0; // how many there were in this page

/** loggedIn is called after a login: a 401 to what was sent before it asks for no other one. */
export const loggedIn = () => void logins++;

async function once(method, path, { body, headers, signal, raw }) {
  const before = logins;
  let res, text;
  try {
    res = await fetch(path, { method, body, headers: requestHeaders(method, body, headers), signal, cache: "no-store", credentials: "same-origin", redirect: "error" });
    text = raw && res.ok ? "" : await res.text();
  } catch (err) {
    if (signal?.aborted) throw err;
    reachable.value = false;
    throw new ApiError(0, "unreachable", "The coordinator does not answer");
  }
  reachable.value = res.status !== 502 && res.status !== 503 && res.status !== 504;
  noteClock(res.headers.get("Date"));
  notePosition(res.headers.get("Ao-Position"));
  if (res.status === 401 && before === logins) login();
  if (!res.ok) throw refuse(res, text);
  return { status: res.status, headers: res.headers, text, data: raw || text === "" ? undefined : answerOf(res, text), response: res };
}

function requestHeaders(method, body, more) {
  const h = { Accept: "application/json", "X-Requested-With": "ao", ...more }; // no page of another origin can send that
  if (body !== undefined) h["Content-Type"] = "application/json";
  if (method === "GET" && seen) h["Ao-Position"] = String(seen);
  return h;
}

// answerOf reads an answer. One that cannot be read is an error: it is not an answer without members.
function answerOf(res, text) {
  if (!/json/.test(res.headers.get("Content-Type") ?? "")) return text;
  try {
    return decode(text);
  } catch (err) {
    throw new ApiError(res.status, "unreadable", `The coordinator's answer cannot be read: ${err.message}`);
  }
}

function read(text) {
  try {
    return decode(text);
  } catch {
    return text;
  }
}

function refuse(res, text) {
  const body = read(text);
  const known = body && typeof body === "object" && typeof body.error === "string";
  const retryAfter = parseInt(res.headers.get("Retry-After"), 10);
  const err = new ApiError(res.status, known ? body.error : "http_" + res.status,
    known && body.message ? String(body.message) : `The coordinator answered ${res.status}`, known ? body : {}, Number.isFinite(retryAfter) ? retryAfter : undefined);
  err.text = text;
  return err;
}

/** login leaves for the login page, which comes back here. */
export function login() {
  if (location.pathname === "/ui/login") return;
  const here = location.pathname + location.search + location.hash;
  history.replaceState(history.state, "", "/ui/login?return_to=" + encodeURIComponent(returnTo(here)));
  dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
}

let clockKnown = false;

// The Date header counts whole seconds: a difference below one is none.
function noteClock(date) {
  const at = Date.parse(date ?? "");
  if (!Number.isFinite(at)) return;
  const offset = at + 500 - Date.now();
  if (!clockKnown || Math.abs(offset - serverOffset.value) > 1500) serverOffset.value = Math.abs(offset) < 1500 ? 0 : offset;
  clockKnown = true;
}

/** now is the time by the server's clock, in milliseconds. */
export const now = () => Date.now() + serverOffset.value;

/** get reads a path; values are the query, without those that are empty. It returns the decoded document. */
export async function get(path, values, options) {
  return (await request("GET", withQuery(path, values), options)).data;
}

/** getAt is get with the position of this very answer: what comes after it is missing there, though another answer may have it. */
export async function getAt(path, values, options) {
  const { data, headers } = await request("GET", withQuery(path, values), options);
  return { data, at: headers.get("Ao-Position") ?? "" };
}

export function withQuery(path, values = {}) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) q.set(name, String(value));
  }
  const text = q.toString();
  return path + (text && "?" + text);
}

/** send writes: body is JSON text, made with object and quote of json.js, or a Json. It returns the decoded document. */
export async function send(method, path, body, options) {
  const text = body instanceof Json ? body.text : body;
  return (await request(method, path, { ...options, body: text })).data;
}

/**
 * judge sends what is only checked. It is answered 200 also where it would be refused, which browsers log as an error; what
 * would be refused is thrown as the refusal.
 */
export async function judge(path, body, options) {
  const answer = await send("POST", path + "?report=true", body, options);
  if (answer.error) throw new ApiError(400, answer.error.error, answer.error.message, answer.error);
  return answer;
}

/** seg escapes an id or a name for a path. */
export const seg = encodeURIComponent;

/** newKey makes an Idempotency-Key. Make it when a dialog opens, so that a double click is one run. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "ui-" + Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
