// Made by scripts/bundles/app of the modules in this folder's parent. Change these, not this file.
var __defProp = Object.defineProperty;
var __export = (target2, all) => {
  for (var name in all)
    __defProp(target2, name, { get: all[name], enumerable: true });
};

// base.js
import {
  Component,
  Fragment,
  batch,
  cloneElement,
  computed,
  createContext,
  createRef,
  effect,
  h,
  html,
  options,
  render,
  signal,
  toChildArray,
  untracked,
  useCallback,
  useComputed,
  useContext,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useSignal,
  useSignalEffect,
  useState
} from "../vendor/base-709e21fb99.js";

// lib/router.js
var home = "/ui/";
var address = signal(read());
function read() {
  return { path: location.pathname, search: location.search, hash: location.hash };
}
var query = computed(() => new URLSearchParams(address.value.search));
function match(pattern, path2) {
  const want = pattern.split("/").filter(Boolean);
  const have = path2.split("/").filter(Boolean);
  if (want.length !== have.length) return null;
  const params = {};
  for (const [i, part] of want.entries()) {
    if (part.startsWith(":")) params[part.slice(1)] = decode(have[i]);
    else if (part !== have[i]) return null;
  }
  return params;
}
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
function path(parts4, values) {
  const q = queryString(values);
  return home + parts4.map(encodeURIComponent).join("/") + (q && "?" + q);
}
function queryString(values = {}) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== void 0 && value !== null && value !== "" && value !== false) q.set(name, String(value));
  }
  return q.toString();
}
var scrolls = /* @__PURE__ */ new Map();
var entry = history.state?.key ?? fresh();
function fresh() {
  return String(Date.now()) + Math.random().toString(36).slice(2, 8);
}
var scroller = () => document.querySelector("[data-scroller]");
function remember() {
  const s = scroller();
  if (s) scrolls.set(entry, s.scrollTop);
  if (scrolls.size > 100) scrolls.delete(scrolls.keys().next().value);
}
var guards = /* @__PURE__ */ new Set();
function guard(ask) {
  guards.add(ask);
  return () => guards.delete(ask);
}
var blocked = () => [...guards].map((g) => g()).find(Boolean);
function navigate(to, { replace = false } = {}) {
  const url = new URL(to, location.href);
  if (url.origin !== location.origin || !url.pathname.startsWith("/ui")) return void location.assign(url.href);
  const samePage = url.pathname === location.pathname;
  const question = samePage ? void 0 : blocked();
  if (question && !confirm(question)) return;
  remember();
  if (!replace) entry = fresh();
  history[replace ? "replaceState" : "pushState"]({ key: entry }, "", url.pathname + url.search + url.hash);
  address.value = read();
  if (!samePage) arrive(0);
}
function setQuery(changes, { push = false } = {}) {
  const q = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === void 0 || value === "" || value === false) q.delete(name);
    else q.set(name, String(value));
  }
  const text = q.toString();
  navigate(location.pathname + (text && "?" + text) + location.hash, { replace: !push });
}
var arriving = false;
function arrive(top) {
  arriving = true;
  requestAnimationFrame(() => {
    const s = scroller();
    if (s) s.scrollTop = top;
    focusHeading();
  });
}
function focusHeading() {
  const heading = document.querySelector("[data-heading]");
  if (!arriving || !heading) return;
  arriving = false;
  if (!document.querySelector("dialog[open]")) heading.focus({ preventScroll: true });
}
function returnTo(value) {
  if (!value || !value.startsWith(home)) return home;
  const url = new URL(value, location.href);
  return url.origin === location.origin && url.pathname.startsWith(home) ? url.pathname + url.search + url.hash : home;
}
function start() {
  history.scrollRestoration = "manual";
  history.replaceState({ key: entry }, "");
  addEventListener("popstate", (e) => {
    remember();
    entry = e.state?.key ?? fresh();
    const before = address.value.path;
    address.value = read();
    if (before !== address.value.path) arrive(scrolls.get(entry) ?? 0);
  });
  addEventListener("beforeunload", (e) => blocked() && e.preventDefault());
  document.addEventListener("click", (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const a = e.target.closest?.("a[href]");
    if (!a || a.target || a.hasAttribute("download") || a.origin !== location.origin || !a.pathname.startsWith(home)) return;
    e.preventDefault();
    navigate(a.href);
  });
}

// lib/api.js
var api_exports = {};
__export(api_exports, {
  ApiError: () => ApiError,
  backoff: () => backoff,
  get: () => get,
  getAt: () => getAt,
  judge: () => judge,
  loggedIn: () => loggedIn,
  login: () => login,
  longestPause: () => longestPause,
  newKey: () => newKey,
  notePosition: () => notePosition,
  now: () => now,
  reachable: () => reachable,
  request: () => request,
  seg: () => seg,
  send: () => send,
  serverOffset: () => serverOffset,
  withQuery: () => withQuery
});

// lib/json.js
var userMembers = /* @__PURE__ */ new Set([
  "parameters",
  "result_data",
  "tool_input",
  "tool_output",
  "parameters_schema",
  "output_schema",
  "default_output_schema",
  "schema",
  "mcp_servers",
  "data",
  "definition",
  "output_schema_options",
  "default_output_schema_options",
  "current",
  "metadata",
  "parameters_omitted_text"
]);
var Json = class _Json {
  constructor(text) {
    this.text = text;
  }
  /** kind is "object", "array", "string", "number", "boolean" or "null". */
  get kind() {
    return kindAt(this.text, skipSpace(this.text, 0));
  }
  /** members are those of an object as {name, text}, without what is in them; empty for another kind. */
  get members() {
    return this.listed ??= this.kind === "object" ? membersOf(this.text) : [];
  }
  /** member is the value of the last member of that name, as a reader of JSON would take it; undefined without one. */
  member(name) {
    const found2 = this.members.findLast((m) => m.name === name);
    return found2 && new _Json(found2.text);
  }
  /** string is the value of a JSON string, undefined for another kind. */
  string() {
    return this.kind === "string" ? JSON.parse(this.text.trim()) : void 0;
  }
  get isNull() {
    return this.kind === "null";
  }
  /** pretty is the same tokens with line breaks and an indentation of two. */
  pretty() {
    return prettify(this.text);
  }
  toString() {
    return this.text;
  }
};
var JsonError = class extends Error {
  constructor(message, text, offset2, tooDeep = false) {
    const before = text.slice(0, offset2);
    const line2 = before.split("\n").length;
    const column = offset2 - before.lastIndexOf("\n");
    super(`${message} (line ${line2}, column ${column})`);
    Object.assign(this, { offset: offset2, line: line2, column, tooDeep });
  }
};
var space = /[ \t\n\r]*/y;
var number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
var plain = /[^"\\\u0000-\u001f]*/y;
var escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
var deepest = 2e3;
function skipSpace(text, i) {
  space.lastIndex = i;
  space.test(text);
  return space.lastIndex;
}
function kindAt(text, i) {
  switch (text[i]) {
    case "{":
      return "object";
    case "[":
      return "array";
    case '"':
      return "string";
    case "t":
    case "f":
      return "boolean";
    case "n":
      return "null";
    default:
      return "number";
  }
}
function stringEnd(text, i) {
  for (i++; ; ) {
    plain.lastIndex = i;
    plain.test(text);
    i = plain.lastIndex;
    if (text[i] === '"') return i + 1;
    escape.lastIndex = i;
    if (!escape.test(text)) throw new JsonError(i >= text.length ? "a string has no end" : "a character is not allowed in a string", text, i);
    i = escape.lastIndex;
  }
}
function scalarEnd(text, i) {
  for (const word of ["true", "false", "null"]) if (text.startsWith(word, i)) return i + word.length;
  number.lastIndex = i;
  if (!number.test(text)) throw new JsonError(i >= text.length ? "the text ends where a value is expected" : "a value is expected", text, i);
  return number.lastIndex;
}
var ends = { object: "}", array: "]" };
function walk(text, i, visit, most3 = deepest) {
  const open = [];
  for (; ; ) {
    i = skipSpace(text, i);
    const kind = kindAt(text, i);
    if (ends[kind]) {
      if (open.length > most3) throw new JsonError("values are nested too deeply", text, i, true);
      visit.open(kind, i);
      open.push(kind);
      i = skipSpace(text, i + 1);
      if (text[i] !== ends[kind]) {
        if (kind === "object") i = member(text, i, visit);
        continue;
      }
    } else {
      const end = kind === "string" ? stringEnd(text, i) : scalarEnd(text, i);
      visit.scalar(kind, i, end);
      i = open.length > 0 ? skipSpace(text, end) : end;
    }
    while (open.length > 0 && text[i] === ends[open.at(-1)]) {
      visit.close(open.pop(), i++);
      if (open.length > 0) i = skipSpace(text, i);
    }
    if (open.length === 0) return i;
    if (text[i] !== ",") throw new JsonError(`"," or "${ends[open.at(-1)]}" is expected`, text, i);
    i = skipSpace(text, i + 1);
    if (open.at(-1) === "object") i = member(text, i, visit);
  }
}
function member(text, i, visit) {
  if (text[i] !== '"') throw new JsonError("the name of a member is expected", text, i);
  const end = stringEnd(text, i);
  visit.name(i, end);
  i = skipSpace(text, end);
  if (text[i] !== ":") throw new JsonError('":" is expected', text, i);
  return i + 1;
}
function whole(text, visit, most3) {
  const end = skipSpace(text, walk(text, 0, visit, most3));
  if (end < text.length) throw new JsonError("the text goes on behind the value", text, end);
}
function check(text) {
  const nothing = () => {
  };
  try {
    whole(text, { open: nothing, close: nothing, name: nothing, scalar: nothing });
    return null;
  } catch (err) {
    if (err instanceof JsonError) return err;
    throw err;
  }
}
function parse(text) {
  const root2 = { items: [] };
  const stack = [root2];
  let name;
  const add = (node) => {
    stack.at(-1).items.push(node);
    if (name !== void 0) [node.name, name] = [name, void 0];
    return node;
  };
  whole(text, {
    open: (kind, start2) => stack.push(add({ kind, start: start2, items: [] })),
    close: (kind, at) => {
      const node = stack.pop();
      node.text = text.slice(node.start, at + 1);
    },
    name: (start2, end) => name = JSON.parse(text.slice(start2, end)),
    scalar: (kind, start2, end) => add({ kind, text: text.slice(start2, end) })
  });
  return root2.items[0];
}
function membersOf(text) {
  const list2 = [];
  let depth = 0, name, from;
  const end = (at) => depth === 1 && list2.push({ name, text: text.slice(from, at) });
  whole(text, {
    open: (kind, at) => {
      if (depth === 1) from = at;
      depth++;
    },
    close: (kind, at) => {
      depth--;
      end(at + 1);
    },
    name: (start2, stop) => depth === 1 && (name = JSON.parse(text.slice(start2, stop))),
    scalar: (kind, start2, stop) => {
      if (depth === 1) from = start2;
      end(stop);
    }
  }, Infinity);
  return list2;
}
function tokens(text) {
  const list2 = [];
  const pattern = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false)|(null)|([{}[\],:])/g;
  for (const m of text.matchAll(pattern)) {
    if (m[1] !== void 0) {
      list2.push({ type: m[2] ? "name" : "string", text: m[1] });
      if (m[2]) list2.push({ type: "mark", text: ":" });
    } else if (m[3]) list2.push({ type: "number", text: m[3] });
    else if (m[4]) list2.push({ type: "boolean", text: m[4] });
    else if (m[5]) list2.push({ type: "null", text: m[5] });
    else list2.push({ type: "mark", text: m[6] });
  }
  return list2;
}
function prettyTokens(text) {
  const out = [];
  let depth = 0;
  const all = tokens(text);
  const line2 = () => out.push({ type: "space", text: "\n" + "  ".repeat(depth) });
  all.forEach((t, i) => {
    const before = all[i - 1]?.text, after = all[i + 1]?.text;
    const opens = t.type === "mark" && (t.text === "{" || t.text === "[");
    const closes = t.type === "mark" && (t.text === "}" || t.text === "]");
    if (closes && --depth >= 0 && !(all[i - 1]?.type === "mark" && (before === "{" || before === "["))) line2();
    out.push(t);
    if (opens) {
      depth++;
      if (!(all[i + 1]?.type === "mark" && (after === "}" || after === "]"))) line2();
    } else if (t.text === "," && t.type === "mark") line2();
    else if (t.text === ":" && t.type === "mark") out.push({ type: "space", text: " " });
  });
  return out;
}
function prettify(text) {
  const err = check(text);
  if (err) throw err;
  return prettyTokens(text).map((t) => t.text).join("");
}
function decode2(text, opaque = userMembers) {
  const stack = [];
  const nothing = () => {
  };
  const skipper = { open: nothing, close: nothing, name: nothing, scalar: nothing };
  let result;
  const read5 = (i) => {
    i = skipSpace(text, i);
    const kind = kindAt(text, i);
    if (kind === "string") {
      const end3 = stringEnd(text, i);
      const inner = text.slice(i + 1, end3 - 1);
      result = inner.includes("\\") ? JSON.parse(text.slice(i, end3)) : inner;
      return end3;
    }
    if (kind === "object" || kind === "array") return kind === "object" ? readObject(i) : readArray(i);
    const end2 = scalarEnd(text, i);
    result = kind === "number" ? Number(text.slice(i, end2)) : kind === "null" ? null : text[i] === "t";
    return end2;
  };
  const readObject = (i) => {
    const object2 = {};
    stack.push(object2);
    i = skipSpace(text, i + 1);
    while (text[i] !== "}") {
      let name;
      i = member(text, i, { name: (s, e) => name = JSON.parse(text.slice(s, e)) });
      if (opaque.has(name)) {
        i = skipSpace(text, i);
        const end2 = walk(text, i, skipper, Infinity);
        result = text.startsWith("null", i) ? null : new Json(text.slice(i, end2));
        i = end2;
      } else i = read5(i);
      if (name !== "__proto__") object2[name] = result;
      i = skipSpace(text, i);
      if (text[i] === ",") i = skipSpace(text, i + 1);
      else if (text[i] !== "}") throw new JsonError('"," or "}" is expected', text, i);
    }
    result = stack.pop();
    return i + 1;
  };
  const readArray = (i) => {
    const array = [];
    i = skipSpace(text, i + 1);
    while (text[i] !== "]") {
      i = skipSpace(text, read5(i));
      array.push(result);
      if (text[i] === ",") i = skipSpace(text, i + 1);
      else if (text[i] !== "]") throw new JsonError('"," or "]" is expected', text, i);
    }
    result = array;
    return i + 1;
  };
  const end = skipSpace(text, read5(0));
  if (end < text.length) throw new JsonError("the text goes on behind the value", text, end);
  return result;
}
var quote = (s) => JSON.stringify(String(s));
function object(pairs2) {
  return "{" + pairs2.filter(([, text]) => text !== void 0).map(([name, text]) => `${quote(name)}:${text}`).join(",") + "}";
}

// lib/api.js
var reachable = signal(true);
var serverOffset = signal(0);
var ApiError = class extends Error {
  constructor(status, code, message, body, retryAfter) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { status, code, body: body ?? {}, retryAfter });
  }
  /** passing tells whether the same request may succeed soon. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status === 502 || this.status === 503 || this.status === 504;
  }
};
var seen = 0;
function notePosition(next3) {
  const n = Number(next3);
  if (Number.isSafeInteger(n) && n > seen) seen = n;
}
var pause = (ms2, signal2) => new Promise((done, stop) => {
  const timer = setTimeout(done, ms2);
  signal2?.addEventListener("abort", () => (clearTimeout(timer), stop(signal2.reason)), { once: true });
});
var longestPause = 5e3;
function backoff(n, retryAfter) {
  const most3 = Math.min(longestPause, 500 * 2 ** Math.min(n, 5));
  return Math.max((retryAfter ?? 0) * 1e3, most3 * (0.5 + Math.random() / 2));
}
async function request(method, path2, { body, headers, signal: signal2, patience = method === "GET" ? 8e3 : 0, raw = false } = {}) {
  const until = performance.now() + patience;
  for (let n = 0; ; n++) {
    try {
      return await once(method, path2, { body, headers, signal: signal2, raw });
    } catch (err) {
      if (signal2?.aborted) throw err;
      const wait = backoff(n, err.retryAfter);
      if (err.code === "position_unknown" && seen) {
        seen = 0;
        continue;
      }
      if (!(err instanceof ApiError) || !err.passing || performance.now() + wait > until) throw err;
      await pause(wait, signal2);
    }
  }
}
var logins = 0;
var loggedIn = () => void logins++;
async function once(method, path2, { body, headers, signal: signal2, raw }) {
  const before = logins;
  let res, text;
  try {
    res = await fetch(path2, { method, body, headers: requestHeaders(method, body, headers), signal: signal2, cache: "no-store", credentials: "same-origin", redirect: "error" });
    text = raw && res.ok ? "" : await res.text();
  } catch (err) {
    if (signal2?.aborted) throw err;
    reachable.value = false;
    throw new ApiError(0, "unreachable", "The coordinator does not answer");
  }
  reachable.value = res.status !== 502 && res.status !== 503 && res.status !== 504;
  noteClock(res.headers.get("Date"));
  notePosition(res.headers.get("Ao-Position"));
  if (res.status === 401 && before === logins) login();
  if (!res.ok) throw refuse(res, text);
  return { status: res.status, headers: res.headers, text, data: raw || text === "" ? void 0 : answerOf(res, text), response: res };
}
function requestHeaders(method, body, more) {
  const h2 = { Accept: "application/json", "X-Requested-With": "ao", ...more };
  if (body !== void 0) h2["Content-Type"] = "application/json";
  if (method === "GET" && seen) h2["Ao-Position"] = String(seen);
  return h2;
}
function answerOf(res, text) {
  if (!/json/.test(res.headers.get("Content-Type") ?? "")) return text;
  try {
    return decode2(text);
  } catch (err) {
    throw new ApiError(res.status, "unreadable", `The coordinator's answer cannot be read: ${err.message}`);
  }
}
function read2(text) {
  try {
    return decode2(text);
  } catch {
    return text;
  }
}
function refuse(res, text) {
  const body = read2(text);
  const known = body && typeof body === "object" && typeof body.error === "string";
  const retryAfter = parseInt(res.headers.get("Retry-After"), 10);
  const err = new ApiError(
    res.status,
    known ? body.error : "http_" + res.status,
    known && body.message ? String(body.message) : `The coordinator answered ${res.status}`,
    known ? body : {},
    Number.isFinite(retryAfter) ? retryAfter : void 0
  );
  err.text = text;
  return err;
}
function login() {
  if (location.pathname === "/ui/login") return;
  const here2 = location.pathname + location.search + location.hash;
  history.replaceState(history.state, "", "/ui/login?return_to=" + encodeURIComponent(returnTo(here2)));
  dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
}
var clockKnown = false;
function noteClock(date) {
  const at = Date.parse(date ?? "");
  if (!Number.isFinite(at)) return;
  const offset2 = at + 500 - Date.now();
  if (!clockKnown || Math.abs(offset2 - serverOffset.value) > 1500) serverOffset.value = Math.abs(offset2) < 1500 ? 0 : offset2;
  clockKnown = true;
}
var now = () => Date.now() + serverOffset.value;
async function get(path2, values, options2) {
  return (await request("GET", withQuery(path2, values), options2)).data;
}
async function getAt(path2, values, options2) {
  const { data, headers } = await request("GET", withQuery(path2, values), options2);
  return { data, at: headers.get("Ao-Position") ?? "" };
}
function withQuery(path2, values = {}) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== void 0 && value !== null && value !== "" && value !== false) q.set(name, String(value));
  }
  const text = q.toString();
  return path2 + (text && "?" + text);
}
async function send(method, path2, body, options2) {
  const text = body instanceof Json ? body.text : body;
  return (await request(method, path2, { ...options2, body: text })).data;
}
async function judge(path2, body, options2) {
  const answer2 = await send("POST", path2 + "?report=true", body, options2);
  if (answer2.error) throw new ApiError(400, answer2.error.error, answer2.error.message, answer2.error);
  return answer2;
}
var seg = encodeURIComponent;
function newKey() {
  const bytes2 = crypto.getRandomValues(new Uint8Array(16));
  return "ui-" + Array.from(bytes2, (b) => b.toString(16).padStart(2, "0")).join("");
}

// lib/rights.js
var me = signal(null);
var allowed = /* @__PURE__ */ new Set();
async function loadMe() {
  const { data } = await request("GET", "/me");
  setMe(data);
  return data;
}
function setMe(data) {
  allowed = new Set(data?.may ?? []);
  me.value = data;
}
function may(route3) {
  return me.value !== null && allowed.has(route3);
}
var verbs = { read: "read", run: "start and stop runs", admin: "do everything" };
function refusal(route3) {
  if (!route3 || may(route3)) return void 0;
  const who = me.value;
  if (!who) return "You are not logged in";
  const as = who.name ? `“${who.name}”` : "Your token";
  return `${as} has scope ${who.scope}, which may only ${verbs[who.scope] ?? who.scope}. This needs ${route3}.`;
}

// lib/format.js
var stored = (key) => {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
};
function store(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
  }
}
var zone = signal(stored("ao-zone") === "utc" ? "utc" : "local");
function setZone(value) {
  zone.value = value;
  store("ao-zone", value);
}
var theme = signal(stored("ao-theme") ?? "auto");
function setTheme(value) {
  theme.value = value;
  store("ao-theme", value);
  document.documentElement.dataset.theme = value;
}
var tick = signal(0);
setInterval(() => document.hidden || tick.value++, 1e3);
document.addEventListener("visibilitychange", () => document.hidden || tick.value++);
var zoneFormat = new Intl.DateTimeFormat(void 0, { timeZoneName: "short" });
var zoneNames = /* @__PURE__ */ new Map();
function zoneName(at = now()) {
  if (zone.value === "utc") return "UTC";
  const offset2 = new Date(at).getTimezoneOffset();
  if (!zoneNames.has(offset2)) zoneNames.set(offset2, zoneFormat.formatToParts(at).find((p) => p.type === "timeZoneName")?.value ?? "local");
  return zoneNames.get(offset2);
}
var two = (n) => String(n).padStart(2, "0");
function parts(ms2) {
  const d = new Date(ms2);
  return zone.value === "utc" ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds(), d.getUTCMilliseconds()] : [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds(), d.getMilliseconds()];
}
function clock(ms2, milliseconds = false) {
  const [, , , h2, m, s, f] = parts(ms2);
  return `${two(h2)}:${two(m)}:${two(s)}${milliseconds ? "." + String(f).padStart(3, "0") : ""}`;
}
function exact(ms2) {
  const [y, mo, d] = parts(ms2);
  return `${y}-${two(mo)}-${two(d)} ${clock(ms2, true)} ${zoneName(ms2)}`;
}
function short(ms2) {
  const [y, mo, d] = parts(ms2), [ty, tmo, td] = parts(now());
  if (y === ty && mo === tmo && d === td) return clock(ms2);
  const [, , , h2, m] = parts(ms2);
  return `${y === ty ? "" : y + "-"}${two(mo)}-${two(d)} ${two(h2)}:${two(m)}`;
}
function ago(ms2) {
  const diff = now() - ms2;
  if (Math.abs(diff) < 1500) return "now";
  return diff > 0 ? coarse(diff).split(" ")[0] + " ago" : "in " + coarse(-diff);
}
function coarse(ms2) {
  const s = Math.round(ms2 / 1e3);
  if (s < 60) return s + "s";
  if (s < 3600) return Math.floor(s / 60) + "m";
  if (s < 86400) return pair(s, 3600, "h", 60, "m");
  return pair(s, 86400, "d", 3600, "h");
}
var pair = (s, big, b, small2, c) => {
  const rest = Math.floor(s % big / small2);
  return Math.floor(s / big) + b + (rest ? ` ${rest}${c}` : "");
};
function duration(ms2) {
  if (!Number.isFinite(ms2)) return "–";
  if (ms2 < 0) ms2 = 0;
  if (ms2 < 1e3) return Math.round(ms2) + " ms";
  if (ms2 < 1e4) return (ms2 / 1e3).toFixed(2) + " s";
  if (ms2 < 6e4) return (ms2 / 1e3).toFixed(1) + " s";
  const s = Math.floor(ms2 / 1e3);
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  return pair(s, s < 86400 ? 3600 : 86400, s < 86400 ? "h" : "d", s < 86400 ? 60 : 3600, s < 86400 ? "m" : "h");
}
var plainNumber = new Intl.NumberFormat();
var count = (n) => n === void 0 || n === null ? "–" : plainNumber.format(n);
function bytes(n) {
  if (n < 1024) return `${n} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let i = -1;
  do
    [n, i] = [n / 1024, i + 1];
  while (n >= 1024 && i < units.length - 1);
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}
var plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;
function shortId(id) {
  const m = /^([a-z]+_)([0-9a-f]{32})$/.exec(id ?? "");
  return m ? m[1] + "…" + m[2].slice(-8) : id ?? "";
}
var ms = (time) => time ? Date.parse(time) : NaN;

// lib/ui/icons.js
var shapes = {
  overview: "M2.5 9.5 8 3l5.5 6.500M4 8v5.500h8V8",
  runs: "M3 4h10M3 8h10M3 12h6",
  sessions: "M2.5 3.500h11v7.500h-6L4.5 13.500V11h-2z",
  agents: "M8 2.500v2M4 4.500h8a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1zM6 7.500v1.500M10 7.500v1.5",
  schemas: "M6 2.500c-2 0-2 1-2 2.500s0 3-1.5 3C4 8 4 9.5 4 11s0 2.5 2 2.500M10 2.500c2 0 2 1 2 2.500s0 3 1.5 3C12 8 12 9.5 12 11s0 2.5-2 2.5",
  runners: "M3 3h10v4H3zM3 9h10v4H3zM5.5 5h.010M5.5 11h.010",
  queues: "M2.5 4.500h7M2.5 8h7M2.5 11.500h7M12 4l2 4-2 4",
  callbacks: "M6 3.5 2.5 7 6 10.500M2.5 7h7a4 4 0 0 1 4 4v1.5",
  settings: "M3 4.500h5M11 4.500h2M3 11.500h2M8 11.500h5M9.5 3v3M6.5 10v3",
  plus: "M8 3v10M3 8h10",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM10 10l3.5 3.5",
  copy: "M5.5 5.500v-3h8v8h-3M2.5 5.500h8v8h-8z",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  warn: "M8 2.5 14.5 13.500h-13zM8 6.500v3.500M8 12v.010",
  info: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.500v3.500M8 5v.010",
  chevron: "M6 3.5 10.5 8 6 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  up: "M8 13V3M3.5 7.5 8 3l4.5 4.5",
  pause: "M5 3.500v9M11 3.500v9",
  play: "M4.5 3v10l8-5z",
  stop: "M4 4h8v8H4z",
  retry: "M13 8a5 5 0 1 1-1.5-3.500M13 2.500v3h-3",
  tree: "M3 3.500h3M6 3.500v9M6 8h4M6 12.500h4M12.5 8h.010M12.5 12.500h.010",
  download: "M8 2.500v8M4.5 7.5 8 11l3.5-3.500M3 13.500h10",
  external: "M9 3h4v4M13 3 7.5 8.500M11 9v4H3V5h4",
  link: "M6.5 9.500l3-3M7 5l1.5-1.500a2.5 2.5 0 0 1 4 4L11 9M9 11l-1.5 1.500a2.5 2.5 0 0 1-4-4L5 7",
  menu: "M2.5 4.500h11M2.5 8h11M2.5 11.500h11",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.500v1M8 13.500v1M1.5 8h1M13.5 8h1M3.400 3.400l.7.7M11.900 11.900l.7.7M3.400 12.600l.7-.7M11.900 4.100l.7-.7",
  moon: "M13 9.500A5.5 5.5 0 1 1 6.5 3 4.5 4.5 0 0 0 13 9.500z",
  auto: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 2v12M10 5h3M10 8h4M10 11h3",
  clock: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.500V8l2.5 1.5",
  trash: "M3 4.500h10M6 4.500V3h4v1.500M4.5 4.500l.5 9h6l.5-9",
  edit: "M3 13l.5-2.5 7-7 2 2-7 7zM9 5l2 2",
  filter: "M2.5 3.500h11L9.5 8.500v4l-3 1v-5z",
  tool: "M10 2.500a3.5 3.5 0 0 0-3.300 4.700L2.5 11.400l2 2 4.200-4.200A3.5 3.5 0 0 0 13.300 5l-2 2-2-2 2-2a3.5 3.5 0 0 0-1.300-.5z",
  shield: "M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4zM5.5 8 7.5 10l3-3.5",
  logout: "M6 3H3v10h3M7 8h6.500M11 5.5 13.5 8 11 10.5",
  pending: "M8 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11z",
  more: "M3.5 8h.010M8 8h.010M12.5 8h.010"
};
function Icon({ name, class: c = "" }) {
  return html`<svg class=${"icon icon-" + name + " " + c} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"
    fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"><path d=${shapes[name] ?? shapes.info} /></svg>`;
}

// lib/ui/toast.js
var toasts = signal([]);
var spoken = signal("");
var last = -Infinity;
var waiting;
var next = 1;
function announce(text) {
  const wait = last + 5e3 - performance.now();
  clearTimeout(waiting);
  if (wait > 0) return void (waiting = setTimeout(() => announce(text), wait));
  last = performance.now();
  spoken.value = text === spoken.value ? text + " " : text;
}
function toast(text, { kind = "", action, seconds = kind === "bad" ? 12 : 5 } = {}) {
  const id = next++;
  toasts.value = [...toasts.value, { id, text, kind, action }].slice(-4);
  setTimeout(() => dismiss(id), seconds * 1e3);
  announce(text);
}
function dismiss(id) {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}
function Toasts() {
  return html`<div class="toasts">
    ${toasts.value.map((t) => html`<div key=${t.id} class=${"toast " + t.kind}>
      <${Icon} name=${t.kind === "bad" ? "warn" : t.kind === "good" ? "check" : "info"} /><span><bdi>${t.text}</bdi></span>
      ${t.action?.href && html`<a href=${t.action.href} onClick=${() => dismiss(t.id)}>${t.action.label}</a>`}
      ${t.action?.run && html`<button type="button" class="plain" onClick=${() => (dismiss(t.id), t.action.run())}>${t.action.label}</button>`}
      <button type="button" class="plain" aria-label="Close the message" onClick=${() => dismiss(t.id)}><${Icon} name="cross" /></button>
    </div>`)}
    <div class="offscreen" role="status" aria-live="polite">${spoken.value}</div>
  </div>`;
}

// lib/ui/text.js
var hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|[\ud800-\udfff]/gu;
var breaks = /[\t\n\r]/g;
var codePoint = (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
var visible = (text) => String(text ?? "").replace(hidden, (c) => `‹${codePoint(c)}›`);
var longest = 2e5;
function Hostile({ text, lines = false }) {
  const whole2 = String(text ?? "");
  if (whole2.length > longest) return html`<${Hostile} text=${whole2.slice(0, longest)} lines=${lines} /><span class="ctl">… and ${count(whole2.length - longest)} characters more</span>`;
  return shownText(whole2, lines);
}
function shownText(s, lines) {
  if (s.search(hidden) < 0 && (lines || s.search(breaks) < 0)) return html`<bdi>${s}</bdi>`;
  const pattern = lines ? hidden : new RegExp(hidden.source + "|" + breaks.source, "gu");
  const parts4 = [];
  let at = 0;
  for (const m of s.matchAll(pattern)) {
    parts4.push(s.slice(at, m.index), html`<span class="ctl" title="An invisible character">${codePoint(m[0])}</span>`);
    at = m.index + m[0].length;
    if (parts4.length > 4e3) break;
  }
  parts4.push(visible(s.slice(at)));
  return html`<bdi>${parts4}</bdi>`;
}
var Text = ({ text }) => html`<bdi>${String(text ?? "").replace(hidden, "")}</bdi>`;
function Time({ at, as = "short", focus = false }) {
  const t = ms(at);
  if (!Number.isFinite(t)) return html`<span class="none">–</span>`;
  if (as === "ago") tick.value;
  zone.value;
  const shown2 = as === "ago" ? ago(t) : as === "clock" ? clock(t, true) : as === "exact" ? exact(t) : short(t);
  return html`<time class="num" datetime=${at} title=${exact(t)} data-tip=${exact(t)} tabindex=${focus ? 0 : void 0}>${shown2}</time>`;
}
function Took({ from, to, running = false }) {
  const a = ms(from);
  let b = ms(to);
  if (!Number.isFinite(b) && running) {
    tick.value;
    b = now();
  }
  if (!Number.isFinite(a) || !Number.isFinite(b)) return html`<span class="none">–</span>`;
  return html`<span class="num">${duration(b - a)}</span>`;
}
var Num = ({ value }) => html`<data class="num" value=${value}>${count(value)}</data>`;
async function copyText(text, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(what);
}
function Copy({ text, label = "Copy", class: c = "" }) {
  const [done, setDone] = useState(false);
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = (e) => {
    e.preventDefault();
    e.stopPropagation();
    copyText(text);
    setDone(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class=${"copy " + c} aria-label=${label} title=${label} onClick=${copy}><${Icon} name=${done ? "check" : "copy"} /></button>`;
}
function Id({ id, href, full = false, copy = true }) {
  if (!id) return html`<span class="none">–</span>`;
  const shown2 = html`<${Hostile} text=${full ? id : shortId(id)} />`;
  return html`<span class="id">${href ? html`<a href=${href} title=${visible(id)}>${shown2}</a>` : html`<span title=${visible(id)}>${shown2}</span>`}${copy && html`<${Copy} text=${id} label=${"Copy " + visible(id)} />`}</span>`;
}
var looks = {
  pending: "pending",
  claimed: "claimed",
  running: "running",
  stopping: "stopping",
  completed: "done",
  finished: "done",
  failed: "failed",
  stopped: "stopped",
  idle: "idle",
  parked: "parked",
  waiting: "pending",
  owed: "running",
  delivered: "done",
  undeliverable: "failed",
  dead: "failed",
  suppressed: "stopped",
  online: "done",
  unable: "failed",
  unresponsive: "failed",
  draining: "stopping",
  stale: "failed",
  active: "done",
  inactive: "stopped",
  broken: "failed",
  ok: "done",
  warn: "stopping",
  fail: "failed",
  skip: "stopped",
  deleted: "stopped"
};
function Dot({ status }) {
  const look2 = looks[status] ?? "idle";
  const inner = {
    pending: html`<circle cx="8" cy="8" r="5" stroke-dasharray="2.2 2" />`,
    claimed: html`<circle cx="8" cy="8" r="5" /><circle cx="8" cy="8" r="1.500" fill="currentColor" stroke="none" />`,
    running: html`<circle cx="8" cy="8" r="5" opacity=".3" /><path d="M8 3a5 5 0 0 1 5 5" class="spin" />`,
    stopping: html`<path d="M8 2.500 14 13H2z" />`,
    done: html`<circle cx="8" cy="8" r="6" fill="currentColor" stroke="none" /><path d="M5.400 8.200 7.200 10l3.500-3.900" class="cut" />`,
    failed: html`<circle cx="8" cy="8" r="6" fill="currentColor" stroke="none" /><path d="M6 6l4 4M10 6l-4 4" class="cut" />`,
    stopped: html`<rect x="3.500" y="3.500" width="9" height="9" rx="1.500" />`,
    idle: html`<circle cx="8" cy="8" r="5" /><path d="M8 5.500V8l1.800 1" />`,
    parked: html`<circle cx="8" cy="8" r="5" /><path d="M6.700 6.200v3.600M9.300 6.200v3.600" />`
  }[look2];
  return html`<svg class=${"dot look-" + look2} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false" fill="none" stroke="currentColor"
    stroke-width="1.700" stroke-linecap="round" stroke-linejoin="round">${inner}</svg>`;
}
var Status = ({ status, label }) => html`<span class=${"status look-" + (looks[status] ?? "idle")}><${Dot} status=${status} /><span>${label ?? status}</span></span>`;
var Badge = ({ kind = "", title, children: children2 }) => html`<span class=${"badge " + kind} title=${title}>${children2}</span>`;
var CodeLine = ({ text, label = "Copy the line" }) => html`<div class="codeline"><code><${Hostile} text=${text} lines=${true} /></code><${Copy} text=${text} label=${label} /></div>`;
var shellQuote = (s) => /^[A-Za-z0-9_\/:=.,@%+-]+$/.test(s) ? s : "'" + String(s).replaceAll("'", `'\\''`) + "'";

// lib/ui/controls.js
function Button({ kind = "", icon, needs, why, busy = false, disabled = false, small: small2 = false, onClick, type = "button", title, label, children: children2, href, ...rest }) {
  me.value;
  const reason = refusal(needs) ?? why;
  const off = disabled || busy || Boolean(reason);
  const cls = `button ${kind} ${small2 ? "small" : ""} ${busy ? "busy" : ""} ${!children2 || children2.length === 0 ? "only" : ""}`;
  const inner = html`${icon && html`<${Icon} name=${icon} />`}${children2}`;
  if (href && !off) return html`<a class=${cls} href=${href} title=${title} aria-label=${label} data-needs=${needs} ...${rest}>${inner}</a>`;
  return html`<button type=${type} class=${cls} aria-disabled=${off ? "true" : void 0} aria-busy=${busy ? "true" : void 0} aria-label=${label}
    title=${reason ?? title} data-tip=${reason} data-needs=${needs} onClick=${(e) => off ? e.preventDefault() : onClick?.(e)} ...${rest}>${inner}${reason && html`<span class="offscreen">. ${reason}</span>`}</button>`;
}
function Dialog({ title, onClose, children: children2, wide = false, footer }) {
  const ref = useRef();
  const id = useId();
  useEffect(() => {
    const d = ref.current;
    const before = document.activeElement;
    if (!d.open) d.showModal();
    return () => {
      d.close();
      before?.focus?.();
    };
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby=${id} onCancel=${(e) => (e.preventDefault(), onClose())}
    onMouseDown=${(e) => e.target === ref.current && onClose()}>
    <div class="dialog">
      <header><h2 id=${id}>${title}</h2><button type="button" class="plain" aria-label="Close" onClick=${onClose}><${Icon} name="cross" /></button></header>
      <div class="body">${children2}</div>
      ${footer && html`<footer>${footer}</footer>`}
    </div>
  </dialog>`;
}
function Confirm({ title, children: children2, verb, kind = "primary", needs, run, onClose, why }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const act = async () => {
    setBusy(true);
    setError(null);
    try {
      await run();
      onClose();
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  const footer = html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind=${kind} needs=${needs} why=${why} busy=${busy} onClick=${act} data-confirm>${verb}<//>`;
  return html`<${Dialog} title=${title} onClose=${onClose} footer=${footer}>${children2}${error && html`<${Problem} error=${error} />`}<//>`;
}
var Problem = ({ error }) => html`<div class="problem" role="alert"><${Icon} name="warn" /><div>
  <p><${Hostile} text=${error.message} lines=${true} /></p>${error.code && html`<p class="faint"><code>${error.code}</code>${error.body?.field && html` · <code><${Hostile} text=${error.body.field} /></code>`}</p>`}</div></div>`;
function Tabs({ tabs: tabs4, selected, onSelect, label, children: children2 }) {
  const base = useId();
  const key = (e) => {
    const step2 = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    const i = tabs4.findIndex((t) => t.id === selected);
    const to = e.key === "Home" ? 0 : e.key === "End" ? tabs4.length - 1 : step2 ? (i + step2 + tabs4.length) % tabs4.length : -1;
    if (to < 0) return;
    e.preventDefault();
    onSelect(tabs4[to].id);
    document.getElementById(`${base}-${tabs4[to].id}`)?.focus();
  };
  const list2 = useRef();
  useEffect(() => {
    const l = list2.current, t = l.querySelector("[aria-selected=true]");
    if (t && (t.offsetLeft < l.scrollLeft || t.offsetLeft + t.offsetWidth > l.scrollLeft + l.clientWidth)) l.scrollLeft = t.offsetLeft - (l.clientWidth - t.offsetWidth) / 2;
  }, [selected]);
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${key} ref=${list2}>
      ${tabs4.map((t) => html`<button type="button" role="tab" id=${`${base}-${t.id}`} aria-selected=${t.id === selected} aria-controls=${base + "-panel"} tabindex=${t.id === selected ? 0 : -1}
        onClick=${() => onSelect(t.id)}>${t.label}${t.badge !== void 0 && t.badge !== null && html` <span class="badge">${t.badge}</span>`}</button>`)}
    </div>
    <div role="tabpanel" id=${base + "-panel"} aria-labelledby=${`${base}-${selected}`}>${children2}</div>`;
}
function Field({ label, hint, error, optional, children: children2 }) {
  const id = useId();
  const about2 = [hint && id + "-hint", error && id + "-error"].filter(Boolean).join(" ") || void 0;
  return html`<div class=${"field " + (error ? "wrong" : "")}><label for=${id}>${label}${optional && html` <span class="faint">optional</span>`}</label>
    ${children2({ id, "aria-describedby": about2, "aria-invalid": error ? "true" : void 0 })}
    ${hint && html`<p class="hint" id=${id + "-hint"}>${hint}</p>`}${error && html`<p class="error" id=${id + "-error"}><${Hostile} text=${error} /></p>`}</div>`;
}
var Choice = ({ value, options: options2, onChange, label, ...rest }) => html`<select aria-label=${label} value=${value} onChange=${(e) => onChange(e.currentTarget.value)} ...${rest}>
    ${options2.map((o) => typeof o === "string" ? { value: o, label: o } : o).map((o) => html`<option key=${o.value} value=${o.value} selected=${o.value === value}>${o.label}</option>`)}</select>`;
var Switch = ({ on, onChange, needs, why, children: children2 }) => {
  me.value;
  const reason = refusal(needs) ?? why;
  return html`<label class=${"switch " + (reason ? "off" : "")} title=${reason}><input type="checkbox" role="switch" checked=${on} disabled=${Boolean(reason)} data-needs=${needs} onChange=${(e) => onChange(e.currentTarget.checked)} />
    <span class="track" aria-hidden="true"></span><span>${children2}</span></label>`;
};
function Search({ value, onChange, placeholder, label, delay = 300 }) {
  const [text, setText] = useState(value ?? "");
  const timer = useRef();
  const typing = useRef(false);
  useEffect(() => {
    if (!typing.current) setText(value ?? "");
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const say = (t) => {
    clearTimeout(timer.current);
    typing.current = false;
    if (t !== (value ?? "")) onChange(t);
  };
  return html`<div class="search"><${Icon} name="search" /><input type="search" aria-label=${label ?? placeholder} placeholder=${placeholder} value=${text} spellcheck=${false} autocomplete="off"
    onInput=${(e) => {
    const t = e.currentTarget.value;
    typing.current = true;
    setText(t);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => say(t), delay);
  }} onKeyDown=${(e) => e.key === "Enter" && say(e.currentTarget.value)} /></div>`;
}
function Details({ summary: summary2, open = false, children: children2, class: c = "" }) {
  const [shown2, setShown] = useState(open);
  return html`<details class=${c} open=${shown2} onToggle=${(e) => setShown(e.currentTarget.open)}><summary><${Icon} name="chevron" />${summary2}</summary>${shown2 && html`<div class="inside">${children2}</div>`}</details>`;
}
function Menu({ label, icon = "more", items, children: children2 }) {
  const ref = useRef();
  const shut = () => ref.current && (ref.current.open = false);
  useEffect(() => {
    const away = (e) => ref.current?.open && !ref.current.contains(e.target) && shut();
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, []);
  const key = (e) => {
    if (e.key !== "Escape" || !ref.current.open) return;
    shut();
    ref.current.querySelector("summary").focus();
  };
  return html`<details class="menu" ref=${ref} onKeyDown=${key}><summary class="button" aria-label=${label} title=${label}>${children2 ?? html`<${Icon} name=${icon} />`}</summary>
    <div class="sheet">${items.filter(Boolean).map((i) => html`<${Button} kind=${"plain " + (i.kind ?? "")} icon=${i.icon} needs=${i.needs} why=${i.why} href=${i.href} onClick=${() => (shut(), i.run?.())}>${i.label}<//>`)}</div></details>`;
}

// lib/ui/states.js
var Empty = ({ title, text, icon = "info", children: children2 }) => html`<div class="state empty"><${Icon} name=${icon} /><h2>${title}</h2>${text && html`<p>${text}</p>`}${children2 && html`<div class="actions">${children2}</div>`}</div>`;
function Loading({ lines = 6, label = "Loading" }) {
  const [shown2, setShown] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => setShown(true), 150);
    return () => clearTimeout(t);
  }, []);
  return html`<div class=${"skeleton " + (shown2 ? "shown" : "")} role="status" aria-label=${label}>${Array.from({ length: lines }, (_, i) => html`<div class="bar" style=${{ width: [92, 74, 83, 60, 88, 70][i % 6] + "%" }}></div>`)}</div>`;
}
var NoPermission = ({ route: route3, text }) => html`<${Empty} icon="shield" title="You have no access to this" text=${text ?? refusal(route3) ?? "Ask for a token with another scope."}><${Button} href="/ui/login">Log in with another token<//><//>`;
function Failed({ error, reload, what = "This page" }) {
  if (error instanceof ApiError && error.status === 403) return html`<${NoPermission} text=${error.message} />`;
  const gone = error.status === 404;
  const title = gone ? "Not found" : error.passing ? "The coordinator is not available" : `${what} could not be loaded`;
  const advice = gone ? "It may have been deleted, or be older than the history that is kept." : error.passing ? "This page retries by itself." : void 0;
  return html`<div class="state failed" role="alert"><${Icon} name="warn" /><h2>${title}</h2><p><${Hostile} text=${error.message} lines=${true} /></p>${advice && html`<p class="faint">${advice}</p>`}
    <p class="faint"><code>${error.code ?? error.name}</code></p><div class="actions">${reload && html`<${Button} icon="retry" onClick=${reload}>Try again<//>`}</div></div>`;
}
function Loaded({ resource, what, lines, children: children2 }) {
  if (resource.data !== void 0) {
    return html`${resource.error && html`<div class="banner warn" role="status"><${Icon} name="warn" /><span>What is shown may be old: <${Hostile} text=${resource.error.message} /></span></div>`}${children2(resource.data)}`;
  }
  if (resource.error) return html`<${Failed} error=${resource.error} reload=${resource.reload} what=${what} />`;
  return html`<${Loading} lines=${lines} />`;
}

// lib/ui/page.js
function Page({ title, heading, crumbs = [], actions: actions4, children: children2, class: c = "" }) {
  useEffect(() => {
    document.title = `${title} · Agent Orchestrator`;
  }, [title]);
  useEffect(focusHeading, []);
  return html`<div class=${"page " + c}>
    <header class="top"><div class="where">
      ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Above this page">${crumbs.map((x) => html`<a href=${x.href}>${x.label}</a><span aria-hidden="true">/</span>`)}</nav>`}
      <h1 tabindex="-1" data-heading>${heading ?? title}</h1></div>
      ${actions4 && html`<div class="actions">${actions4}</div>`}</header>
    ${children2}
  </div>`;
}
var Card = ({ title, actions: actions4, children: children2, class: c = "", id }) => html`<section class=${"card " + c} id=${id}>${(title || actions4) && html`<header><h2>${title}</h2>${actions4 && html`<div class="actions">${actions4}</div>`}</header>`}<div class="inner">${children2}</div></section>`;
var Facts = ({ of }) => html`<dl class="facts">${of.filter((f) => f && f[1] !== void 0 && f[1] !== null).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// lib/ui/table.js
var overscan = 12;
function Table({ label, columns: columns6, rows, rowKey, rowHeight = 36, total, onNear, rowClass, select, rowProps, more }) {
  const ref = useRef();
  const [range, setRange] = useState([0, 40]);
  const near = useRef(onNear);
  near.current = onNear;
  const measure = () => {
    const el = ref.current;
    const box = el?.closest("[data-scroller]");
    if (!box) return;
    const top = box.getBoundingClientRect().top - el.tBodies[0].getBoundingClientRect().top;
    const first3 = Math.max(0, Math.floor(top / rowHeight) - overscan);
    const last3 = Math.min(rows.length, Math.ceil((top + box.clientHeight) / rowHeight) + overscan);
    setRange((r) => r[0] === first3 && r[1] === last3 ? r : [first3, Math.max(first3, last3)]);
    if (last3 > rows.length - 30) near.current?.();
  };
  const latest = useRef(measure);
  latest.current = measure;
  useLayoutEffect(() => latest.current(), [rows.length]);
  useEffect(() => {
    const box = ref.current.closest("[data-scroller]");
    if (!box) return;
    let frame = 0;
    const soon2 = () => frame ||= requestAnimationFrame(() => (frame = 0, latest.current()));
    box.addEventListener("scroll", soon2, { passive: true });
    const sizes = new ResizeObserver(soon2);
    sizes.observe(box);
    return () => (cancelAnimationFrame(frame), box.removeEventListener("scroll", soon2), sizes.disconnect());
  }, []);
  const [first2, last2] = [Math.min(range[0], rows.length), Math.min(range[1], rows.length)];
  const shown2 = rows.slice(first2, last2);
  const height = (n) => html`<tr class="spacer" aria-hidden="true" key=${"space" + (n === first2 ? "1" : "2")}><td style=${{ height: n * rowHeight + "px" }}></td></tr>`;
  return html`<table ref=${ref} class="table" aria-label=${label} aria-rowcount=${(total ?? rows.length) + 1} style=${{ "--row": rowHeight + "px" }} onKeyDown=${(e) => arrows(e, ref.current)}>
    <thead><tr aria-rowindex="1">
      ${select && html`<th scope="col" class="pick"><input type="checkbox" aria-label="Select all that are loaded" checked=${select.all} indeterminate=${!select.all && !select.none} onChange=${select.onAll} /></th>`}
      ${columns6.map((c) => html`<th key=${c.id} scope="col" class=${cell(c)} style=${c.width ? { width: c.width } : void 0}>${c.label}</th>`)}</tr></thead>
    <tbody>
      ${first2 > 0 && height(first2)}
      ${shown2.map((row, i) => {
    const key = rowKey(row);
    return html`<tr key=${key} aria-rowindex=${first2 + i + 2} class=${rowClass?.(row)} ...${rowProps?.(row) ?? {}}>
          ${select && html`<td class="pick"><input type="checkbox" aria-label=${"Select " + key} checked=${select.has(key)} onClick=${(e) => select.toggle(row, e.shiftKey)} /></td>`}
          ${columns6.map((c) => html`<td key=${c.id} class=${cell(c)}>${c.render(row, first2 + i)}</td>`)}</tr>`;
  })}
      ${rows.length - last2 > 0 && html`<tr class="spacer" aria-hidden="true" key="space2"><td style=${{ height: (rows.length - last2) * rowHeight + "px" }}></td></tr>`}
    </tbody>${more && html`<tfoot><tr><td colspan="2">${more}</td></tr></tfoot>`}
  </table>`;
}
var rowLink = (href) => ({
  "data-opens": "",
  onClick: (e) => {
    const plain2 = e.button === 0 && !e.ctrlKey && !e.metaKey && !e.shiftKey && !e.altKey && !e.defaultPrevented;
    if (plain2 && !e.target.closest("a, button, input, label, .pick") && getSelection().isCollapsed) navigate(href);
  }
});
var cell = (c) => [c.hide && "hide" + c.hide, c.end && "end", c.class].filter(Boolean).join(" ") || void 0;
function arrows(e, table) {
  const step2 = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step2 || e.target.matches("select, textarea, input:not([type=checkbox])")) return;
  const row = e.target.closest("tbody tr");
  if (!row || !table.contains(row)) return;
  const stops = (r) => [...r.querySelectorAll("a[href], button, input, summary")];
  let next3 = step2 > 0 ? row.nextElementSibling : row.previousElementSibling;
  while (next3?.classList.contains("spacer")) next3 = step2 > 0 ? next3.nextElementSibling : next3.previousElementSibling;
  if (!next3) return;
  e.preventDefault();
  const same2 = stops(row).indexOf(e.target);
  const to = stops(next3)[same2] ?? stops(next3)[0];
  to?.focus();
  to?.scrollIntoView({ block: "nearest" });
}

// lib/ui/json.js
var coloured = 1200;
var shown = 2e5;
var largest = 524288;
function JsonView({ value, label = "JSON", bare = false }) {
  const text = value instanceof Json ? value.text : String(value ?? "null");
  const [all, setAll] = useState(false);
  const read5 = useMemo(() => pretty(text), [text]);
  if (!read5.first) return html`${read5.why && html`<p class="row warn"><${Icon} name="warn" />${read5.why}</p>`}<div class=${"jsonbox " + (bare ? "bare" : "")}><pre class="json" tabindex="0" aria-label=${label}><${Hostile} text=${text} lines=${true} /></pre><${Copy} text=${text} label=${"Copy " + label} /></div>`;
  const { first: first2, rest } = read5;
  const part = all ? rest : rest.slice(0, shown);
  return html`<div class=${"jsonbox " + (bare ? "bare" : "")}>
    <pre class="json" tabindex="0" aria-label=${label}>${merge(first2).map((t) => t.type === "space" || t.type === "mark" ? t.text : html`<span class=${"j-" + t.type}>${visible(t.text)}</span>`)}${visible(part)}</pre>
    ${part.length < rest.length && html`<${Button} small=${true} onClick=${() => setAll(true)}>Show all ${bytes(rest.length)}<//>`}
    <${Copy} text=${text} label=${"Copy " + label} /></div>`;
}
function pretty(text) {
  if (text.length > largest) return {};
  const wrong = check(text);
  if (wrong) return { why: wrong.tooDeep && "It is nested too deeply to be laid out: this is the text as it came." };
  const tokens2 = prettyTokens(text);
  return { first: tokens2.slice(0, coloured), rest: tokens2.slice(coloured).map((t) => t.text).join("") };
}
function merge(tokens2) {
  const out = [];
  for (const t of tokens2) {
    const last2 = out.at(-1);
    if (last2 && isPlain(last2) && isPlain(t)) last2.text += t.text;
    else out.push({ ...t });
  }
  return out;
}
var isPlain = (t) => t.type === "space" || t.type === "mark";
function JsonLine({ value, most: most3 = 120 }) {
  const text = visible((value instanceof Json ? value.text : String(value ?? "")).replace(/\s+/g, " "));
  return html`<code class="jsonline"><bdi>${text.length > most3 ? text.slice(0, most3) + "…" : text}</bdi></code>`;
}

// lib/markdown.js
var largest2 = 65536;
var mostLines = 8e3;
var mostCells = 6e3;
var mostPairs = 16e6;
var deepest2 = 40;
var loading;
var parser = () => loading ??= import("../vendor/markdown-3cf813b87a.js");
var count2 = (text, pattern) => (text.match(pattern) ?? []).length;
var nested = new RegExp(`^(?:[ \\t]*(?:>|[-+*](?=[ \\t])|\\d{1,9}[.)](?=[ \\t]))){${deepest2}}`, "m");
function tooCostly(text) {
  if (text.length > largest2 || count2(text, /\n/g) > mostLines || count2(text, /\|/g) > mostCells || nested.test(text)) return true;
  return text.split(/\n[ \t]*\n/).reduce((sum, block) => sum + count2(block, /[*_~]+/g) ** 2, 0) > mostPairs;
}
function Markdown({ text }) {
  const [tree, setTree] = useState(null);
  useEffect(() => {
    let gone = false;
    setTree(null);
    if (tooCostly(text)) return;
    parser().then((m) => gone || setTree(m.parse(text))).catch(() => {
    });
    return () => gone = true;
  }, [text]);
  if (!tree) return html`<div class="md plain"><${Hostile} text=${text} lines=${true} /></div>`;
  return html`<div class="md">${children(tree, { defs: definitions(tree), depth: 0 })}</div>`;
}
function walk2(root2, visit) {
  const open = [root2];
  for (let node; node = open.pop(); ) {
    visit(node);
    if (node.children) open.push(...node.children.toReversed());
  }
}
function definitions(tree) {
  const all = /* @__PURE__ */ new Map();
  walk2(tree, (n) => n.type === "definition" && all.set(n.identifier, n));
  return all;
}
function flat(root2) {
  const parts4 = [];
  walk2(root2, (n) => n.value !== void 0 && parts4.push(n.value));
  return parts4.join(" ");
}
function children(node, at) {
  if (at.depth >= deepest2) return html`<${Hostile} text=${flat(node)} lines=${true} />`;
  return node.children.map((c) => element(c, { ...at, depth: at.depth + 1 }));
}
function safeLink(to) {
  try {
    const url = new URL(to);
    return url.protocol === "http:" || url.protocol === "https:" ? url : null;
  } catch {
    return null;
  }
}
function link(to, content) {
  const url = safeLink(to);
  if (!url) return html`<span class="deadlink">${content} <code><${Hostile} text=${to} /></code></span>`;
  return html`<a href=${url.href} target="_blank" rel="noopener noreferrer">${content}</a><span class="host"> (${url.host})</span>`;
}
var picture = (to, alt) => {
  const url = safeLink(to);
  return html`<span class="picture">Image${alt ? html`: <${Hostile} text=${alt} />` : ""} ${url && link(to, "open")}</span>`;
};
var elements = {
  paragraph: (n, d) => html`<p>${children(n, d)}</p>`,
  text: (n) => html`<${Hostile} text=${n.value} lines=${true} />`,
  emphasis: (n, d) => html`<em>${children(n, d)}</em>`,
  strong: (n, d) => html`<strong>${children(n, d)}</strong>`,
  delete: (n, d) => html`<del>${children(n, d)}</del>`,
  inlineCode: (n) => html`<code><${Hostile} text=${n.value} /></code>`,
  break: () => html`<br />`,
  thematicBreak: () => html`<hr />`,
  blockquote: (n, d) => html`<blockquote>${children(n, d)}</blockquote>`,
  html: (n) => html`<code class="raw"><${Hostile} text=${n.value} lines=${true} /></code>`,
  code: (n) => html`<div class="codeblock">${n.lang && html`<span class="lang"><${Hostile} text=${n.lang} /></span>`}<pre tabindex="0"><code><${Hostile} text=${n.value} lines=${true} /></code></pre><${Copy} text=${n.value} label="Copy the code" /></div>`,
  link: (n, d) => link(n.url, children(n, d)),
  linkReference: (n, d) => d.defs.has(n.identifier) ? link(d.defs.get(n.identifier).url, children(n, d)) : html`[${children(n, d)}]`,
  image: (n) => picture(n.url, n.alt),
  imageReference: (n, d) => picture(d.defs.get(n.identifier)?.url ?? "", n.alt),
  definition: () => null,
  list: (n, d) => n.ordered ? html`<ol start=${n.start ?? 1}>${children(n, d)}</ol>` : html`<ul>${children(n, d)}</ul>`,
  listItem: (n, d) => html`<li>${typeof n.checked === "boolean" && html`<input type="checkbox" disabled checked=${n.checked} aria-label=${n.checked ? "done" : "open"} />`}${n.children.map((c) => c.type === "paragraph" && !n.spread ? children(c, d) : element(c, d))}</li>`,
  table: (n, d) => {
    const [head, ...body] = n.children;
    const row = (r, tag) => html`<tr>${r.children.map((c, i) => html`<${tag} class=${n.align?.[i] ? "to-" + n.align[i] : void 0}>${children(c, d)}<//>`)}</tr>`;
    return html`<div class="mdtable" tabindex="0"><table><thead>${row(head, "th")}</thead><tbody>${body.map((r) => row(r, "td"))}</tbody></table></div>`;
  }
};
function element(node, at) {
  if (node.type === "heading") {
    const tag = "h" + Math.min(6, Math.max(3, node.depth + 1));
    return html`<${tag}>${children(node, at)}<//>`;
  }
  const make = elements[node.type];
  if (make) return make(node, at);
  return node.children ? children(node, at) : html`<${Hostile} text=${node.value ?? ""} lines=${true} />`;
}

// lib/resource.js
function useResource(load8, deps, { keep = true } = {}) {
  const [state, setState] = useState({ loading: true });
  const current = useRef(null);
  const alive = useRef(true);
  const start2 = useCallback(async (fresh3) => {
    current.current?.abort();
    const mine = current.current = new AbortController();
    setState((s) => ({ data: fresh3 && !keep ? void 0 : s.data, stale: fresh3, error: void 0, loading: true }));
    for (let n = 0; !mine.signal.aborted; n++) {
      try {
        const data = await load8(mine.signal);
        if (!mine.signal.aborted) setState({ data, loading: false });
        return data;
      } catch (error) {
        if (mine.signal.aborted) return;
        const passing = error instanceof ApiError && error.passing;
        if (!passing && !(error instanceof ApiError)) console.error(error);
        setState((s) => ({ ...s, error, loading: passing }));
        if (!passing) return;
        await new Promise((done) => setTimeout(done, backoff(n, error.retryAfter)));
      }
    }
  }, deps);
  useEffect(() => {
    alive.current = true;
    start2(true);
    return () => {
      alive.current = false;
      current.current?.abort();
    };
  }, [start2]);
  const setData = useCallback((change) => alive.current && setState((s) => ({ ...s, data: typeof change === "function" ? change(s.data) : change })), []);
  return { ...state, reload: useCallback(() => start2(false), [start2]), setData };
}
function useEvery(seconds, act, on = true) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    if (!on) return;
    let busy = false, due = 0;
    const go = async () => {
      if (busy || document.hidden || performance.now() < due) return;
      busy = true;
      try {
        await latest.current();
      } finally {
        busy = false;
        due = performance.now() + seconds * 1e3 - 50;
      }
    };
    due = performance.now() + seconds * 1e3 - 50;
    const timer = setInterval(go, seconds * 1e3);
    document.addEventListener("visibilitychange", go);
    return () => (clearInterval(timer), document.removeEventListener("visibilitychange", go));
  }, [seconds, on]);
}

// lib/live.js
var locks = globalThis.isSecureContext && navigator.locks ? navigator.locks : null;
var channel = globalThis.BroadcastChannel ? new BroadcastChannel("ao-live") : null;
var slots = 4;
var silence = 45e3;
var liveState = signal("off");
var streams = /* @__PURE__ */ new Map();
function overall() {
  const states = [...streams.values()].map((s) => s.state);
  liveState.value = ["retrying", "connecting", "polling", "live"].find((s) => states.includes(s)) ?? "off";
}
function behind(a, b) {
  if (!a || !b) return false;
  const [x, y] = [a, b].map((p) => p.split("-").map((n) => parseInt(n, 10) || 0));
  return x[0] < y[0] || (x[1] ?? 0) < (y[1] ?? 0);
}
var note = (id) => /^\d+$/.test(id ?? "") && notePosition(id);
var Stream = class {
  constructor(path2) {
    this.path = path2;
    this.readers = /* @__PURE__ */ new Set();
    this.last = "";
    this.state = "connecting";
    this.queue = [];
    this.told = [];
    this.stop = null;
  }
  open() {
    if (this.stop) return;
    this.stop = new AbortController();
    const { signal: signal2 } = this.stop;
    this.setState("connecting");
    channel?.postMessage({ path: this.path, kind: "hello" });
    const lead = () => this.lead(signal2);
    if (locks && channel) locks.request("ao-live:" + this.path, { signal: signal2 }, lead).catch(() => {
    });
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
  async lead(signal2) {
    this.leading = true;
    this.last ||= [...this.readers].map((r) => r.from).find(Boolean) ?? "";
    for (let n = 0; !signal2.aborted; ) {
      const slot = await takeSlot(signal2) ?? await askForSlot(signal2);
      try {
        await this.read(signal2, slot ? 0 : 1500, () => n = 0);
      } catch (err) {
        if (signal2.aborted) break;
        if (!this.mayRetry(err)) break;
        this.setState("retrying");
        await sleep(backoff(n++, err.retryAfter), signal2);
        continue;
      } finally {
        slot?.();
      }
      if (!slot) {
        this.setState("polling");
        await sleep(4e3, signal2);
      } else if (!signal2.aborted) await sleep(backoff(n++), signal2);
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
  async read(signal2, limit, onOpen) {
    const inner = new AbortController();
    const abort = () => inner.abort();
    signal2.addEventListener("abort", abort, { once: true });
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
      const parser2 = new Parser((id, event, data) => this.arrived(id, event, data));
      for (; ; ) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(abort, silence);
        parser2.push(value);
        this.pass();
      }
    } catch (err) {
      if (limit && inner.signal.aborted && !signal2.aborted) return;
      throw err;
    } finally {
      this.pass();
      clearTimeout(watchdog);
      signal2.removeEventListener("abort", abort);
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
};
function lazily(text) {
  let data, done = false;
  return () => done ? data : (done = true, data = decode2(text));
}
function soon(act) {
  if (document.hidden) setTimeout(act, 200);
  else requestAnimationFrame(() => act());
}
function sleep(ms2, signal2) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms2);
    signal2.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}
async function refused(res) {
  let body = {};
  try {
    body = decode2(await res.text());
  } catch {
  }
  const retryAfter = parseInt(res.headers.get("Retry-After"), 10);
  return new ApiError(res.status, body.error ?? "http_" + res.status, body.message ?? `The stream answered ${res.status}`, body, Number.isFinite(retryAfter) ? retryAfter : void 0);
}
function streamError(text) {
  const body = decode2(text);
  const status = body.error === "unauthorized" ? 401 : body.error === "forbidden" ? 403 : 503;
  return new ApiError(status, body.error, body.message ?? "The stream ended", body);
}
async function takeSlot(signal2) {
  if (!locks) return () => {
  };
  for (let i = 0; i < slots; i++) {
    const free = await new Promise((taken) => {
      locks.request("ao-slot-" + i, { ifAvailable: true }, (lock) => {
        if (!lock || signal2.aborted) return taken(void 0);
        return new Promise((release) => taken(release));
      }).catch(() => taken(void 0));
    });
    if (free) return free;
  }
}
async function askForSlot(signal2) {
  channel?.postMessage({ kind: "slot" });
  await sleep(200, signal2);
  return takeSlot(signal2);
}
var Parser = class {
  constructor(onItem) {
    this.onItem = onItem;
    this.rest = "";
    this.fields = { id: "", event: "", data: null };
  }
  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line2 of lines) this.line(line2);
  }
  line(line2) {
    const f = this.fields;
    if (line2 === "") {
      if (f.data !== null) this.onItem(f.id, f.event || "message", f.data);
      this.fields = { id: "", event: "", data: null };
      return;
    }
    const colon = line2.indexOf(":");
    const name = colon < 0 ? line2 : line2.slice(0, colon);
    const value = colon < 0 ? "" : line2.slice(colon + 1).replace(/^ /, "");
    if (name === "data") f.data = f.data === null ? value : f.data + "\n" + value;
    else if (name === "id" || name === "event") f[name] = value;
  }
};
channel?.addEventListener("message", (e) => {
  if (e.data.kind !== "slot") streams.get(e.data.path)?.heard(e.data);
  else if (document.hidden) streams.forEach((s) => s.close());
});
var hideTimer;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hideTimer);
  if (!document.hidden) return streams.forEach((s) => s.open());
  if (!locks) hideTimer = setTimeout(() => streams.forEach((s) => s.close()), 1e3);
});
function subscribe(path2, { from = "", onItems, onGap, onState, onError }) {
  let s = streams.get(path2);
  if (!s) streams.set(path2, s = new Stream(path2));
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
    streams.delete(path2);
    overall();
  };
}
function useLive(path2, handlers, from) {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    if (!path2) return;
    const call = (name) => (x) => latest.current[name]?.(x);
    return subscribe(path2, { from, onItems: call("onItems"), onGap: call("onGap"), onState: call("onState"), onError: call("onError") });
  }, [path2]);
}
addEventListener("pagehide", () => streams.forEach((s) => s.close()));
addEventListener("pageshow", (e) => e.persisted && streams.forEach((s) => s.open()));

// pages/palette.js
var pages = [
  ["Overview", "/ui/", "overview"],
  ["Runs", "/ui/runs", "runs"],
  ["Failed runs", "/ui/runs?status=failed", "runs"],
  ["Waiting runs", "/ui/runs?status=pending", "runs"],
  ["Sessions", "/ui/sessions", "sessions"],
  ["Agents", "/ui/agents", "agents"],
  ["Schemas", "/ui/schemas", "schemas"],
  ["Runners", "/ui/runners", "runners"],
  ["Queues", "/ui/queues", "queues"],
  ["Callbacks", "/ui/callbacks", "callbacks"],
  ["Doctor", "/ui/settings?tab=doctor", "settings"],
  ["Effective settings", "/ui/settings?tab=settings", "settings"],
  ["Audit log", "/ui/settings?tab=audit", "shield"]
];
var actions = () => [
  { label: "New run", icon: "plus", needs: "POST /runs", run: () => navigate("/ui/new") },
  { label: "New agent", icon: "plus", needs: "POST /agents", run: () => navigate("/ui/agents?new=1") },
  { label: "Prove that nothing was lost", icon: "shield", needs: "GET /ledger", run: () => navigate("/ui/?prove=1") },
  { label: "Show me: an agent with four children", icon: "play", needs: "POST /runs", run: () => navigate("/ui/?first=") },
  { label: zone.value === "utc" ? "Show times in local time" : "Show times in UTC", icon: "clock", run: () => setZone(zone.value === "utc" ? "local" : "utc") },
  { label: theme.value === "dark" ? "Light theme" : "Dark theme", icon: theme.value === "dark" ? "sun" : "moon", run: () => setTheme(theme.value === "dark" ? "light" : "dark") }
];
function ofPage() {
  const controls2 = [...document.querySelectorAll(".page > header .actions :is(button, a.button)")];
  return controls2.filter((c) => c.getAttribute("aria-disabled") !== "true" && nameOf(c) !== "").map((c) => ({ label: `Here: ${nameOf(c)}`, icon: "chevron", needs: c.dataset.needs, run: () => setTimeout(() => c.isConnected && c.click()) }));
}
var nameOf = (control) => (control.getAttribute("aria-label") ?? control.textContent).trim();
var ids = [[/^run_[0-9A-Za-z]+$/, "Run", "/ui/runs/", "runs"], [/^ses_[0-9A-Za-z_-]+$/, "Session", "/ui/sessions/", "sessions"], [/^rnr_[0-9A-Za-z]+$/, "Runs of runner", "/ui/runs?runner_id=", "runners"]];
function found(text, names3, here2) {
  const t = text.trim(), low = t.toLowerCase();
  const has = (label) => low === "" || label.toLowerCase().includes(low);
  const items = [];
  for (const [pattern, label, to, icon] of ids) if (pattern.test(t)) items.push({ label: `${label} ${t}`, icon, run: () => navigate(to + seg(t)) });
  for (const a of [...here2, ...actions()]) if (has(a.label)) items.push(a);
  for (const [label, to, icon] of pages) if (has(label)) items.push({ label, icon, run: () => navigate(to) });
  if (low !== "") {
    for (const n of names3.filter((n2) => has(n2.name)).slice(0, 12)) items.push({ label: `${n.kind} ${n.name}`, icon: n.icon, run: () => navigate(n.to) });
    items.push({ label: `Search the runs for “${t}”`, icon: "search", run: () => navigate("/ui/runs?q=" + seg(t)) });
  }
  return items;
}
async function loadNames(signal2) {
  const list2 = async (route3, path2, read5) => may(route3) ? read5(await get(path2, {}, { signal: signal2 })) : [];
  const [agents, schemas] = await Promise.all([
    list2("GET /agents", "/agents", (d) => d.agents.map((a) => ({ kind: "Agent", icon: "agents", name: a.name, to: "/ui/agents/" + seg(a.name) }))),
    list2("GET /schemas", "/schemas", (d) => d.schemas.filter((s) => !s.error).map((s) => ({ kind: "Schema", icon: "schemas", name: s.name, to: "/ui/schemas/" + seg(s.name) })))
  ]);
  return [...agents, ...schemas];
}
function Palette({ onClose }) {
  const dialog = useRef(), list2 = useRef();
  const base = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const names3 = useResource(loadNames, []);
  const here2 = useMemo(ofPage, []);
  const items = useMemo(() => found(text, names3.data ?? [], here2), [text, names3.data, zone.value, theme.value]);
  const chosen = Math.min(at, items.length - 1);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => (dialog.current?.close(), before?.focus?.());
  }, []);
  useEffect(() => list2.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);
  const act = (item) => {
    if (!item || refusal(item.needs)) return;
    onClose();
    item.run();
  };
  const key = (e) => {
    const step2 = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step2) {
      e.preventDefault();
      setAt((chosen + step2 + items.length) % Math.max(1, items.length));
    } else if (e.key === "Enter") {
      e.preventDefault();
      act(items[chosen]);
    } else if (e.key === "Escape") {
      e.preventDefault();
      onClose();
    }
  };
  return html`<dialog ref=${dialog} class="palette" aria-label="Search and actions" onCancel=${(e) => (e.preventDefault(), onClose())} onMouseDown=${(e) => e.target === dialog.current && onClose()}>
    <div class="palettebox"><div class="search"><${Icon} name="search" /><input type="search" role="combobox" aria-expanded="true" aria-controls=${base} aria-activedescendant=${items.length ? `${base}-${chosen}` : void 0}
        aria-label="An id, a name, a page or an action" placeholder="An id, a name, a page or an action" autocomplete="off" spellcheck=${false} value=${text}
        onInput=${(e) => (setText(e.currentTarget.value), setAt(0))} onKeyDown=${key} autofocus /></div>
      <ul ref=${list2} id=${base} role="listbox" aria-label="Results">${items.map((item, i) => html`<li key=${item.label} id=${`${base}-${i}`} role="option" aria-selected=${i === chosen} aria-disabled=${refusal(item.needs) ? "true" : void 0} title=${refusal(item.needs)} data-needs=${item.needs}
        onMouseMove=${() => setAt(i)} onClick=${() => act(item)}><${Icon} name=${item.icon} /><${Hostile} text=${item.label} /></li>`)}</ul></div></dialog>`;
}

// shell.js
var places = [
  [["overview", "/ui/", "Overview"], ["runs", "/ui/runs", "Runs"], ["sessions", "/ui/sessions", "Sessions"]],
  [["agents", "/ui/agents", "Agents"], ["schemas", "/ui/schemas", "Schemas"]],
  [["runners", "/ui/runners", "Runners"], ["queues", "/ui/queues", "Queues"], ["callbacks", "/ui/callbacks", "Callbacks"], ["settings", "/ui/settings", "Settings"]]
];
var here = (href, path2) => href === "/ui/" ? path2 === "/ui/" || path2 === "/ui" : path2 === href || path2.startsWith(href + "/");
function Connection() {
  const state = !reachable.value ? "away" : liveState.value;
  const say = {
    away: ["bad", "Reconnecting"],
    retrying: ["bad", "Reconnecting"],
    connecting: ["soft", "Connecting"],
    live: ["good", "Live", "Changes arrive as they happen"],
    polling: ["soft", "Polling", "This page asks for changes every few seconds"],
    off: ["off", "Connected", "This page is not live: reload it to see changes"]
  }[state];
  return html`<p class=${"connection " + say[0]} role="status" title=${say[2]}><span class="lamp" aria-hidden="true"></span>${say[1]}</p>`;
}
var next2 = { auto: "light", light: "dark", dark: "auto" };
function Foot() {
  const who = me.value;
  return html`<footer>
    <${Connection} />
    <div class="choices">
      <button type="button" class="plain" title="Switch between local time and UTC" onClick=${() => setZone(zone.value === "utc" ? "local" : "utc")} aria-label=${"Times are shown in " + zoneName() + ". Change"}><${Icon} name="clock" />${zoneName()}</button>
      <button type="button" class="plain" title="Switch the theme" onClick=${() => setTheme(next2[theme.value])} aria-label=${"Theme: " + theme.value + ". Change"}><${Icon} name=${{ auto: "auto", light: "sun", dark: "moon" }[theme.value]} />${theme.value}</button>
    </div>
    ${who.login && html`<div class="who"><span title=${`Scope ${who.scope}`}><bdi>${who.name}</bdi> <span class="faint">${who.scope}</span></span>
      <button type="button" class="plain" aria-label="Log out" title="Log out" onClick=${logout}><${Icon} name="logout" /></button></div>`}
  </footer>`;
}
async function logout() {
  try {
    await send("POST", "/logout");
    location.assign("/ui/login");
  } catch (err) {
    toast(err.message, { kind: "bad" });
  }
}
function Navigation({ onSearch }) {
  const { path: path2 } = address.value;
  return html`<a class="brand" href="/ui/"><svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true"><rect width="32" height="32" rx="8" class="mark" /><g fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round"><path d="M9.5 16h5c5 0 8-2 8-6M14.5 16c5 0 8 2 8 6" /></g><g fill="#fff"><circle cx="9.5" cy="16" r="3" /><circle cx="22.5" cy="10" r="3" /><circle cx="22.5" cy="22" r="3" /></g></svg><span>Agent Orchestrator</span></a>
    <div class="first"><${Button} kind="primary" icon="plus" href="/ui/new" needs="POST /runs">New run<//>
      <${Button} icon="search" title="Search (Ctrl-K)" onClick=${onSearch}><span class="wide">Search</span><kbd>Ctrl K</kbd><//></div>
    <nav aria-label="Pages">${places.map((group2) => html`<ul>${group2.map(([icon, href, label]) => html`<li><a href=${href} aria-current=${here(href, path2) ? "page" : void 0}><${Icon} name=${icon} />${label}</a></li>`)}</ul>`)}</nav>
    <${Foot} />`;
}
function usePalette() {
  const [open, setOpen] = useState(false);
  const show2 = () => setOpen(true);
  useLayoutEffect(() => {
    const key = (e) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey) return;
      e.preventDefault();
      show2();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  return [show2, open ? html`<${Palette} onClose=${() => setOpen(false)} />` : null];
}
function Shell({ children: children2 }) {
  const [search, palette] = usePalette();
  const [menu, setMenu] = useState(false);
  const side = useRef();
  const { path: path2 } = address.value;
  useEffect(() => setMenu(false), [path2]);
  useEffect(() => {
    if (!menu) return;
    const key = (e) => e.key === "Escape" && setMenu(false);
    addEventListener("keydown", key);
    side.current.querySelector("a, button")?.focus();
    return () => removeEventListener("keydown", key);
  }, [menu]);
  return html`<a class="skip" href="#main" onClick=${(e) => (e.preventDefault(), document.getElementById("main").focus())}>Skip to content</a>
    <div class="topbar"><button type="button" class="plain" aria-label="Menu" aria-expanded=${menu} onClick=${() => setMenu(!menu)}><${Icon} name="menu" /></button><span>Agent Orchestrator</span>
      <button type="button" class="plain" aria-label="Search" onClick=${search}><${Icon} name="search" /></button>${may("POST /runs") && html`<a class="plain" href="/ui/new" aria-label="New run"><${Icon} name="plus" /></a>`}</div>
    <aside aria-label="Navigation" class=${"side " + (menu ? "open" : "")} ref=${side}><${Navigation} onSearch=${search} /></aside>
    ${menu && html`<div class="veil" onClick=${() => setMenu(false)}></div>`}
    <main id="main" tabindex="-1" data-scroller>${children2}</main>
    ${palette}<${Toasts} />`;
}

// lib/runs.js
var runs_exports = {};
__export(runs_exports, {
  About: () => About,
  Given: () => Given,
  agentNames: () => agentNames,
  countCallbacks: () => countCallbacks,
  doMany: () => doMany,
  each: () => each,
  ended: () => ended,
  exportRuns: () => exportRuns,
  newer: () => newer,
  onlyPrompt: () => onlyPrompt,
  promptOf: () => promptOf,
  redeliver: () => redeliver,
  redeliverable: () => redeliverable,
  retryRun: () => retryRun,
  save: () => save,
  selects: () => selects,
  statuses: () => statuses,
  stopRun: () => stopRun
});
var statuses = ["pending", "claimed", "running", "stopping", "completed", "failed", "stopped"];
var rank = { parked: 0, pending: 0, claimed: 1, running: 2, stopping: 3, completed: 4, failed: 4, stopped: 4 };
var ended = (run) => rank[run.status] === 4;
var step = (run) => run.next_attempt_at && !ended(run) ? 3.5 : rank[run.status];
function newer(old, next3) {
  if (!old) return next3;
  const behind2 = ended(old) && !ended(next3) || (next3.attempt ?? 0) < (old.attempt ?? 0) || next3.attempt === old.attempt && step(next3) < step(old);
  return behind2 ? old : { ...next3, children: next3.children ?? old.children };
}
var selects = (status, run) => !status || status.split(",").includes(run.status);
function About({ run }) {
  if (run.error && run.status !== "completed") return html`<span class=${run.status === "failed" ? "bad" : "soft"}><code><${Hostile} text=${run.error.error} /></code> <${Text} text=${run.error.message} /></span>`;
  if (run.status === "pending" && run.waiting_for) return html`<span class="soft"><${Text} text=${run.waiting_for} /></span>`;
  if (run.parameters === void 0 && run.callback) return html`<span class="soft called"><${Icon} name="callbacks" />callback ${run.callback.status}</span>`;
  return html`<${Given} parameters=${run.parameters} omitted=${run.parameters_omitted} />`;
}
function Given({ parameters, omitted, most: most3 = 200 }) {
  if (omitted) return html`<span class="faint">large parameters</span>`;
  if (!parameters) return html`<span class="none">–</span>`;
  const prompt = onlyPrompt(parameters);
  const turn = prompt !== void 0 && calledBack(prompt);
  if (turn) return html`<span class="soft called"><${Icon} name="callbacks" />${turn.count ? `callbacks from ${turn.count} child runs` : html`callback: ${turn.status} <${Id} id=${turn.session} copy=${false} />`}</span>`;
  if (prompt !== void 0) return html`<span class="soft"><${Hostile} text=${prompt.slice(0, most3).replace(/\s+/g, " ")} /></span>`;
  return html`<${JsonLine} value=${parameters} most=${most3} />`;
}
function onlyPrompt(parameters) {
  if (parameters?.members.length !== 1) return void 0;
  return parameters.member("prompt")?.string();
}
var promptOf = (parameters) => parameters?.member("prompt")?.string();
function calledBack(prompt) {
  const one = /^<agent-callback session="([^"<>]+)" status="([a-z]+)">/.exec(prompt);
  if (one) return { session: one[1], status: one[2] };
  const many = /^<agent-callback type="aggregated" count="(\d+)">/.exec(prompt);
  return many ? { count: many[1] } : void 0;
}
var stopRun = (id, tree) => send("POST", `/runs/${seg(id)}/stop`, tree ? '{"tree":true}' : void 0);
var retryRun = (id, key, changes = "{}") => send("POST", `/runs/${seg(id)}/retry`, changes, { headers: { "Idempotency-Key": key } });
var redeliver = (id) => send("POST", `/callbacks/${seg(id)}/redeliver`);
var callbackFilters = ["agent_name", "session_id", "parent_session_id", "created_after"];
function redeliverable({ status, ...filter }) {
  const chosen = (status || "dead,owed").split(",").filter((s) => s === "dead" || s === "owed");
  if (chosen.length === 0 || Object.keys(filter).some((name) => filter[name] && !callbackFilters.includes(name))) return void 0;
  return { ...filter, status: chosen.join(",") };
}
async function countCallbacks(filter, signal2) {
  let n = 0, cursor = "";
  do {
    const page = await get("/callbacks", { ...filter, limit: 1e3, cursor }, { signal: signal2 });
    n += page.callbacks.filter((r) => r.http_callback && filter.status.split(",").includes(r.http_callback.status)).length;
    cursor = page.next_cursor ?? "";
  } while (cursor);
  return n;
}
async function each(ids2, act, onProgress) {
  const errors = /* @__PURE__ */ new Map();
  const rest = [...ids2];
  let done = 0;
  const worker = async () => {
    for (let id; (id = rest.shift()) !== void 0; ) {
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
async function doMany(path2, filter, expect, key, onProgress) {
  const pairs2 = Object.entries(filter).filter(([, v]) => v).map(([k, v]) => [k, quote(v)]);
  const refused2 = [];
  for (let part = 0, went = 0, more = ["expect", String(expect)]; ; part++) {
    const answer2 = await send("POST", path2, object([...pairs2, more]), { headers: { "Idempotency-Key": `${key}-${part}` } });
    went += answer2.count;
    refused2.push(...(answer2.refused ?? []).map((r) => r.error ?? r));
    onProgress?.(went);
    if (!answer2.next_cursor) return { went, refused: refused2 };
    more = ["cursor", quote(answer2.next_cursor)];
  }
}
async function exportRuns(format, filters) {
  const { response } = await request("GET", withQuery("/runs", { ...filters, format }), { raw: true });
  save("runs." + format, await response.blob());
}
function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const a = document.createElement("a");
  [a.href, a.download] = [url, name];
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1e4);
}
var agentNames = async (signal2) => (await get("/agents", {}, { signal: signal2 })).agents.map((a) => a.name).sort();

// lib/worker.js
var loopback = /^(?:127\.0\.0\.1|localhost|\[::1\])$/;
var keys = ["AO_NATS_USERS", "AO_NATS_CREDS", "AO_NATS_CA", "AO_NATS_CERT"];
function commandOf(settings, flags) {
  const value = (name) => settings.find((s) => s.name === name)?.value ?? "";
  const url = value("AO_NATS_URL") === "embed" ? "nats://" + value("AO_NATS_LISTEN") : value("AO_NATS_URL");
  const [, host, port] = /^nats:\/\/(.+):(\d+)$/.exec(url) ?? [];
  if (!loopback.test(location.hostname) || !loopback.test(host) || keys.some((name) => !["", "unset"].includes(value(name)))) return void 0;
  const there = host === "127.0.0.1" && port === "4222" ? "" : ` --nats-url ${shellQuote(url)}`;
  return `PATH=bin:$PATH ao worker${flags}${there}`;
}
function WorkerLine({ flags = "", after = "", does, otherwise }) {
  const settings = useResource(async (signal2) => may("GET /settings") ? (await get("/settings", {}, { signal: signal2 })).settings : [], []);
  const command = settings.data && commandOf(settings.data, flags);
  if (!command) return html`<p class="soft">${otherwise}</p>`;
  return html`<p class="soft">Run this in another terminal, in the folder of <code>scripts/up</code>: it ${does}</p><${CodeLine} text=${command + after} />`;
}
var StartWorker = () => html`<${WorkerLine} does="starts a worker." otherwise="Whoever runs this coordinator starts a worker with the address of its NATS, and its keys." />`;

// pages/proof.js
function Proof({ kind = "" }) {
  const [open, setOpen] = useState(query.value.has("prove"));
  return html`<${Button} icon="shield" kind=${kind} needs="GET /ledger" title="Recount every record in the log" onClick=${() => setOpen(true)}>Prove it<//>${open && html`<${Sums} onClose=${() => (setOpen(false), setQuery({ prove: null }))} />`}`;
}
function Sums({ onClose }) {
  const [state, setState] = useState({});
  const ask = async (signal2) => {
    setState({});
    const began = performance.now();
    try {
      const ledger2 = await get("/ledger", {}, { signal: signal2, patience: 6e4 });
      setState({ ledger: ledger2, took: performance.now() - began });
    } catch (error2) {
      if (!signal2?.aborted) setState({ error: error2 });
    }
  };
  useEffect(() => {
    const gone = new AbortController();
    ask(gone.signal);
    return () => gone.abort();
  }, []);
  const { ledger, error, took } = state;
  return html`<${Dialog} title="Is every run accounted for?" wide=${true} onClose=${onClose} footer=${html`<${Button} icon="retry" busy=${!ledger && !error} onClick=${() => ask()}>Count again<//><${Button} kind="primary" onClick=${onClose}>Close<//>`}>
    ${error ? html`<${Failed} error=${error} what="The ledger" />` : !ledger ? html`<p class="faint">Reading every record in the log…</p><${Loading} lines=${4} />` : html`<${Ledger} ledger=${ledger} took=${took} />`}<//>`;
}
function Ledger({ ledger: l, took }) {
  const { runs: r, callbacks: c, webhooks: w, attempts: a } = l;
  return html`<div class=${"banner " + (l.ok ? "good" : "bad")} role="status"><${Icon} name=${l.ok ? "check" : "warn"} /><b>${l.ok ? "Yes. Nothing was lost, nothing was done twice." : `No: ${plural(l.wrong_count, "problem was", "problems were")} found.`}</b></div>
    <p class="soft">${plural(l.records, "record")} read, up to number ${count(l.sequence)}${took !== void 0 && `, in ${duration(took)}`}. The coordinator's own state was not used, and each number below is counted separately.</p>
    <${Sum} of="runs accepted" total=${r.accepted} parts=${[["waiting", r.waiting], ["running", r.running], ["ended", r.ended]]} />
    <${Sum} of="runs ended" total=${r.ended} parts=${[["completed", r.completed], ["failed", r.failed], ["stopped", r.stopped]]} />
    <${Sum} of="callbacks owed to parents" total=${c.owed} parts=${[["delivered", c.delivered], ["waiting", c.waiting], ["undeliverable", c.undeliverable], ["suppressed", c.suppressed ?? 0]]} />
    ${w.owed > 0 && html`<${Sum} of="webhooks owed" total=${w.owed} parts=${[["delivered", w.delivered], ["waiting", w.waiting], ["dead", w.dead]]} />`}
    <p class="soft">${plural(a.begun, "attempt")} claimed, ${count(a.ended)} ended, ${count(a.retried)} retried. ${plural(l.sessions, "session")}.${l.truncated_before > 1 ? ` Records before ${count(l.truncated_before)} are no longer kept.` : ""}</p>
    ${l.wrong.length > 0 && html`<ul class="wrongs">${l.wrong.map((x) => html`<li><code>${x.kind}</code> <${Hostile} text=${x.message} /> ${x.run_id && html`<${Id} id=${x.run_id} href=${"/ui/runs/" + seg(x.run_id)} />`}${x.sequence && html` <span class="faint">record ${x.sequence}</span>`}</li>`)}</ul>`}`;
}
function Sum({ of, total, parts: parts4 }) {
  const sum = parts4.reduce((n, [, v]) => n + v, 0);
  return html`<p class="sum"><b class="num">${count(total)}</b> <span>${of}</span> <span class="eq" aria-label=${sum === total ? "is" : "is not"}>${sum === total ? "=" : "≠"}</span> ${parts4.map(([name, v], i) => html`${i > 0 && html`<span class="faint">+</span>`} <span class="part"><b class="num">${count(v)}</b> ${name}</span> `)}</p>`;
}

// pages/firstminute.js
var [showMe, summary] = ["show-me", "show-me-summary"];
var child = (agent, prompt) => `@child ${agent} async_callback ${object([["prompt", quote(prompt)]])}`;
var script = [
  "@say I am asking four other agents. I continue when they have answered.",
  child(summary, '@sleep 4s\n@say Reading the document\n@sleep 3s\n@json {"wrong":1}'),
  child(showMe, "@sleep 2s\n@say Looking for names\n@sleep 8s"),
  child(showMe, "@sleep 5s\n@fail source_unreachable The source does not answer"),
  child(showMe, "@sleep 12s\n@say Scanning the code")
].join("\n");
var runBody = (agent, prompt, more = []) => object([["agent_name", quote(agent)], ["prompt", quote(prompt)], ...more]);
function FirstMinute() {
  const session = query.value.get("first");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey());
  const show2 = async () => {
    setBusy(true);
    setError(null);
    try {
      const made2 = await send("POST", "/runs", runBody(showMe, script), { headers: { "Idempotency-Key": key.current } });
      setQuery({ first: made2.session_id }, { push: true });
    } catch (err) {
      setError(err);
    }
    setBusy(false);
  };
  const missing = useResource((signal2) => session ? "" : missingOf(signal2), [session]);
  useEvery(2, missing.reload, Boolean(missing.data));
  const why = missing.data || void 0;
  return html`<${Card} title="The first minute" class="firstminute">
    ${!session ? html`<div class="state"><${Icon} name="tree" /><h2>See it work</h2><p>An agent starts four others. One answer is rejected and corrected, one child fails, and the parent gets a callback from each. It takes about 20 seconds and needs no model.</p>
      <div class="actions"><${Button} kind="primary" icon="play" needs="POST /runs" why=${why} busy=${busy} onClick=${show2}>Show me<//></div>${error && html`<${Problem} error=${error} />`}</div>` : html`<div class="stack"><${Live} session=${session} /><div class="row wrap"><${Proof} kind="primary" /><span class="soft">Reads every record in the log and recounts it, whatever the coordinators remember.</span></div><${Kill} /></div>`}<//>`;
}
async function missingOf(signal2) {
  const [{ runners }, { agents }] = await Promise.all([get("/runners", {}, { signal: signal2 }), get("/agents", { status: "active" }, { signal: signal2 })]);
  if (!runners.some((r) => r.status === "online" && r.executor_profile === "test")) return "No runner with the profile test is online. It needs no model: scripts/up starts one, and compose starts one unless AO_TEST_WORKERS is 0.";
  const away = [showMe, summary].filter((name) => !agents.some((a) => a.name === name));
  return away.length > 0 ? `The agents of the demonstration are not here: ${away.join(", ")}. scripts/up has them.` : "";
}
var over = (sessions) => sessions.length > 4 && sessions.every((s) => s.runs.every((r) => ["completed", "failed", "stopped"].includes(r.status))) && sessions[0].runs.length > 1;
function Live({ session }) {
  const tree = useResource((signal2) => get(`/sessions/${seg(session)}/tree`, { limit: 200 }, { signal: signal2 }), [session]);
  const sessions = tree.data?.sessions ?? [];
  const done = over(sessions);
  useEvery(0.5, tree.reload, !done);
  const begin2 = Date.parse(sessions[0]?.created_at ?? "");
  const all = sessions.flatMap((s) => s.runs);
  const end = Math.max(begin2 + 2e4, ...all.map((r) => Date.parse(r.completed_at ?? "") || 0));
  const place3 = (t) => `${100 * (Date.parse(t) - begin2) / (end - begin2)}%`;
  const width = (r) => `max(4px, ${100 * ((Date.parse(r.completed_at ?? "") || now()) - Date.parse(r.started_at ?? r.created_at)) / (end - begin2)}%)`;
  return html`<div class="stack" aria-live="off"><p class="row"><span class="grow soft">${done ? "Everything has ended. The parent got a callback from each child, the failed one too." : "Working…"}</span><a href=${`/ui/sessions/${seg(session)}/tree`}>Open the tree</a><a href=${`/ui/sessions/${seg(session)}`}>Open the conversation</a></p>
    ${tree.error && html`<${Problem} error=${tree.error} />`}
    <ul class="minitree">${sessions.flatMap((s) => s.runs.map((r, i) => html`<li key=${r.run_id} class=${"level" + Math.min(s.depth, 3)}>
      <a class="cut" href=${"/ui/runs/" + seg(r.run_id)}><${Text} text=${s.agent_name} />${i > 0 && html` <span class="faint">${r.reports?.length ? `callback from ${plural(r.reports.length, "child", "children")}` : "continues"}</span>`}</a>
      <${Status} status=${r.status} /><span class="lane" aria-hidden="true"><span class=${"piece look-" + r.status} style=${{ insetInlineStart: place3(r.started_at ?? r.created_at), width: width(r) }}></span></span>
      <span class="faint"><${Took} from=${r.started_at} to=${r.completed_at} running=${Boolean(r.started_at)} /></span>
      ${r.error && html`<span class="bad about"><${Hostile} text=${r.error.message ?? r.error.error} /></span>`}</li>`))}</ul></div>`;
}
var second = {
  flags: " -x test",
  after: " & sleep 12; kill -9 $!",
  does: "starts a second worker and kills it with SIGKILL after 12 seconds. Start the runs meanwhile.",
  otherwise: "Start a second worker with the profile test, and kill it with SIGKILL after 12 seconds. Start the runs meanwhile."
};
function Kill() {
  const [started2, setStarted] = useState(null);
  const [error, setError] = useState(null);
  const key = useRef(newKey());
  const start2 = async () => {
    setError(null);
    try {
      const since = (/* @__PURE__ */ new Date()).toISOString();
      const made2 = await Promise.all(Array.from({ length: 16 }, (_, i) => send("POST", "/runs", runBody(showMe, "@sleep 15s\n@say done", [["max_attempts", "3"]]), { headers: { "Idempotency-Key": `${key.current}-${i}` } })));
      setStarted({ since, ids: new Set(made2.map((m) => m.run_id)) });
    } catch (err) {
      setError(err);
    }
  };
  return html`<${Details} class="kill" summary="Kill a worker yourself"><div class="stack"><${WorkerLine} ...${second} />
    <p class="soft">Within one lease (15 s) the other worker takes over the runs of the dead one.</p><div><${Button} icon="play" needs="POST /runs" why=${started2 ? "They have started" : void 0} onClick=${start2}>Start 16 runs<//></div>
    ${error && html`<${Problem} error=${error} />`}${started2 && html`<${Takeover} ids=${started2.ids} />`}</div><//>`;
}
function Takeover({ ids: ids2 }) {
  const runs = useResource(async (signal2) => (await get("/runs", { agent_name: showMe, limit: 200 }, { signal: signal2 })).runs.filter((r) => ids2.has(r.run_id)), []);
  const rows = runs.data ?? [];
  const open = rows.filter((r) => !["completed", "failed", "stopped"].includes(r.status));
  useEvery(1, runs.reload, rows.length === 0 || open.length > 0);
  const by = Map.groupBy(open.filter((r) => r.runner_id), (r) => r.runner_id);
  const again = rows.filter((r) => r.attempt > 1).length;
  return html`<div class="stack"><p><${Num} value=${rows.filter((r) => r.status === "completed").length} /> of 16 completed. ${again > 0 && html`<strong>${plural(again, "run")} taken over from the worker that was killed.</strong>`}</p>
    <ul class="links">${[...by].map(([id, mine]) => html`<li><a href="/ui/runners"><${Hostile} text=${id} /></a><span>${plural(mine.length, "run")}</span></li>`)}<li><span class="soft">waiting</span><span>${open.filter((r) => !r.runner_id).length}</span></li></ul></div>`;
}

// pages/overview.js
var kept = 90;
function Overview() {
  const [points, setPoints] = useState([]);
  const status = useResource(async (signal2) => {
    const s = await get("/status", {}, { signal: signal2 });
    setPoints((p) => [...p.at(-1)?.since === s.since ? p : [], s].slice(-kept));
    return s;
  }, []);
  useEvery(2, status.reload);
  const empty = status.data && Object.values(status.data.runs).every((n) => n === 0);
  const first2 = empty || query.value.has("first");
  const doctor = useDoctor(status.data?.runners.online);
  const late = useLate(1e3);
  const ready = late || doctor.data || doctor.error;
  return html`<${Page} title="Overview" actions=${html`<${Proof} kind=${first2 ? "" : "primary"} />`}>
    ${ready ? html`<${Warnings} checks=${doctor.data?.checks ?? []} />
      ${first2 && html`<${FirstMinute} />`}
      <${Loaded} resource=${status} what="The status">${(s) => !empty && html`<${Now} status=${s} points=${points} />`}<//>` : html`<${Loading} />`}
  <//>`;
}
function useDoctor(online) {
  const doctor = useResource((signal2) => may("GET /doctor") ? get("/doctor", {}, { signal: signal2 }) : { checks: [] }, [me.value?.scope]);
  useEvery(60, doctor.reload);
  const before = useRef();
  useEffect(() => {
    if (before.current !== void 0 && before.current !== online) doctor.reload();
    before.current = online;
  }, [online]);
  return doctor;
}
function useLate(after) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => setLate(true), after);
    return () => clearTimeout(t);
  }, []);
  return late;
}
function Warnings({ checks }) {
  const bad = checks.filter((c) => c.verdict === "warn" || c.verdict === "fail");
  if (bad.length === 0) return null;
  return html`<section class="stack warnings" aria-label="Warnings of the doctor">${bad.map((c) => html`<div class=${"banner " + (c.verdict === "fail" ? "bad" : "warn")} key=${c.check}><${Icon} name="warn" /><div><p><b>${c.check}</b> <${Text} text=${c.what} /></p>${c.advice && html`<p><${Text} text=${c.advice} /></p>`}</div></div>`)}</section>`;
}
function rate(points, of, seconds = 20) {
  const last2 = points.at(-1);
  const first2 = points.findLast((p) => ms(last2.at) - ms(p.at) >= seconds * 1e3) ?? points[0];
  const span2 = (ms(last2.at) - ms(first2.at)) / 1e3;
  return span2 < 1 ? void 0 : (of(last2) - of(first2)) / span2;
}
var perSecond = (r) => r === void 0 ? "–" : r >= 100 ? count(Math.round(r)) : r >= 10 ? r.toFixed(1) : r.toFixed(2);
function Now({ status: s, points }) {
  const done = (p) => p.totals.completed + p.totals.failed + p.totals.stopped;
  const curves = useMemo(() => ({ done: deltas(points, done), accepted: deltas(points, (p) => p.totals.accepted), failed: deltas(points, (p) => p.totals.failed) }), [points]);
  const oldest = [s.not_queued?.oldest_since, ...s.queues.map((l) => l.oldest_since)].filter(Boolean).sort()[0];
  const online = s.runners.online ?? 0;
  const others = Object.entries(s.runners).filter(([k, n]) => k !== "online" && n > 0).map(([k, n]) => `${n} ${k}`);
  return html`<div class="figures">
      <${Figure} label="Waiting" value=${s.runs.pending} href="/ui/runs?status=pending" note=${oldest ? html`oldest <${Time} at=${oldest} as="ago" />` : "none waiting"} bad=${s.runs.pending > s.max_pending * 0.9} />
      <${Figure} label="Running" value=${s.runs.running + s.runs.claimed} href="/ui/runs?status=claimed,running" note=${s.runs.stopping > 0 ? count(s.runs.stopping) + " stopping" : html`<${Slots} slots=${s.slots} />`} />
      <${Figure} label="Accepted per second" value=${perSecond(rate(points, (p) => p.totals.accepted))} note=${html`<${Curve} values=${curves.accepted} />`} />
      <${Figure} label="Ended per second" value=${perSecond(rate(points, done))} note=${html`<${Curve} values=${curves.done} />`} />
      <${Figure} label="Failed" value=${s.totals.failed} href="/ui/runs?status=failed" note=${html`of ${count(done(s))} since <${Time} at=${s.since} />`} />
      <${Figure} label="Runners online" value=${online} href="/ui/runners" note=${others.length > 0 ? others.join(", ") : html`${plural(s.slots.all, "slot")}`} bad=${online === 0} />
    </div>
    <div class="grid two">
      <${Queues} status=${s} />
      <${Recent} title="In progress" filter=${{ status: "claimed,running,stopping" }} href="/ui/runs?status=claimed,running,stopping" none="Nothing is running." seq=${s.sequence} />
      <${Recent} title="Latest failures" filter=${{ status: "failed" }} href="/ui/runs?status=failed" none="No run has failed." seq=${s.sequence} />
      <${Recent} title="Latest runs" filter=${{}} href="/ui/runs" none="No runs yet." seq=${s.sequence} />
    </div>`;
}
var Figure = ({ label, value, note: note2, href, bad }) => html`<div class=${"figure " + (bad ? "bad" : "")}><span class="label">${href ? html`<a href=${href}>${label}</a>` : label}</span><b class="num">${typeof value === "number" ? count(value) : value}</b><span class="note">${note2}</span></div>`;
var Slots = ({ slots: slots2 }) => html`<span class="slots"><meter min="0" max=${slots2.all || 1} value=${slots2.taken} aria-label="Slots taken"></meter>${slots2.taken} of ${plural(slots2.all, "slot")}</span>`;
var deltas = (points, of) => points.slice(1).map((p, i) => Math.max(0, of(p) - of(points[i])));
function Curve({ values }) {
  if (values.length < 4) return html`<span class="faint">counting…</span>`;
  const most3 = Math.max(1, ...values), w = 120, h2 = 20;
  const x = (i) => w * i / (kept - 2) + w - w * (values.length - 1) / (kept - 2);
  const line2 = values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${(h2 - 1 - v / most3 * (h2 - 3)).toFixed(1)}`).join("");
  return html`<svg class="curve" viewBox=${`0 0 ${w} ${h2}`} width=${w} height=${h2} aria-hidden="true"><path d=${line2} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" /></svg>`;
}
function Queues({ status: s }) {
  const rows = s.queues.slice(0, 12);
  return html`<${Card} title="Queues" class="flush" actions=${html`<a href="/ui/queues">All ${plural(s.queues.length, "queue")}</a>`}>
    ${rows.length === 0 && !s.not_queued?.waiting ? html`<p class="faint pad">No run is waiting, and no runner serves a queue.</p>` : html`<table class="table fixed" aria-label="Queues"><thead><tr><th scope="col">Queue</th><th scope="col" class="end narrow">Waiting</th><th scope="col" class="end narrow hide3">Oldest</th><th scope="col" class="mid">Served</th></tr></thead><tbody>
      ${rows.map((l) => html`<tr key=${l.queue}><td><code class="clamp" title=${visible(l.queue)}><${Hostile} text=${l.queue} /></code></td><td class="end num">${count(l.waiting)}</td><td class="end hide3">${l.oldest_since ? html`<${Time} at=${l.oldest_since} as="ago" />` : html`<span class="none">–</span>`}</td><td>${l.served ? html`<${Status} status="online" label="yes" />` : html`<${Status} status="stale" label="no" />`}</td></tr>`)}
      ${s.not_queued?.waiting > 0 && html`<tr><td class="soft">not queued yet</td><td class="end num">${count(s.not_queued.waiting)}</td><td class="end hide3">${s.not_queued.oldest_since && html`<${Time} at=${s.not_queued.oldest_since} as="ago" />`}</td><td></td></tr>`}</tbody></table>`}
  <//>`;
}
function Recent({ title, filter, href, none: none2, seq }) {
  const runs = useResource((signal2) => get("/runs", { ...filter, limit: 7 }, { signal: signal2 }), []);
  const last2 = useRef(seq);
  useEffect(() => {
    if (seq === last2.current) return;
    last2.current = seq;
    runs.reload();
  }, [seq]);
  return html`<${Card} title=${title} class="flush" actions=${html`<a href=${href}>All</a>`}><${Loaded} resource=${runs} lines=${3}>${(data) => data.runs.length === 0 ? html`<p class="faint pad">${none2}</p>` : html`<ul class="recent">${data.runs.map((r) => html`<li key=${r.run_id}><${Status} status=${r.status} label="" /><span class="offscreen">${r.status}</span><a href=${"/ui/runs/" + seg(r.run_id)}><${Text} text=${r.agent_name} /></a><span class="cut grow"><${About} run=${r} /></span>
    <span class="faint num">${ended(r) ? html`<${Time} at=${r.completed_at ?? r.created_at} as="ago" />` : html`<${Took} from=${r.started_at ?? r.created_at} running=${true} />`}</span></li>`)}</ul>`}<//><//>`;
}

// pages/runs_bulk.js
var actions2 = {
  stop: {
    narrow: (filters) => narrow(filters, ["pending", "claimed", "running"]),
    count: countRuns,
    verb: "Stop",
    icon: "stop",
    kind: "danger",
    one: "POST /runs/:id/stop",
    many: "POST /runs/stop",
    path: "/runs/stop",
    can: (r) => !ended(r),
    none: "None of the selected runs is waiting or running",
    say: "Running programs are stopped, and waiting runs will not start. Runs that have ended do not change.",
    act: (id) => stopRun(id),
    done: "stopped"
  },
  retry: {
    narrow: (filters) => narrow(filters, ["completed", "failed", "stopped"]),
    count: countRuns,
    verb: "Run again",
    icon: "retry",
    kind: "primary",
    one: "POST /runs/:id/retry",
    many: "POST /runs/retry",
    path: "/runs/retry",
    can: ended,
    none: "None of the selected runs has ended",
    say: "Each starts a new run with the same input. It costs again, and side effects may happen twice.",
    act: (id, key) => retryRun(id, `${key}-${id}`),
    done: "started again"
  },
  redeliver: {
    narrow: (filters) => redeliverable({ ...filters, status: "" }),
    count: countCallbacks,
    verb: "Redeliver",
    icon: "callbacks",
    kind: "primary",
    one: "POST /callbacks/:id/redeliver",
    many: "POST /callbacks/redeliver",
    path: "/callbacks/redeliver",
    can: (r) => ["owed", "dead"].includes(r.http_callback?.status),
    none: "None of the selected runs has an owed or dead webhook",
    cannot: "Callbacks cannot be filtered like this: select runs, or filter by agent",
    say: "Their webhooks are sent again now.",
    act: (id) => redeliver(id),
    done: "redelivered"
  }
};
function narrow({ status, ...rest }, statuses4) {
  const chosen = statuses4.filter((s) => !status || status.split(",").includes(s));
  return chosen.length > 0 ? { ...rest, status: chosen.join(",") } : void 0;
}
async function countRuns(filter) {
  return (await get("/runs/count", filter)).count;
}
function BulkBar({ picked, clear, filters, total, shown: shown2 }) {
  const [asking, setAsking] = useState(null);
  const [all, setAll] = useState(false);
  if (picked.size === 0) return null;
  const rows = [...picked.values()];
  const narrowed2 = Object.keys(filters).length > 0;
  const whole2 = all && narrowed2;
  const ask = async (a, fit) => {
    try {
      setAsking({ ...a, fit, key: newKey(), whole: whole2 ? await matching(a.narrow(filters), a.count) : void 0 });
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
  };
  return html`<div class="bulk" role="region" aria-label="Actions on the selected runs">
    <span><b>${whole2 ? `All ${plural(total, "matching run")}` : plural(picked.size, "run")}</b> selected</span>
    ${narrowed2 && total > shown2 && html`<${Button} small=${true} kind="plain" onClick=${() => setAll(!all)}>${whole2 ? "Only the selected runs" : `Select all ${plural(total, "matching run")}`}<//>`}
    <span class="grow"></span>
    ${Object.entries(actions2).map(([name, a]) => {
    const fit = rows.filter(a.can);
    return html`<${Button} key=${name} icon=${a.icon} kind=${a.kind === "danger" ? "danger" : ""} needs=${whole2 ? a.many : a.one} why=${whole2 ? a.narrow(filters) === void 0 && (a.cannot ?? a.none) : fit.length === 0 && a.none} onClick=${() => ask(a, fit)}>${a.verb}${!whole2 && fit.length > 0 && fit.length < rows.length ? ` ${fit.length}` : ""}<//>`;
  })}
    <${Button} kind="plain" icon="cross" label="Clear the selection" onClick=${clear} />
    ${asking && html`<${Ask} action=${asking} onClose=${() => setAsking(null)} done=${clear} />`}
  </div>`;
}
var matching = async (filter, count4) => ({ filter, count: await count4(filter) });
function Ask({ action, onClose, done }) {
  const [progress, setProgress] = useState(0);
  const n = action.whole ? action.whole.count : action.fit.length;
  const run = async () => {
    const { went, refused: refused2 } = await (action.whole ? doMany(action.path, action.whole.filter, action.whole.count, action.key, setProgress) : byOne(action, setProgress));
    if (refused2.length > 0) throw new Error(`${plural(went, "run")} ${action.done}; ${plural(refused2.length, "was", "were")} refused: ${refused2[0].message}`);
    toast(`${plural(went, "run")} ${action.done}`, { kind: "good" });
    done();
  };
  return html`<${Confirm} title=${`${action.verb}: ${plural(n, "run")}`} verb=${`${action.verb} ${plural(n, "run")}`} kind=${action.kind} why=${n === 0 ? action.none : void 0} run=${run} onClose=${onClose}>
    <p>${action.say}</p>
    ${progress > 0 && html`<progress max=${n} value=${progress} aria-label="Done"></progress>`}
  <//>`;
}
async function byOne(action, onProgress) {
  const { done, errors } = await each(action.fit.map((r) => r.run_id), (id) => action.act(id, action.key), onProgress);
  return { went: done, refused: [...errors.values()] };
}

// pages/runs.js
var pageSize = 200;
var enough = 50;
var spans = { "15m": 900, "1h": 3600, "24h": 86400, "7d": 604800 };
var filterNames = ["status", "agent_name", "session_id", "parent_session_id", "runner_id", "retry_of", "agent_hash", "q"];
function filtersOf(q) {
  const f = {};
  for (const name of filterNames) if (q.get(name)) f[name] = q.get(name);
  const span2 = spans[q.get("within")];
  const after = q.get("created_after") ?? (span2 && new Date(Math.floor((now() - span2 * 1e3) / 6e4) * 6e4).toISOString());
  if (after) f.created_after = after;
  return f;
}
var narrowed = (f) => Object.keys(f).some((k) => k !== "created_after");
function Runs() {
  const q = query.value;
  const filters = filtersOf(q);
  const folded = !narrowed(filters) && q.get("flat") !== "1";
  const asked = folded ? { ...filters, roots: "true" } : filters;
  const key = JSON.stringify(asked);
  return html`<${Page} title="Runs" actions=${html`<${Export} filters=${filters} />`}>
    <${Filters} q=${q} filters=${filters} folded=${folded} />
    <${List} key=${key} filters=${filters} asked=${asked} folded=${folded} paused=${q.get("live") === "off"} />
  <//>`;
}
function Filters({ q, filters, folded }) {
  const agents = useResource(agentNames, []);
  const chosen = new Set((q.get("status") ?? "").split(",").filter(Boolean));
  const toggle = (s) => {
    chosen.has(s) ? chosen.delete(s) : chosen.add(s);
    setQuery({ status: statuses.filter((x) => chosen.has(x)).join(",") }, { push: true });
  };
  const names3 = agents.data ?? [];
  const agent = q.get("agent_name") ?? "";
  const other = ["session_id", "parent_session_id", "runner_id", "retry_of", "agent_hash", "created_after"].filter((n) => q.get(n));
  return html`<div class="filters" role="search" aria-label="Filters of runs">
    <${Search} value=${q.get("q")} placeholder="Id, agent, error, prompt" label="Search runs" onChange=${(text) => setQuery({ q: text })} />
    <div class="chips" role="group" aria-label="Status">${statuses.map((s) => html`<button type="button" class="chip" aria-pressed=${chosen.has(s)} onClick=${() => toggle(s)}><${Dot} status=${s} />${s}</button>`)}</div>
    <${Choice} label="Agent" value=${agent} onChange=${(v) => setQuery({ agent_name: v }, { push: true })} options=${[{ value: "", label: "Any agent" }, ...agent && !names3.includes(agent) ? [agent] : [], ...names3]} />
    <${Choice} label="Created" value=${q.get("within") ?? ""} onChange=${(v) => setQuery({ within: v, created_after: null }, { push: true })}
      options=${[{ value: "", label: "Any time" }, { value: "15m", label: "Last 15 minutes" }, { value: "1h", label: "Last hour" }, { value: "24h", label: "Last 24 hours" }, { value: "7d", label: "Last 7 days" }]} />
    ${other.map((n) => html`<span class="chip set">${n.replaceAll("_", " ")} <code><${Hostile} text=${q.get(n)} /></code><button type="button" class="copy" aria-label=${"Remove the filter " + n} onClick=${() => setQuery({ [n]: null }, { push: true })}><${Icon} name="cross" /></button></span>`)}
    <${Button} small=${true} kind="plain" icon="tree" aria-pressed=${folded} why=${narrowed(filters) ? "With a filter, all matching runs are listed, children too" : void 0}
      onClick=${() => setQuery({ flat: folded ? "1" : null }, { push: true })}>${folded ? "Children folded" : "All runs listed"}<//>
    ${(narrowed(filters) || filters.created_after) && html`<${Button} small=${true} kind="plain" icon="cross" onClick=${() => setQuery(Object.fromEntries(["q", "status", "agent_name", "within", ...other].map((n) => [n, null])), { push: true })}>Clear<//>`}
  </div>`;
}
function Export({ filters }) {
  const [busy, setBusy] = useState(false);
  const run = async (kind) => {
    setBusy(true);
    try {
      await exportRuns(kind, filters);
      toast("The matching runs were exported", { kind: "good" });
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
    setBusy(false);
  };
  return html`<${Menu} label="Export matching runs" items=${[{ label: "As CSV", icon: "download", run: () => run("csv") }, { label: "As JSON, one run per line", icon: "download", run: () => run("ndjson") }]}><${Icon} name="download" />${busy ? "Exporting…" : "Export"}<//>`;
}
var made = (run) => Date.parse(run.created_at);
function useRuns(asked, paused) {
  const [state, setState] = useState({ rows: [], loading: true });
  const store2 = useRef({ byId: /* @__PURE__ */ new Map(), order: [], listed: /* @__PURE__ */ new Set(), fresh: /* @__PURE__ */ new Map(), cursor: "", loading: false, gone: new AbortController() }).current;
  const show2 = (more) => setState((s) => ({ ...s, rows: store2.order.map((id) => store2.byId.get(id)), fresh: store2.fresh.size, newest: [...store2.fresh.values()].every(isNewest), ...more }));
  const isNewest = (r) => store2.order.length === 0 || made(r) >= made(store2.byId.get(store2.order[0]));
  const comesLater = (r) => store2.cursor && store2.order.length > 0 && made(r) < made(store2.byId.get(store2.order.at(-1)));
  const load8 = async (again) => {
    if (store2.loading) return;
    store2.loading = true;
    try {
      const first2 = again || !store2.started;
      const next3 = (cursor) => getAt("/runs", { ...asked, limit: pageSize, cursor }, { signal: store2.gone.signal });
      let { data, at } = await next3(first2 ? "" : store2.cursor);
      if (first2) Object.assign(store2, { started: true, order: [], listed: /* @__PURE__ */ new Set(), fresh: /* @__PURE__ */ new Map() });
      for (let found2 = data.runs.length; ; found2 += data.runs.length) {
        for (const r of data.runs) take2(r);
        store2.cursor = data.next_cursor ?? "";
        const searching = Boolean(data.partial && store2.cursor && found2 < enough);
        show2({ loading: false, searching, error: void 0, more: Boolean(store2.cursor), ...first2 && { missed: false, from: at } });
        if (!searching) break;
        ({ data } = await next3(store2.cursor));
      }
    } catch (error) {
      if (!store2.gone.signal.aborted) show2({ loading: false, error });
    } finally {
      store2.loading = false;
    }
    if (again && store2.again) store2.again = false, load8(true);
  };
  const take2 = (r) => {
    if (!store2.listed.has(r.run_id)) {
      store2.listed.add(r.run_id);
      store2.order.push(r.run_id);
    }
    store2.fresh.delete(r.run_id);
    store2.byId.set(r.run_id, newer(store2.byId.get(r.run_id), r));
  };
  const reload = () => store2.loading ? store2.again = true : load8(true);
  const admit = () => {
    const waiting2 = [...store2.fresh.values()].sort((a, b) => made(a) - made(b));
    const order2 = [];
    for (const id of store2.order.toReversed()) {
      while (waiting2.length > 0 && made(waiting2[0]) < made(store2.byId.get(id))) order2.push(waiting2.shift().run_id);
      order2.push(id);
    }
    for (const [id, r] of store2.fresh) {
      store2.byId.set(id, r);
      store2.listed.add(id);
    }
    store2.order = [...order2, ...waiting2.map((r) => r.run_id)].reverse();
    store2.fresh = /* @__PURE__ */ new Map();
    show2();
  };
  const arrive2 = (runs) => {
    for (const r of runs) {
      const known = store2.listed.has(r.run_id) && store2.byId.get(r.run_id);
      if (known) store2.byId.set(r.run_id, newer(known, r));
      else if (selects(asked.status, r) && !(asked.roots && r.parent_session_id) && !comesLater(r)) store2.fresh.set(r.run_id, newer(store2.fresh.get(r.run_id), r));
      else store2.fresh.delete(r.run_id);
    }
    show2();
  };
  const forget = (ids2) => {
    for (const id of ids2) {
      store2.byId.delete(id);
      store2.fresh.delete(id);
    }
    if (ids2.length > 0) store2.order = store2.order.filter((id) => store2.byId.has(id));
  };
  useEffect(() => {
    load8();
    return () => store2.gone.abort();
  }, []);
  const { status, ...path2 } = asked;
  const stream = paused || state.from === void 0 ? "" : withQuery("/sse/runs", path2);
  useLive(stream, {
    onItems: (items) => {
      for (const i of items) {
        if (i.event === "runs") {
          forget(i.data().deleted ?? []);
          arrive2(i.data().runs);
        } else if (i.event === "more") show2({ missed: true });
      }
    },
    onGap: reload,
    onState: (live) => live === "live" && show2({ streamError: void 0 }),
    onError: (error) => show2({ streamError: error })
  }, state.from);
  return { ...state, loadMore: () => state.more && load8(), reload, admit };
}
function List({ filters, asked, folded, paused }) {
  const runs = useRuns(asked, paused);
  const total = useResource(async (signal2) => get("/runs/count", asked, { signal: signal2 }).catch((err) => err instanceof ApiError ? {} : Promise.reject(err)), []);
  useEvery(10, total.reload, !paused);
  const below2 = useBelow();
  const [picked, setPicked] = useState(/* @__PURE__ */ new Map());
  const box = useRef();
  const idle = () => {
    const scroller2 = box.current?.closest("[data-scroller]");
    return scroller2 && scroller2.scrollTop < 8 && !box.current.querySelector("tbody:hover") && !box.current.querySelector("tbody")?.contains(document.activeElement) && picked.size === 0;
  };
  const admit = () => {
    runs.admit();
    total.reload();
  };
  useEffect(() => {
    if (runs.fresh > 0 && idle()) admit();
  }, [runs.fresh]);
  const rows = folded ? below2.unfold(runs.rows) : runs.rows;
  if (runs.error && runs.rows.length === 0) return html`<${Failed} error=${runs.error} reload=${runs.reload} what="The list of runs" />`;
  if (runs.loading) return html`<${Loading} lines=${12} />`;
  const n = total.data?.count;
  return html`<div ref=${box} class="runs">
    <div class="listbar">
      <span class="soft">${n === void 0 ? plural(runs.rows.length, "run") + (runs.more ? " or more" : "") : `${total.data.exact === false ? "about " : ""}${plural(n, "run")}`}${folded && ", not counting children"}${runs.searching && html` <span role="status">· searching…</span>`}</span>
      <span class="grow">${runs.fresh > 0 && html`<${Button} small=${true} kind="primary" icon="up" onClick=${() => (admit(), runs.newest && box.current.closest("[data-scroller]").scrollTo({ top: 0 }))}>${plural(runs.fresh, runs.newest ? "new run" : "more run")}<//>`}
        ${runs.missed && html`<${Button} small=${true} icon="retry" onClick=${runs.reload}>Many runs changed: reload<//>`}
        ${runs.streamError && html`<span class="warn"><${Icon} name="warn" /><${Text} text=${runs.streamError.message} /></span>`}</span>
      <${Button} small=${true} icon=${paused ? "play" : "pause"} onClick=${() => setQuery({ live: paused ? null : "off" })}>${paused ? "Resume" : "Pause"}<//>
    </div>
    ${rows.length === 0 && runs.searching ? html`<${Loading} />` : rows.length === 0 ? html`<${Nothing} filters=${filters} />` : html`<${Table} label="Runs" rows=${rows} rowKey=${(r) => r.run_id} total=${n === void 0 ? void 0 : Math.max(n, rows.length)} onNear=${runs.loadMore}
      select=${selection(rows, picked, setPicked)} rowClass=${(r) => [picked.has(r.run_id) && "picked", !selects(filters.status, r) && "past"].filter(Boolean).join(" ") || void 0}
      rowProps=${(r) => rowLink("/ui/runs/" + encodeURIComponent(r.run_id))} columns=${columns(folded, below2)} more=${runs.more ? "Loading more…" : void 0} />`}
    <${BulkBar} picked=${picked} clear=${() => setPicked(/* @__PURE__ */ new Map())} filters=${filters} total=${n} shown=${runs.rows.length} />
  </div>`;
}
function Nothing({ filters }) {
  if (narrowed(filters) || filters.created_after) return html`<${Empty} icon="filter" title="No run matches" text="Remove a filter, or look further back."><${Button} onClick=${() => setQuery(Object.fromEntries([...query.value.keys()].map((k) => [k, null])), { push: true })}>Clear the filters<//><//>`;
  return html`<${Empty} icon="runs" title="No runs yet" text="A run is one execution of an agent. Start one from a form, or watch five on the Overview."><${Button} kind="primary" icon="plus" href="/ui/new" needs="POST /runs">New run<//><${Button} href="/ui/">Show me<//><//>`;
}
function columns(folded, below2) {
  return [
    { id: "status", label: "Status", width: "112px", class: "stat", render: (r) => html`<${Status} status=${r.status} />` },
    { id: "run", label: "Run", width: "34%", render: (r) => html`<div class="runcell" style=${r.level ? { paddingInlineStart: r.level * 18 + "px" } : void 0}>
        ${folded && html`<${Fold} run=${r} below=${below2} />`}
        <a class="name" href=${"/ui/runs/" + encodeURIComponent(r.run_id)}><${Text} text=${r.agent_name} /></a>
        ${r.type === "resume_session" && html`<span class="badge" title="Another turn of an existing session">turn</span>`}${r.attempt > 1 && html`<span class="badge warn" title=${`Attempt ${r.attempt} of ${r.max_attempts ?? r.attempt}`}>attempt ${r.attempt}</span>`}
        <span class="faint hide3"><${Id} id=${r.run_id} /></span></div>` },
    { id: "about", label: "Summary", hide: 3, render: (r) => html`<${About} run=${r} />` },
    { id: "session", label: "Session", width: "140px", hide: 1, render: (r) => html`<${Id} id=${r.session_id} href=${"/ui/sessions/" + encodeURIComponent(r.session_id)} copy=${false} />` },
    { id: "created", label: "Created", width: "92px", end: true, render: (r) => html`<${Time} at=${r.created_at} as="ago" />` },
    { id: "took", label: "Duration", width: "84px", end: true, hide: 3, render: (r) => html`<${Took} from=${r.started_at} to=${r.completed_at} running=${!ended(r) && Boolean(r.started_at)} />` }
  ];
}
function Fold({ run, below: below2 }) {
  const count4 = run.below;
  if (!count4) return html`<span class="nofold"></span>`;
  const open = below2.open.has(run.session_id);
  return html`<button type="button" class="fold" aria-expanded=${open} aria-label=${`${open ? "Fold" : "Show"} ${plural(count4, "run")} below ${run.agent_name}`} onClick=${() => below2.toggle(run.session_id)}>
    <${Icon} name=${open ? "down" : "chevron"} /><span class="num">${count4}</span></button>`;
}
function useBelow() {
  const [open, setOpen] = useState(/* @__PURE__ */ new Map());
  const toggle = async (session) => {
    const next3 = new Map(open);
    if (next3.delete(session)) return setOpen(next3);
    setOpen(next3.set(session, []));
    try {
      const { sessions } = await get(`/sessions/${encodeURIComponent(session)}/tree`, { limit: 500 });
      setOpen((m) => m.has(session) ? new Map(m).set(session, rowsOf(sessions, session)) : m);
    } catch (err) {
      toast(err.message, { kind: "bad" });
      setOpen((m) => (m = new Map(m), m.delete(session), m));
    }
  };
  const unfold = (rows) => rows.flatMap((r) => {
    const first2 = r.type === "start_session";
    const row = { ...r, below: first2 ? r.children : 0 };
    return first2 && open.get(r.session_id) ? [row, ...open.get(r.session_id)] : [row];
  });
  return { open, toggle, unfold };
}
var rowsOf = (sessions, root2) => sessions.filter((s) => s.session_id !== root2).flatMap((s) => s.runs.map((r) => ({ ...r, session_id: s.session_id, agent_name: s.agent_name, level: s.depth - (sessions[0]?.depth ?? 0) })));
function selection(rows, picked, setPicked) {
  const change = (list2, on) => {
    const next3 = new Map(picked);
    for (const r of list2) on ? next3.set(r.run_id, r) : next3.delete(r.run_id);
    setPicked(next3);
  };
  const all = rows.length > 0 && rows.every((r) => picked.has(r.run_id));
  return {
    has: (id) => picked.has(id),
    all,
    none: picked.size === 0,
    onAll: () => change(rows, !all),
    toggle: (row, range) => {
      const on = !picked.has(row.run_id);
      const last2 = rows.findIndex((r) => r.run_id === [...picked.keys()].at(-1));
      const at = rows.indexOf(row);
      change(range && last2 >= 0 ? rows.slice(Math.min(last2, at), Math.max(last2, at) + 1) : [row], on);
    }
  };
}

// lib/events.js
var pageSize2 = 500;
var fullPage = 4 << 20;
var pace = 250;
var calm = 800;
var longest2 = 15e3;
var largest3 = 65536;
var most = 5e3;
var mostBytes = 8 << 20;
function useEvents(session, onChange, onOpen) {
  const [state, setState] = useState({ events: [], left: 0, ready: false });
  const changed2 = useRef(onChange), opened = useRef(onOpen);
  changed2.current = onChange;
  opened.current = onOpen;
  useEffect(() => {
    if (!session) return;
    const reader = new Reader(session, (more) => setState((s) => ({ ...s, ...more })));
    const later = (act) => {
      let timer = 0;
      return [() => (clearTimeout(timer), timer = setTimeout(() => reader.closed || act.current?.(), 120)), () => clearTimeout(timer)];
    };
    const [change, noChange2] = later(changed2), [open, notOpen] = later(opened);
    let stop = () => {
    };
    reader.read().then(() => {
      if (reader.closed || !reader.ready) return;
      stop = subscribe(withQuery("/sse/sessions", { session_id: session, max_bytes: largest3 }), {
        from: reader.position,
        onItems: (items) => {
          reader.arrive(items.filter((i) => i.event === "event"));
          if (items.some((i) => i.event === "init")) reader.read();
          if (items.some((i) => i.event !== "event" && i.event !== "init")) change();
        },
        onGap: () => (reader.read(), change()),
        onState: (live) => {
          const on = live === "live" || live === "polling";
          if (on) setState((s) => ({ ...s, error: void 0 }));
          on ? open() : notOpen();
        },
        onError: (error) => setState((s) => ({ ...s, error }))
      });
    });
    return () => {
      reader.close();
      noChange2();
      notOpen();
      stop();
    };
  }, [session]);
  return state;
}
var pause2 = (ms2) => new Promise((done) => setTimeout(done, ms2));
var ofRecords = /* @__PURE__ */ new Set(["run_start", "result", "run_completed", "run_failed", "run_stopped"]);
function placesOf(position) {
  const [runs, rest = ""] = position.split("-");
  const [events, items, packed] = rest.split(".");
  return { runs: [Number(runs) || 0, Number(items) || 0], events: [Number(events) || 0, Number(packed) || 0] };
}
var beyond = (a, b) => a[0] > b[0] || a[0] === b[0] && a[1] > b[1];
var Reader = class {
  constructor(session, show2) {
    Object.assign(this, { session, show: show2, gone: new AbortController(), at: placesOf(""), kept: [], left: 0, numbers: /* @__PURE__ */ new Map(), waiting: [] });
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
        await pause2(backoff(this.tries++, error.retryAfter));
      }
    } while (this.again && !this.closed);
    this.busy = false;
    this.take();
  }
  async pages() {
    for (; ; ) {
      const path2 = withQuery(`/sessions/${seg(this.session)}/events`, { after: this.position, limit: pageSize2, max_bytes: largest3 });
      const { data: { events, next: next3 }, text, headers } = await request("GET", path2, { signal: AbortSignal.any([this.gone.signal, AbortSignal.timeout(longest2)]) });
      this.keep(events, text.length);
      const before = this.position;
      this.advance(placesOf(next3));
      const whole2 = text.length + events.reduce((n, e) => n + (e.bytes ?? 0), 0);
      const end = events.length < pageSize2 && whole2 < fullPage || this.position === before;
      if (end) this.advance(placesOf(headers.get("Ao-Position") ?? ""));
      this.ready ||= end;
      if (end || performance.now() - this.shown > calm) this.render();
      if (end) return;
    }
  }
  // advance moves on in both streams, never back.
  advance(places2) {
    for (const name of ["runs", "events"]) if (beyond(places2[name], this.at[name])) this.at[name] = places2[name];
  }
  arrive(items) {
    this.waiting.push(...items);
    if (items.length > 0) this.due ||= setTimeout(() => (this.due = 0, this.take()), Math.max(0, this.shown + pace - performance.now()));
  }
  // take adds what came by the stream and is not here yet.
  take() {
    if (this.busy || this.closed) return;
    let fresh3 = [], bytes2 = 0, any = false;
    const put3 = () => {
      this.keep(fresh3, bytes2);
      [fresh3, bytes2, any] = [[], 0, true];
    };
    for (const i of this.waiting.splice(0)) {
      const places2 = placesOf(i.id), event = i.data();
      const part = ofRecords.has(event.event_type) ? "runs" : "events";
      if (!beyond(places2[part], this.at[part])) continue;
      this.advance(places2);
      fresh3.push({ ...event });
      bytes2 += i.text.length;
      if (fresh3.length === pageSize2) put3();
    }
    if (fresh3.length > 0) put3();
    if (any) this.render();
  }
  render() {
    this.shown = performance.now();
    this.show({ events: this.kept.flatMap((k) => k.events), left: this.left, ready: this.ready, error: void 0 });
  }
  // keep adds events and leaves out the oldest: whole answers, since what is kept of one keeps all of its text. Short answers
  // are put together.
  keep(events, bytes2) {
    for (const e of events) {
      e.n = (this.numbers.get(e.run_id) ?? 0) + 1;
      this.numbers.set(e.run_id, e.n);
    }
    const { kept: kept2 } = this, last2 = kept2.at(-1);
    if (last2 && last2.events.length + events.length <= pageSize2) kept2[kept2.length - 1] = { events: [...last2.events, ...events], bytes: last2.bytes + bytes2 };
    else if (events.length > 0) kept2.push({ events, bytes: bytes2 });
    const sum = (of) => kept2.reduce((n, k) => n + of(k), 0);
    while (kept2.length > 1 && (sum((k) => k.events.length) > most || sum((k) => k.bytes) > mostBytes)) this.left += kept2.shift().events.length;
  }
};
var mark = "\nThe rejected output:\n";
function rejectedAnswer(e) {
  const text = textOf(e);
  const at = text.indexOf(mark);
  return at < 0 ? void 0 : text.slice(at + mark.length);
}
var textOf = (e) => (e.content ?? []).map((c) => c.text ?? "").join("");
function steps(events) {
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
function answer(open, out, e) {
  const same2 = open.filter((s) => s.name === e.tool_name);
  const call = same2.find((s) => s.input?.text === e.tool_input?.text) ?? same2[0];
  const what = { output: e.tool_output, failure: e.error, end: e };
  if (!call) return void out.push({ kind: "tool", event: e, name: e.tool_name, input: e.tool_input, ...what });
  open.splice(open.indexOf(call), 1);
  Object.assign(call, what);
}
function usageOf(events) {
  let sum;
  for (const e of events) {
    if (e.event_type !== "metadata" || e.metadata?.kind !== "object") continue;
    const number3 = (json2, name) => json2?.kind === "object" && json2.member(name)?.kind === "number" ? Number(json2.member(name).text) : void 0;
    const usage = e.metadata.member("usage");
    const facts = { input: number3(usage, "input_tokens"), output: number3(usage, "output_tokens"), cacheRead: number3(usage, "cache_read_tokens") ?? number3(usage, "cache_read_input_tokens"), cost: number3(e.metadata, "total_cost_usd") ?? number3(e.metadata, "cost_usd") };
    for (const [name, value] of Object.entries(facts)) if (value !== void 0) (sum ??= {})[name] = (sum[name] ?? 0) + value;
    const model = e.metadata.member("model")?.string();
    if (model) (sum ??= {}).model = model;
  }
  return sum;
}

// lib/conversation.js
var Permalink = ({ event, href }) => html`<a class="permalink" href=${href(event)} ><span class="offscreen">Link to event ${event.n}, </span><${Time} at=${event.timestamp} as="clock" /></a>`;
function Step({ step: step2, href, target: target2 }) {
  const View = views[step2.kind] ?? Other;
  const id = anchor(step2.event);
  return html`<article class=${"step " + step2.kind + (target2 === id ? " target" : "")} id=${id}><${View} ...${step2} at=${html`<${Permalink} event=${step2.event} href=${href} />`} /></article>`;
}
var anchor = (e) => `${e.run_id}-${e.n}`;
var Assistant = ({ text, event, at }) => html`<header><${Icon} name="agents" /><b>Agent</b>${event.truncated && html`<${Cut} event=${event} />`}<span class="grow"></span><${Copy} text=${text} label="Copy the message" />${at}</header><${Answer} text=${text} />`;
function Answer({ text }) {
  const t = text.trim();
  if (/^[[{]/.test(t) && (check(t)?.tooDeep ?? true)) return html`<${JsonView} value=${t} label="the message" />`;
  return html`<${Markdown} text=${text} />`;
}
var User = ({ text, at }) => html`<header><${Icon} name="sessions" /><b>Input</b><span class="grow"></span><${Copy} text=${text} label="Copy the input" />${at}</header><div class="said"><${Hostile} text=${text} lines=${true} /></div>`;
var Note = ({ text, at }) => html`<header><${Icon} name="info" /><b>System</b><span class="grow"></span>${at}</header><div class="said soft"><${Hostile} text=${text} lines=${true} /></div>`;
function Tool({ name, input, output, failure, end, event, at }) {
  const took = end && end !== event ? ms(end.timestamp) - ms(event.timestamp) : void 0;
  const summary2 = html`<span class="toolname"><${Icon} name="tool" /><code><${Hostile} text=${name} /></code></span><span class="cut grow"><${JsonLine} value=${input ?? ""} /></span>
    ${failure ? html`<${Badge} kind="bad">failed<//>` : end ? took !== void 0 && html`<span class="faint num">${duration(took)}</span>` : html`<${Status} status="running" label="running" />`}`;
  return html`${at}<${Details} class="tool" summary=${summary2}>
    <h4>Input</h4>${input ? html`<${JsonView} value=${input} label="input" />` : html`<p class="none">none</p>`}
    ${end && html`<h4>Output</h4>`}${failure && html`<p class="bad"><${Hostile} text=${typeof failure === "string" ? failure : failure.message ?? "failed"} lines=${true} /></p>`}
    ${output && !output.isNull && html`<${Value} value=${output} label="output" />`}${(end ?? event).truncated && html`<${Head} event=${end ?? event} /><${Cut} event=${end ?? event} />`}
  <//>`;
}
function Value({ value, label }) {
  const text = value instanceof Json ? value.string() : void 0;
  if (text === void 0) return html`<${JsonView} value=${value} label=${label} />`;
  return html`<div class="jsonbox"><pre class="json" tabindex="0" aria-label=${label}><${Hostile} text=${text} lines=${true} /></pre><${Copy} text=${text} label=${"Copy " + label} /></div>`;
}
var Head = ({ event }) => event.head && html`<pre class="json" tabindex="0" aria-label="How it begins"><${Hostile} text=${event.head} lines=${true} />…</pre>`;
var Cut = ({ event }) => html`<${Badge} kind="warn">cut, ${event.bytes ? bytes(event.bytes) : "large"} in total<//>`;
function Rejection({ event, at }) {
  const r = event.rejection;
  return html`<header><${Icon} name="cross" /><b>Answer rejected</b><${Badge} kind="bad">${r.attempt} of ${r.of}<//><span class="grow"></span>${at}</header><${Refused} answer=${rejectedAnswer(event)} errors=${r.errors} />`;
}
var Refused = ({ answer: answer2, errors }) => html`<div class="refused"><div>${answer2 === void 0 ? html`<p class="none">The events have the answer</p>` : html`<${Answer} text=${answer2} />`}</div>
  <ul>${(errors ?? []).map((e) => html`<li><code><${Hostile} text=${e.path} /></code> <${Hostile} text=${e.message} /></li>`)}</ul></div>`;
function Verdict({ check: v }) {
  if (!v) return null;
  const from = { request: "the request's schema", registry: "", blueprint: "the agent's schema" }[v.schema_source] ?? v.schema_source;
  return html`<span class=${"verdict " + (v.valid ? "good" : "bad")}><${Icon} name=${v.valid ? "check" : "cross"} />${v.valid ? "Matches " : "Does not match "}${v.schema_name ? html`<a href=${"/ui/schemas/" + encodeURIComponent(v.schema_name)}><${Text} text=${v.schema_name} /></a>` : from}</span>
    ${v.retry_count > 0 && html`<${Badge} kind="warn">asked again ${v.retry_count === 1 ? "once" : v.retry_count + " times"}<//>`}${v.candidates > 1 && html`<${Badge}>${v.candidates} candidates<//>`}`;
}
function Outcome({ result }) {
  return html`<${Given2} result=${result} />${result.note && html`<p class="faint"><${Text} text=${result.note} /></p>`}`;
}
function Given2({ result }) {
  if (result.truncated) return html`<${Whole} result=${{ ...result, truncated: false }} /><${Cut} event=${result} />`;
  return html`<${Whole} result=${result} />`;
}
function Whole({ result }) {
  if (result.head) return html`<${Head} event=${result} />`;
  if (result.result_data) return html`<${Value} value=${result.result_data} label="result" />`;
  if (typeof result.result_text === "string") return result.result_text ? html`<${Answer} text=${result.result_text} />` : html`<p class="none">The answer is empty.</p>`;
  return html`<p class="none">No result</p>`;
}
var Result = ({ event, at }) => html`<header><${Icon} name="schemas" /><b>Result</b><${Verdict} check=${event.schema_validation} />${event.truncated && html`<${Cut} event=${event} />`}<span class="grow"></span>${at}</header><${Outcome} result=${event} />`;
function Usage({ usage }) {
  if (!usage) return html`<span class="none" title="The executor reported no usage">–</span>`;
  const parts4 = [usage.input !== void 0 && `${count(usage.input)} in`, usage.output !== void 0 && `${count(usage.output)} out`, usage.cacheRead !== void 0 && `${count(usage.cacheRead)} cached`].filter(Boolean);
  return html`<span class="usage"><span class="num">${parts4.length > 0 ? parts4.join(" · ") + " tokens" : ""}${usage.cost !== void 0 && html`${parts4.length > 0 && " · "}$${usage.cost.toFixed(4)}`}</span>${usage.model && html` <span class="faint"><${Text} text=${usage.model} /></span>`}</span>`;
}
var Facts2 = ({ facts, at }) => html`${at}<${Details} class="tool" summary=${html`<span class="toolname"><${Icon} name="info" />Usage</span><span class="cut grow"><${JsonLine} value=${facts ?? ""} /></span>`}><${JsonView} value=${facts} label="usage" /><//>`;
var line = (icon, text) => ({ at, event }) => html`<p class="moment"><${Icon} name=${icon} /><span class="what">${typeof text === "function" ? text(event) : text}</span>${at}</p>`;
var failed = (e) => html`<span class="bad">Failed: <code><${Hostile} text=${e.error?.error} /></code> <${Text} text=${e.error?.message} /></span>`;
var started = (e) => html`${e.attempt > 1 ? `Attempt ${e.attempt} started` : "Started"}${e.runner_id && html` on <${Id} id=${e.runner_id} copy=${false} />`}`;
var Other = ({ event, at }) => html`<p class="moment"><${Icon} name="info" /><${Hostile} text=${event.event_type} /><span class="grow"></span>${at}</p>`;
var views = {
  assistant: Assistant,
  user: User,
  note: Note,
  tool: Tool,
  rejection: Rejection,
  result: Result,
  usage: Facts2,
  run_start: line("play", started),
  run_completed: line("check", "Completed"),
  run_failed: line("cross", failed),
  run_stopped: line("stop", "Stopped")
};

// pages/run_story.js
var tone = { completed: "good", failed: "bad", stopped: "", pending: "warn", stopping: "warn" };
function Why({ run, why }) {
  if (why.failed) return html`<div class="banner warn" role="status"><${Icon} name="info" /><span><${Text} text=${why.failed.message} /></span></div>`;
  const w = why.waits_for;
  return html`<section class=${"why banner " + (tone[run.status] ?? "")} aria-label="Why"><${Icon} name=${run.status === "failed" ? "warn" : run.status === "completed" ? "check" : "info"} /><div class="grow">
    <p class="summary"><${Hostile} text=${why.summary} lines=${true} /></p>
    ${why.incomplete && html`<p class="warn">The full history cannot be read right now. This is what the coordinator knows.</p>`}
    ${w && html`<${Waits} waits=${w} run=${run} />`}</div></section>`;
}
function Waits({ waits: w, run }) {
  tick.value;
  const [misfits, fits2] = [true, false].map((wrong) => (w.runners ?? []).filter((r) => Boolean(r.mismatches?.length) === wrong));
  const left = w.until ? ms(w.until) - now() : NaN;
  return html`<div class="waits">
    ${w.since && html`<span class="soft">since <${Time} at=${w.since} as="ago" /></span>`}${left > 0 && html`<span class="soft">until <${Time} at=${w.until} as="clock" />, in ${coarse(left)}</span>`}
    ${w.run_id && w.run_id !== run.run_id && html`<span>ahead of it: <${Id} id=${w.run_id} href=${"/ui/runs/" + seg(w.run_id)} /></span>`}${w.runs_ahead > 0 && html`<span>${plural(w.runs_ahead, "run")} ahead</span>`}
    ${w.queue && html`<span>queue <code><${Hostile} text=${w.queue} /></code></span>`}${w.slots && html`<span>${w.slots.taken} of ${plural(w.slots.all, "slot")} taken</span>`}
    ${w.holds?.length > 0 && html`<${Details} summary=${`What holds the slots: ${plural(w.holds.length, "run")}`}><ul>${w.holds.map((h2) => html`<li><${Id} id=${h2.run_id ?? h2} href=${"/ui/runs/" + seg(h2.run_id ?? h2)} /></li>`)}</ul><//>`}
    ${fits2.length > 0 && html`<${Details} summary=${plural(fits2.length, "matching runner")}><ul>${fits2.map((r) => html`<li><${Id} id=${r.runner_id} href="/ui/runners" /> <${Hostile} text=${r.hostname} />, ${r.running} of ${plural(r.max_concurrent_runs, "slot")} in use</li>`)}</ul><//>`}
    ${misfits.length > 0 && html`<${Details} open=${true} summary=${`Why no runner matches: ${plural(misfits.length, "runner")}, the closest first`}><${Mismatches} runners=${misfits} agent=${run.agent_name} more=${w.more_runners ?? 0} /><//>`}
  </div>`;
}
var closest = 5;
function Mismatches({ runners, agent, more = 0 }) {
  const [all, setAll] = useState(false);
  const shown2 = all ? runners : runners.slice(0, closest);
  const left = runners.length - shown2.length;
  return html`<${MismatchTable} runners=${shown2} agent=${agent} />
    ${left > 0 && html`<${Button} small=${true} kind="plain" onClick=${() => setAll(true)}>Show ${plural(left, "other runner")}<//>`}
    ${left === 0 && more > 0 && html`<p class="faint">and ${plural(more, "other runner")}</p>`}`;
}
function concerned(list2, agent) {
  const agents = list2.filter((m) => m.field === "agent");
  const own = agents.find((m) => m.wanted === agent) ?? agents[0];
  return list2.filter((m) => m.field !== "agent" || m === own).map((m) => m === own ? { ...m, others: agents.length - 1 } : m);
}
var MismatchTable = ({ runners, agent }) => html`<div class="scrollx"><table class="plain"><thead><tr><th scope="col">Runner</th><th scope="col">Host</th><th scope="col">Mismatch</th><th scope="col">Required</th><th scope="col">Actual</th></tr></thead><tbody>${runners.map((r) => {
  const list2 = r.mismatches?.length > 0 ? concerned(r.mismatches, agent) : [{ field: "–" }];
  return list2.map((m, i) => html`<tr key=${r.runner_id + i}>${i === 0 && html`<td rowspan=${list2.length}><${Status} status=${r.status} label=${html`<${Id} id=${r.runner_id} href="/ui/runners" />`} /></td><td rowspan=${list2.length}><${Hostile} text=${r.hostname} /></td>`}
    <td><${Text} text=${m.message ?? m.field} />${m.others > 0 && `, and ${plural(m.others, "other agent")}`}</td><td><code><${Hostile} text=${show(m.wanted)} /></code></td><td><code><${Hostile} text=${show(m.has)} /></code></td></tr>`);
})}</tbody></table></div>`;
var show = (v) => v === void 0 || v === null || v === "" ? "nothing" : Array.isArray(v) ? v.length > 0 ? v.join(", ") : "nothing" : String(v);
function Phases({ run }) {
  if (!ended(run)) tick.value;
  const end = run.completed_at ? ms(run.completed_at) : now();
  const marks = [["Waited", ms(run.created_at), "waited"], ["Prepared", ms(run.claimed_at), "claimed"], ["Ran", ms(run.started_at), "ran"]].filter(([, at]) => Number.isFinite(at));
  const parts4 = marks.map(([label, from, kind], i) => ({ label, kind, took: Math.max(0, (marks[i + 1]?.[1] ?? end) - from) }));
  const all = parts4.reduce((n, p) => n + p.took, 0) || 1;
  return html`<div class="phases"><div class="bars" aria-hidden="true">${parts4.map((p) => html`<span class=${p.kind + (ended(run) ? "" : " open")} style=${{ flexGrow: Math.max(p.took / all, 0.02) }}></span>`)}</div>
    <ul>${parts4.map((p) => html`<li class=${p.kind}><i aria-hidden="true"></i>${p.label} <b class="num">${duration(p.took)}</b></li>`)}</ul></div>`;
}
var signs = { completed: "check", failed: "cross", stopped: "stop", lost: "cross", attempt_failed: "cross", attempt_lost: "cross", rejected: "cross", started: "play", claimed: "runners", queued: "queues", moved: "queues", callback: "callbacks", webhook: "callbacks", stopping: "stop", checked: "shield", offered: "shield" };
var words = { attempt_failed: "attempt failed", attempt_lost: "attempt lost", left_out: "left out", offered: "result sent", bound: "session stored", moved: "moved", stopping: "stop requested" };
function Story({ story, run }) {
  if (!story) return null;
  let before;
  return html`<ol class="story">${story.map((s) => {
    const at = ms(s.at);
    const gap = Number.isFinite(at) && Number.isFinite(before) ? at - before : NaN;
    if (Number.isFinite(at)) before = at;
    const bad = ["failed", "lost", "attempt_failed", "attempt_lost", "rejected"].includes(s.what);
    return html`<li class=${bad ? "bad" : s.what === "completed" ? "good" : ""}><span class="sign"><${Icon} name=${signs[s.what] ?? "info"} /></span><div><p><b>${words[s.what] ?? s.what}</b> ${gap >= 1 && html`<span class="faint num">+${duration(gap)}</span>`}<span class="grow"></span><span class="faint" title=${s.sequence ? `record ${s.sequence}` : void 0}><${Time} at=${s.at} as="clock" /></span></p>
      ${s.detail && html`<p class="soft"><${Hostile} text=${s.detail} lines=${true} /></p>`}</div></li>`;
  })}${!ended(run) && html`<li class="open"><span class="sign"><${Status} status=${run.status} label="" /></span><div><p class="soft">in progress</p></div></li>`}</ol>`;
}

// pages/run.js
var largest4 = 262144;
async function load(id, signal2) {
  const [run, why] = await Promise.all([get(`/runs/${seg(id)}`, {}, { signal: signal2 }), get(`/runs/${seg(id)}/explain`, {}, { signal: signal2 }).catch((err) => err instanceof ApiError && err.status !== 401 ? { failed: err } : Promise.reject(err))]);
  return { run, why, result: ended(run) ? await loadResult(run, signal2) : void 0 };
}
async function loadResult(run, signal2) {
  if (run.status === "completed") return get(`/runs/${seg(run.run_id)}/result`, { max_bytes: largest4 }, { signal: signal2 });
  return (await get(`/runs/${seg(run.run_id)}/wait`, { timeout_seconds: 1 }, { signal: signal2 })).result;
}
function Run({ id }) {
  const page = useResource((signal2) => load(id, signal2), [id]);
  const run = page.data?.run;
  const events = useEvents(run?.session_id, page.reload, () => ended(run) || page.reload());
  useEvery(10, page.reload, Boolean(run && !ended(run)));
  const own = useMemo(() => events.events.filter((e) => e.run_id === id), [events.events, id]);
  const settled = events.ready || events.error;
  return html`<${Page} title=${run ? `${run.agent_name}: run` : "Run"} crumbs=${[{ label: "Runs", href: "/ui/runs" }]}
    heading=${run ? html`<${Text} text=${run.agent_name} /><${Status} status=${run.status} />` : "Run"} actions=${run && html`<${Actions} run=${run} reload=${page.reload} />`}>
    <${Loaded} resource=${page} what="The run">${({ run: run2, why, result }) => html`
      <${Why} run=${run2} why=${why} />
      <div class="split">
        <div class="stack">
          <${ResultCard} run=${run2} result=${result} rejected=${why.rejected ?? []} />
          <${EventsCard} run=${run2} events=${own} state=${events} />
          ${settled && html`<${Input} run=${run2} />`}
        </div>
        <aside class="stack aside2" aria-label="About the run"><${Times} run=${run2} why=${why} /><${About2} run=${run2} events=${own} />${settled && html`<${Told} run=${run2} reload=${page.reload} />`}</aside>
      </div>`}<//>
  <//>`;
}
function Actions({ run, reload }) {
  const [asking, setAsking] = useState(null);
  const [key, setKey] = useState("");
  const over3 = ended(run);
  const ask = (what) => (setKey(newKey()), setAsking(what));
  const stop = async (tree) => {
    const answer2 = await stopRun(run.run_id, tree);
    const open = answer2?.open_below?.count;
    toast(open && !answer2.open_below.stopping ? `The run is being stopped; ${plural(open, "run")} below it continue` : "The run is being stopped");
    reload();
  };
  const again = async () => {
    const made2 = await retryRun(run.run_id, key);
    toast(made2.agent_changed ? "Started again with the agent as it is now: it has changed since" : "Started again", { kind: "good" });
    navigate("/ui/runs/" + seg(made2.run_id));
  };
  const close = () => setAsking(null);
  return html`<${Button} icon="sessions" href=${"/ui/sessions/" + seg(run.session_id)}>Session<//><${Button} icon="tree" href=${`/ui/sessions/${seg(run.session_id)}/tree`}>Tree<//>
    <${Button} icon="retry" needs="POST /runs/:id/retry" why=${over3 ? void 0 : "The run has not ended yet"} onClick=${() => ask("again")}>Run again<//>
    <${Button} icon="stop" kind="danger" needs="POST /runs/:id/stop" why=${over3 ? "The run has ended" : run.status === "stopping" ? "It is being stopped" : void 0} onClick=${() => ask("stop")}>Stop<//>
    <${Menu} label="More" items=${[
    { label: "Run again with changes", icon: "edit", href: `/ui/new?agent=${seg(run.agent_name)}&retry=${seg(run.run_id)}`, needs: "POST /runs" },
    { label: "Stop with all below", icon: "stop", needs: "POST /runs/:id/stop", run: () => ask("tree") },
    { label: "Runs like this one", icon: "runs", href: "/ui/runs?agent_name=" + seg(run.agent_name) },
    { label: "Retries of this run", icon: "retry", href: "/ui/runs?retry_of=" + seg(run.run_id) }
  ]} />
    ${asking === "stop" && html`<${Confirm} title="Stop this run" verb="Stop it" kind="danger" run=${() => stop(false)} onClose=${close}><p>Its program is stopped within five seconds. What it has already done is not undone. Runs that it started continue.</p><//>`}
    ${asking === "tree" && html`<${Confirm} title="Stop this run and all below" verb="Stop the tree" kind="danger" run=${() => stop(true)} onClose=${close}><p>The run and every run below its session are stopped, however deep. No callbacks are delivered below it.</p><//>`}
    ${asking === "again" && html`<${Confirm} title="Run again" verb="Run again" run=${again} onClose=${close}><p>A new run of <b><${Text} text=${run.agent_name} /></b> with the same input starts in a new session. It costs again, and side effects may happen twice.</p>
      <p><a href=${`/ui/new?agent=${seg(run.agent_name)}&retry=${seg(run.run_id)}`}>Run again with changes</a></p><//>`}`;
}
function ResultCard({ run, result, rejected }) {
  const final = run.error?.error === "OutputSchemaValidationError" ? run.error : null;
  const actions4 = result && html`<${Verdict} check=${result.schema_validation} />${result.exit_code !== void 0 && result.exit_code !== null && html`<${Badge} kind=${result.exit_code === 0 ? "" : "bad"}>exit ${result.exit_code}<//>`}<${Download} run=${run} />`;
  return html`<${Card} title="Result" actions=${actions4}>
    ${run.error && html`<div class="problem" role="status"><${Icon} name="warn" /><div><p><code><${Hostile} text=${run.error.error} /></code></p><p class="said"><${Hostile} text=${run.error.message} lines=${true} /></p></div></div>`}
    ${result ? html`<${Outcome} result=${result} />` : !ended(run) ? html`<p class="faint">The run has not ended yet.</p>` : !run.error && html`<p class="faint">The run ended without a result.</p>`}
    ${final && rejected.length === 0 && html`<${Refused} answer=${final.last_output} errors=${final.errors} />`}
    ${rejected.length > 0 && html`<h3 class="gap">${plural(rejected.length, "answer was", "answers were")} rejected</h3>${rejected.map((r) => html`<div class="rejected"><p class="faint">Answer ${r.answer} of ${r.of}${run.max_attempts > 1 && `, attempt ${r.attempt}`}, <${Time} at=${r.at} as="clock" />${r.truncated && html` <${Badge} kind="warn">truncated<//>`}</p>
      <${Refused} answer=${r.output} errors=${r.errors} /></div>`)}`}
  <//>`;
}
var Download = ({ run }) => html`<${Button} small=${true} kind="plain" icon="download" label="Download the result" title="Download the result" href=${`/runs/${seg(run.run_id)}/result?download=true`} download=${run.run_id + ".json"} />`;
var kinds = [["", "All"], ["message", "Messages"], ["tool", "Tools"], ["rejection", "Rejections"], ["result", "Result"]];
var shownAtFirst = 150;
function useSteps(events, kind, text) {
  const all = useMemo(() => steps(events), [events]);
  const fits2 = (s) => (!kind || (kind === "message" ? ["assistant", "user", "note"].includes(s.kind) : s.kind === kind)) && (!text || searchable(s).includes(text));
  return [all, useMemo(() => kind || text ? all.filter(fits2) : all, [all, kind, text])];
}
var EventFilter = ({ kind }) => html`<div class="row"><select aria-label="Kind of events" value=${kind} onChange=${(e) => setQuery({ events: e.currentTarget.value })}>${kinds.map(([v, l]) => html`<option value=${v} selected=${v === kind}>${l}</option>`)}</select>
  <input type="search" aria-label="Find in events" placeholder="Find" value=${query.value.get("find") ?? ""} onInput=${(e) => setQuery({ find: e.currentTarget.value })} /></div>`;
function EventsCard({ run, events, state }) {
  const kind = query.value.get("events") ?? "";
  const [most3, setMost] = useState(shownAtFirst);
  const target2 = address.value.hash.slice(1);
  const [all, list2] = useSteps(events, kind, (query.value.get("find") ?? "").toLowerCase());
  const at = target2 ? list2.findIndex((s) => anchor(s.event) === target2) : -1;
  const first2 = at >= 0 ? Math.max(0, Math.min(at - 20, list2.length - most3)) : Math.max(0, list2.length - most3);
  useEffect(() => {
    if (at >= 0) document.getElementById(target2)?.scrollIntoView({ block: "center" });
  }, [target2, at >= 0]);
  const link3 = (e) => location.pathname + location.search + "#" + anchor(e);
  return html`<${Card} title=${html`Events <span class="faint">${list2.length === all.length ? count(all.length) : `${count(list2.length)} of ${count(all.length)}`}</span>`} actions=${html`<${EventFilter} kind=${kind} />`} id="events">
    ${state.error && html`<${Problem} error=${state.error} />`}
    ${state.ready && first2 === 0 && state.left > 0 && html`<p class="faint">This page keeps the newest events of the session and leaves out ${count(state.left)} older ones. <code>ao events ${run.run_id}</code> prints all.</p>`}
    ${!state.ready ? html`<${Loading} lines=${4} />` : list2.length === 0 ? html`<p class="faint">${all.length === 0 ? ended(run) ? "No events were recorded." : "No events yet." : "No event matches."}</p>` : html`<div class="stack events">
      ${first2 > 0 && html`<${Button} kind="plain" icon="up" onClick=${() => setMost(most3 + 400)}>Show earlier: ${plural(first2, "event")}<//>`}
      ${list2.slice(first2, first2 + Math.max(most3, 1)).map((s) => html`<${Step} key=${s.event.n} step=${s} href=${link3} target=${target2} />`)}</div>`}
  <//>`;
}
var searchable = (s) => [s.kind, s.text, s.name, s.input?.text, s.output?.text, s.event.result_text, s.event.error?.message].filter(Boolean).join(" ").toLowerCase();
function Input({ run }) {
  const prompt = run.parameters && onlyPrompt(run.parameters);
  return html`<${Card} title="Parameters">${prompt !== void 0 ? html`<div class="jsonbox bare"><div class="said"><${Hostile} text=${prompt} lines=${true} /></div><${Copy} text=${prompt} label="Copy the prompt" /></div>` : html`<${JsonView} value=${run.parameters ?? "null"} label="parameters" />`}<//>`;
}
var Times = ({ run, why }) => html`<${Card} title="Timeline" class="timeline"><${Phases} run=${run} /><${Story} story=${why?.story} run=${run} /><//>`;
function About2({ run, events }) {
  const usage = useMemo(() => usageOf(events), [events]);
  const d = run.demands ?? {};
  const demands = [["type", d.executor_type], ["profile", d.executor_profile], ["hostname", d.hostname], ["project_dir", d.project_dir], ...(d.tags ?? []).map((t) => ["tag", t])].filter(([, v]) => v).map((pair2) => pair2.join("="));
  const left = run.timeout_at && !ended(run) ? Date.parse(run.timeout_at) - now() : 0;
  return html`<${Card} title="Run"><${Facts} of=${[
    ["Id", html`<${Id} id=${run.run_id} />`],
    ["Session", html`<${Id} id=${run.session_id} href=${"/ui/sessions/" + seg(run.session_id)} />`],
    ["Agent", html`<a href=${"/ui/agents/" + seg(run.agent_name)}><${Text} text=${run.agent_name} /></a>`],
    ["Definition", run.agent_hash ? html`<a href=${`/runs/${seg(run.run_id)}/definition`} target="_blank" title="The agent as this run was accepted with"><code>${run.agent_hash}</code></a> <a href=${"/ui/runs?agent_hash=" + seg(run.agent_hash)}>its runs</a>` : null],
    ["Type", run.type === "resume_session" ? "a turn of an existing session" : "starts a session"],
    ["Mode", run.mode],
    ["Attempt", html`${run.attempt}${run.max_attempts > 1 && ` of ${run.max_attempts}`}`],
    ["Runner", run.runner_id ? html`<${Id} id=${run.runner_id} href=${"/ui/runs?runner_id=" + seg(run.runner_id)} />` : null],
    ["Parent", run.parent_session_id ? html`<${Id} id=${run.parent_session_id} href=${"/ui/sessions/" + seg(run.parent_session_id)} />${run.parent_gone && html` <${Badge} kind="warn">deleted<//>`}` : null],
    ["Stopped with", run.stopped_with ? html`the tree of <${Id} id=${run.stopped_with} href=${`/ui/sessions/${seg(run.stopped_with)}/tree`} />` : null],
    ["Retry of", run.retry_of ? html`<${Id} id=${run.retry_of} href=${"/ui/runs/" + seg(run.retry_of)} />` : null],
    ["Demands", demands.length > 0 ? html`<span class="row wrap">${demands.map((x) => html`<code><${Hostile} text=${x} /></code>`)}</span>` : null],
    ["Created", html`<${Time} at=${run.created_at} focus=${true} />`],
    ["Started", run.started_at ? html`<${Time} at=${run.started_at} focus=${true} />` : null],
    ["Ended", run.completed_at ? html`<${Time} at=${run.completed_at} focus=${true} />` : null],
    ["Duration", html`<${Took} from=${run.started_at} to=${run.completed_at} running=${!ended(run) && Boolean(run.started_at)} />`],
    ["Times out", left > 0 ? html`<${Time} at=${run.timeout_at} as="ago" focus=${true} />` : null],
    ["Usage", html`<${Usage} usage=${usage} />`]
  ]} /><//>`;
}
function Told({ run, reload }) {
  const { callback: c, http_callback: h2 } = run;
  if (!c && !h2) return null;
  const again = async () => {
    try {
      await redeliver(run.run_id);
      toast("The webhook is being delivered again");
      reload();
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
  };
  return html`<${Card} title="Callbacks">
    ${c && html`<${Facts} of=${[["Parent", html`<${Status} status=${c.status} />`], ["Turn", c.callback_run_id ? html`<${Id} id=${c.callback_run_id} href=${"/ui/runs/" + seg(c.callback_run_id)} />` : null], ["Reason", c.reason ? html`<code><${Hostile} text=${c.reason} /></code>` : null]]} />`}
    ${h2 && html`<${Facts} of=${[
    ["Webhook", html`<${Status} status=${h2.status} />`],
    ["To", run.callback_url ? html`<code><${Hostile} text=${run.callback_url} /></code>` : null],
    ["Attempts", h2.tries ?? null],
    ["Last answer", h2.http_status ? html`<code>${h2.http_status}</code>` : null],
    ["Reason", h2.reason ? html`<${Hostile} text=${h2.reason} />` : null],
    ["Next attempt", h2.next_try_at ? html`<${Time} at=${h2.next_try_at} as="ago" focus=${true} />` : null]
  ]} />
      <${Button} small=${true} icon="callbacks" needs="POST /callbacks/:id/redeliver" why=${["owed", "dead"].includes(h2.status) ? void 0 : `It is ${h2.status}`} onClick=${again}>Redeliver now<//>`}
  <//>`;
}

// pages/sessions.js
var statuses2 = ["pending", "running", "idle", "stopping", "finished", "stopped", "failed"];
var names = ["status", "agent_name", "parent_session_id"];
function Sessions() {
  const q = query.value;
  const filters = Object.fromEntries(names.filter((n) => q.get(n)).map((n) => [n, q.get(n)]));
  const agents = useResource(agentNames, []);
  const chosen = new Set((q.get("status") ?? "").split(",").filter(Boolean));
  const toggle = (s) => {
    chosen.has(s) ? chosen.delete(s) : chosen.add(s);
    setQuery({ status: statuses2.filter((x) => chosen.has(x)).join(",") }, { push: true });
  };
  return html`<${Page} title="Sessions">
    <div class="filters" role="search" aria-label="Filters of sessions">
      <div class="chips" role="group" aria-label="Status">${statuses2.map((s) => html`<button type="button" class="chip" aria-pressed=${chosen.has(s)} onClick=${() => toggle(s)}><${Dot} status=${s} />${s}</button>`)}</div>
      <${Choice} label="Agent" value=${q.get("agent_name") ?? ""} onChange=${(v) => setQuery({ agent_name: v }, { push: true })} options=${[{ value: "", label: "Any agent" }, ...agents.data ?? []]} />
      ${q.get("parent_session_id") && html`<span class="chip set">children of <code><${Hostile} text=${q.get("parent_session_id")} /></code><button type="button" class="copy" aria-label="Remove this filter" onClick=${() => setQuery({ parent_session_id: null }, { push: true })}><${Icon} name="cross" /></button></span>`}
      ${Object.keys(filters).length > 0 && html`<${Button} small=${true} kind="plain" icon="cross" onClick=${() => setQuery(Object.fromEntries(names.map((n) => [n, null])), { push: true })}>Clear<//>`}
    </div>
    <${List2} key=${JSON.stringify(filters)} filters=${filters} />
  <//>`;
}
function useSessions(filters) {
  const store2 = useRef({ byId: /* @__PURE__ */ new Map(), order: [], cursor: "", busy: false, gone: new AbortController() }).current;
  const [state, setState] = useState({ loading: true, rows: [] });
  const show2 = (more) => setState((s) => ({ ...s, rows: store2.order.map((id) => store2.byId.get(id)).filter(Boolean), ...more }));
  const load8 = async (again) => {
    if (store2.busy) return void (store2.again ||= again);
    store2.busy = true;
    try {
      const { data, at } = await getAt("/sessions", { ...filters, limit: 200, cursor: again ? "" : store2.cursor }, { signal: store2.gone.signal });
      if (again) store2.order = [];
      for (const s of data.sessions) {
        if (!store2.order.includes(s.session_id)) store2.order.push(s.session_id);
        store2.byId.set(s.session_id, s);
      }
      store2.cursor = data.next_cursor ?? "";
      show2({ loading: false, error: void 0, more: Boolean(store2.cursor), ...again && { from: at } });
    } catch (error) {
      if (!store2.gone.signal.aborted) show2({ loading: false, error });
    }
    store2.busy = false;
    if (store2.again) {
      store2.again = false;
      load8(true);
    }
  };
  useEffect(() => {
    load8(true);
    return () => store2.gone.abort();
  }, []);
  const due = useRef(0);
  useLive("/sse/runs", {
    onItems: (items) => {
      if (!items.some((i) => i.event === "runs" || i.event === "more")) return;
      due.current ||= setTimeout(() => {
        due.current = 0;
        if (!store2.gone.signal.aborted && store2.order.length <= 200) load8(true);
      }, 1e3);
    },
    onGap: () => load8(true)
  });
  return { ...state, loadMore: () => state.more && load8(false), reload: () => load8(true) };
}
function List2({ filters }) {
  const list2 = useSessions(filters);
  if (list2.error && list2.rows.length === 0) return html`<${Failed} error=${list2.error} reload=${list2.reload} what="The list of sessions" />`;
  if (list2.loading) return html`<${Loading} lines=${12} />`;
  if (list2.rows.length === 0) return Object.keys(filters).length > 0 ? html`<${Empty} icon="filter" title="No session matches" text="Remove a filter." />` : html`<${Empty} icon="sessions" title="No sessions yet" text="A session is a conversation with an agent. It starts with a run."><${Button} kind="primary" icon="plus" href="/ui/new" needs="POST /runs">New run<//><//>`;
  const at = (s) => "/ui/sessions/" + encodeURIComponent(s.session_id);
  return html`<${Table} label="Sessions" rows=${list2.rows} rowKey=${(s) => s.session_id} onNear=${list2.loadMore} rowProps=${(s) => rowLink(at(s))} more=${list2.more ? "Loading more…" : void 0} columns=${[
    { id: "status", label: "Status", width: "112px", class: "stat", render: (s) => html`<${Status} status=${s.status} />` },
    { id: "session", label: "Session", class: "main", render: (s) => html`<div class="runcell"><a class="name" href=${at(s)}><${Text} text=${s.agent_name} /></a><span class="faint hide3"><${Id} id=${s.session_id} /></span></div>` },
    { id: "runs", label: "Runs", width: "64px", end: true, render: (s) => count(s.runs) },
    { id: "parent", label: "Parent", width: "160px", hide: 2, render: (s) => s.parent_session_id ? html`<${Id} id=${s.parent_session_id} href=${"/ui/sessions/" + encodeURIComponent(s.parent_session_id)} copy=${false} />` : html`<span class="none">–</span>` },
    { id: "tree", label: html`<span class="offscreen">Tree</span>`, width: "72px", hide: 3, render: (s) => html`<a href=${at(s) + "/tree"} aria-label=${"Tree of " + s.agent_name}>Tree</a>` },
    { id: "created", label: "Created", width: "96px", hide: 3, end: true, render: (s) => html`<${Time} at=${s.created_at} as="ago" />` },
    { id: "changed", label: "Updated", width: "92px", end: true, render: (s) => html`<${Time} at=${s.modified_at} as="ago" />` }
  ]} />`;
}

// pages/session.js
var window0 = 120;
var mostRuns = 500;
async function load2(id, signal2) {
  const [session, own, below2] = await Promise.all([
    get(`/sessions/${seg(id)}`, {}, { signal: signal2 }),
    get("/runs", { session_id: id, limit: mostRuns }, { signal: signal2 }),
    get("/runs", { parent_session_id: id, limit: 500 }, { signal: signal2 })
  ]);
  return { session, runs: own.runs.reverse(), more: Boolean(own.next_cursor), children: below2.runs.filter((r) => r.session_id !== id) };
}
function Session({ id }) {
  const page = useResource((signal2) => load2(id, signal2), [id]);
  const events = useEvents(id, page.reload, () => page.data?.runs.every(ended) || page.reload());
  const s = page.data?.session;
  return html`<${Page} title=${s ? `${s.agent_name}: session` : "Session"} crumbs=${[{ label: "Sessions", href: "/ui/sessions" }]}
    heading=${s ? html`<${Text} text=${s.agent_name} /><${Status} status=${s.status} />` : "Session"} actions=${s && html`<${Actions2} session=${s} own=${page.data.runs.filter((r) => !ended(r)).length} reload=${page.reload} />`}>
    <${Loaded} resource=${page} what="The session">${(data) => html`<div class="split talk"><${Conversation} data=${data} events=${events} reload=${page.reload} /><${Side} data=${data} events=${events} /></div>`}<//>
  <//>`;
}
function Actions2({ session, own, reload }) {
  const [asking, setAsking] = useState(null);
  const id = session.session_id;
  const live = ["pending", "running", "stopping", "idle"].includes(session.status);
  const open = session.open_below?.count ?? 0;
  const all = own + open;
  const stop = async (tree) => {
    try {
      await send("POST", `/sessions/${seg(id)}/stop`, tree ? `{"tree":true${own < mostRuns ? `,"expect":${all}` : ""}}` : void 0);
      toast("The session is being stopped");
    } finally {
      reload();
    }
  };
  const remove = async () => {
    await send("DELETE", `/sessions/${seg(id)}`);
    toast("The session is deleted", { kind: "good" });
    navigate("/ui/sessions");
  };
  return html`<${Button} icon="tree" href=${`/ui/sessions/${seg(id)}/tree`}>Tree<//>
    <${Button} icon="stop" kind="danger" needs="POST /sessions/:id/stop" why=${live || open > 0 ? void 0 : "Nothing in it or below it is running or waiting"} onClick=${() => setAsking(live ? "stop" : "tree")}>${live || open === 0 ? "Stop" : "Stop all below"}<//>
    <${Menu} label="More" items=${[
    { label: "Stop with all below", icon: "stop", needs: "POST /sessions/:id/stop", run: () => setAsking("tree") },
    { label: "Runs of this session", icon: "runs", href: "/ui/runs?session_id=" + seg(id) },
    { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /sessions/:id", why: live ? "Something in it is running or waiting" : void 0, run: () => setAsking("delete") }
  ]} />
    ${asking === "stop" && html`<${Confirm} title="Stop the session" verb="Stop it" kind="danger" run=${() => stop(false)} onClose=${() => setAsking(null)}><p>The running turn of <b><${Text} text=${session.agent_name} /></b> is stopped, and waiting turns will not start.${open > 0 && ` ${plural(open, "run")} below it continue.`} The session can be resumed later.</p><//>`}
    ${asking === "tree" && html`<${Confirm} title="Stop the session and all below" verb="Stop the tree" kind="danger" run=${() => stop(true)} onClose=${() => setAsking(null)}><p>Everything that is running or waiting in the session and below it is stopped: ${plural(all, "run")}${own > 0 && open > 0 ? `, ${open} of them below it` : ""}. No callbacks are delivered below it.</p><//>`}
    ${asking === "delete" && html`<${Confirm} title="Delete the session" verb="Delete it" kind="danger" run=${remove} onClose=${() => setAsking(null)}><p>The session <${Id} id=${id} copy=${false} /> with its ${plural(session.runs, "run")}, events and results is deleted permanently.</p><//>`}`;
}
function Conversation({ data, events, reload }) {
  const [shown2, setShown] = useState(window0);
  const end = useRef(), box = useRef();
  const byRun = useMemo(() => Map.groupBy(events.events, (e) => e.run_id), [events.events]);
  const target2 = address.value.hash.slice(1);
  const turns = useMemo(() => data.runs.map((run) => ({ run, steps: steps(byRun.get(run.run_id) ?? []) })), [data.runs, byRun]);
  let room = shown2;
  const visible2 = [];
  for (const t of turns.toReversed()) {
    if (room <= 0 && !target2) break;
    visible2.unshift({ ...t, cut: target2 ? 0 : Math.max(0, t.steps.length - room), steps: target2 ? t.steps : t.steps.slice(-room) });
    room -= t.steps.length + 1;
  }
  const hidden2 = turns.reduce((n, t) => n + t.steps.length, 0) - visible2.reduce((n, t) => n + t.steps.length, 0);
  const follow2 = useFollow(box, events.events.length + data.runs.length, events.ready && data.runs.some((r) => !ended(r)));
  useEffect(() => {
    if (target2 && events.ready) document.getElementById(target2)?.scrollIntoView({ block: "center" });
  }, [target2, events.ready]);
  return html`<div class="conversation" ref=${box}>
    ${hidden2 === 0 && events.left > 0 && html`<p class="faint">This page keeps the newest events and leaves out ${count(events.left)} older ones. <code>ao events ${data.session.session_id}</code> prints all.</p>`}
    ${(hidden2 > 0 || turns.length > visible2.length) && html`<${Button} kind="plain" icon="up" onClick=${() => setShown(shown2 + 400)}>Show earlier: ${plural(hidden2, "step")}<//>`}
    ${visible2.map((t) => html`<${Turn} key=${t.run.run_id} turn=${t} children=${data.children} target=${target2} />`)}
    ${events.error && html`<${Problem} error=${events.error} />`}
    <div ref=${end}></div>
    ${follow2.away && html`<button type="button" class="button newest" onClick=${follow2.go}><${Icon} name="down" />Jump to the newest</button>`}
    <${Resume} session=${data.session} runs=${data.runs} reload=${reload} />
  </div>`;
}
function useFollow(box, size, live) {
  const [away, setAway] = useState(false);
  const at = useRef(true), began = useRef(false);
  const scroller2 = () => box.current?.closest("[data-scroller]");
  const go = () => scroller2()?.scrollTo({ top: scroller2().scrollHeight });
  useEffect(() => {
    const s = scroller2();
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
var link2 = (e) => `#${e.run_id}-${e.n}`;
function Turn({ turn, children: children2, target: target2 }) {
  const { run } = turn;
  const prompt = run.parameters && onlyPrompt(run.parameters);
  const told = children2.filter((c) => c.callback?.callback_run_id === run.run_id);
  const list2 = turn.steps.filter((s, i) => !(s.kind === "user" && s.text === prompt && i < 3) && !(s.kind === "result" && sameAnswer(turn.steps, i)) && s.kind !== "run_start" | (s.kind === "run_start" && s.event.attempt > 1));
  return html`<section class="turn" aria-label=${"Turn " + run.run_id}>
    <h2 class="offscreen">Turn, ${run.status}</h2><header class="turnhead"><a href=${"/ui/runs/" + seg(run.run_id)}><${Status} status=${run.status} /></a><${Id} id=${run.run_id} href=${"/ui/runs/" + seg(run.run_id)} /><span class="grow"></span>
      <span class="faint"><${Time} at=${run.created_at} /></span>${run.started_at && html`<span class="faint"><${Took} from=${run.started_at} to=${run.completed_at} running=${!ended(run)} /></span>`}</header>
    ${told.length > 0 ? html`<${Callbacks} told=${told} prompt=${prompt} />` : html`<${Input2} run=${run} prompt=${prompt} />`}
    ${turn.cut > 0 && html`<p class="faint">${plural(turn.cut, "earlier step")} of this turn are not shown</p>`}
    ${list2.map((s) => html`<${Step} key=${s.event.n} step=${s} href=${link2} target=${target2} />`)}
    ${!ended(run) && html`<p class="moment soft"><${Status} status=${run.status} label=${run.status === "pending" ? "waiting" : run.status} />${run.waiting_for && html` <${Text} text=${run.waiting_for} />`} <a href=${"/ui/runs/" + seg(run.run_id)}>Why?</a></p>`}
  </section>`;
}
function sameAnswer(list2, i) {
  const e = list2[i].event;
  if (e.result_data || e.schema_validation) return false;
  const before = list2.slice(0, i).findLast((s) => s.kind === "assistant");
  return before && textOf(before.event).trim() === (e.result_text ?? "").trim();
}
function Input2({ run, prompt }) {
  if (run.parameters_omitted) return html`<article class="step user"><a href=${"/ui/runs/" + seg(run.run_id)}>Large parameters: open the run</a></article>`;
  const text = prompt ?? promptOf(run.parameters);
  if (text === void 0) return html`<article class="step user"><${JsonView} value=${run.parameters ?? "null"} label="parameters" bare=${true} /></article>`;
  return html`<article class="step user"><div class="said"><${Hostile} text=${text} lines=${true} /></div>
    ${prompt === void 0 && html`<${Details} summary=${html`<span class="soft">All parameters</span>`}><${JsonView} value=${run.parameters} label="parameters" bare=${true} /><//>`}</article>`;
}
function Callbacks({ told, prompt }) {
  return html`<div class="callbacks">${told.map((c) => html`<a class="callback" key=${c.run_id} href=${"/ui/sessions/" + seg(c.session_id)}><${Icon} name="callbacks" /><span class="grow"><b><${Text} text=${c.agent_name} /></b> called back${c.error && html`: <span class="bad"><${Text} text=${c.error.message} /></span>`}</span><${Status} status=${c.status} /></a>`)}
    ${prompt && html`<${Details} summary=${html`<span class="faint">Message to the agent</span>`}><div class="said"><${Hostile} text=${prompt} lines=${true} /></div><//>`}</div>`;
}
function Resume({ session, runs, reload }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const key = useRef(newKey());
  const why = session.agent_type === "procedural" ? "A procedural agent is stateless: start a new run instead" : void 0;
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
  const { session: s, children: children2, runs } = data;
  const usage = useMemo(() => usageOf(events.events), [events.events]);
  return html`<aside class="stack aside" aria-label="About the session">
    <${Card} title="Session"><${Facts} of=${[
    ["Id", html`<${Id} id=${s.session_id} />`],
    ["Agent", html`<a href=${"/ui/agents/" + seg(s.agent_name)}><${Text} text=${s.agent_name} /></a>`],
    ["Runs", html`<a href=${"/ui/runs?session_id=" + seg(s.session_id)}>${plural(s.runs, "run")}</a>`],
    ["Usage", html`<${Usage} usage=${usage} />`],
    ["Parent", s.parent_session_id ? html`<${Id} id=${s.parent_session_id} href=${"/ui/sessions/" + seg(s.parent_session_id)} />${s.parent_gone && html` <span class="badge warn">deleted</span>`}` : null],
    ["Project folder", s.project_dir ? html`<code><${Hostile} text=${s.project_dir} /></code>` : null],
    ["Created", html`<${Time} at=${s.created_at} focus=${true} />`],
    ["Updated", html`<${Time} at=${s.modified_at} as="ago" focus=${true} />`]
  ]} /><//>
    <${Card} title=${plural(new Set(children2.map((c) => c.session_id)).size, "child session")} actions=${children2.length > 0 && html`<a href=${`/ui/sessions/${seg(s.session_id)}/tree`}>Tree</a>`}>
      ${children2.length === 0 ? html`<p class="faint">It has started no other agents.</p>` : html`<ul class="links">${children2.slice(0, 50).map((c) => html`<li key=${c.run_id}><a href=${"/ui/sessions/" + seg(c.session_id)}><${Status} status=${c.status} label=${html`<${Text} text=${c.agent_name} />`} /></a>${c.callback && html`<span class="faint">callback ${c.callback.status}</span>`}</li>`)}</ul>`}<//>
    <${Card} title="Turns"><ul class="links">${runs.slice(-50).map((r) => html`<li key=${r.run_id}><a href=${"/ui/runs/" + seg(r.run_id)}><${Status} status=${r.status} label=${r.run_id.slice(-8)} /></a><span class="faint"><${Time} at=${r.created_at} as="ago" /></span></li>`)}</ul><//>
  </aside>`;
}

// lib/tree.js
var pageSize3 = 1e3;
var most2 = 2e4;
function useTree(id) {
  const [state, setState] = useState({ loading: true, nodes: /* @__PURE__ */ new Map() });
  const store2 = useRef(null);
  if (!store2.current) store2.current = { nodes: /* @__PURE__ */ new Map(), runs: /* @__PURE__ */ new Map(), busy: false, again: false, due: 0, gone: new AbortController() };
  const s = store2.current;
  const show2 = (more) => setState((old) => ({ ...old, nodes: new Map(s.nodes), root: s.nodes.get(id), ...more }));
  const load8 = async () => {
    if (s.busy) return void (s.again = true);
    s.busy = true;
    for (let tries = 0; ; tries++) {
      try {
        show2({ loading: false, error: void 0, ...await read3(id, s, show2) });
        break;
      } catch (error) {
        if (s.gone.signal.aborted) break;
        show2({ loading: error.passing, error });
        if (!error.passing) break;
        await new Promise((done) => setTimeout(done, backoff(tries, error.retryAfter)));
      }
    }
    s.busy = false;
    if (s.again && !s.gone.signal.aborted) {
      s.again = false;
      load8();
    }
  };
  useEffect(() => {
    load8();
    return () => (s.gone.abort(), clearTimeout(s.due));
  }, []);
  const soon2 = () => s.due ||= setTimeout(() => (s.due = 0, load8()), 1500);
  useLive(state.from === void 0 ? "" : "/sse/runs", {
    onItems: (items) => {
      let changed2 = false;
      for (const i of items) {
        if (i.event === "runs") {
          for (const r of i.data().runs) {
            if (over2(s.runs.get(r.run_id), r)) soon2();
            changed2 = take(s, r) || changed2;
          }
          if (i.data().deleted?.some((r) => s.runs.has(r))) soon2();
        }
        if (i.event === "more") soon2();
      }
      if (changed2) show2();
    },
    onGap: load8
  }, state.from);
  return { ...state, reload: load8 };
}
async function read3(id, s, show2) {
  let from;
  for (let cursor = ""; ; ) {
    const { data, at } = await getAt(`/sessions/${seg(id)}/tree`, { limit: pageSize3, cursor }, { signal: s.gone.signal });
    from ??= at;
    for (const t of data.sessions) {
      const node = s.nodes.get(t.session_id) ?? { runs: [] };
      s.nodes.set(t.session_id, { ...node, ...t, runs: node.runs });
      for (const r of t.runs ?? []) put(s, t.session_id, r);
    }
    cursor = data.next_cursor;
    if (!cursor || s.nodes.size >= most2) return { cut: Boolean(cursor), from };
    show2({ loading: false });
  }
}
var ofAttempt = ["runner_id", "claimed_at", "started_at", "completed_at", "error", "next_attempt_at"];
var over2 = (known, run) => Boolean(known && (run.attempt > known.attempt || run.next_attempt_at && !known.next_attempt_at));
function put(s, session, run) {
  const node = s.nodes.get(session);
  const known = s.runs.get(run.run_id);
  const kept2 = { ...known };
  if (over2(known, run)) for (const name of ofAttempt) delete kept2[name];
  const next3 = newer(known, { ...kept2, ...run });
  s.runs.set(run.run_id, next3);
  const at = node.runs.findIndex((r) => r.run_id === run.run_id);
  const runs = at < 0 ? [...node.runs, next3].sort((a, b) => a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0) : node.runs.with(at, next3);
  s.nodes.set(session, { ...node, runs });
}
function take(s, run) {
  const parent = s.nodes.get(run.parent_session_id);
  if (!s.nodes.has(run.session_id)) {
    if (!parent) return false;
    s.nodes.set(run.session_id, { session_id: run.session_id, parent_session_id: run.parent_session_id, depth: parent.depth + 1, agent_name: run.agent_name, created_at: run.created_at, runs: [] });
  }
  put(s, run.session_id, run);
  return true;
}
function statusOf(node) {
  if (node.deleted) return "deleted";
  const open = node.runs.find((r) => !ended(r) && r.status !== "pending") ?? node.runs.find((r) => !ended(r));
  return (open ?? node.runs.at(-1))?.status ?? node.status ?? "pending";
}
function pieces(run) {
  let from = run.created_at;
  const list2 = [];
  for (const e of run.earlier_attempts ?? []) {
    const times = { created_at: from, claimed_at: e.claimed_at, started_at: e.started_at, completed_at: e.completed_at ?? e.claimed_at };
    list2.push({ ...run, reports: void 0, status: "failed", attempt: e.attempt, next_attempt_at: void 0, error: e.error, earlier: true, ...times });
    from = list2.at(-1).completed_at;
  }
  return [...list2, { ...run, created_at: from }];
}
var failed2 = (node) => statusOf(node) === "failed";
function layout(nodes, root2, isOpen, only) {
  if (!root2) return { rows: [], sums: /* @__PURE__ */ new Map() };
  const below2 = /* @__PURE__ */ new Map();
  for (const n of nodes.values()) {
    if (n === root2 || n.session_id === root2.session_id) continue;
    const up = nodes.has(n.parent_session_id) ? n.parent_session_id : root2.session_id;
    if (below2.has(up)) below2.get(up).push(n);
    else below2.set(up, [n]);
  }
  for (const list2 of below2.values()) list2.sort((a, b) => a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0);
  const sums = /* @__PURE__ */ new Map();
  const order2 = [];
  for (const stack = [root2]; stack.length > 0; ) {
    const n = stack.pop();
    order2.push(n);
    stack.push(...below2.get(n.session_id) ?? []);
  }
  for (const n of order2.toReversed()) {
    const sum = { sessions: 0, failed: 0, live: 0 };
    for (const c of below2.get(n.session_id) ?? []) {
      const s = sums.get(c.session_id);
      sum.sessions += s.sessions + 1;
      sum.failed += s.failed + (failed2(c) ? 1 : 0);
      sum.live += s.live + (c.runs.some((r) => !ended(r)) ? 1 : 0);
    }
    sums.set(n.session_id, sum);
  }
  const rows = [];
  for (const stack = [[root2, 0]]; stack.length > 0; ) {
    const [node, level] = stack.pop();
    const sum = sums.get(node.session_id);
    if (only && level > 0 && !only(node, sum)) continue;
    const children2 = below2.get(node.session_id) ?? [];
    const open = children2.length > 0 && isOpen(node, sum);
    rows.push({ node, level, sum, children: children2.length, open });
    if (open) for (const c of children2.toReversed()) stack.push([c, level + 1]);
  }
  return { rows, sums };
}
function span(nodes, now2) {
  let from = Infinity, to = -Infinity, live = false;
  for (const n of nodes.values()) {
    for (const r of n.runs) {
      from = Math.min(from, ms(r.created_at));
      if (ended(r)) to = Math.max(to, ms(r.completed_at ?? r.created_at));
      else live = true;
    }
  }
  if (live) to = Math.max(to, now2);
  if (!Number.isFinite(from)) [from, to] = [now2 - 1e3, now2];
  return { from, to: Math.max(to, from + 10), live };
}
var steps2 = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 6048e5];
function ticks(from, to, n = 6) {
  const step2 = steps2.find((s) => (to - from) / s <= n) ?? steps2.at(-1) * Math.ceil((to - from) / steps2.at(-1) / n);
  const list2 = [];
  for (let t = 0; t <= to - from; t += step2) list2.push(t);
  return list2;
}

// pages/tree.js
var small = 150;
var mostBars = 40;
function Tree({ id }) {
  const tree = useTree(id);
  const root2 = tree.root;
  return html`<${Page} title=${root2 ? `${root2.agent_name}: tree` : "Tree"} crumbs=${[{ label: "Sessions", href: "/ui/sessions" }, { label: root2?.agent_name ?? "session", href: "/ui/sessions/" + seg(id) }]}
    heading=${root2 ? html`Tree<${Status} status=${statusOf(root2)} />` : "Tree"} actions=${root2 && html`<${Actions3} tree=${tree} />`}>
    ${root2 ? html`<${Gantt} tree=${tree} />` : tree.error && !tree.loading ? html`<${Failed} error=${tree.error} reload=${tree.reload} what="The tree" />` : html`<${Loading} lines=${10} />`}
  <//>`;
}
function Actions3({ tree: { root: root2, nodes, reload } }) {
  const [asking, setAsking] = useState(false);
  const { live } = count3(nodes);
  const stop = async () => {
    await send("POST", `/sessions/${seg(root2.session_id)}/stop`, '{"tree":true}');
    toast("The tree is being stopped");
    reload();
  };
  return html`${root2.parent_session_id && html`<${Button} icon="up" href=${`/ui/sessions/${seg(root2.parent_session_id)}/tree`}>Parent<//>`}
    <${Button} icon="stop" kind="danger" needs="POST /sessions/:id/stop" why=${live > 0 ? void 0 : "Nothing in it is running or waiting"} onClick=${() => setAsking(true)}>Stop all<//>
    ${asking && html`<${Confirm} title="Stop the session and all below" verb="Stop the tree" kind="danger" run=${stop} onClose=${() => setAsking(false)}><p>Everything that is running or waiting in <b><${Text} text=${root2.agent_name} /></b> and below it is stopped: ${plural(live, "run")}. No callbacks are delivered below it.</p><//>`}`;
}
function Gantt({ tree }) {
  const { nodes, root: root2 } = tree;
  const [folds, setFolds] = useState(/* @__PURE__ */ new Map());
  const [zoom, setZoom] = useState(1);
  const onlyFailed = query.value.get("show") === "failed";
  const whole2 = nodes.size <= small;
  const isOpen = (n, sum2) => folds.get(n.session_id) ?? (whole2 || n === root2 || onlyFailed || sum2.failed > 0 || sum2.live > 0);
  const only = onlyFailed ? (n, sum2) => failed2(n) || sum2.failed > 0 : void 0;
  const { rows, sums } = useMemo(() => layout(nodes, root2, isOpen, only), [nodes, folds, onlyFailed]);
  const all = useMemo(() => count3(nodes), [nodes]);
  const time = span(nodes, now());
  if (time.live) tick.value;
  const view = { from: zoom === 1 ? time.from : time.to - (time.to - time.from) / zoom, to: time.to };
  const fold = (n, open) => setFolds(new Map(folds).set(n.session_id, open));
  const box = useRef();
  const seen2 = useRef(-1);
  const next3 = () => {
    const at = rows.findIndex((r, i) => i > seen2.current && failed2(r.node));
    seen2.current = at >= 0 ? at : rows.findIndex((r) => failed2(r.node));
    const scroller2 = box.current.closest("[data-scroller]");
    const body = box.current.querySelector("tbody");
    if (seen2.current >= 0) scroller2.scrollTo({ top: scroller2.scrollTop + body.getBoundingClientRect().top - scroller2.getBoundingClientRect().top + seen2.current * 34 - 140 });
  };
  const sum = sums.get(root2.session_id) ?? { failed: 0 };
  return html`<div ref=${box} class="gantt">
    <div class="listbar">
      <span>${plural(nodes.size, "session")}, ${plural(all.runs, "run")}</span>
      ${all.live > 0 && html`<${Status} status="running" label=${`${all.live} in progress`} />`}
      ${all.failed > 0 && html`<${Status} status="failed" label=${`${plural(all.failed, "run")} failed`} />`}
      ${tree.cut && html`<${Badge} kind="warn">only the first ${plural(nodes.size, "session")}<//>`}
      <span class="grow"></span>
      ${sum.failed > 0 && html`<${Button} small=${true} icon="down" onClick=${next3}>Next failed<//><${Switch} on=${onlyFailed} onChange=${(on) => setQuery({ show: on ? "failed" : null })}>Failed only<//>`}
      <${Button} small=${true} kind="plain" onClick=${() => setFolds(new Map([...nodes.keys()].map((k) => [k, true])))}>Expand all<//>
      <${Button} small=${true} kind="plain" onClick=${() => setFolds(new Map([...nodes.keys()].map((k) => [k, k === root2.session_id])))}>Collapse all<//>
      <span class="zoom" role="group" aria-label="Time"><${Button} small=${true} label="Zoom out" title="Zoom out" disabled=${zoom === 1} onClick=${() => setZoom(Math.max(1, zoom / 2))}>−<//><${Button} small=${true} label="Zoom in on the end" title="Zoom in on the end" onClick=${() => setZoom(zoom * 2)}>+<//></span>
    </div>
    ${tree.error && html`<div class="banner warn" role="status"><${Icon} name="warn" /><span><${Text} text=${tree.error.message} /></span></div>`}
    <${Table} label="Sessions over time" rows=${rows} rowKey=${(r) => r.node.session_id} rowHeight=${34} rowClass=${(r) => failed2(r.node) ? "isfailed" : void 0} columns=${[
    { id: "name", label: "Session", width: "44%", render: (r) => html`<${Name} row=${r} fold=${fold} />` },
    { id: "time", label: html`<${Axis} view=${view} origin=${time.from} />`, class: "timecell", render: (r) => html`<${Bars} node=${r.node} view=${view} />` },
    { id: "took", label: "Duration", width: "84px", end: true, hide: 3, render: (r) => html`<${Total} node=${r.node} />` }
  ]} />
    ${nodes.size === 1 && html`<${Empty} icon="tree" title="No child sessions" text="Agents that are started with this session as their parent appear here." />`}
  </div>`;
}
function count3(nodes) {
  const n = { runs: 0, failed: 0, live: 0 };
  for (const node of nodes.values()) {
    for (const r of node.runs) {
      n.runs++;
      if (r.status === "failed") n.failed++;
      if (!ended(r)) n.live++;
    }
  }
  return n;
}
function Name({ row, fold }) {
  const { node, level, children: children2, open, sum } = row;
  const status = statusOf(node);
  const bad = node.runs.findLast((r) => r.status === "failed");
  const key = (e) => {
    if (e.key === "ArrowRight" && children2 > 0 && !open) fold(node, true);
    else if (e.key === "ArrowLeft" && open) fold(node, false);
  };
  return html`<div class="treename" style=${{ paddingInlineStart: Math.min(level, 24) * 18 + "px" }} onKeyDown=${key}>
    ${children2 > 0 ? html`<button type="button" class="fold" aria-expanded=${open} aria-label=${`${open ? "Collapse" : "Expand"} ${plural(sum.sessions, "session")} below ${visible(node.agent_name)}`} onClick=${() => fold(node, !open)}><${Icon} name=${open ? "down" : "chevron"} /></button>` : html`<span class="nofold"></span>`}
    <span class="row" title=${status}><${Dot} status=${status} /></span><span class="offscreen">level ${level + 1}, ${status}: </span>
    ${node.deleted ? html`<span class="faint">deleted session</span>` : html`<a class="name" href=${"/ui/sessions/" + seg(node.session_id)}><${Text} text=${node.agent_name} /></a>`}
    ${children2 > 0 && !open && html`<${Badge}>${sum.sessions}<//>`}${!open && sum.failed > 0 && html`<${Badge} kind="bad">${sum.failed} failed<//>`}
    ${bad?.error && status === "failed" && html`<a class="cut bad" href=${"/ui/runs/" + seg(bad.run_id)} title=${visible(bad.error.message)}><${Hostile} text=${bad.error.message} /></a>`}
    ${node.runs.some((r) => r.callback?.status === "undeliverable") && html`<${Badge} kind="bad">callback undeliverable<//>`}${node.runs.some((r) => r.callback?.status === "suppressed") && html`<${Badge}>callback suppressed<//>`}
  </div>`;
}
var place = (t, view) => Math.min(100, Math.max(0, (t - view.from) / (view.to - view.from) * 100));
var short2 = (t) => t === 0 ? "0" : duration(t).replace(/\.0+(?= )/, "").replace(/(\.\d*?)0+(?= )/, "$1").replace(/ 00s$/, "");
function Axis({ view, origin }) {
  const marks = ticks(view.from, view.to).filter((t) => place(view.from + t, view) < 92);
  return html`<span class="axis"><span class="offscreen">Time since the first run</span>${marks.map((t) => html`<span aria-hidden="true" key=${t} style=${{ insetInlineStart: place(view.from + t, view) + "%" }}>${short2(view.from - origin + t)}</span>`)}</span>`;
}
function Bars({ node, view }) {
  const all = node.runs.slice(-mostBars).flatMap(pieces), list2 = all.slice(-mostBars);
  const more = Math.max(0, node.runs.length - mostBars) + (node.runs_omitted ?? 0) + all.length - list2.length;
  const first2 = node.runs_omitted ? "" : node.runs[0]?.run_id;
  return html`<div class="bars">${more > 0 && html`<span class="earlier">+${more}</span>`}${list2.map((r) => html`<${Bar} key=${r.run_id + (r.earlier ? " " + r.attempt : "")} run=${r} turn=${r.run_id !== first2} view=${view} />`)}</div>`;
}
function Bar({ run, turn, view }) {
  const created = ms(run.created_at), began = ms(run.started_at ?? run.claimed_at), end = ended(run) ? ms(run.completed_at ?? run.created_at) : now();
  if (end < view.from) return null;
  const from = Number.isFinite(began) ? began : end;
  const [a, b, c] = [place(created, view), place(from, view), place(end, view)];
  const told = run.reports?.length;
  const n = run.next_attempt_at ? run.attempt + 1 : run.attempt;
  const attempt = run.earlier || n > 1 ? `, attempt ${n}` : "";
  const label = `${turn ? told ? `callback turn for ${plural(told, "run")}` : "turn" : "run"} ${run.status}${attempt}, ${duration(end - created)}`;
  return html`<a class=${"bar s-" + run.status + (told ? " told" : "") + (run.earlier ? " earlier" : "")} href=${"/ui/runs/" + seg(run.run_id)} style=${{ insetInlineStart: a + "%", width: `max(${c - a}%, 4px)` }}
      title=${`${label}
${exact(created)}${run.error ? "\n" + visible(run.error.message) : ""}`} aria-label=${label}>
    ${b > a && html`<i class="wait" style=${{ width: c > a ? (b - a) / (c - a) * 100 + "%" : "0" }}></i>`}${Number.isFinite(began) && html`<i class="work"></i>`}
    ${!run.earlier && run.attempt > 1 && html`<b>×${run.attempt}</b>`}</a>`;
}
function Total({ node }) {
  const first2 = node.runs[0], last2 = node.runs.at(-1);
  if (!first2) return html`<span class="none">–</span>`;
  const open = node.runs.some((r) => !ended(r));
  const busy = node.runs.reduce((n, r) => n + (r.started_at ? (ended(r) ? ms(r.completed_at) : now()) - ms(r.started_at) : 0), 0);
  return html`<span class="num" title=${`${duration((open ? now() : ms(last2.completed_at)) - ms(first2.created_at))} from the first to the last`}>${duration(busy)}</span>`;
}

// lib/form/value.js
var value_exports = {};
__export(value_exports, {
  emptyArray: () => emptyArray,
  emptyObject: () => emptyObject,
  member: () => member2,
  read: () => read4,
  string: () => string,
  stringOf: () => stringOf,
  typed: () => typed,
  withItem: () => withItem,
  withMember: () => withMember,
  write: () => write
});
function read4(text) {
  return check(text) ? { kind: "typed", text } : parse(text);
}
function write(node) {
  if (node.text !== void 0) return node.kind === "typed" ? node.text : node.text.trim();
  if (node.kind === "array") return "[" + node.items.map(write).join(",") + "]";
  return "{" + node.items.map((m) => quote(m.name) + ":" + write(m)).join(",") + "}";
}
var typed = (node) => node.kind === "typed" || (node.items ?? []).some(typed);
var string = (s) => ({ kind: "string", text: quote(s) });
var emptyObject = () => ({ kind: "object", items: [] });
var emptyArray = () => ({ kind: "array", items: [] });
var stringOf = (node) => node?.kind === "string" ? JSON.parse(node.text) : void 0;
var member2 = (node, name) => node?.kind === "object" ? node.items.findLast((m) => m.name === name) : void 0;
function withMember(node, name, value, order2 = []) {
  const at = node.items.findLastIndex((m) => m.name === name);
  const items = [...node.items];
  if (value === void 0) return { kind: "object", items: items.filter((m) => m.name !== name) };
  const next3 = { ...value, name };
  if (at >= 0) items[at] = next3;
  else items.splice(placeFor(items, name, order2), 0, next3);
  return { kind: "object", items };
}
function placeFor(items, name, order2) {
  const later = new Set(order2.slice(order2.indexOf(name) + 1));
  const at = order2.includes(name) ? items.findIndex((m) => later.has(m.name)) : -1;
  return at < 0 ? items.length : at;
}
function withItem(node, i, value) {
  const items = [...node.items];
  if (value === void 0) items.splice(i, 1);
  else items[i] = value;
  return { kind: "array", items };
}

// lib/editor/codemirror.js
var loading2;
var load3 = () => loading2 ??= import("../vendor/editor-7ccdd8f6f6.js").catch((err) => (loading2 = void 0, Promise.reject(err)));
var nonce = () => document.querySelector('meta[name="csp-nonce"]')?.content ?? "";
async function create(box, { text, latest, keywords: keywords2, readOnly, placeholder, attributes }) {
  const cm = await load3();
  const asked = new cm.Compartment();
  const shown2 = (wrong) => cm.EditorView.contentAttributes.of({ ...attributes, tabindex: "0", "aria-invalid": wrong ? "true" : "false" });
  const view = new cm.EditorView({
    parent: box,
    state: cm.EditorState.create({ doc: text, extensions: [...extensions(cm, { latest, keywords: keywords2, readOnly, placeholder }), asked.of(shown2(false))] })
  });
  return {
    replace(next3) {
      if (next3 === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next3 }, annotations: outside(cm).of(true) });
    },
    go(line2, column) {
      view.dispatch({ selection: { anchor: offset(view.state.doc, line2, column) }, scrollIntoView: true });
      view.focus();
    },
    invalid: (wrong) => view.dispatch({ effects: asked.reconfigure(shown2(wrong)) }),
    destroy: () => view.destroy()
  };
}
var mark2;
var outside = (cm) => mark2 ??= cm.Annotation.define();
function extensions(cm, { latest, keywords: keywords2, readOnly, placeholder }) {
  const editing = readOnly ? [cm.EditorState.readOnly.of(true)] : [
    cm.history(),
    cm.closeBrackets(),
    cm.indentOnInput(),
    cm.linter((view) => lint(view, latest.current), { delay: 350 }),
    cm.lintGutter(),
    cm.keymap.of([...cm.closeBracketsKeymap, ...cm.historyKeymap, ...cm.lintKeymap, ...cm.completionKeymap, cm.indentWithTab]),
    leaving(cm),
    keywords2 ? cm.autocompletion({ override: [propose(cm, keywords2)] }) : [],
    placeholder ? cm.placeholder(placeholder) : []
  ];
  return [
    cm.EditorView.cspNonce.of(nonce()),
    cm.json(),
    cm.syntaxHighlighting(colours(cm)),
    look(cm),
    cm.lineNumbers(),
    cm.foldGutter(),
    cm.bracketMatching(),
    cm.highlightSpecialChars(),
    cm.drawSelection(),
    cm.highlightActiveLine(),
    cm.search({ top: true }),
    cm.indentUnit.of("  "),
    cm.EditorState.tabSize.of(2),
    cm.EditorView.lineWrapping,
    ...editing,
    cm.keymap.of([...cm.searchKeymap, ...cm.foldKeymap, ...cm.defaultKeymap]),
    cm.EditorView.updateListener.of((u) => {
      if (u.docChanged && !u.transactions.some((t) => t.annotation(outside(cm)))) latest.current.change(u.state.doc.toString());
    })
  ];
}
function leaving(cm) {
  return [
    cm.keymap.of([{ key: "Escape", run: (view) => (view.setTabFocusMode(true), false) }]),
    cm.EditorView.domEventHandlers({ blur: (e, view) => void view.setTabFocusMode(false) }),
    cm.EditorView.updateListener.of((u) => u.docChanged && u.view.setTabFocusMode(false))
  ];
}
async function lint(view, { judge: judge3, errors }) {
  const doc = view.state.doc;
  const text = doc.toString();
  let found2 = syntaxErrors(text);
  if (found2.length === 0 && text.trim() !== "" && judge3) {
    try {
      found2 = await judge3(text);
    } catch (err) {
      if (view.state.doc !== doc) return [];
      found2 = [];
      errors([{ message: "The coordinator could not check it: " + err.message }]);
      return [];
    }
  }
  if (view.state.doc !== doc) return [];
  errors(found2);
  return found2.map((e) => {
    const from = offset(doc, e.line, e.column);
    return { from, to: Math.max(from, Math.min(doc.length, wordEnd(text, from))), severity: "error", message: e.path ? `${e.path}: ${e.message}` : e.message };
  });
}
function offset(doc, line2 = 1, column = 1) {
  const at = doc.line(Math.min(Math.max(1, line2 || 1), doc.lines));
  return Math.min(at.to, at.from + Math.max(0, (column || 1) - 1));
}
function wordEnd(text, from) {
  const word = /^(?:"(?:[^"\\\n]|\\.)*"?|[^\s,\]}]+)/.exec(text.slice(from, from + 300));
  return from + (word ? word[0].length : 1);
}
function propose(cm, keywords2) {
  const options2 = keywords2.map((k) => ({ label: `"${k.name}"`, apply: `"${k.name}": `, detail: k.detail, type: "property" }));
  return (context) => {
    const word = context.matchBefore(/"[\w$]*/);
    const node = cm.syntaxTree(context.state).resolveInner(context.pos, -1);
    const named = node.name === "PropertyName" || node.parent?.name === "PropertyName" || node.name === "⚠" && node.parent?.name === "Object";
    if (!word || !named) return null;
    const closed = context.state.sliceDoc(context.pos, context.pos + 1) === '"';
    const rest = closed ? /^"\s*:?\s*/.exec(context.state.sliceDoc(context.pos, context.pos + 8))?.[0].length ?? 0 : 0;
    return { from: word.from, to: context.pos + rest, options: options2, validFor: /^"[\w$]*"?$/ };
  };
}
var colours = (cm) => cm.HighlightStyle.define([
  { tag: cm.tags.propertyName, class: "j-name" },
  { tag: cm.tags.string, class: "j-string" },
  { tag: cm.tags.number, class: "j-number" },
  { tag: cm.tags.bool, class: "j-boolean" },
  { tag: cm.tags.null, class: "j-null" }
]);
var look = (cm) => cm.EditorView.theme({
  "&": { backgroundColor: "var(--card)", color: "var(--text)", fontSize: "12px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "18px" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--side)", color: "var(--faint)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--hover) 60%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--picked)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--picked)", outline: "1px solid var(--line2)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-tooltip": { backgroundColor: "var(--raise)", color: "var(--text)", border: "1px solid var(--line2)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--picked)", color: "var(--text)" },
  ".cm-panels": { backgroundColor: "var(--side)", color: "var(--text)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--card)", border: "1px solid var(--line2)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--raise)", border: "1px solid var(--line2)", borderRadius: "6px" },
  ".cm-specialChar": { color: "var(--warn)" }
});

// lib/editor.js
function Editor({ label, value, onChange, judge: judge3, onErrors, keywords: keywords2, readOnly = false, small: small2 = false, control = {}, tools, placeholder }) {
  const [errors, setErrors] = useState([]);
  const holder = useRef();
  const view = useRef(null);
  const hint = useId();
  const [plain2, setPlain] = useState(false);
  const [lines] = useState(() => value.split("\n").length);
  const latest = useRef({});
  latest.current = {
    change: (text) => onChange?.(text),
    judge: judge3,
    errors: (list2) => (setErrors(list2), onErrors?.(list2))
  };
  useEffect(() => {
    let gone = false;
    const attributes = { "aria-label": label, "aria-describedby": [hint, control["aria-describedby"]].filter(Boolean).join(" "), id: control.id, "data-path": control["data-path"] };
    create(holder.current, { text: value, latest, keywords: keywords2, readOnly, placeholder, attributes }).then((v) => gone ? v.destroy() : view.current = v, () => gone || setPlain(true));
    return () => {
      gone = true;
      view.current?.destroy();
      view.current = null;
    };
  }, [readOnly]);
  useLayoutEffect(() => view.current?.replace(value), [value]);
  useEffect(() => view.current?.invalid(control["aria-invalid"] === "true" || errors.length > 0), [control["aria-invalid"], errors]);
  const arrange = () => {
    try {
      const text = prettify(value);
      view.current?.replace(text);
      onChange(text);
      announce("Prettified");
    } catch (err) {
      if (!(err instanceof JsonError)) throw err;
      toast(`It cannot be prettified: ${err.message}`, { kind: "bad" });
      view.current?.go(err.line, err.column);
    }
  };
  return html`<div class=${"editor " + (small2 ? "small " : "") + (readOnly ? "fixed" : "")}>
    ${plain2 ? html`<textarea class="code" aria-label=${label} readonly=${readOnly} spellcheck=${false} value=${value} onInput=${(e) => onChange(e.currentTarget.value)} ...${control}></textarea>` : html`<div class="codebox" ref=${holder} style=${{ "--lines": lines }}></div>`}
    <div class="under"><div class="row wrap">${!readOnly && html`<${Button} small=${true} onClick=${arrange} disabled=${value.trim() === ""}>Prettify<//>`}${tools}</div>
      <span class="leave" id=${hint}>${readOnly ? "Read only" : "Tab indents. Esc, then Tab, leaves the editor."}</span></div>
    ${errors.length > 0 && !small2 && html`<ul class="mistakes" aria-label="What is wrong">${errors.slice(0, 20).map((e) => html`<li><button type="button" class="plain" onClick=${() => view.current?.go(e.line, e.column)}>
      ${e.line ? html`<span class="num">Line ${e.line}</span>` : ""} ${e.path && html`<code><${Hostile} text=${e.path} /></code>`} <${Hostile} text=${e.message} /></button></li>`)}</ul>`}
  </div>`;
}
function syntaxErrors(text) {
  const err = text.trim() === "" ? null : check(text);
  return err ? [{ message: err.message.replace(/ \(line.*$/, ""), line: err.line, column: err.column }] : [];
}

// lib/agents.js
var answered = /* @__PURE__ */ new Set(["created_at", "modified_at", "runner_id", "runners", "origin", "path", "editable", "reason", "command", "drafts", "agent_hash", "unused_file"]);
async function loadAgent(name, signal2) {
  const { data, text, headers } = await request("GET", "/agents/" + seg(name), { signal: signal2 });
  return { ...data, text, etag: headers.get("ETag") };
}
function members(text) {
  return parse(text).items.filter((m) => !answered.has(m.name)).map((m) => [m.name, m.text]);
}
function changed(text, changes) {
  const own = members(text).map(([name, value]) => [name, changes[name] ?? value]);
  const more = Object.entries(changes).filter(([name]) => !own.some(([n]) => n === name));
  return object([...own, ...more].filter(([, value]) => value !== "null"));
}
async function copyAgent(text, name, changes = {}) {
  return send("POST", "/agents", changed(text, { ...changes, name: quote(name), status: quote("active") }));
}
var noCopy = (agent) => agent.type === "procedural" ? "Procedural agents belong to runners: copy the file in the runner's agents_dir" : void 0;
var noChange = (agent) => agent.editable ? void 0 : agent.reason || "It cannot be changed here";
function Origin({ agent }) {
  if (agent.origin === "runner") return html`<span class="row"><${Badge} title="Registered by a runner">runner<//>${agent.runner_id && html`<${Id} id=${agent.runner_id} href="/ui/runners" copy=${false} />`}</span>`;
  if (agent.origin === "file") return html`<span class="row cut"><${Badge} title=${agent.path ?? "Defined by a file"}>file<//>${agent.path && html`<span class="faint cut" title=${agent.path}><${Hostile} text=${agent.path.split("/").slice(-2).join("/")} /></span>`}</span>`;
  return html`<${Badge} kind="accent" title="Created through the API">API<//>`;
}
function SchemaBadges({ agent }) {
  const output = agent.output_schema || agent.output_schema_name;
  const drafts = agent.drafts ?? [];
  return html`<span class="row">${agent.parameters_schema && html`<${Badge} kind="accent" title="It has a custom input schema">input<//>`}
    ${output && html`<${Badge} kind="good" title=${agent.output_schema_name ? `Its output schema is ${agent.output_schema_name}` : "It has a custom output schema"}>output<//>`}
    ${drafts.length > 0 && html`<${Badge} kind="warn" title=${`A draft that is not active: ${drafts.join(", ")}`}>draft<//>`}</span>`;
}
async function judgeSchema(text) {
  const verdict = await send("POST", "/schemas/validate", object([["schema_text", quote(text)]]));
  return verdict.errors ?? [];
}
var keywords = [
  ["type", "object, string, …"],
  ["properties", "members by name"],
  ["required", "names"],
  ["items", "of an array"],
  ["enum", "values"],
  ["const", "one value"],
  ["title"],
  ["description"],
  ["default"],
  ["examples"],
  ["format", "uri, date, …"],
  ["pattern", "regular expression"],
  ["minimum"],
  ["maximum"],
  ["exclusiveMinimum"],
  ["exclusiveMaximum"],
  ["multipleOf"],
  ["minLength"],
  ["maxLength"],
  ["minItems"],
  ["maxItems"],
  ["uniqueItems"],
  ["contains"],
  ["additionalProperties"],
  ["patternProperties"],
  ["propertyNames"],
  ["minProperties"],
  ["maxProperties"],
  ["dependencies"],
  ["allOf"],
  ["anyOf"],
  ["oneOf"],
  ["not"],
  ["if"],
  ["then"],
  ["else"],
  ["$ref", "#/definitions/…"],
  ["definitions"],
  ["$schema"]
].map(([name, detail]) => ({ name, detail }));
var example = '{"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}';
var SchemaEditor = (props) => html`<${Editor} placeholder=${example} judge=${judgeSchema} keywords=${keywords} ...${props} />`;
function textOf2(agent, name) {
  const value = new Json(agent.text).member(name);
  return value && !value.isNull ? value.pretty() : "";
}
function sameJson(a, b) {
  const compact = (text) => {
    try {
      return write(withoutSpace(parse(text)));
    } catch {
      return text;
    }
  };
  return a === b || compact(a) === compact(b);
}
var withoutSpace = (node) => node.items ? { kind: node.kind, name: node.name, items: node.items.map(withoutSpace) } : node;

// pages/agent/acts.js
function Act({ kind, agent, text, changes, onClose, done }) {
  if (kind === "new" || kind === "copy") return html`<${Create} from=${agent} text=${text} changes=${changes} onClose=${onClose} />`;
  const to = "/agents/" + seg(agent.name);
  const finish = (sentence2) => (toast(sentence2, { kind: "good" }), done(kind));
  if (kind === "delete") {
    const run2 = async () => (await request("DELETE", to), finish(`${agent.name} is deleted`));
    return html`<${Confirm} title="Delete this agent?" verb=${"Delete " + agent.name} kind="danger" needs="DELETE /agents/:name" run=${run2} onClose=${onClose}>
      <p>The definition of <strong><${Hostile} text=${agent.name} /></strong> and its drafts are deleted. Accepted runs keep their copy and continue.</p><//>`;
  }
  if (kind === "reset") {
    const headers = agent.etag ? { "If-Match": agent.etag } : {};
    const run2 = async () => (await request("POST", to + "/reset", { headers }), finish(`${agent.name} is as in its file`));
    return html`<${Confirm} title="Take the agent's file?" verb=${"Reset " + agent.name} kind="danger" needs="POST /agents/:name/reset" run=${run2} onClose=${onClose}>
      <p>What was edited here is replaced by <code><${Hostile} text=${agent.unused_file.path} /></code>. From then on, changes of that file take effect again. Drafts and accepted runs stay as they are.</p><//>`;
  }
  const on = kind === "activate";
  const run = async () => (await send("PATCH", to, object([["status", quote(on ? "active" : "inactive")]])), finish(`${agent.name} is ${on ? "active" : "inactive"}`));
  return html`<${Confirm} title=${on ? "Activate this agent?" : "Deactivate this agent?"} verb=${(on ? "Activate " : "Deactivate ") + agent.name} needs="PATCH /agents/:name" run=${run} onClose=${onClose}>
    <p>${on ? "New runs of it are accepted again." : "New runs of it are refused (409 agent_inactive). Running and waiting runs continue."}</p><//>`;
}
var goodName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$/;
function Create({ from, text, changes, onClose }) {
  const [name, setName] = useState(from ? from.name.slice(0, 55) + "-copy" : "");
  const [about2, setAbout] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const bad = name && !goodName.test(name) ? "1 to 60 letters, digits, _ and -, starting with a letter or a digit" : void 0;
  const create2 = async (e) => {
    e?.preventDefault();
    if (!name || bad || busy) return;
    setBusy(true);
    setError(null);
    try {
      if (from) await copyAgent(text ?? (await loadAgent(from.name)).text, name, changes);
      else await send("POST", "/agents", object([["name", quote(name)], ["description", quote(about2)], ["type", quote("autonomous")]]));
      onClose();
      navigate(path(["agents", name]));
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  const footer = html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" needs="POST /agents" busy=${busy} disabled=${!name || Boolean(bad)} onClick=${create2}>Create<//>`;
  return html`<${Dialog} title=${from ? `Copy ${from.name}` : "New agent"} onClose=${onClose} footer=${footer}><form class="stack" onSubmit=${create2}>
    <${Field} label="Name" error=${bad} hint="Callers use this name. It cannot be changed later.">${(c) => html`<input type="text" autofocus autocomplete="off" spellcheck=${false} value=${name} onInput=${(e) => setName(e.currentTarget.value)} ...${c} />`}<//>
    ${!from && html`<${Field} label="Description" optional=${true} hint="For people, and for agents that choose which agent to ask.">${(c) => html`<input type="text" value=${about2} onInput=${(e) => setAbout(e.currentTarget.value)} ...${c} />`}<//>
      <p class="faint">The agent is autonomous: it works through a program such as Claude Code. Procedural agents come from a runner's folder.</p>`}
    ${error && html`<${Problem} error=${error} />`}<input type="submit" hidden /></form><//>`;
}

// pages/agents.js
async function load4(signal2) {
  const [all, broken] = await Promise.all([get("/agents", {}, { signal: signal2 }), get("/agents", { status: "broken" }, { signal: signal2 })]);
  return { agents: all.agents, broken: broken.agents };
}
function Agents() {
  const resource = useResource(load4, []);
  const [dialog, setDialog] = useState(null);
  useEvery(10, resource.reload);
  const actions4 = html`<${Button} kind="primary" icon="plus" needs="POST /agents" onClick=${() => setDialog({ kind: "new" })}>New agent<//>`;
  return html`<${Page} title="Agents" actions=${actions4}>
    <${Loaded} resource=${resource} what="The list of agents">${(data) => html`<${List3} ...${data} act=${setDialog} />`}<//>
    ${dialog && html`<${Act} ...${dialog} onClose=${() => setDialog(null)} done=${resource.reload} />`}
  <//>`;
}
function List3({ agents, broken, act }) {
  const q = query.value;
  const words2 = (q.get("q") ?? "").toLowerCase();
  const [type, status] = [q.get("type") ?? "", q.get("status") ?? ""];
  const rows = agents.filter((a) => (!type || a.type === type) && (!status || a.status === status) && (!words2 || `${a.name} ${a.description} ${(a.tags ?? []).join(" ")}`.toLowerCase().includes(words2)));
  return html`<div class="row wrap filters">
      <div class="grow"><${Search} value=${q.get("q") ?? ""} label="Search agents" placeholder="Name, description or tag" onChange=${(v) => setQuery({ q: v })} /></div>
      <${Choice} label="Type" value=${type} options=${[{ value: "", label: "All types" }, "autonomous", "procedural"]} onChange=${(v) => setQuery({ type: v })} />
      <${Choice} label="Status" value=${status} options=${[{ value: "", label: "Any status" }, "active", "inactive"]} onChange=${(v) => setQuery({ status: v })} />
      <span class="faint num">${rows.length === agents.length ? plural(rows.length, "agent") : `${count(rows.length)} of ${count(agents.length)}`}</span>
    </div>
    <${Broken} files=${broken} />
    ${agents.length === 0 ? html`<${None} act=${act} />` : rows.length === 0 ? html`<${Empty} icon="filter" title="No agent matches"><${Button} onClick=${() => setQuery({ q: null, type: null, status: null })}>Show all<//><//>` : html`<${Table} label="Agents" rows=${rows} rowKey=${(a) => a.name} rowHeight=${48} columns=${columns2(act)} />`}`;
}
var None = ({ act }) => html`<${Empty} icon="agents" title="No agents yet" text="Create one here, put agent.json files into AGENT_ORCHESTRATOR_AGENTS_DIR, or start a runner that has its own.">
  <${Button} needs="POST /agents" kind="primary" onClick=${() => act({ kind: "new" })}>New agent<//><//>`;
var columns2 = (act) => [
  { id: "name", label: "Agent", class: "main", render: (a) => html`<div class="two"><a class="cut" href=${path(["agents", a.name])}><${Hostile} text=${a.name} /></a><span class="faint cut"><${Text} text=${a.description} /></span></div>` },
  { id: "type", label: "Type", width: "110px", hide: 2, render: (a) => a.type },
  { id: "from", label: "From", width: "240px", hide: 1, render: (a) => html`<${Origin} agent=${a} />` },
  { id: "schemas", label: "Custom schemas", width: "160px", hide: 3, render: (a) => html`<${SchemaBadges} agent=${a} />` },
  { id: "status", label: "Status", width: "100px", class: "stat", render: (a) => html`<${Status} status=${a.status} />` },
  { id: "do", label: html`<span class="offscreen">Actions</span>`, width: "96px", end: true, class: "acts", render: (a) => html`<div class="row">
    <${Button} small=${true} icon="play" label=${`Run ${a.name}`} title="New run" needs="POST /runs" why=${a.status === "active" ? void 0 : "It is inactive"} href=${path(["new"], { agent: a.name })} />
    <${Menu} label=${`Actions for ${a.name}`} items=${actions3(a, act)} /></div>` }
];
function actions3(a, act) {
  const why = noChange(a);
  const [patch2, on] = ["PATCH /agents/:name", a.status === "active"];
  return [
    { label: "Open", icon: "edit", run: () => navigate(path(["agents", a.name])) },
    { label: "Copy", icon: "copy", needs: "POST /agents", why: noCopy(a), run: () => act({ kind: "copy", agent: a }) },
    { label: on ? "Deactivate" : "Activate", icon: on ? "pause" : "play", needs: patch2, why, run: () => act({ kind: on ? "deactivate" : "activate", agent: a }) },
    { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /agents/:name", why, run: () => act({ kind: "delete", agent: a }) }
  ];
}
function Broken({ files }) {
  if (files.length === 0) return null;
  return html`<${Card} title=${`${plural(files.length, "broken definition")}`}><ul class="stack">${files.map((f) => html`<li>
    <div class="row wrap"><${Badge} kind="bad">broken<//> <strong><${Hostile} text=${f.name} /></strong> <code class="faint"><${Hostile} text=${f.path} /></code></div>
    <p class="bad"><${Hostile} text=${f.error} lines=${true} /></p></li>`)}</ul>
    <p class="faint">Fix the file: it is read again when it changes.</p><//>`;
}

// lib/drafts.js
var pause3 = 1e3;
async function loadDraft(name, side, signal2) {
  try {
    const { text, headers } = await request("GET", pathOf(name, side), { signal: signal2 });
    return { text, etag: headers.get("ETag") };
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) return null;
    throw err;
  }
}
var pathOf = (name, side) => `/agents/${seg(name)}/drafts/${side}`;
function useDraft(name, side, first2) {
  const [state, setState] = useState("");
  const [theirs, setTheirs] = useState(null);
  const box = useRef(null);
  box.current ??= { etag: first2?.etag ?? null, saved: first2?.text ?? "", wanted: first2?.text ?? "", timer: 0, running: null };
  const b = box.current;
  const write2 = async () => {
    clearTimeout(b.timer);
    await b.running;
    if (b.wanted === b.saved) return;
    const text = b.wanted;
    setState("saving");
    b.running = put2(name, side, text, b.etag).then((etag) => {
      Object.assign(b, { etag, saved: text });
      setState("saved");
    }, async (err) => {
      if (!(err instanceof ApiError) || err.status !== 412) return setState("failed");
      const now2 = await loadDraft(name, side).catch(() => null);
      Object.assign(b, { etag: now2?.etag ?? null, saved: now2?.text ?? "" });
      setTheirs(now2?.text ?? "");
      setState("other");
    });
    await b.running;
    b.running = null;
  };
  const latest = useRef(write2);
  latest.current = write2;
  useEffect(() => {
    const leave = () => latest.current();
    addEventListener("pagehide", leave);
    return () => (removeEventListener("pagehide", leave), leave());
  }, []);
  return {
    state,
    theirs,
    safe: () => b.wanted !== "" && b.wanted === b.saved,
    keep(text) {
      b.wanted = text;
      clearTimeout(b.timer);
      if (state !== "other") b.timer = setTimeout(() => latest.current(), pause3);
    },
    flush: (text) => (text !== void 0 && (b.wanted = text), latest.current()),
    overwrite: () => (setTheirs(null), latest.current()),
    take: () => (b.wanted = b.saved, setTheirs(null), setState("saved"), b.saved)
  };
}
async function put2(name, side, text, etag) {
  const headers = { "Content-Type": "text/plain; charset=utf-8", ...etag ? { "If-Match": etag } : { "If-None-Match": "*" } };
  if (text !== "") return (await request("PUT", pathOf(name, side), { body: text, headers, keepalive: true })).headers.get("ETag");
  if (etag) await request("DELETE", pathOf(name, side), { headers: { "If-Match": etag }, keepalive: true });
  return null;
}

// pages/agent/unused.js
function Unused({ agent, dirty, act }) {
  const file = agent.unused_file;
  if (!file) return null;
  const why = noChange(agent) ?? (dirty ? "Save or discard the changes first" : void 0);
  return html`<div class=${"banner " + (file.changed ? "warn" : "")}><${Icon} name=${file.changed ? "warn" : "info"} /><div class="grow">
      <strong>${file.changed ? "Its file has changed, to no effect." : "Its file is not used."}</strong> The agent was edited here, so changes of <code><${Hostile} text=${file.path} /></code> have no effect.</div>
    <${Button} small=${true} needs="POST /agents/:name/reset" why=${why} onClick=${() => act({ kind: "reset" })}>Take the file<//></div>`;
}

// pages/agent/definition.js
function useDefinition(agent, drafts) {
  const fixed = noChange(agent) ?? refusal("PATCH /agents/:name");
  const [edits, setEdits] = useState({});
  const original = useMemo(() => new Map(members(agent.text)), [agent]);
  const input = useInput(agent, drafts.input);
  const output = useOutput(agent, drafts.output);
  const all = { ...edits, ...input.changes, ...output.changes };
  const changes = Object.fromEntries(Object.entries(all).filter(([name, text]) => !same(original.get(name), text)));
  const value = (name) => {
    const text = changes[name] ?? original.get(name);
    return text === "null" ? void 0 : text;
  };
  const sides = { parameters_schema: input, output_schema: output };
  return {
    agent,
    fixed,
    changes,
    dirty: Object.keys(changes).length > 0,
    input,
    output,
    value,
    kept: Object.keys(changes).every((name) => sides[name]?.kept.safe()),
    original: (name) => original.get(name),
    text: () => changed(agent.text, changes),
    set: (name, text) => setEdits((e) => ({ ...e, [name]: text ?? "null" })),
    broken: () => Object.keys(changes).find((name) => check(changes[name])),
    discard: () => (setEdits({}), input.reset(), output.reset()),
    apply: (text) => apply(text, { original, setEdits, input, output })
  };
}
var same = (before, now2) => before === void 0 || before === "null" ? now2 === "null" : now2 !== "null" && sameJson(before, now2);
var schemaMembers = /* @__PURE__ */ new Set(["parameters_schema", "output_schema", "output_schema_name", "output_schema_options", "name"]);
function apply(text, { original, setEdits, input, output }) {
  const given2 = new Map(parse(text).items.map((m) => [m.name, m.text]));
  const edits = {};
  for (const name of /* @__PURE__ */ new Set([...original.keys(), ...given2.keys()])) {
    if (!schemaMembers.has(name)) edits[name] = given2.get(name) ?? "null";
  }
  setEdits(edits);
  input.apply(given2.get("parameters_schema"));
  output.apply(given2);
}
var pretty2 = (text) => new Json(text).pretty();
var absent = (text) => text === void 0 || text.trim() === "null";
function useSchemaText(agent, member3, side, draft) {
  const active = textOf2(agent, member3);
  const [text, setText] = useState(draft?.text ?? active);
  const kept2 = useDraft(agent.name, side, draft);
  const latest = useRef();
  latest.current = text;
  const set = (next3) => {
    setText(next3);
    kept2.keep(next3 === active ? "" : next3);
  };
  return {
    text,
    set,
    active,
    drafted: text !== active && text.trim() !== "",
    kept: kept2,
    reset: () => set(active),
    take: () => setText(kept2.take() || active),
    // settle leaves a draft of what is not active after a save.
    settle: (on) => kept2.flush(on || latest.current.trim() === "" ? "" : latest.current)
  };
}
function useInput(agent, draft) {
  const schema = useSchemaText(agent, "parameters_schema", "input", draft);
  const was = schema.active !== "";
  const [on, setOn] = useState(was);
  const text = schema.text.trim();
  return {
    ...schema,
    on,
    was,
    setOn,
    // An empty editor activates nothing; it does not take an active schema away either: the switch does.
    changes: { parameters_schema: on && text !== "" ? schema.text : on && was ? pretty2(schema.active) : "null" },
    empty: on && text === "",
    reset: () => (setOn(was), was && schema.reset()),
    settle: () => schema.settle(on),
    apply: (json2) => absent(json2) ? setOn(false) : (setOn(true), schema.set(pretty2(json2)))
  };
}
function useOutput(agent, draft) {
  const schema = useSchemaText(agent, "output_schema", "output", draft);
  const first2 = schema.active !== "" ? "inline" : agent.output_schema_name ? "name" : "none";
  const firstOptions = new Json(agent.text).member("output_schema_options")?.text ?? "null";
  const [mode, setMode] = useState(first2);
  const [name, setName] = useState(agent.output_schema_name ?? "");
  const [options2, setOptions] = useState(firstOptions);
  const text = schema.text.trim();
  const inline = mode === "inline" && text !== "" ? schema.text : mode === "inline" && first2 === "inline" ? pretty2(schema.active) : "null";
  const byName = mode === "name" && name ? quote(name) : "null";
  const any = inline !== "null" || byName !== "null";
  return {
    ...schema,
    on: mode === "inline",
    mode,
    setMode,
    name,
    setName,
    options: options2,
    setOptions,
    was: first2 === "inline",
    changes: { output_schema: inline, output_schema_name: byName, output_schema_options: any ? options2 : "null" },
    empty: mode === "inline" && text === "",
    reset: () => (setMode(first2), setName(agent.output_schema_name ?? ""), setOptions(firstOptions), first2 === "inline" && schema.reset()),
    settle: () => schema.settle(mode === "inline"),
    apply(given2) {
      const [own, named] = [given2.get("output_schema"), given2.get("output_schema_name")];
      if (!absent(own)) schema.set(pretty2(own));
      if (!absent(named)) setName(new Json(named).string() ?? "");
      setMode(!absent(own) ? "inline" : !absent(named) ? "name" : "none");
      setOptions(given2.get("output_schema_options") ?? "null");
    }
  };
}

// pages/agent/save.js
var NotSaved = class extends Error {
  constructor(tab, message) {
    super(message);
    this.tab = tab;
  }
};
function useSave(definition, reload, go) {
  const [state, setState] = useState({ busy: false });
  const now2 = JSON.stringify(definition.changes);
  const attempt = async (etag) => {
    if (state.busy) return;
    setState({ busy: true });
    try {
      await judge2(definition);
      await settle(definition, false);
      await patch(definition, etag);
      await settle(definition, true);
      setState({ busy: false });
      toast(sentence(definition), { kind: "good" });
      await reload();
    } catch (error) {
      if (error instanceof ApiError && error.status === 412) return setState({ busy: false, conflict: { etag: error.body.etag, text: error.body.current?.text ?? "{}" } });
      if (!(error instanceof ApiError) && !(error instanceof NotSaved)) console.error(error);
      if (error.tab ?? tabOf(error)) go(error.tab ?? tabOf(error));
      setState({ busy: false, error, of: now2 });
    }
  };
  return {
    ...state,
    error: state.of === now2 ? state.error : void 0,
    // of another text nothing is known
    run: () => attempt(definition.agent.etag),
    force: () => attempt(state.conflict.etag),
    leave: () => (setState({ busy: false }), definition.discard(), reload()),
    close: () => setState({ busy: false })
  };
}
var tabs = { parameters_schema: "input", output_schema: "output", output_schema_name: "output", output_schema_options: "output", mcp_servers: "servers", system_prompt: "prompt" };
var tabOf = (error) => tabs[error.body?.field?.split(".")[0]];
function sentence({ agent, input, output }) {
  const empty = [input.empty && !input.was && "input", output.empty && !output.was && "output"].filter(Boolean);
  return empty.length ? `Saved. The ${empty.join(" and ")} editor is empty: no custom schema is active` : `${agent.name} is saved`;
}
async function judge2({ input, output, broken, changes }) {
  if (input.empty && input.was) throw new NotSaved("input", "The editor is empty. Turn “Custom input schema” off to remove the schema, or define one.");
  if (output.empty && output.was) throw new NotSaved("output", "The editor is empty. Choose “None” to remove the schema, or define one.");
  const bad = broken();
  if (bad && bad !== "parameters_schema" && bad !== "output_schema") throw new NotSaved(tabs[bad], `${bad} is not valid: ${changes[bad]}`);
  await judgeOne("input", input.on, input.text, changes.parameters_schema);
  await judgeOne("output", output.mode === "inline", output.text, changes.output_schema);
}
async function judgeOne(tab, on, text, change) {
  if (!on || change === void 0 || text.trim() === "") return;
  const [first2, ...more] = await judgeSchema(text);
  if (!first2) return;
  const where = first2.line ? `line ${first2.line}: ` : "";
  throw new NotSaved(tab, `The ${tab} schema is not valid, ${where}${first2.path ? first2.path + " " : ""}${first2.message}${more.length ? ` (and ${more.length} more)` : ""}`);
}
var settle = ({ input, output }, on) => Promise.all([input, output].filter((side) => side.on === on).map((side) => side.settle()));
async function patch({ agent, changes }, etag) {
  const headers = etag ? { "If-Match": etag } : {};
  await request("PATCH", "/agents/" + seg(agent.name), { body: object(Object.entries(changes)), headers });
}
function Conflict({ definition, save: save2 }) {
  const other = new Json(save2.conflict.text);
  const show2 = (text) => text === void 0 || text === "null" ? html`<p class="faint">None</p>` : html`<${JsonView} value=${pretty3(text)} />`;
  const footer = html`<${Button} onClick=${save2.close}>Keep editing<//><${Button} onClick=${save2.leave}>Take theirs<//>
    <${Button} kind="danger" needs="PATCH /agents/:name" busy=${save2.busy} onClick=${save2.force}>Overwrite with mine<//>`;
  return html`<${Dialog} title="Somebody else changed this agent" wide=${true} onClose=${save2.close} footer=${footer}>
    <p>It was saved elsewhere after you opened this page. You changed the members below; nothing is lost until you choose.</p>
    ${Object.keys(definition.changes).map((name) => html`<section class="versions"><h3><code><${Hostile} text=${name} /></code></h3>
      <div class="grid"><div><h4>Theirs, saved</h4>${show2(other.member(name)?.text)}</div><div><h4>Yours</h4>${show2(definition.changes[name])}</div></div></section>`)}<//>`;
}
function pretty3(text) {
  try {
    return prettify(text);
  } catch {
    return text;
  }
}

// pages/agent/general.js
var stringAt = (definition, name) => {
  const text = definition.value(name);
  return text === void 0 ? "" : stringOf(read4(text)) ?? text;
};
function Line({ definition, name, label, hint, lines = false, empty = "null" }) {
  const value = stringAt(definition, name);
  const input = (e) => definition.set(name, e.currentTarget.value === "" ? empty : quote(e.currentTarget.value));
  const props = { value, readonly: Boolean(definition.fixed), onInput: input, spellcheck: lines };
  return html`<${Field} label=${label} hint=${hint} optional=${true}>${(c) => lines ? html`<textarea class="auto" rows="2" ...${props} ...${c}></textarea>` : html`<input type="text" autocomplete="off" ...${props} ...${c} />`}<//>`;
}
function Digits({ definition, name, label, hint, unit }) {
  const text = definition.value(name) ?? "";
  const bad = text !== "" && !/^\d+$/.test(text) ? `${text} is not a whole number` : void 0;
  return html`<${Field} label=${label} hint=${hint} error=${bad} optional=${true}>${(c) => html`<span class="row"><input type="text" inputmode="numeric" class="number" autocomplete="off" value=${text} readonly=${Boolean(definition.fixed)}
    onInput=${(e) => definition.set(name, e.currentTarget.value.trim() || "null")} ...${c} />${unit && html`<span class="faint">${unit}</span>`}</span>`}<//>`;
}
var wordsOf = (text) => text === void 0 ? "" : (read4(text).items ?? []).map((n) => stringOf(n) ?? n.text).join(", ");
var arrayOf = (typed2) => {
  const all = typed2.split(",").map((w) => w.trim()).filter(Boolean);
  return all.length ? "[" + all.map(quote).join(",") + "]" : "null";
};
function Words({ label, hint, value, onChange, fixed }) {
  const [typed2, setTyped] = useState(null);
  const text = typed2 !== null && arrayOf(typed2) === (value ?? "null") ? typed2 : wordsOf(value);
  return html`<${Field} label=${label} hint=${hint} optional=${true}>${(c) => html`<input type="text" autocomplete="off" spellcheck=${false} value=${text} readonly=${Boolean(fixed)}
    onInput=${(e) => (setTyped(e.currentTarget.value), onChange(arrayOf(e.currentTarget.value)))} ...${c} />`}<//>`;
}
var demanded = [
  ["executor_type", "Executor type", "autonomous or procedural"],
  ["executor_profile", "Runner profile", "Only on runners with this executor profile"],
  ["hostname", "Host", "Only on runners on this host"],
  ["project_dir", "Project folder", "An absolute path"]
];
function Demands({ value, onChange, fixed }) {
  const node = value === void 0 ? emptyObject() : read4(value);
  const set = (name, v) => {
    const next3 = withMember(node.kind === "object" ? node : emptyObject(), name, v);
    onChange(next3.items.length ? write(next3) : "null");
  };
  const tags = member2(node, "tags");
  return html`<div class="grid tight">${demanded.map(([name, label, hint]) => html`<${Field} key=${name} label=${label} hint=${hint} optional=${true}>${(c) => html`<input type="text" autocomplete="off" spellcheck=${false}
      value=${stringOf(member2(node, name)) ?? ""} readonly=${Boolean(fixed)} onInput=${(e) => set(name, e.currentTarget.value ? string(e.currentTarget.value) : void 0)} ...${c} />`}<//>`)}
    <${Words} label="Tags" hint="A runner must have all of them. Separate with commas." fixed=${fixed} value=${tags && write(tags)} onChange=${(t) => set("tags", t === "null" ? void 0 : read4(t))} /></div>`;
}
function General({ definition, agent }) {
  const procedural = agent.type === "procedural";
  return html`<div class="grid">
    <${Card} title="About"><div class="stack">
      <${Line} definition=${definition} name="description" label="Description" lines=${true} empty='""' hint="For people, and for agents that choose which agent to ask." />
      <${Words} label="Tags" hint="Some runners only take agents that share one of their tags. Separate with commas." fixed=${definition.fixed} value=${definition.value("tags")} onChange=${(t) => definition.set("tags", t)} />
      ${agent.command && html`<${Field} label="Command" hint="The program that the runner starts.">${(c) => html`<input type="text" readonly value=${agent.command} ...${c} />`}<//>`}</div><//>
    <${Card} title="How it runs"><div class="stack">
      ${!procedural && html`<${Line} definition=${definition} name="model" label="Model" hint="If the profile allows it. Default: the profile's model." />
        <${Digits} definition=${definition} name="max_turns" label="Model turns in one run" hint="Limited by the profile." />`}
      <${Digits} definition=${definition} name="timeout_seconds" label="Time limit" unit="seconds" hint=${`The upper limit for every run. Default: ${procedural ? 300 : 3600}.`} />
      <${Digits} definition=${definition} name="max_attempts" label="Attempts" hint="How many attempts a run has when they fail or are lost. Default: 1." /></div><//>
    <${Card} title="Where it runs"><div class="stack"><${Line} definition=${definition} name="executor_profile" label="Executor profile" hint="The executor profile its runs need." />
      <${Demands} value=${definition.value("demands")} fixed=${definition.fixed} onChange=${(t) => definition.set("demands", t)} /></div><//>
  </div>`;
}
var masked = "••••";
function Servers({ definition }) {
  const was = definition.value("mcp_servers") ?? "";
  const [text, setText] = useState(() => pretty4(was));
  const change = (next3) => (setText(next3), definition.set("mcp_servers", next3.trim() === "" ? "null" : next3));
  const shown2 = was === "" && !check(text) ? "" : text;
  return html`<${Card} title="MCP servers"><div class="stack">
    <p class="soft">Servers whose tools the agent may use, by name. <code>\${AGENT_ORCHESTRATOR_MCP_URL}</code> is the orchestrator's own URL; values such as <code>\${TOKEN}</code> come from the worker's environment.</p>
    ${was.includes(masked) && html`<div class="banner"><${Icon} name="shield" /><span>Secrets are hidden: your token may not see them.</span></div>`}
    <${Editor} label="MCP servers" value=${shown2} onChange=${change} readOnly=${Boolean(definition.fixed)} placeholder='{"files": {"command": "mcp-files", "args": ["/srv"]}}' /></div><//>`;
}
function JsonTab({ definition }) {
  const [text, setText] = useState(() => pretty4(definition.text()));
  const [error, setError] = useState(null);
  const change = (next3) => {
    setText(next3);
    const wrong = check(next3);
    const object2 = !wrong && new Json(next3).kind === "object";
    setError(wrong ? "This is not valid JSON: the changes are not applied yet" : object2 ? null : "A definition is a JSON object");
    if (object2) definition.apply(next3);
  };
  return html`<${Card} title="The definition"><div class="stack">
    <p class="soft">Everything that can be changed, in the form <code>PATCH /agents/${definition.agent.name}</code> takes. Changes show in the other tabs; a member that you remove is removed from the agent.</p>
    ${error && html`<p class="bad" role="alert"><${Hostile} text=${error} /></p>`}
    <${Editor} label="Definition" value=${text} onChange=${change} readOnly=${Boolean(definition.fixed)} /></div><//>`;
}
function pretty4(text) {
  try {
    return prettify(text);
  } catch {
    return text;
  }
}

// pages/agent/schemas.js
function Input3({ definition, agent, preview }) {
  const { input, fixed } = definition;
  const about2 = agent.type === "procedural" ? "Without one, any JSON object is accepted." : "Without one, a run takes only a prompt.";
  return html`<div class="editing"><${Card} title="Input" actions=${html`<${Switch} on=${input.on} why=${fixed} onChange=${input.setOn}>Custom input schema<//>`}>
      <div class="stack"><p class="soft">A JSON Schema (draft-07) for a run's parameters. It is used as it is: nothing is added. ${about2}</p>
      <${Side2} side=${input} fixed=${fixed} label="Custom input schema" off="The custom input schema is off." /></div><//>
    <${Effective} definition=${definition} agent=${agent} preview=${preview} /></div>`;
}
function Side2({ side, fixed, label, off }) {
  if (!side.on) {
    return html`<p class="row wrap"><span class="faint">${off}</span>${side.text.trim() !== "" && html`<${Badge} kind="warn">draft<//><span class="faint">The text is kept as a draft until you turn it on.</span>`}<${Saved} kept=${side.kept} /></p>`;
  }
  return html`<${Others} side=${side} /><${SchemaEditor} label=${label} value=${side.text} onChange=${side.set} readOnly=${Boolean(fixed)} tools=${html`<${Saved} kept=${side.kept} />`} />
    ${side.empty && html`<p class="row warn"><${Icon} name="warn" /> The editor is empty: no schema is active.</p>`}
    ${!fixed && side.drafted && html`<p class="row wrap faint">${side.was ? "This text is a draft; another schema is active." : "This text is a draft until it is saved."}
      ${side.was && html`<${Button} small=${true} kind="plain" onClick=${side.reset}>Revert to the active schema<//>`}</p>`}`;
}
var saying = { saving: "Keeping the draft…", saved: "Kept as a draft", failed: "The draft could not be kept" };
var Saved = ({ kept: kept2 }) => html`<span class=${kept2.state === "failed" ? "bad" : "faint"} role="status">${saying[kept2.state] ?? ""}</span>`;
function Others({ side }) {
  if (side.kept.state !== "other") return null;
  return html`<div class="banner warn" role="alert"><${Icon} name="warn" /><div class="stack grow"><span>This draft was changed elsewhere, in another tab or by somebody else.</span>
    <${Details} summary="Their draft"><pre class="json" tabindex="0"><${Hostile} text=${side.kept.theirs || "(none)"} lines=${true} /></pre><//>
    <div class="row"><${Button} small=${true} onClick=${side.take}>Take theirs<//><${Button} small=${true} onClick=${side.kept.overwrite}>Keep mine<//></div></div></div>`;
}
function Effective({ definition, agent, preview }) {
  const schema = preview.data?.parameters_schema;
  const text = schema?.text ?? null;
  return html`<${Card} title="What a new run must send"><div class="stack">
    ${preview.error && html`<p class="bad"><${Hostile} text=${preview.error.message} /></p>`}
    ${preview.data && !preview.error && (text ? html`<${PromptNote} text=${text} definition=${definition} agent=${agent} /><${JsonView} value=${schema.pretty()} label="The effective schema" />` : html`<p>Any JSON object.</p>`)}
    ${agent.type !== "procedural" && html`<p class="faint">Resuming a session always sends only a prompt.</p>`}</div><//>`;
}
function PromptNote({ text, definition, agent }) {
  const schema = read4(text);
  const named = member2(member2(schema, "properties"), "prompt");
  const needed = (member2(schema, "required")?.items ?? []).some((n) => stringOf(n) === "prompt");
  const says = named || needed ? html`<code>prompt</code> is <strong>${needed ? "required" : "optional"}</strong>.` : html`<code>prompt</code> is <strong>not a field</strong> of this schema.`;
  const add = () => definition.input.set(prettify(write(withPrompt(read4(definition.input.text)))));
  const can = definition.input.on && !named && agent.type !== "procedural" && read4(definition.input.text).kind === "object";
  return html`<p class="row wrap"><span>${says}</span>${can && html`<${Button} small=${true} icon="plus" why=${definition.fixed} onClick=${add}>Add prompt<//>`}</p>`;
}
function withPrompt(schema) {
  const properties = member2(schema, "properties");
  const prompt = read4('{"type":"string","minLength":1,"description":"What to do"}');
  const required = member2(schema, "required") ?? emptyArray();
  const has = required.items?.some((n) => stringOf(n) === "prompt");
  const out = withMember(schema, "properties", withMember(properties?.kind === "object" ? properties : emptyObject(), "prompt", prompt), ["type", "required", "properties"]);
  return has || required.kind !== "array" ? out : withMember(out, "required", withItem(required, required.items.length, read4(quote("prompt"))));
}
var modes = [
  ["none", "None", "The answer is plain text."],
  ["name", "By name", "A named schema that agents share."],
  ["inline", "Custom output schema", "A schema for this agent only."]
];
function Output({ definition }) {
  const { output, fixed } = definition;
  const options2 = html`<${Options} value=${output.options} onChange=${output.setOptions} fixed=${fixed} retries=${1} />`;
  return html`<${Card} title="Output"><div class="stack">
    <p class="soft">What the answer must match. The agent is given the schema, its answer is checked, and it is asked again if the check fails. A schema from the caller replaces this one.</p>
    <fieldset class="modes"><legend class="offscreen">Output schema</legend>${modes.map(([id, label, hint]) => html`<label class="choice"><input type="radio" name="output-mode" value=${id} checked=${output.mode === id} disabled=${Boolean(fixed)} onChange=${() => output.setMode(id)} />
      <span><strong>${label}</strong> <span class="faint">${hint}</span></span></label>`)}</fieldset>
    ${output.mode === "name" && html`<${Named} value=${output.name} onChange=${output.setName} fixed=${fixed}>${options2}<//>`}
    ${output.mode !== "name" && html`<${Side2} side=${output} fixed=${fixed} label="Custom output schema" off="" />`}
    ${output.mode === "inline" && options2}</div><//>`;
}
function Named({ value, onChange, fixed, children: children2 }) {
  const all = useResource((signal2) => get("/schemas", {}, { signal: signal2 }), []);
  const one = useResource(async (signal2) => value ? get("/schemas/" + encodeURIComponent(value), {}, { signal: signal2 }) : null, [value]);
  const names3 = (all.data?.schemas ?? []).filter((s) => !s.error).map((s) => s.name);
  const shown2 = value && !names3.includes(value) ? [value, ...names3] : names3;
  return html`<${Field} label="Schema" error=${one.error && value ? one.error.message : void 0} hint=${all.data?.schemas.length === 0 ? html`There are no named schemas yet: <a href=${path(["schemas"])}>create one</a>.` : void 0}>${(c) => html`<select value=${value} disabled=${Boolean(fixed)} onChange=${(e) => onChange(e.currentTarget.value)} ...${c}>
      <option value="">Choose…</option>${shown2.map((n) => html`<option value=${n} selected=${n === value}>${n}</option>`)}</select>`}<//>
    ${one.data && html`<div class="stack"><p class="faint"><${Hostile} text=${one.data.description || "No description"} /> · since <${Time} at=${one.data.created_at} /></p><${JsonView} value=${one.data.schema.pretty()} label=${"Schema " + value} /></div>`}
    ${(one.data !== void 0 || one.error) && children2}`;
}
function Options({ value, onChange, fixed, retries }) {
  const node = value && value !== "null" ? read4(value) : emptyObject();
  const set = (name, v) => {
    const next3 = withMember(node, name, v);
    onChange(next3.items.length ? write(next3) : "null");
  };
  const tries = member2(node, "max_retries")?.text ?? "";
  const strict = member2(node, "strict_json_only")?.text ?? member2(node, "validation_mode")?.text;
  const bad = tries !== "" && !/^(?:10|\d)$/.test(tries) ? "From 0 to 10" : void 0;
  const retry = (e) => set("max_retries", e.currentTarget.value.trim() === "" ? void 0 : { kind: "typed", text: e.currentTarget.value.trim() });
  return html`<div class="grid tight"><${Field} label="Retries" optional=${true} error=${bad} hint=${`How often the agent is asked again if its answer does not match. Default: ${retries}.`}>${(c) => html`<input type="text" inputmode="numeric" class="number" autocomplete="off" readonly=${Boolean(fixed)} value=${tries} onInput=${retry} ...${c} />`}<//>
    <${Field} label="What counts as the answer" hint="Either JSON is searched for in the text, or the whole text must be JSON.">${(c) => html`<select disabled=${Boolean(fixed)} value=${strict === "true" ? "true" : strict === "false" ? "false" : ""} onChange=${(e) => set("strict_json_only", e.currentTarget.value ? read4(e.currentTarget.value) : void 0)} ...${c}>
      <option value="" selected=${!strict}>The coordinator's default</option><option value="false" selected=${strict === "false"}>JSON anywhere in the text</option><option value="true" selected=${strict === "true"}>The whole text must be JSON</option></select>`}<//></div>`;
}

// lib/form/plan.js
var plan_exports = {};
__export(plan_exports, {
  below: () => below,
  leaves: () => leaves,
  place: () => place2,
  plan: () => plan
});
var deepest3 = 6;
var mostFields = 500;
var mostOptions = 500;
var scalars = /* @__PURE__ */ new Set(["string", "number", "integer", "boolean"]);
function plan(schemaText, value) {
  const root2 = parse(schemaText);
  const left = { fields: mostFields };
  const whole2 = field({ root: root2, schema: root2, value, path: "$", required: true, depth: 0, left });
  return left.fields < 0 ? { ...about(root2), value, path: "$", required: true, kind: "json" } : whole2;
}
var leaves = (f) => [f, ...[...f.fields ?? [], ...f.items ?? [], ...f.others ?? []].flatMap(leaves)];
function place2(fields, path2) {
  const holds = (f) => path2 === f.path || path2.startsWith(f.path) && (path2[f.path.length] === "." || path2[f.path.length] === "[");
  return fields.filter(holds).reduce((best, f) => !best || f.path.length >= best.path.length ? f : best, void 0);
}
var plainName = /^[\p{L}_][\p{L}\p{Nd}_]*$/u;
var controls = { "\b": "b", "\f": "f", "\n": "n", "\r": "r", "	": "t" };
function below(path2, name) {
  if (plainName.test(name)) return path2 + "." + name;
  const escaped = name.replace(/['\\]/g, "\\$&").replace(/[\b\f\n\r\t]/g, (c) => "\\" + controls[c]);
  return `${path2}['${escaped}']`;
}
function follow(root2, schema, hops = 0) {
  const ref = stringOf(member2(schema, "$ref"));
  if (ref === void 0) return schema;
  if (hops > 20 || !ref.startsWith("#")) return void 0;
  let at = root2;
  for (const part of ref.slice(1).split("/").slice(1)) {
    const name = decodePart(part);
    at = at?.kind === "array" ? at.items[Number(name)] : member2(at, name);
  }
  return at && follow(root2, at, hops + 1);
}
function decodePart(part) {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return part;
  }
}
function field(at) {
  if (--at.left.fields < 0) return { kind: "json", examples: [], hints: [], path: at.path, name: at.name };
  const schema = follow(at.root, at.schema);
  const f = { ...about(schema), value: at.value, path: at.path, name: at.name, required: at.required };
  const make = schema && at.depth <= deepest3 ? makerOf(schema) : void 0;
  return Object.assign(f, make?.({ ...at, schema }) ?? { kind: "json" });
}
function makerOf(schema) {
  if (member2(schema, "enum") || member2(schema, "const")) return enumeration;
  if (constants(schema)) return alternatives;
  const type = stringOf(member2(schema, "type"));
  if (type === "object" || type === void 0 && member2(schema, "properties")) return group;
  if (type === "array") return list;
  return scalars.has(type) ? scalar : void 0;
}
function about(schema) {
  const text = (name) => stringOf(member2(schema, name));
  const examples = member2(schema, "examples");
  return {
    title: text("title"),
    description: text("description"),
    preset: member2(schema, "default"),
    examples: examples?.kind === "array" ? examples.items : [],
    hints: hints(schema)
  };
}
var bounds = [
  ["minimum", "at least #"],
  ["exclusiveMinimum", "more than #"],
  ["maximum", "at most #"],
  ["exclusiveMaximum", "less than #"],
  ["multipleOf", "a multiple of #"],
  ["minLength", "at least # characters"],
  ["maxLength", "at most # characters"],
  ["minItems", "at least # items"],
  ["maxItems", "at most # items"],
  ["format", "format #"],
  ["pattern", "matches #"]
];
function hints(schema) {
  const found2 = bounds.map(([name, words2]) => [words2, member2(schema, name), name]).filter(([, node, name]) => node && node.kind !== "boolean" && !(name === "minLength" && node.text === "1"));
  return found2.map(([words2, node]) => words2.replace("#", () => stringOf(node) ?? node.text));
}
var labelOf = (node) => stringOf(node) ?? node.text;
function enumeration({ schema }) {
  const one = member2(schema, "const");
  const all = one ? [one] : member2(schema, "enum").items ?? [];
  if (all.length > mostOptions) return { kind: all.every((n) => n.kind === "string") ? "text" : "json" };
  return { kind: "choice", options: all.map((n) => ({ text: n.text, label: labelOf(n) })) };
}
function constants(schema) {
  const branches = (member2(schema, "oneOf") ?? member2(schema, "anyOf"))?.items;
  return branches?.length > 0 && branches.length <= mostOptions && branches.every((b) => member2(b, "const")) ? branches : void 0;
}
function alternatives({ schema }) {
  return {
    kind: "choice",
    options: constants(schema).map((b) => {
      const value = member2(b, "const");
      return { text: value.text, label: stringOf(member2(b, "title")) ?? stringOf(member2(b, "description")) ?? labelOf(value) };
    })
  };
}
function scalar({ schema, value }) {
  const type = stringOf(member2(schema, "type"));
  if (value && !fits(type, value)) return { kind: "json" };
  if (type === "boolean") return { kind: "boolean" };
  if (type !== "string") return { kind: "number", whole: type === "integer" };
  const short3 = Number(member2(schema, "maxLength")?.text ?? Infinity) <= 120;
  return { kind: "text", lines: !short3 && !member2(schema, "format") && !member2(schema, "pattern") };
}
var fits = (type, value) => value.kind === (type === "integer" ? "number" : type) || value.kind === "typed" && type !== "string";
function list({ root: root2, schema, value, path: path2, depth, left }) {
  const items = member2(schema, "items");
  if (!items || items.kind !== "object" || value && value.kind !== "array") return { kind: "json" };
  const one = (v, i) => field({ root: root2, schema: items, value: v, path: `${path2}[${i}]`, required: v !== void 0, depth: depth + 1, left });
  const item = one(void 0, 0);
  if (item.kind === "json") return { kind: "json" };
  return { kind: "list", item, items: (value?.items ?? []).map(one) };
}
function group({ root: root2, schema, value, path: path2, required, depth, left }) {
  const properties = member2(schema, "properties")?.items ?? [];
  const needed = new Set((member2(schema, "required")?.items ?? []).map(stringOf).filter((n) => n !== void 0));
  if (properties.length + needed.size === 0 || value && value.kind !== "object") return { kind: "json" };
  if (!value && !required) return { kind: "group", fields: [], others: [], order: [] };
  const order2 = [...new Set(properties.map((p) => p.name))];
  const make = (name, of) => field({ root: root2, schema: of, value: member2(value, name), path: below(path2, name), name, required: needed.has(name), depth: depth + 1, left });
  const known = order2.map((name) => make(name, properties.findLast((p) => p.name === name)));
  const missing = [...needed].filter((n) => !order2.includes(n)).map((name) => make(name, void 0));
  const shown2 = /* @__PURE__ */ new Set([...order2, ...missing.map((f) => f.name)]);
  const others = [...new Set((value?.items ?? []).map((m) => m.name))].filter((n) => !shown2.has(n)).map((name) => make(name, void 0));
  return {
    kind: "group",
    fields: [...known, ...missing],
    others,
    order: [...order2, ...missing.map((f) => f.name)],
    asked: required,
    open: member2(schema, "additionalProperties")?.text !== "false"
  };
}

// lib/form.js
function canForm(schemaText, value) {
  return plan(schemaText, value).kind === "group";
}
function formValue(schemaText) {
  const fill = (f2) => f2.fields.filter((x) => x.kind === "group" && x.required).reduce((node, x) => withMember(node, x.name, fill(x), f2.order), emptyObject());
  const f = plan(schemaText, void 0);
  return f.kind === "group" ? fill(f) : emptyObject();
}
function Form({ schema, value, onChange, errors = [], label = "Parameters" }) {
  const root2 = useMemo(() => plan(schema, value), [schema, value]);
  const at = useMemo(() => byField(root2, errors), [root2, errors]);
  return html`<div class="form" role="group" aria-label=${label}>${at.get("$")?.map((m) => html`<p class="error" role="alert"><${Hostile} text=${m} /></p>`)}
    <${Fields} field=${root2} value=${value} onChange=${onChange} errors=${at} /></div>`;
}
function byField(root2, errors) {
  const fields = leaves(root2);
  const at = /* @__PURE__ */ new Map();
  for (const e of errors) {
    const path2 = place2(fields, e.path)?.path ?? "$";
    const text = path2 === e.path ? e.message : `${e.path}: ${e.message}`;
    at.set(path2, [...at.get(path2) ?? [], text]);
  }
  return at;
}
function Fields({ field: field2, value, onChange, errors }) {
  const set = (name) => (v) => onChange(withMember(value ?? emptyObject(), name, v, field2.order));
  return html`${field2.fields.map((f) => html`<${Field2} key=${f.name} field=${f} onChange=${set(f.name)} errors=${errors} />`)}
    ${field2.others.map((f) => html`<${Field2} key=${"other:" + f.name} field=${f} onChange=${set(f.name)} errors=${errors} other=${true} />`)}`;
}
var parts2 = { text: TextInput, number: NumberInput, boolean: BooleanInput, choice: ChoiceInput, json: JsonInput };
function Field2({ field: f, onChange, errors, other = false }) {
  const id = useId();
  const mine = errors.get(f.path) ?? [];
  if (f.kind === "group" || f.kind === "list") return html`<${Nested} field=${f} onChange=${onChange} errors=${errors} mine=${mine} />`;
  const Part = parts2[f.kind];
  const unread = f.kind === "number" && f.value?.kind === "typed";
  const wrong = unread ? [f.value.text ? `${f.value.text} is no number` : "A number is needed", ...mine] : mine;
  const control = {
    id,
    "aria-required": f.required ? "true" : void 0,
    "aria-invalid": wrong.length ? "true" : void 0,
    "aria-describedby": [id + "-hint", wrong.length && id + "-error"].filter(Boolean).join(" "),
    "data-path": f.path
  };
  return html`<div class=${"field " + (wrong.length ? "wrong" : "")}>
    <div class="row"><label for=${id}><${Name2} field=${f} /></label>${other && html`<span class="faint">not in the schema</span><${Button} small=${true} kind="plain" icon="cross" label=${"Remove " + f.name} onClick=${() => onChange(void 0)} />`}</div>
    <${Part} field=${f} control=${control} onChange=${onChange} />
    <${About3} field=${f} id=${id + "-hint"} onChange=${onChange} />
    ${wrong.length > 0 && html`<div class="error" id=${id + "-error"}>${wrong.map((m) => html`<p><${Hostile} text=${m} /></p>`)}</div>`}</div>`;
}
var Name2 = ({ field: f }) => html`<${Hostile} text=${f.title ?? f.name ?? "item"} />${f.required && f.name !== void 0 && html`<span class="needed" title="required" aria-hidden="true"> *</span>`}
  ${f.title && f.title !== f.name && html` <code class="faint"><${Hostile} text=${f.name ?? ""} /></code>`}`;
function About3({ field: f, id, onChange }) {
  const trailing = f.kind === "text" && /[\r\n]$/.test(stringOf(f.value) ?? "");
  const facts = [...f.hints, f.preset && `default ${write(f.preset)}`].filter(Boolean);
  return html`<p class="hint" id=${id}>${f.description && html`<${Hostile} text=${f.description} lines=${true} />`}
    ${facts.length > 0 && html`<span class="bounds">${f.description ? " · " : ""}<${Hostile} text=${facts.join(" · ")} /></span>`}
    ${trailing && html`<span class="warn"> · The value ends with a line break</span>`}
    ${f.examples.slice(0, 3).map((e) => html` <button type="button" class="example" title="Use this example" onClick=${() => onChange(read4(write(e)))}><${Hostile} text=${stringOf(e) ?? write(e)} /></button>`)}</p>`;
}
function TextInput({ field: f, control, onChange }) {
  const text = stringOf(f.value) ?? "";
  const input = (e) => onChange(e.currentTarget.value === "" ? void 0 : string(e.currentTarget.value));
  if (f.lines || /[\r\n]/.test(text)) return html`<textarea class="auto" rows="1" spellcheck=${false} value=${text} onInput=${input} ...${control}></textarea>`;
  return html`<input type="text" spellcheck=${false} autocomplete="off" value=${text} onInput=${input} ...${control} />`;
}
var number2 = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
function NumberInput({ field: f, control, onChange }) {
  const input = (e) => {
    const text = e.currentTarget.value.trim();
    onChange(text === "" ? void 0 : { kind: number2.test(text) ? "number" : "typed", text });
  };
  return html`<input type="text" inputmode=${f.whole ? "numeric" : "decimal"} autocomplete="off" class="number" value=${f.value?.text ?? ""} onInput=${input} ...${control} />`;
}
var none = (f) => f.required ? "Choose…" : f.preset ? `Not given (${write(f.preset)})` : "Not given";
function BooleanInput({ field: f, control, onChange }) {
  const change = (e) => onChange(e.currentTarget.value ? { kind: "boolean", text: e.currentTarget.value } : void 0);
  const value = f.value?.text ?? "";
  return html`<select value=${value} onChange=${change} ...${control}>${["", "true", "false"].map((v) => html`<option value=${v} selected=${v === value}>${v || none(f)}</option>`)}</select>`;
}
function ChoiceInput({ field: f, control, onChange }) {
  const at = f.value ? f.options.findIndex((o) => o.text === f.value.text) : -1;
  const change = (e) => onChange(e.currentTarget.value === "" ? void 0 : read4(f.options[Number(e.currentTarget.value)].text));
  const value = at < 0 ? "" : String(at);
  return html`<select value=${value} onChange=${change} ...${control}>
    <option value="" selected=${at < 0}>${f.value && at < 0 ? write(f.value) : none(f)}</option>
    ${f.options.map((o, i) => html`<option key=${i} value=${String(i)} selected=${at === i}>${o.label}</option>`)}</select>`;
}
function JsonInput({ field: f, control, onChange }) {
  const text = f.value ? write(f.value) : "";
  return html`<${Editor} label=${f.title ?? f.name ?? "JSON"} value=${text} small=${true} control=${control} onChange=${(t) => onChange(t.trim() === "" ? void 0 : read4(t))} />`;
}
function first(f) {
  switch (f.kind) {
    case "text":
      return string("");
    case "number":
      return { kind: "typed", text: "" };
    case "boolean":
      return { kind: "boolean", text: "false" };
    case "choice":
      return read4(f.options[0]?.text ?? "null");
    case "list":
      return emptyArray();
    default:
      return emptyObject();
  }
}
function Nested({ field: f, onChange, errors, mine }) {
  const id = useId();
  const absent2 = f.value === void 0;
  const make = f.kind === "list" ? emptyArray : emptyObject;
  return html`<fieldset class=${"nested " + (mine.length ? "wrong" : "")} aria-describedby=${id} data-path=${f.path}>
    <legend><${Name2} field=${f} /></legend>
    <${About3} field=${f} id=${id} onChange=${onChange} />
    ${mine.map((m) => html`<p class="error"><${Hostile} text=${m} /></p>`)}
    ${f.kind === "list" ? html`<${Items} field=${f} onChange=${onChange} errors=${errors} />` : !absent2 && html`<${Fields} field=${f} value=${f.value} onChange=${onChange} errors=${errors} />`}
    <div class="row">${absent2 && f.kind === "group" && html`<${Button} small=${true} icon="plus" onClick=${() => onChange(make())}>Add ${f.title ?? f.name}<//>`}
      ${!absent2 && !f.required && html`<${Button} small=${true} kind="plain" icon="cross" onClick=${() => onChange(void 0)}>Remove<//>`}</div>
  </fieldset>`;
}
function Items({ field: f, onChange, errors }) {
  const ref = useRef();
  const grown = useRef(false);
  const value = f.value ?? emptyArray();
  useEffect(() => {
    if (grown.current) ref.current.lastElementChild?.querySelector("input, textarea, select")?.focus();
    grown.current = false;
  }, [value.items.length]);
  const add = () => (grown.current = true, onChange(withItem(value, value.items.length, first(f.item))));
  return html`<ol class="items" ref=${ref}>${f.items.map((item, i) => html`<li key=${i}>
      <${Field2} field=${{ ...item, title: item.title ?? `Item ${i + 1}` }} errors=${errors} onChange=${(v) => onChange(withItem(value, i, v ?? first(item)))} />
      <${Button} small=${true} kind="plain" icon="cross" label=${`Remove item ${i + 1} of ${f.name ?? "the list"}`} onClick=${() => onChange(withItem(value, i, void 0))} /></li>`)}</ol>
    <div class="row"><${Button} small=${true} icon="plus" onClick=${add}>Add an item<//></div>`;
}
var unfinished = typed;
function focusError(within) {
  const wrong = within?.querySelector("[aria-invalid=true], fieldset.wrong input, fieldset.wrong button");
  wrong?.focus();
  wrong?.scrollIntoView({ block: "center" });
}

// pages/agent/preview.js
var route = "POST /agents/preview";
function usePreview(definition, on) {
  const [parameters, setParameters] = useState(null);
  const [state, setState] = useState({});
  const why = refusal(route);
  const broken = definition.broken();
  const stored2 = definition.fixed || !definition.dirty;
  const text = stored2 ? object([["agent_name", quote(definition.agent.name)]]) : broken ? null : object([["definition", definition.text()]]);
  const given2 = parameters && !unfinished(parameters) ? write(parameters) : "{}";
  const running = useRef(null);
  useEffect(() => {
    if (!on || why || text === null) return;
    const timer = setTimeout(async () => {
      running.current?.abort();
      const mine = running.current = new AbortController();
      try {
        const data = await judge("/agents/preview", text.slice(0, -1) + `,"parameters":${given2}}`, { signal: mine.signal });
        if (!mine.signal.aborted) setState({ data });
      } catch (error2) {
        if (!mine.signal.aborted) setState((s) => ({ ...s, error: error2 instanceof ApiError ? error2 : new Error(String(error2)) }));
      }
    }, 400);
    return () => clearTimeout(timer);
  }, [on, why, text, given2]);
  useEffect(() => () => running.current?.abort(), []);
  const error = why ? new Error(why) : broken ? new Error(`${broken} is not valid JSON yet`) : state.error;
  return { data: state.data, error, parameters, setParameters };
}
function Prompt({ definition, agent, preview }) {
  const text = definition.value("system_prompt");
  const value = text === void 0 ? "" : new Json(text).string() ?? text;
  if (agent.type === "procedural") return html`<${Empty} icon="tool" title="No model is involved" text="A procedural agent is a program: its parameters become the arguments of the command." />`;
  return html`<div class="stack"><${Card} title="System prompt"><textarea class="code tall" aria-label="System prompt" spellcheck=${true} readonly=${Boolean(definition.fixed)} value=${value} placeholder="Who the agent is and how it works"
      onInput=${(e) => definition.set("system_prompt", e.currentTarget.value === "" ? '""' : quote(e.currentTarget.value))}></textarea><//>
    <div class="grid"><${Sample} preview=${preview} /><${Sent} preview=${preview} /></div></div>`;
}
function Sample({ preview }) {
  const schema = preview.data?.parameters_schema?.text;
  const errors = preview.data?.validation_errors ?? [];
  const value = preview.parameters ?? (schema && canForm(schema) ? formValue(schema) : read4("{}"));
  return html`<${Card} title="Try it with these parameters"><div class="stack"><p class="faint">Nothing is started or saved.</p>
    ${schema && canForm(schema, value) ? html`<${Form} schema=${schema} value=${value} onChange=${preview.setParameters} errors=${preview.parameters ? errors : []} />` : html`<${Editor} label="Parameters" value=${write(value)} onChange=${(t) => preview.setParameters(read4(t))} />`}</div><//>`;
}
function Sent({ preview }) {
  if (!preview.data && !preview.error) return html`<${Card} title="What is sent"><${Loading} lines=${4} /><//>`;
  const { system_prompt: system, prompt, validation_errors: wrong } = preview.data ?? {};
  return html`<${Card} title="What is sent"><div class="stack">${preview.error && html`<${Problem} error=${preview.error} />`}
    ${preview.data && html`<${Block} title="System prompt" text=${system} none="None" />
      <${Block} title="Prompt" text=${prompt} none=${wrong?.length ? "The parameters are not valid: a run would be refused." : "None"} />`}</div><//>`;
}
var Block = ({ title, text, none: none2 }) => html`<section class="block"><h3>${title}</h3>${text ? html`<div class="jsonbox"><pre class="json" tabindex="0" aria-label=${title}><${Hostile} text=${text} lines=${true} /></pre><${Copy} text=${text} label=${"Copy the " + title.toLowerCase()} /></div>` : html`<p class="faint">${none2}</p>`}</section>`;
function Runners({ agent, preview }) {
  if (preview.error && !preview.data) return html`<${Problem} error=${preview.error} />`;
  if (!preview.data) return html`<${Loading} lines=${3} />`;
  const runners = preview.data.runners ?? [];
  const fit = runners.filter((r) => r.matches).length;
  if (runners.length === 0) return html`<${Empty} icon="runners" title="No runner is online" text="A run would wait, and fail after RUN_NO_MATCH_TIMEOUT." />`;
  const rest = runners.filter((r) => !r.matches);
  return html`<${Card} title=${fit === 0 ? "No runner would take it now" : `${fit} of ${plural(runners.length, "runner")} would take it now`}><div class="stack">
    <ul class="stack">${runners.filter((r) => r.matches).map((r) => html`<li class="row wrap"><${Badge} kind="good">matches<//><${Id} id=${r.runner_id} href="/ui/runners" /><span class="faint"><${Hostile} text=${[r.hostname, r.executor_profile].filter(Boolean).join(" · ")} /></span></li>`)}</ul>
    ${rest.length > 0 && html`<h3>Why the others do not match</h3><${Mismatches} runners=${rest} agent=${agent.name} />`}</div><//>`;
}

// pages/agent.js
async function load5(name, signal2) {
  const agent = await loadAgent(name, signal2);
  const kept2 = noChange(agent) || !may("GET /agents/:name/drafts/:side") ? [] : agent.drafts ?? [];
  const [input, output] = await Promise.all(["input", "output"].map((side) => kept2.includes(side) ? loadDraft(name, side, signal2) : null));
  return { agent, drafts: { input, output } };
}
function Agent({ name }) {
  const resource = useResource((signal2) => load5(name, signal2), [name]);
  const crumbs = [{ label: "Agents", href: path(["agents"]) }];
  if (resource.data === void 0) return html`<${Page} title=${name} crumbs=${crumbs}><${Loaded} resource=${resource} what="The agent" /><//>`;
  const { agent, drafts } = resource.data;
  return html`<${Edited} key=${agent.name + agent.etag + agent.modified_at} agent=${agent} drafts=${drafts} crumbs=${crumbs} reload=${resource.reload} />`;
}
function Edited({ agent, drafts, crumbs, reload }) {
  const definition = useDefinition(agent, drafts);
  const [dialog, setDialog] = useState(null);
  const tab = query.value.get("tab") ?? "general";
  const go = (id) => setQuery({ tab: id === "general" ? null : id }, { push: true });
  const save2 = useSave(definition, reload, go);
  const preview = usePreview(definition, ["input", "prompt", "runners"].includes(tab));
  const lost = useRef(false);
  lost.current = definition.dirty && !definition.kept;
  useEffect(() => guard(() => lost.current && "You have unsaved changes. Leave the page?"), []);
  const done = (kind) => kind === "delete" ? (lost.current = false, navigate(path(["agents"]))) : reload();
  const Part = tabs2.find((t) => t.id === tab)?.part ?? General;
  const shown2 = tabs2.map((t) => ({ id: t.id, label: t.label, badge: t.badge?.(definition) }));
  return html`<${Page} title=${agent.name} crumbs=${crumbs} heading=${html`<${Hostile} text=${agent.name} /><${Status} status=${agent.status} />`}
    actions=${html`<${Actions4} definition=${definition} save=${save2} act=${setDialog} />`}>
    <${About4} agent=${agent} definition=${definition} act=${setDialog} />
    ${save2.error && html`<${Problem} error=${save2.error} />`}
    <${Tabs} label="Parts of the agent" tabs=${shown2} selected=${tab} onSelect=${go}><${Part} definition=${definition} agent=${agent} preview=${preview} /><//>
    ${save2.conflict && html`<${Conflict} definition=${definition} save=${save2} />`}
    ${dialog && html`<${Act} agent=${agent} text=${agent.text} changes=${definition.changes} ...${dialog} onClose=${() => setDialog(null)} done=${done} />`}
  <//>`;
}
var mark3 = (on) => on ? "on" : void 0;
var tabs2 = [
  { id: "general", label: "General", part: General },
  { id: "input", label: "Input", part: Input3, badge: (d) => mark3(d.input.on) },
  { id: "output", label: "Output", part: Output, badge: (d) => d.output.mode === "name" ? "by name" : mark3(d.output.mode === "inline") },
  { id: "prompt", label: "Prompt", part: Prompt },
  { id: "servers", label: "MCP servers", part: Servers },
  { id: "runners", label: "Runners", part: Runners },
  { id: "json", label: "JSON", part: JsonTab }
];
function Actions4({ definition, save: save2, act }) {
  const { agent, dirty, kept: kept2, fixed } = definition;
  const on = agent.status === "active";
  const patch2 = "PATCH /agents/:name";
  const items = [
    { label: "Copy", icon: "copy", needs: "POST /agents", why: noCopy(agent), run: () => act({ kind: "copy" }) },
    { label: on ? "Deactivate" : "Activate", icon: on ? "pause" : "play", needs: patch2, why: fixed ?? (dirty ? "Save or discard the changes first" : void 0), run: () => act({ kind: on ? "deactivate" : "activate" }) },
    { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /agents/:name", why: fixed, run: () => act({ kind: "delete" }) }
  ];
  return html`${dirty && html`<${Badge} kind="warn">${kept2 ? "kept as a draft" : "unsaved"}<//><${Button} onClick=${definition.discard}>Discard<//>`}
    <${Button} kind="primary" needs=${patch2} why=${fixed ?? (dirty ? void 0 : "There are no changes to save")} busy=${save2.busy} onClick=${save2.run}>Save<//>
    <${Button} icon="play" needs="POST /runs" why=${on ? void 0 : "It is inactive"} href=${path(["new"], { agent: agent.name })}>Run<//>
    <${Menu} label="More actions" items=${items} />`;
}
function About4({ agent, definition, act }) {
  return html`<div class="row wrap"><${Badge}>${agent.type}<//><${Origin} agent=${agent} /><${SchemaBadges} agent=${agent} /></div>
    ${definition.fixed && html`<div class="banner"><${Icon} name="info" /><div class="grow"><strong>Read only.</strong> <${Hostile} text=${definition.fixed} /></div>
      <${Button} small=${true} icon="copy" needs="POST /agents" why=${noCopy(agent)} onClick=${() => act({ kind: "copy" })}>Save as a copy<//></div>`}
    <${Unused} agent=${agent} dirty=${definition.dirty} act=${act} />`;
}

// pages/schemas/playground.js
var route2 = "POST /schemas/validate";
var sources = { whole_text: "the whole text", fenced_block: "a fenced block", embedded: "within the text" };
function Playground({ schema }) {
  const [own, setOwn] = useState("");
  const [answer2, setAnswer] = useState("");
  const [strict, setStrict] = useState(false);
  const text = schema ?? own;
  const { verdict, error } = useVerdict(text, answer2, strict);
  const why = refusal(route2);
  if (why) return html`<p class="faint">${why}</p>`;
  return html`<div class="stack">${schema === null && html`<${SchemaEditor} label="Schema to try" value=${own} onChange=${setOwn} />`}
    <${Field} label="An answer, as a model might write it" hint="Text, JSON, or JSON in a fenced block. Nothing is saved.">${(c) => html`<textarea class="code auto" rows="6" spellcheck=${false} value=${answer2} onInput=${(e) => setAnswer(e.currentTarget.value)} ...${c}></textarea>`}<//>
    <label class="row"><input type="checkbox" checked=${strict} onChange=${(e) => setStrict(e.currentTarget.checked)} /> The whole answer must be JSON</label>
    ${error && html`<${Problem} error=${error} />`}
    ${verdict && html`<${Verdict2} verdict=${verdict} asked=${answer2.trim() !== ""} />`}</div>`;
}
function useVerdict(schema, answer2, strict) {
  const [state, setState] = useState({});
  const running = useRef(null);
  useEffect(() => {
    running.current?.abort();
    if (schema.trim() === "" || check(schema) || answer2.trim() === "" || refusal(route2)) return setState({});
    const timer = setTimeout(async () => {
      const mine = running.current = new AbortController();
      const body = object([["schema_text", quote(schema)], ["answer", quote(answer2)], ["options", strict ? '{"strict_json_only":true}' : void 0]]);
      try {
        const verdict = await send("POST", "/schemas/validate", body, { signal: mine.signal });
        if (!mine.signal.aborted) setState({ verdict });
      } catch (error) {
        if (!mine.signal.aborted) setState({ error: error instanceof ApiError ? error : new Error(String(error)) });
      }
    }, 350);
    return () => clearTimeout(timer);
  }, [schema, answer2, strict]);
  useEffect(() => () => running.current?.abort(), []);
  return state;
}
function Verdict2({ verdict, asked }) {
  const found2 = verdict.answer;
  if (!verdict.valid) return html`<p class="row bad"><${Icon} name="warn" /> The schema itself is not valid.</p>`;
  if (!asked || !found2) return null;
  const list2 = found2.candidates ?? [];
  const n = found2.found ?? list2.length;
  return html`<div class="stack" role="status"><p class=${"row " + (found2.valid ? "good" : "bad")}><${Icon} name=${found2.valid ? "check" : "warn"} /> <strong>${found2.valid ? "It matches." : list2.length === 0 ? "No JSON was found in it." : "It does not match: the agent would be asked again."}</strong></p>
    ${list2.length > 0 && html`<p class="faint">${plural(n, "candidate")} ${n === 1 ? "was" : "were"} found, the preferred one first.</p>`}
    <ol class="stack">${list2.map((c, i) => html`<li class="candidate"><div class="row wrap">${c.valid ? html`<${Badge} kind="good">matches<//>` : html`<${Badge} kind="bad">does not match<//>`}
      ${found2.chosen === i && html`<${Badge} kind="accent">this one is used<//>`}${c.source && html`<span class="faint">${sources[c.source] ?? c.source}</span>`}</div>
      <pre class="json" tabindex="0"><${Hostile} text=${c.text} lines=${true} />${c.truncated ? "…" : ""}</pre>
      ${(c.errors ?? []).map((e) => html`<p class="bad"><code><${Hostile} text=${e.path} /></code> <${Hostile} text=${e.message} /></p>`)}</li>`)}</ol></div>`;
}

// pages/schemas.js
function Schemas({ name }) {
  return name === void 0 ? html`<${All} />` : html`<${One} key=${name} name=${name} />`;
}
var New = ({ onClick }) => html`<${Button} kind="primary" icon="plus" needs="POST /schemas" onClick=${onClick}>New schema<//>`;
function All() {
  const resource = useResource((signal2) => get("/schemas", {}, { signal: signal2 }), []);
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const actions4 = html`<${New} onClick=${() => setDialog({ kind: "new" })} />`;
  return html`<${Page} title="Schemas" actions=${actions4}>
    <p class="soft">Output schemas that agents and callers use by name. One of the API never changes: create another name for a new version.</p>
    <${Loaded} resource=${resource} what="The list of schemas">${(data) => data.schemas.length === 0 ? html`<${Empty} icon="schemas" title="No named schemas yet" text="Create one, then use it as the output schema of agents or of a single run."><${New} onClick=${() => setDialog({ kind: "new" })} /><//>` : html`<${Table} label="Schemas" rows=${data.schemas} rowKey=${(s) => s.name} rowHeight=${48} columns=${columns3(setDialog)} />`}<//>
    ${(resource.data || resource.error) && html`<${Card} title="Playground"><${Playground} schema=${null} /><//>`}
    ${dialog?.kind === "new" && html`<${Create2} onClose=${close} />`}
    ${dialog?.kind === "delete" && html`<${Remove} name=${dialog.name} onClose=${close} done=${resource.reload} />`}<//>`;
}
var users = [
  { member: "used_by", label: "Used by", one: "agent", uses: ["uses it", "use it"], href: (name) => path(["agents", name], { tab: "output" }) },
  { member: "referred_by", label: "Referred to by", one: "schema", uses: ["refers to it", "refer to it"], href: (name) => path(["schemas", name]) }
];
function noDelete(s) {
  if (s.origin === "file") return "It is defined by a file in AO_SCHEMAS_DIR: remove the file";
  const whys = users.filter((u) => s[u.member].length > 0).map((u) => {
    const names3 = s[u.member];
    return `${plural(names3.length, u.one)} ${u.uses[names3.length === 1 ? 0 : 1]}: ${visible(names3.slice(0, 5).join(", "))}`;
  });
  return whys.length > 0 ? whys.join(". ") : void 0;
}
var FileBadge = ({ schema: s }) => s.origin === "file" ? html`<${Badge} title="Defined by a file in AO_SCHEMAS_DIR; an edit counts at once">file<//>` : "";
var columns3 = (act) => [
  { id: "name", label: "Schema", render: (s) => html`<div class="two"><span class="row cut">${s.error ? html`<${Hostile} text=${s.name} />` : html`<a class="cut" href=${path(["schemas", s.name])}><${Hostile} text=${s.name} /></a>`}<${FileBadge} schema=${s} /></span>${s.error ? html`<span class="bad cut" title=${visible(s.error)}><${Hostile} text=${s.error} /></span>` : html`<span class="faint cut"><${Text} text=${s.description} /></span>`}</div>` },
  ...users.map((u) => ({ id: u.member, label: u.label, hide: 3, render: (s) => html`<${Users} names=${s[u.member]} of=${u} />` })),
  { id: "made", label: "Created", width: "150px", hide: 2, render: (s) => html`<${Time} at=${s.created_at} as="ago" />` },
  { id: "do", label: html`<span class="offscreen">Actions</span>`, width: "60px", end: true, class: "acts", render: (s) => html`<div class="row"><${Menu} label=${`Actions for ${s.name}`} items=${[
    { label: "Open", icon: "edit", why: s.error && "Its file cannot be used", run: () => navigate(path(["schemas", s.name])) },
    { label: "Delete", icon: "trash", kind: "danger", needs: "DELETE /schemas/:name", why: noDelete(s), run: () => act({ kind: "delete", name: s.name }) }
  ]} /></div>` }
];
function Users({ names: names3, of }) {
  if (names3.length === 0) return html`<span class="faint">no ${of.one}</span>`;
  return html`<span class="row">${names3.slice(0, 3).map((n) => html`<a href=${of.href(n)}><${Hostile} text=${n} /></a>`)}${names3.length > 3 && html`<span class="faint">and ${names3.length - 3} more</span>`}</span>`;
}
function One({ name }) {
  const resource = useResource(async (signal2) => {
    const [one, all] = await Promise.all([get("/schemas/" + seg(name), {}, { signal: signal2 }), get("/schemas", {}, { signal: signal2 })]);
    return { ...one, referred_by: all.schemas.find((s) => s.name === name)?.referred_by ?? [] };
  }, [name]);
  const [dialog, setDialog] = useState(null);
  const crumbs = [{ label: "Schemas", href: path(["schemas"]) }];
  const data = resource.data;
  const actions4 = data && html`<${Button} icon="copy" needs="POST /schemas" onClick=${() => setDialog("copy")}>Copy<//><${Button} icon="trash" kind="danger" needs="DELETE /schemas/:name" why=${noDelete(data)} onClick=${() => setDialog("delete")}>Delete<//>`;
  return html`<${Page} title=${name} heading=${html`<${Hostile} text=${name} />`} crumbs=${crumbs} actions=${actions4}><${Loaded} resource=${resource} what="The schema">${(schema) => html`<div class="row wrap">${schema.origin === "file" ? html`<${FileBadge} schema=${schema} />` : html`<${Badge}>immutable<//>`}<span class="soft"><${Text} text=${schema.description || "No description"} /></span></div>
      <div class="grid"><${Card} title="Schema" actions=${html`<span class="faint">created <${Time} at=${schema.created_at} /></span>`}><div class="stack"><${JsonView} value=${schema.schema.pretty()} label="Schema" />
        ${users.map((u) => html`<p class="row wrap"><span class="faint">${u.label}</span> <${Users} names=${schema[u.member]} of=${u} /></p>`)}</div><//>
      <${Card} title="Playground"><${Playground} schema=${schema.schema.pretty()} /><//></div>`}<//>
    ${dialog === "copy" && html`<${Create2} from=${data} onClose=${() => setDialog(null)} />`}
    ${dialog === "delete" && html`<${Remove} name=${name} onClose=${() => setDialog(null)} done=${() => navigate(path(["schemas"]))} />`}<//>`;
}
function Remove({ name, onClose, done }) {
  const run = async () => {
    await request("DELETE", "/schemas/" + seg(name));
    toast(`${name} is deleted`, { kind: "good" });
    done();
  };
  return html`<${Confirm} title="Delete this schema?" verb=${"Delete " + name} kind="danger" needs="DELETE /schemas/:name" run=${run} onClose=${onClose}>
    <p>Accepted runs keep their copy of <strong><${Hostile} text=${name} /></strong>. New runs that name it are refused.</p><//>`;
}
function Create2({ from, onClose }) {
  const [name, setName] = useState(from ? from.name + "-2" : "");
  const [about2, setAbout] = useState(from?.description ?? "");
  const [text, setText] = useState(from ? from.schema.pretty() : "");
  const [errors, setErrors] = useState([]);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const create2 = async () => {
    setBusy(true);
    setError(null);
    try {
      const wrong = await judgeSchema(text);
      if (wrong.length) throw new Error(`This is not a valid JSON Schema: ${wrong[0].path ?? ""} ${wrong[0].message}`);
      await send("POST", "/schemas", object([["name", quote(name)], ["description", about2 ? quote(about2) : void 0], ["schema", text.trim()]]));
      onClose();
      navigate(path(["schemas", name]));
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  const why = !name ? "Give it a name" : text.trim() === "" ? "Define the schema" : errors.length ? "Fix the schema first" : void 0;
  const footer = html`<${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" needs="POST /schemas" why=${why} busy=${busy} onClick=${create2}>Create<//>`;
  return html`<${Dialog} title="New schema" wide=${true} onClose=${onClose} footer=${footer}>
    <div class="grid tight"><${Field} label="Name" hint="It cannot be changed later, and neither can the schema.">${(c) => html`<input type="text" autofocus autocomplete="off" spellcheck=${false} value=${name} onInput=${(e) => setName(e.currentTarget.value.trim())} ...${c} />`}<//>
      <${Field} label="Description" optional=${true}>${(c) => html`<input type="text" value=${about2} onInput=${(e) => setAbout(e.currentTarget.value)} ...${c} />`}<//></div>
    <${SchemaEditor} label="Schema" value=${text} onChange=${setText} onErrors=${setErrors} />
    ${error && html`<${Problem} error=${error} />`}<//>`;
}

// pages/newrun/order.js
var fresh2 = (agent) => ({
  agent,
  session: "new",
  resume: "",
  own: "",
  parent: "",
  prompt: "",
  parameters: emptyObject(),
  output: { kind: "agent", name: "", text: "", options: "null" },
  demands: "null",
  projectDir: "",
  timeout: "",
  attempts: "",
  mode: "async_poll",
  callback: "",
  in: "new_session"
});
var given = (text) => text === "" ? void 0 : quote(text);
var json = (text) => text === "null" || text === "" ? void 0 : text;
var parametersOf = (o) => o.session === "resume" ? object([["prompt", quote(o.prompt)]]) : write(o.parameters);
function problems(o) {
  const list2 = [];
  if (o.session === "resume" && !o.resume) list2.push("Enter the session to continue");
  if (o.session === "new" && !o.agent) list2.push("Choose an agent");
  if (o.session === "new" && typed(o.parameters)) list2.push("The parameters are not valid JSON yet");
  if (o.output.kind === "name" && !o.output.name) list2.push("Choose an output schema");
  if (o.output.kind === "inline" && !isJson(o.output.text)) list2.push("The output schema is not valid JSON yet");
  for (const [name, text] of [["time limit", o.timeout], ["attempts", o.attempts]]) if (text !== "" && !/^\d+$/.test(text)) list2.push(`The ${name} is not a whole number`);
  return list2;
}
function isJson(text) {
  return text.trim() !== "" && read4(text).kind !== "typed";
}
function pairs(o) {
  const resume = o.session === "resume";
  return [
    ["type", resume ? quote("resume_session") : o.own ? quote("start_session") : void 0],
    ["agent_name", resume ? void 0 : given(o.agent)],
    ["session_id", resume ? given(o.resume) : given(o.own)],
    ["parameters", parametersOf(o)],
    ...common(o)
  ].filter(([, text]) => text !== void 0);
}
var common = (o) => [
  ["mode", o.mode === "async_poll" ? void 0 : quote(o.mode)],
  ["parent_session_id", given(o.parent)],
  ["output_schema", o.output.kind === "inline" ? o.output.text.trim() : void 0],
  ["output_schema_name", o.output.kind === "name" ? given(o.output.name) : void 0],
  ["output_schema_options", json(o.output.options)],
  ["project_dir", given(o.projectDir)],
  ["additional_demands", json(o.demands)],
  ["timeout_seconds", json(o.timeout)],
  ["max_attempts", json(o.attempts)],
  ["callback_url", given(o.callback)]
];
function changesOf(o, run) {
  const before = run.parameters ? run.parameters.text.trim() : "null";
  const now2 = parametersOf(o);
  return [["in", quote(o.in)], ["parameters", now2 === before ? void 0 : now2], ...common(o)].filter(([, text]) => text !== void 0);
}
var bodyText = (list2) => object(list2);
function curlLine(url, body, withToken) {
  const token = withToken ? ' -H "Authorization: Bearer $AO_TOKEN"' : "";
  return `curl -sS -X POST ${shellQuote(url)} -H 'Content-Type: application/json'${token} -d ${shellQuote(body)}`;
}
function aoLine(base, list2) {
  const of = new Map(list2);
  if (beyond2(of)) return null;
  const text = (name) => stringOf(of.has(name) ? read4(of.get(name)) : void 0);
  const flag = (name, value) => value === void 0 ? [] : [shellQuote(`--${name}=${value}`)];
  const resume = text("type") === "resume_session";
  const words2 = ["ao", ...base === "http://127.0.0.1:8765" ? [] : flag("url", base), "run"];
  if (!resume) words2.push(shellQuote(text("agent_name") ?? "AGENT"));
  words2.push(...flag(resume ? "resume" : "session", text("session_id")), ...parameterWords(of.get("parameters") ?? "{}"));
  if (text("mode") !== "sync") words2.push("--detach");
  words2.push(...text("mode") === "async_callback" ? ["--call-back"] : [], ...flag("parent", text("parent_session_id")), ...flag("callback-url", text("callback_url")));
  words2.push(...flag("output-schema", of.get("output_schema")), ...flag("output-schema-name", text("output_schema_name")), ...optionWords(of.get("output_schema_options")));
  words2.push(...demandWords(of.get("additional_demands")), ...flag("project-dir", text("project_dir")), ...flag("timeout", of.has("timeout_seconds") ? of.get("timeout_seconds") + "s" : void 0), ...flag("max-attempts", of.get("max_attempts")));
  return words2.join(" ");
}
function beyond2(of) {
  const demands = of.has("additional_demands") ? read4(of.get("additional_demands")) : void 0;
  const options2 = of.has("output_schema_options") ? read4(of.get("output_schema_options")) : void 0;
  return member2(demands, "executor_type") || member2(demands, "project_dir") || member2(options2, "strict_json_only")?.text === "false";
}
function parameterWords(text) {
  const node = parse(text);
  const prompt = node.items?.length === 1 ? stringOf(member2(node, "prompt")) : void 0;
  if (prompt !== void 0 && prompt !== "-" && !prompt.includes("\0")) return [shellQuote("--prompt=" + prompt)];
  return text.trim() === "{}" ? [] : [shellQuote("--params=" + text)];
}
function optionWords(text) {
  const node = text && read4(text);
  const words2 = [];
  const retries = node && member2(node, "max_retries");
  if (retries) words2.push(shellQuote("--output-retries=" + retries.text));
  if (node && member2(node, "strict_json_only")?.text === "true") words2.push("--strict-json");
  return words2;
}
function demandWords(text) {
  const node = text ? read4(text) : void 0;
  const one = (name, flag) => member2(node, name) ? [shellQuote(`--${flag}=${stringOf(member2(node, name)) ?? ""}`)] : [];
  const tags = (member2(node, "tags")?.items ?? []).map((t) => shellQuote("--tag=" + (stringOf(t) ?? "")));
  return [...one("hostname", "hostname"), ...one("executor_profile", "profile"), ...tags];
}

// pages/newrun/parts.js
var Line2 = ({ label, hint, value, onInput, optional = true, error, ...rest }) => html`<${Field} label=${label} hint=${hint} optional=${optional} error=${error}>${(c) => html`<input type="text" autocomplete="off" spellcheck=${false} value=${value} onInput=${(e) => onInput(e.currentTarget.value.trim())} ...${rest} ...${c} />`}<//>`;
var Radios = ({ name, legend, value, onChange, options: options2 }) => html`<fieldset class="modes"><legend class="offscreen">${legend}</legend>${options2.map(([id, label, hint]) => html`<label class="choice"><input type="radio" name=${name} value=${id} checked=${value === id} onChange=${() => onChange(id)} /><span><strong>${label}</strong> <span class="faint">${hint}</span></span></label>`)}</fieldset>`;
var SessionCard = ({ order: order2, set }) => html`<${Card} title="Session"><div class="stack">
  <${Radios} name="session" legend="Session" value=${order2.session} onChange=${(session) => set({ session })} options=${[["new", "A new session", "An agent starts with its parameters."], ["resume", "Continue a session", "Another turn: send a prompt, the session remembers the rest."]]} />
  ${order2.session === "resume" && html`<${Line2} label="Session" optional=${false} hint="ses_…, of an autonomous agent" value=${order2.resume} onInput=${(resume) => set({ resume })} />`}</div><//>`;
function AgentCard({ agents, known, order: order2, set }) {
  const groups = ["autonomous", "procedural"].map((type) => [type, agents.filter((a) => a.type === type)]).filter(([, list2]) => list2.length);
  const missing = order2.agent && !known;
  const filled = (m) => m.kind !== "object" || m.items.length > 0;
  const choose = (agent) => (setQuery({ agent }), set({ agent, parameters: order2.parameters.items ? { kind: "object", items: order2.parameters.items.filter(filled) } : order2.parameters }));
  return html`<${Card} title="Agent"><div class="stack"><${Field} label="Agent" error=${missing ? `There is no agent ${order2.agent}` : void 0} hint=${agents.length === 0 ? html`There are no agents yet: <a href=${path(["agents"])}>create one</a>.` : void 0}>${(c) => html`<select value=${order2.agent} onChange=${(e) => choose(e.currentTarget.value)} ...${c}>
      <option value="">Choose an agent…</option>${groups.map(([type, list2]) => html`<optgroup label=${type}>${list2.map((a) => html`<option value=${a.name} selected=${a.name === order2.agent} disabled=${a.status !== "active"}>${a.name}${a.status === "active" ? "" : " (inactive)"}</option>`)}</optgroup>`)}</select>`}<//>
    ${known && html`<div class="row wrap"><span class="soft"><${Text} text=${known.description} /></span><${SchemaBadges} agent=${known} /><a href=${path(["agents", known.name])}>Open the agent</a></div>`}</div><//>`;
}
function Parameters({ order: order2, set, schema, errors, run }) {
  const [tab, setTab] = useState("form");
  const able = useMemo(() => schema && order2.parameters.kind === "object" && canForm(schema, order2.parameters), [schema, order2.parameters]);
  if (order2.session === "resume") {
    return html`<${Card} title="Prompt"><${Field} label="Prompt" error=${errors[0]?.message}>${(c) => html`<textarea class="auto" rows="4" value=${order2.prompt} onInput=${(e) => set({ prompt: e.currentTarget.value })} ...${c}></textarea>`}<//><//>`;
  }
  if (!order2.agent) return null;
  if (schema === void 0) return html`<${Card} title="Parameters"><${Loading} /><//>`;
  const shown2 = able ? tab : "json";
  const why = schema === null ? "This agent has no schema: any JSON object is accepted." : !able ? "There is no form for this: edit it as JSON." : null;
  return html`<${Card} title="Parameters"><${Tabs} label="Parameters" tabs=${able ? [{ id: "form", label: "Form" }, { id: "json", label: "JSON" }] : [{ id: "json", label: "JSON" }]} selected=${shown2} onSelect=${setTab}>
    ${shown2 === "form" ? html`<${Form} schema=${schema} value=${order2.parameters} errors=${errors} onChange=${(parameters) => set({ parameters })} />` : html`<${JsonParameters} order=${order2} set=${set} schema=${schema} errors=${errors} why=${why} key=${order2.agent + (run ? run.run_id : "")} />`}<//><//>`;
}
function JsonParameters({ order: order2, set, schema, errors, why }) {
  const [text, setText] = useState(() => order2.parameters.kind === "typed" ? order2.parameters.text : prettify(write(order2.parameters)));
  const change = (next3) => (setText(next3), set({ parameters: read4(next3.trim() === "" ? "{}" : next3.trim()) }));
  return html`<div class="stack">${why && html`<p class="faint">${why}</p>`}
    <${Editor} label="Parameters" value=${text} onChange=${change} />
    ${errors.length > 0 && html`<ul class="mistakes">${errors.map((e) => html`<li><code><${Hostile} text=${e.path} /></code> <${Hostile} text=${e.message} /></li>`)}</ul>`}
    ${schema && html`<${Details} summary="The schema"><pre class="json" tabindex="0"><${Hostile} text=${prettify(schema)} lines=${true} /></pre><//>`}</div>`;
}
function OutputCard({ order: order2, set, known, run }) {
  const o = order2.output;
  const put3 = (change) => set({ output: { ...o, ...change } });
  const own = !known ? "The schema that the agent has." : known.output_schema_name ? `Schema ${known.output_schema_name}.` : known.output_schema ? "The agent has a custom schema." : "The agent has none: the answer is plain text.";
  const first2 = run ? ["agent", "As before", "The schema of the first run."] : ["agent", "The agent's schema", order2.session === "resume" ? "The schema of the session's agent." : own];
  return html`<${Card} title="Output schema"><div class="stack">
    <${Radios} name="output" legend="Output schema" value=${o.kind} onChange=${(kind) => put3({ kind, options: kind === "agent" ? "null" : o.options })} options=${[first2, ["name", "By name", "A named schema."], ["inline", "Inline", "For this run only."]]} />
    ${o.kind === "name" && html`<${Named} value=${o.name} onChange=${(name) => put3({ name })} />`}
    ${o.kind === "inline" && html`<${SchemaEditor} label="Output schema" value=${o.text} onChange=${(text) => put3({ text })} />`}
    ${o.kind !== "agent" && html`<${Options} value=${o.options} onChange=${(options2) => put3({ options: options2 })} retries="the coordinator's (2)" />`}</div><//>`;
}
var modes2 = [
  ["async_poll", "Do not wait", "Returns at once; the page of the run shows its progress."],
  ["sync", "Wait for the end", "The request returns the answer."],
  ["async_callback", "Call back", "The parent session continues with the result."]
];
function Placement({ order: order2, set, run }) {
  const number3 = (text) => text !== "" && !/^\d+$/.test(text) ? `${text} is not a whole number` : void 0;
  const before = run ? "Empty fields stay as they were in the first run." : void 0;
  return html`<${Card} title="How and where"><div class="stack">${before && html`<p class="faint">${before}</p>`}
    <div class="grid tight"><${Line2} label="Time limit" hint="Seconds; at most the agent's limit" value=${order2.timeout} error=${number3(order2.timeout)} inputmode="numeric" onInput=${(timeout) => set({ timeout })} />
      <${Line2} label="Attempts" hint="1 to 100" value=${order2.attempts} error=${number3(order2.attempts)} inputmode="numeric" onInput=${(attempts) => set({ attempts })} /></div>
    <${Details} summary="Which runner">${html`<div class="stack"><${Line2} label="Project folder of the run" hint="An absolute path on the runner" value=${order2.projectDir} onInput=${(projectDir) => set({ projectDir })} /><${Demands} value=${order2.demands === "null" ? void 0 : order2.demands} onChange=${(demands) => set({ demands })} /></div>`}<//>
    <${Details} summary="Mode, parent and callbacks">${html`<div class="stack"><${Radios} name="mode" legend="Mode" value=${order2.mode} onChange=${(mode) => set({ mode })} options=${modes2} />
      <${Line2} label="Parent session" hint="ses_… that this run belongs to" value=${order2.parent} onInput=${(parent) => set({ parent })} />
      ${order2.session === "new" && !run && html`<${Line2} label="Session id" hint="ses_ and 1 to 64 letters, digits, _ and -. By default the coordinator makes one" value=${order2.own} onInput=${(own) => set({ own })} />`}
      <${Line2} label="Callback URL" hint="Gets a webhook when the run ends, if the coordinator allows the host" value=${order2.callback} onInput=${(callback) => set({ callback })} /></div>`}<//></div><//>`;
}

// pages/newrun/verdict.js
function useVerdict2(body, ready, order2) {
  const [state, setState] = useState({});
  const [schema, setSchema] = useState({ agent: "", text: null });
  const running = useRef(null);
  const ask = async (text, take2) => {
    running.current?.abort();
    const mine = running.current = new AbortController();
    let ok, error;
    try {
      ok = await judge("/runs/validate", text, { signal: mine.signal, patience: 4e3 });
    } catch (err) {
      if (mine.signal.aborted || !(err instanceof ApiError)) return;
      error = err;
    }
    if (!mine.signal.aborted) take2({ ok, error });
  };
  const learn = ({ ok, error }) => {
    const found2 = ok?.parameters_schema ?? error?.body?.parameters_schema;
    if (found2 !== void 0) setSchema({ agent: order2.agent, text: found2?.text ?? null });
  };
  useEffect(() => {
    if (!order2.agent || schema.agent === order2.agent) return;
    ask(object([["agent_name", quote(order2.agent)], ["parameters", "{}"]]), (v) => (learn(v), setState(v)));
  }, [order2.agent]);
  useEffect(() => {
    if (!ready) return;
    const timer = setTimeout(() => ask(body, (v) => (setState(v), order2.session === "new" && learn(v))), 500);
    return () => clearTimeout(timer);
  }, [body, ready]);
  useEffect(() => () => running.current?.abort(), []);
  return { ...state, schema: schema.agent === order2.agent ? schema.text : state.ok || state.error ? null : void 0 };
}

// pages/newrun.js
async function load6(retry, signal2) {
  const [agents, run] = await Promise.all([get("/agents", {}, { signal: signal2 }), retry ? get("/runs/" + seg(retry), {}, { signal: signal2 }) : null]);
  return { agents: agents.agents.filter((a) => a.status !== "broken"), run };
}
function NewRun() {
  const q = query.value;
  const retry = q.get("retry");
  const resource = useResource((signal2) => load6(retry, signal2), [retry]);
  const title = retry ? "Run again" : "New run";
  const crumbs = retry ? [{ label: "Runs", href: path(["runs"]) }, { label: "Run", href: path(["runs", retry]) }] : [];
  if (resource.data === void 0) return html`<${Page} title=${title} crumbs=${crumbs}><${Loaded} resource=${resource} what="The page" /><//>`;
  return html`<${Page} title=${title} crumbs=${crumbs}><${Order} key=${retry} ...${resource.data} first=${q} /><//>`;
}
function begin(run, first2) {
  const order2 = fresh2(run?.agent_name ?? first2.get("agent") ?? "");
  if (run?.parameters) order2.parameters = read4(run.parameters.text.trim());
  if (run?.type === "resume_session") Object.assign(order2, into("same_session", order2, run));
  if (first2.get("session")) Object.assign(order2, { session: "resume", resume: first2.get("session") });
  if (first2.get("parent")) order2.parent = first2.get("parent");
  return order2;
}
var into = (where, order2, run) => where === "same_session" ? { in: where, session: "resume", resume: run.session_id, prompt: order2.prompt || (stringOf(member2(order2.parameters, "prompt")) ?? "") } : { in: where, session: "new" };
function Order({ agents, run, first: first2 }) {
  const [order2, setOrder] = useState(() => begin(run, first2));
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [tried, setTried] = useState(false);
  const box = useRef();
  const set = (change) => (setError(null), setOrder((o) => ({ ...o, ...change })));
  const known = agents.find((a) => a.name === order2.agent);
  const list2 = run ? changesOf(order2, run) : pairs(order2);
  const body = bodyText(list2);
  const key = useMemo(newKey, [body]);
  const wrong = problems(order2);
  const verdict = useVerdict2(run ? bodyText(pairs(order2)) : body, wrong.length === 0, order2);
  const schema = order2.session === "new" && order2.agent ? verdict.schema : null;
  const ready = useRef(false);
  ready.current ||= schema !== void 0;
  usePrefill(order2, set, schema, known, Boolean(run));
  const start2 = async () => {
    setTried(true);
    if (busy || wrong.length) return void focusError(box.current);
    setBusy(true);
    try {
      const to = run ? `/runs/${seg(run.run_id)}/retry` : "/runs";
      const answer2 = await send("POST", to, body, { headers: { "Idempotency-Key": key } });
      navigate(path(["runs", answer2.run_id]));
    } catch (err) {
      setError(err);
      setBusy(false);
      requestAnimationFrame(() => focusError(box.current));
    }
  };
  const errors = errorsOf(error, verdict, tried);
  const keys2 = (e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.defaultPrevented && (e.preventDefault(), start2());
  return html`<div class="editing neworder" ref=${box} onKeyDown=${keys2}><div class="stack">
      ${run ? html`<${Again} run=${run} known=${known} order=${order2} set=${set} />` : html`<${SessionCard} order=${order2} set=${set} />`}
      ${order2.session === "new" && !run && html`<${AgentCard} agents=${agents} known=${known} order=${order2} set=${set} />`}
      <${Parameters} order=${order2} set=${set} schema=${schema} errors=${errors} run=${run} />
      ${ready.current && html`<${OutputCard} order=${order2} set=${set} known=${known} run=${run} />
        <${Placement} order=${order2} set=${set} run=${run} />`}</div>
    <div class="aside"><${Start} run=${run} busy=${busy} start=${start2} wrong=${wrong} verdict=${verdict} error=${error} tried=${tried} order=${order2} />
      <${Lines} list=${list2} run=${run} /></div></div>`;
}
function usePrefill(order2, set, schema, known, retry) {
  const done = useRef("");
  useLayoutEffect(() => {
    if (retry || !schema || done.current === order2.agent) return;
    done.current = order2.agent;
    if (order2.parameters.items?.length === 0 && canForm(schema)) set({ parameters: formValue(schema) });
  }, [schema, order2.agent]);
}
function errorsOf(error, verdict, tried) {
  const found2 = error?.body?.validation_errors ?? verdict.error?.body?.validation_errors ?? [];
  return tried ? found2 : found2.filter((e) => !/(^|\.)required$/.test(e.schema_path ?? "") && !/minLength$/.test(e.schema_path ?? ""));
}
var Again = ({ run, known, order: order2, set }) => html`<${Card} title="Run again"><div class="stack">
  <p>A new run like <${Id} id=${run.run_id} href=${path(["runs", run.run_id])} /> of <strong><${Hostile} text=${run.agent_name} /></strong>, with your changes. Everything else stays as it was.</p>
  <div class="banner warn"><${Icon} name="warn" /><span>It is a separate run: it costs again, and side effects may happen twice.</span></div>
  ${known?.type !== "procedural" && html`<fieldset class="modes"><legend class="offscreen">Where it goes</legend>${[["new_session", "A new session", "It knows nothing of the first run."], ["same_session", "Another turn of the same session", "Only a prompt: the session remembers the rest."]].map(([id, label, hint]) => html`<label class="choice"><input type="radio" name="in" value=${id} checked=${order2.in === id} onChange=${() => set(into(id, order2, run))} /><span><strong>${label}</strong> <span class="faint">${hint}</span></span></label>`)}</fieldset>`}</div><//>`;
function Start({ run, busy, start: start2, wrong, verdict, error, tried, order: order2 }) {
  const route3 = run ? "POST /runs/:id/retry" : "POST /runs";
  return html`<${Card} title=${run ? "Run again" : "Start"}><div class="stack">
    <${Button} kind="primary" icon=${run ? "retry" : "play"} needs=${route3} busy=${busy} onClick=${start2}>${run ? "Run again" : order2.session === "resume" ? "Send" : "Start run"}<//>
    ${wrong.length > 0 ? html`<ul class=${tried ? "bad" : "faint"}>${wrong.map((w) => html`<li>${w}</li>`)}</ul>` : html`<${Verdict3} verdict=${verdict} tried=${tried} why=${refusal(route3)} />`}
    <p class="faint bykey">Ctrl + Enter starts it too.</p>
    ${error && html`<${Problem} error=${error} />`}</div><//>`;
}
function Verdict3({ verdict, tried, why }) {
  if (verdict.ok && why) return html`<p class="row warn"><${Icon} name="warn" /><span>You cannot start it. ${why}</span></p>`;
  if (verdict.ok) {
    const d = verdict.ok;
    return html`<p class="row good"><${Icon} name="check" /> It would be accepted</p>
      ${d.runner_available === false && html`<p class="row warn"><${Icon} name="warn" /> No online runner matches now: the run would wait${d.demands.executor_profile && html` for one with the profile <${Hostile} text=${d.demands.executor_profile} />`}.</p>`}
      ${d.output && html`<p class="faint">The answer must match ${d.output.schema_name ? html`schema <strong><${Hostile} text=${d.output.schema_name} /></strong>` : `the ${{ request: "schema given here", blueprint: "agent's schema", registry: "named schema" }[d.output.schema_source] ?? "schema"}`}.</p>`}`;
  }
  if (!verdict.error) return html`<p class="faint">Checking…</p>`;
  const list2 = verdict.error.body?.validation_errors;
  const missing = list2?.filter((e) => e.schema_path?.endsWith("required"));
  if (!tried && missing?.length && missing.length === list2.length) return html`<p class="faint">Missing: ${missing.map((e, i) => html`${i > 0 && ", "}<code><${Hostile} text=${e.path.replace(/^\$\.?/, "")} /></code>`)}</p>`;
  return html`<div class="bad"><p class="row"><${Icon} name="warn" /> It would be refused</p>${list2 ? html`<ul>${list2.slice(0, 8).map((e) => html`<li><code><${Hostile} text=${e.path} /></code> <${Hostile} text=${e.message} /></li>`)}</ul>` : html`<p><${Hostile} text=${verdict.error.message} lines=${true} /></p>`}</div>`;
}
var Shown = ({ text }) => text === null ? html`<p class="faint">ao has no flags for some of this: use curl.</p>` : html`<${CodeLine} text=${text} />`;
function Lines({ list: list2, run }) {
  const [which, setWhich] = useState("ao");
  const body = bodyText(list2);
  const url = location.origin + (run ? `/runs/${encodeURIComponent(run.run_id)}/retry` : "/runs");
  const curl = curlLine(url, body, me.value?.login);
  const tabs4 = run ? [{ id: "curl", label: "curl" }, { id: "json", label: "JSON" }] : [{ id: "ao", label: "ao" }, { id: "curl", label: "curl" }, { id: "json", label: "JSON" }];
  const shown2 = tabs4.some((t) => t.id === which) ? which : tabs4[0].id;
  return html`<${Card} title="From the command line"><${Tabs} label="From the command line" tabs=${tabs4} selected=${shown2} onSelect=${setWhich}>
    <${Shown} text=${{ ao: run ? "" : aoLine(location.origin, list2), curl, json: body }[shown2]} />
    ${me.value?.login && shown2 !== "json" && html`<p class="hint faint">The token is read from <code>AO_TOKEN</code>.</p>`}<//><//>`;
}

// pages/runners.js
async function load7(signal2) {
  const [{ runners }, { runs }] = await Promise.all([
    get("/runners", {}, { signal: signal2 }),
    get("/runs", { status: "claimed,running,stopping", limit: 500 }, { signal: signal2 })
  ]);
  const by = Map.groupBy(runs, (r) => r.runner_id);
  return runners.map((r) => ({ ...r, here: by.get(r.runner_id) ?? [] }));
}
function Runners2() {
  const runners = useResource(load7, []);
  const [drain, setDrain] = useState(null);
  const status = query.value.get("status") ?? "";
  useEvery(3, runners.reload);
  return html`<${Page} title="Runners" actions=${html`<${Choice} label="Status" value=${status} onChange=${(v) => setQuery({ status: v }, { push: true })}
      options=${[{ value: "", label: "Any status" }, "online", "unable", "unresponsive", "draining", "stale"]} />`}>
    <${Loaded} resource=${runners} what="The list of runners" lines=${10}>${(all) => html`<${Shown2} all=${all} status=${status} onDrain=${setDrain} />`}<//>
    ${drain && html`<${Drain} runner=${drain} onClose=${() => setDrain(null)} reload=${runners.reload} />`}
  <//>`;
}
function Shown2({ all, status, onDrain }) {
  const shown2 = all.filter((r) => !status || r.status === status);
  if (all.length === 0) {
    return html`<${Empty} icon="runners" title="No runners yet" text="A runner is one executor profile of a worker. Runs wait until one is online.">
      <${StartWorker} /><//>`;
  }
  if (shown2.length === 0) return html`<${Empty} icon="filter" title=${`No runner is ${status}`}><${Button} onClick=${() => setQuery({ status: null }, { push: true })}>Show all<//><//>`;
  return html`<div class="grid">${shown2.map((r) => html`<${Runner} key=${r.runner_id} runner=${r} onDrain=${() => onDrain(r)} />`)}</div>`;
}
function Runner({ runner: r, onDrain }) {
  const title = html`<span class="row"><${Status} status=${r.status} /> <${Text} text=${r.executor_profile || r.executor_type} /></span>`;
  const why = r.status === "draining" ? "It is already draining" : void 0;
  return html`<${Card} title=${title} id=${r.runner_id} actions=${html`<${Button} small=${true} icon="pause" needs="DELETE /runners/:id" why=${why} onClick=${onDrain}>Drain<//>`}>
    <div class="stack">
      ${r.why && html`<p class="soft">It takes no runs: <${Text} text=${r.why} />${r.unable?.next_look_at && html` It looks again <${Time} at=${r.unable.next_look_at} as="ago" />.`}</p>`}
      <${Slots2} runner=${r} />
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
function Slots2({ runner: r }) {
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

// pages/queues.js
function Queues2() {
  const status = useResource((signal2) => get("/status", {}, { signal: signal2 }), []);
  useEvery(2, status.reload);
  return html`<${Page} title="Queues"><${Loaded} resource=${status} what="The list of queues" lines=${8}>${(s) => html`<${Shown3} status=${s} />`}<//><//>`;
}
function Shown3({ status: s }) {
  const rest = s.not_queued ?? { waiting: 0 };
  const unserved = s.queues.filter((q) => !q.served && q.waiting > 0);
  return html`
    ${unserved.length > 0 && html`<div class="banner warn" role="status"><span>${plural(unserved.length, "queue")} ${unserved.length === 1 ? "has" : "have"} waiting runs and no online runner. The runs fail unless a matching runner comes online.</span></div>`}
    <div class="grid"><${Card} title="Waiting"><${Facts} of=${[
    ["In queues", html`<${Num} value=${s.queues.reduce((n, q) => n + q.waiting, 0)} />`],
    ["Not in a queue yet", html`<${Num} value=${rest.waiting} /> <span class="faint">waiting for their session's turn, a retry or a matching runner</span>`],
    ["Oldest of these", rest.oldest_since && html`<${Time} at=${rest.oldest_since} as="ago" focus=${true} />`],
    ["Limit", html`<${Num} value=${s.max_pending} />`]
  ]} /><//>
      <${Card} title="Slots"><${Facts} of=${[["Taken", html`<${Num} value=${s.slots.taken} /> of <${Num} value=${s.slots.all} />`], ["Runners online", html`<a href="/ui/runners?status=online"><${Num} value=${s.runners.online} /></a>`]]} /><//></div>
    ${s.queues.length === 0 ? html`<${Empty} icon="queues" title="No queues yet" text="A queue appears with the first runner that registers, or the first run that waits for one."><${StartWorker} /><${Button} href="/ui/runners">Runners<//><//>` : html`<${Card} class="flush"><${Table} label="Queues" rows=${s.queues} rowKey=${(q) => q.queue} columns=${columns4} rowHeight=${40} /><//>`}`;
}
var columns4 = [
  { id: "queue", label: "Queue", width: "28%", class: "main", render: (q) => html`<code class="clamp" title=${q.queue}><${Hostile} text=${q.queue} /></code>` },
  { id: "waiting", label: "Waiting", width: "90px", class: "slim", end: true, render: (q) => html`<${Num} value=${q.waiting} />` },
  { id: "oldest", label: "Oldest", width: "100px", class: "slim", end: true, render: (q) => html`<${Time} at=${q.oldest_since} as="ago" focus=${Boolean(q.oldest_since)} />` },
  { id: "served", label: "Served", width: "110px", hide: 1, render: (q) => q.served ? html`<${Badge} kind="good">yes<//>` : html`<${Badge} kind=${q.waiting ? "bad" : ""}>no<//>` },
  { id: "wants", label: "Required of a runner", hide: 2, render: (q) => html`<${Wants} of=${q.wants ?? {}} />` },
  { id: "runs", label: "", width: "70px", hide: 3, end: true, render: (q) => q.waiting > 0 ? html`<a href=${"/ui/runs?status=pending" + (q.wants?.agents?.length === 1 ? "&agent_name=" + seg(q.wants.agents[0]) : "")}>Runs</a>` : "" }
];
var names2 = { executor_type: "type", executor_profile: "profile", hostname: "host", project_dir: "folder", tags: "tags", agents: "agents" };
function Wants({ of }) {
  const said = Object.entries(names2).filter(([k]) => of[k] && of[k].length > 0);
  if (said.length === 0) return html`<span class="faint">any runner</span>`;
  return html`<span class="cut">${said.map(([k, label], i) => html`${i > 0 && " · "}<span class="faint">${label}</span> <${Hostile} text=${Array.isArray(of[k]) ? of[k].join(", ") : of[k]} />`)}</span>`;
}

// pages/callbacks.js
var statuses3 = ["waiting", "owed", "delivered", "undeliverable", "suppressed", "dead"];
var pageSize4 = 200;
function Callbacks2() {
  const q = query.value;
  const chosen = (q.get("status") ?? "").split(",").filter(Boolean);
  const filters = { status: chosen.join(","), agent_name: q.get("agent_name"), session_id: q.get("session_id"), parent_session_id: q.get("parent_session_id") };
  const key = JSON.stringify(filters);
  const toggle = (s) => setQuery({ status: statuses3.filter((x) => x === s !== chosen.includes(x)).join(",") }, { push: true });
  return html`<${Page} title="Callbacks">
    <div class="filters" role="search" aria-label="Filters of callbacks"><div class="chips" role="group" aria-label="Status">
      ${statuses3.map((s) => html`<button type="button" class="chip" aria-pressed=${chosen.includes(s)} onClick=${() => toggle(s)}><${Dot} status=${s} />${s}</button>`)}</div></div>
    <${List4} key=${key} filters=${filters} />
  <//>`;
}
function List4({ filters }) {
  const first2 = useResource((signal2) => get("/callbacks", { ...filters, limit: pageSize4 }, { signal: signal2 }), []);
  const [older, setOlder] = useState({ rows: [], cursor: void 0 });
  const [ask, setAsk] = useState(null);
  useEvery(5, first2.reload, older.rows.length === 0);
  if (first2.data === void 0) return first2.error ? html`<${Failed} error=${first2.error} reload=${first2.reload} what="The list of callbacks" />` : html`<${Loading} lines=${10} />`;
  const rows = [...first2.data.callbacks, ...older.rows];
  const cursor = older.cursor ?? first2.data.next_cursor ?? "";
  const more = async () => {
    try {
      const next3 = await get("/callbacks", { ...filters, limit: pageSize4, cursor });
      setOlder({ rows: [...older.rows, ...next3.callbacks], cursor: next3.next_cursor ?? "" });
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
  };
  if (rows.length === 0) {
    return html`<${Empty} icon="callbacks" title=${filters.status ? "No callback has this status" : "No callbacks yet"} text="A run with mode async_callback calls back its parent session when it ends. A run with a callback_url calls a webhook.">
      ${filters.status ? html`<${Button} onClick=${() => setQuery({ status: null }, { push: true })}>Show all<//>` : html`<${Button} href="/ui/new" needs="POST /runs">New run<//>`}<//>`;
  }
  const due = redeliverable(filters) && rows.some(canRedeliver);
  return html`<div class="listbar"><span class="soft">${plural(rows.length, "callback")}${cursor && " or more"}</span><span class="grow"></span>
      <${Button} small=${true} icon="retry" needs="POST /callbacks/redeliver" why=${!due ? "No webhook here is owed or dead" : void 0} onClick=${() => setAsk({ many: redeliverable(filters), key: newKey() })}>Redeliver all matching<//></div>
    <${Card} class="flush"><${Table} label="Callbacks" rows=${rows} rowKey=${(r) => r.run_id} rowHeight=${40} columns=${columns5(setAsk)} onNear=${void 0}
      more=${cursor ? html`<${Button} small=${true} onClick=${more}>Load older<//>` : void 0} /><//>
    ${ask && html`<${Redeliver} ask=${ask} onClose=${() => setAsk(null)} reload=${first2.reload} />`}`;
}
var canRedeliver = (r) => r.http_callback && (r.http_callback.status === "owed" || r.http_callback.status === "dead");
var columns5 = (ask) => [
  { id: "status", label: "Status", width: "140px", render: (r) => html`<${Status} status=${(r.http_callback ?? r.callback)?.status ?? "waiting"} />` },
  { id: "run", label: "Run", width: "26%", render: (r) => html`<span class="row"><a class="cut" href=${"/ui/runs/" + seg(r.run_id)}><${Text} text=${r.agent_name} /></a><span class="faint"><${Id} id=${r.run_id} /></span></span>` },
  { id: "to", label: "Receiver", hide: 1, render: (r) => html`<${Told2} run=${r} />` },
  { id: "why", label: "Details", hide: 3, render: (r) => html`<span class="cut"><${About5} run=${r} /></span>` },
  { id: "ended", label: "Ended", width: "100px", hide: 2, end: true, render: (r) => html`<${Time} at=${r.completed_at} as="ago" />` },
  { id: "act", label: "", width: "110px", end: true, render: (r) => r.http_callback && html`<${Button} small=${true} icon="retry" needs="POST /callbacks/:id/redeliver"
      why=${canRedeliver(r) ? void 0 : "Only owed or dead callbacks can be redelivered"} onClick=${() => ask({ run: r })}>Redeliver<//>` }
];
function Told2({ run: r }) {
  if (r.callback) {
    return html`<span class="row"><span class="faint">session</span> <${Id} id=${r.parent_session_id} href=${"/ui/sessions/" + seg(r.parent_session_id)} />
      ${r.callback.callback_run_id && html`<span class="faint">in</span> <${Id} id=${r.callback.callback_run_id} href=${"/ui/runs/" + seg(r.callback.callback_run_id)} copy=${false} />`}</span>`;
  }
  return html`<span class="row"><span class="faint">webhook</span> <span class="cut"><${Hostile} text=${r.callback_url ?? "a URL"} /></span></span>`;
}
function About5({ run: r }) {
  const h2 = r.http_callback;
  if (!h2) return html`<${Hostile} text=${r.callback?.reason ?? ""} />`;
  return html`${h2.tries !== void 0 && plural(h2.tries, "try", "tries")}${h2.http_status ? `, last answer ${h2.http_status}` : ""}${h2.reason && html` · <${Hostile} text=${h2.reason} />`}${h2.next_try_at && html` · next <${Time} at=${h2.next_try_at} as="ago" />`}`;
}
function Redeliver({ ask, onClose, reload }) {
  const counted = useResource(async (signal2) => ask.many ? countCallbacks(ask.many, signal2) : 1, []);
  const n = counted.data;
  const run = async () => {
    if (!ask.many) await send("POST", `/callbacks/${seg(ask.run.run_id)}/redeliver`);
    const { went, refused: refused2 } = ask.many ? await doMany("/callbacks/redeliver", ask.many, n, ask.key) : { went: 1, refused: [] };
    reload();
    if (refused2.length > 0) throw new Error(`${plural(went, "callback")} redelivered; ${plural(refused2.length, "was", "were")} refused: ${refused2[0].message}`);
    toast(`${plural(went, "callback")} redelivered`, { kind: "good" });
  };
  return html`<${Confirm} title=${ask.many ? "Redeliver these callbacks?" : "Redeliver this callback?"} verb=${n === void 0 ? "Counting…" : `Redeliver ${n}`} why=${n ? void 0 : "There is nothing to redeliver"}
    needs=${ask.many ? "POST /callbacks/redeliver" : "POST /callbacks/:id/redeliver"} run=${run} onClose=${onClose}>
    <p>${ask.many ? `Every webhook that matches the filters and is owed or dead is sent now: ${n ?? "…"} in all.` : html`The end of run <${Id} id=${ask.run.run_id} full=${true} /> is sent to its receiver now.`} A receiver may get the same webhook twice; its webhook-id stays the same.</p><//>`;
}

// pages/settings.js
var tabs3 = [["me", "Me"], ["doctor", "Doctor", "GET /doctor"], ["settings", "Effective settings", "GET /settings"], ["audit", "Audit", "GET /audit"]];
var parts3 = { me: Me, doctor: Doctor, settings: Settings, audit: Audit };
function SettingsPage() {
  const chosen = parts3[query.value.get("tab")] ? query.value.get("tab") : "me";
  const Part = parts3[chosen];
  const route3 = tabs3.find(([id]) => id === chosen)[2];
  return html`<${Page} title="Settings"><${Tabs} label="Parts of the settings" selected=${chosen} onSelect=${(id) => setQuery({ tab: id === "me" ? null : id }, { push: true })} tabs=${tabs3.map(([id, label]) => ({ id, label }))}>
    ${route3 && !may(route3) ? html`<${NoPermission} route=${route3} text=${refusal(route3)} />` : html`<${Part} />`}<//><//>`;
}
function Me() {
  const who = me.value;
  const known = { none: "No login: this coordinator asks for no token", token: "An API token", cookie: "A login in this browser", session: "A session's token" };
  return html`<div class="grid">
    <${Card} title="You"><${Facts} of=${[
    ["Signed in with", known[who.kind] ?? who.kind],
    ["Name", who.name ? html`<${Hostile} text=${who.name} />` : null],
    ["Scope", html`<${Badge}>${who.scope}<//>`],
    ["Expires", who.expires_at && html`<${Time} at=${who.expires_at} as="exact" />`],
    ["Coordinator", html`<code><${Hostile} text=${who.version} /></code>`],
    ["Deployment", html`<${Id} id=${who.deployment} full=${true} />`]
  ]} />
      ${who.kind === "none" && html`<p class="faint">The coordinator listens on this machine only. Every local program may do everything. Other local servers see this browser's cookies, since cookies ignore ports.</p>`}<//>
    <${Card} title="What you may do"><ul class="rights">${[...who.may].sort(byPath).map((r) => html`<li><code>${r}</code></li>`)}</ul><//></div>`;
}
var byPath = (a, b) => a.slice(a.indexOf(" ")).localeCompare(b.slice(b.indexOf(" "))) || a.localeCompare(b);
var order = { fail: 0, warn: 1, skip: 2, ok: 3 };
function Doctor() {
  const doctor = useResource((signal2) => get("/doctor", {}, { signal: signal2 }), []);
  return html`<${Loaded} resource=${doctor} what="The doctor's findings" lines=${10}>${(d) => {
    const found2 = d.checks.toSorted((a, b) => (order[a.verdict] ?? 1) - (order[b.verdict] ?? 1));
    const odd = found2.filter((c) => c.verdict === "fail" || c.verdict === "warn").length;
    return html`<div class="stack"><div class="listbar"><span class=${odd ? "warn" : "good"}>${odd ? `${odd} of ${found2.length} checks need attention` : `All ${found2.length} checks passed`}</span><span class="grow"></span>
        <span class="faint">as of <${Time} at=${d.at} as="clock" /></span><${Button} small=${true} icon="retry" onClick=${doctor.reload}>Check again<//></div>
      <${Card} class="flush"><ul class="checks">${found2.map((c) => html`<li><${Status} status=${c.verdict} /><div><p><${Hostile} text=${c.what} lines=${true} /></p>${c.advice && html`<p class="soft"><${Hostile} text=${c.advice} lines=${true} /></p>`}</div><code class="faint">${c.check}</code></li>`)}</ul><//></div>`;
  }}<//>`;
}
function Settings() {
  const settings = useResource((signal2) => get("/settings", {}, { signal: signal2 }), []);
  const q = (query.value.get("q") ?? "").toLowerCase();
  const changed2 = query.value.get("changed") === "1";
  return html`<${Loaded} resource=${settings} what="The settings" lines=${12}>${({ settings: all }) => {
    const shown2 = all.filter((s) => (!q || (s.name + " " + s.help).toLowerCase().includes(q)) && (!changed2 || s.source !== "default"));
    return html`<div class="stack"><div class="filters"><${Search} value=${query.value.get("q")} placeholder="Name or what it does" label="Search settings" onChange=${(t) => setQuery({ q: t })} />
        <button type="button" class="chip" aria-pressed=${changed2} onClick=${() => setQuery({ changed: changed2 ? null : "1" })}>Changed only</button></div>
      ${shown2.length === 0 ? html`<${Empty} icon="filter" title="No setting matches"><${Button} onClick=${() => setQuery({ q: null, changed: null })}>Show all<//><//>` : html`<${Card} class="flush"><ul class="settings">${shown2.map((s) => html`<li key=${s.name}><div><code>${s.name}</code> ${s.source !== "default" && html`<${Badge} kind="accent">${s.source}<//>`}${s.secret && html`<${Badge}>secret<//>`}</div>
          <code class="value"><${Hostile} text=${s.value === "" ? "–" : s.value} /></code><p class="faint"><${Hostile} text=${s.help} />${s.default && s.source !== "default" ? html` <span class="nowrap">Default: <code><${Hostile} text=${s.default} /></code></span>` : ""}</p></li>`)}</ul><//>`}</div>`;
  }}<//>`;
}
function Audit() {
  const filters = Object.fromEntries(["actor", "action", "run"].map((n) => [n, query.value.get(n) ?? ""]));
  const hours = Number(query.value.get("hours")) || 0;
  if (hours > 0) filters.after = new Date(Math.floor((now() - hours * 36e5) / 6e4) * 6e4).toISOString();
  const field2 = (name, label) => html`<${Search} value=${filters[name]} placeholder=${label} label=${label} onChange=${(t) => setQuery({ [name]: t })} />`;
  return html`<div class="stack"><div class="filters" role="search" aria-label="Filters of the audit log">${field2("actor", "Actor")}${field2("action", "Action")}${field2("run", "Run")}
      <${Choice} label="Since" value=${String(hours || "")} onChange=${(v) => setQuery({ hours: v }, { push: true })} options=${[{ value: "", label: "Any time" }, { value: "1", label: "Last hour" }, { value: "24", label: "Last 24 hours" }, { value: "168", label: "Last 7 days" }]} /></div>
    <${Entries} key=${JSON.stringify(filters)} filters=${filters} /></div>`;
}
function Entries({ filters }) {
  const first2 = useResource((signal2) => get("/audit", { ...filters, limit: 200 }, { signal: signal2 }), []);
  const [older, setOlder] = useState({ rows: [], gaps: [], cursor: void 0 });
  if (first2.data === void 0) return first2.error ? html`<${Failed} error=${first2.error} reload=${first2.reload} what="The audit log" />` : html`<${Loading} lines=${10} />`;
  const rows = [...first2.data.entries, ...older.rows];
  const cursor = older.cursor ?? first2.data.next_cursor ?? "";
  const more = async () => {
    try {
      const next3 = await get("/audit", { ...filters, limit: 200, cursor });
      setOlder({ rows: [...older.rows, ...next3.entries], gaps: [...older.gaps, ...next3.gaps ?? []], cursor: next3.next_cursor ?? "" });
    } catch (err) {
      toast(err.message, { kind: "bad" });
    }
  };
  const gaps = [...first2.data.gaps ?? [], ...older.gaps];
  if (rows.length === 0 && gaps.length === 0 && !cursor) return html`<${Empty} icon="shield" title="No matching entries" text="Writes, logins and refusals are kept for 30 days." />`;
  return html`${gaps.map((g) => html`<div class="banner warn" role="status"><${Icon} name="warn" /><span>${g.count ? plural(g.count, "entry is", "entries are") : "Entries are"} missing between <${Time} at=${g.after} /> and <${Time} at=${g.before} />: NATS was unavailable for too long, or lost them.</span></div>`)}
    <${Card} class="flush"><${Table} label="Audit log" rows=${rows} rowKey=${(e, i) => e.id ?? `${e.time}-${e.action}-${e.request_id ?? ""}-${rows.indexOf(e)}`} rowHeight=${36} columns=${auditColumns}
      more=${cursor ? html`<${Button} small=${true} onClick=${more}>Load older<//>` : void 0} /><//>`;
}
var actorOf = (a) => a?.name || a?.credential || a?.session_id || a?.kind || "–";
var details = { run_id: "run", session_id: "session", agent_name: "agent", schema_name: "schema", runner_id: "runner", tree: "with all below", runs: "runs", count: "entries", route: "route", door: "via", from: "from", request: "request" };
var entryPoints = { http: "the HTTP API", mcp: "MCP", nats: "NATS", inbox: "the NATS inbox", fleet: "a worker", clock: "a timer" };
var target = (e) => Object.keys(details).filter((k) => e[k] !== void 0 && e[k] !== "").map((k) => [k, details[k], k === "door" ? entryPoints[e[k]] ?? e[k] : e[k] === true ? "" : e[k]]);
var outcome = (e) => [e.status ?? (e.error ? "" : "done"), e.error].filter(Boolean).join(" ");
var auditColumns = [
  { id: "time", label: "Time", width: "150px", class: "slim", render: (e) => html`<${Time} at=${e.time} focus=${true} />` },
  { id: "actor", label: "Actor", width: "18%", render: (e) => html`<span class="cut"><${Hostile} text=${typeof e.actor === "string" ? e.actor : actorOf(e.actor)} /></span>` },
  { id: "action", label: "Action", width: "20%", class: "main", render: (e) => html`<code class="clamp"><${Hostile} text=${e.action} /></code>` },
  { id: "outcome", label: "Outcome", width: "130px", hide: 1, render: (e) => html`<span class="row"><${Dot} status=${/^(2\d\d|done)/.test(outcome(e)) ? "ok" : "fail"} /><span class="cut"><${Text} text=${outcome(e)} /></span></span>` },
  { id: "about", label: "Details", hide: 2, render: (e) => html`<span class="cut">${target(e).map(([k, word, v], i) => html`${i > 0 && " · "}<span class="faint">${word}</span> ${k === "run_id" ? html`<a href=${"/ui/runs/" + seg(v)}><${Hostile} text=${v} /></a>` : html`<${Hostile} text=${v} />`}`)}</span>` }
];

// pages/login.js
function Login() {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [other, setOther] = useState(null);
  const input = useRef();
  const there = returnTo(query.value.get("return_to"));
  const enter = async (name, value) => {
    setBusy(true);
    setError(null);
    try {
      const who = await send("POST", "/login", object([[name, quote(value)]]));
      loggedIn();
      setMe(who);
      navigate(there, { replace: true });
    } catch (err) {
      setError(err);
      setBusy(false);
      input.current?.focus();
    }
  };
  useEffect(() => {
    document.title = "Log in · Agent Orchestrator";
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (code) {
      history.replaceState(history.state, "", location.pathname + location.search);
      const login2 = () => enter("code", code);
      get("/me").then((me2) => me2.kind === "cookie" && me2.name !== nameIn(code) ? setOther({ me: me2, code }) : login2(), login2);
      return;
    }
    input.current?.focus();
    request("GET", "/health").then(() => get("/me")).then((me2) => me2 && !me2.login && (setMe(me2), navigate(there, { replace: true })), () => {
    });
  }, []);
  const submit = (e) => {
    e.preventDefault();
    if (token.trim() && !busy) enter("token", token.trim());
  };
  if (other) return html`<${Replace} ...${other} busy=${busy} error=${error} enter=${enter} stay=${() => (setMe(other.me), navigate(there, { replace: true }))} />`;
  return html`<form class="login stack" onSubmit=${submit}>
    <h1 tabindex="-1" data-heading>Log in</h1>
    <p class="soft">This coordinator asks for an API token. It is sent once; your browser keeps a cookie that ends after 12 hours without use.</p>
    <${Field} label="API token" hint="Whoever runs the coordinator creates one, with the scope read, run or admin.">${(p) => html`<input ...${p} ref=${input} type="password" autocomplete="current-password" spellcheck=${false} value=${token} onInput=${(e) => setToken(e.currentTarget.value)} />`}<//>
    ${error && html`<${Problem} error=${error} />`}
    <${Button} kind="primary" type="submit" busy=${busy} why=${token.trim() ? void 0 : "Paste a token first"} onClick=${submit}>Log in<//>
    <details class="faint"><summary>No token yet?</summary><div class="stack"><p>On the coordinator's machine:</p><${CodeLine} text="ao tokens create --help" /><p>With AO_TOKEN set, this opens the dashboard logged in:</p><${CodeLine} text="ao dashboard" /></div></details>
  </form>`;
}
var nameIn = (code) => code.split(".").slice(3).join(".");
var Replace = ({ me: me2, code, busy, error, enter, stay }) => html`<div class="login stack">
  <h1 tabindex="-1" data-heading>Log in as somebody else?</h1>
  <p>This browser is logged in as <strong><${Hostile} text=${me2.name} /></strong>. The link that was opened logs it in as <strong><${Hostile} text=${nameIn(code)} /></strong>. Everything you do then is done under that name.</p>
  ${error && html`<${Problem} error=${error} />`}
  <div class="row"><${Button} kind="primary" onClick=${stay}>Stay as I am<//><${Button} busy=${busy} onClick=${() => enter("code", code)}>Log in as the other<//></div></div>`;

// pages/notfound.js
function NotFound() {
  return html`<${Page} title="Page not found"><${Empty} title="Page not found" text="The address may be mistyped. Ctrl-K finds runs, sessions and agents by their id or name.">
    <${Button} href="/ui/">Overview<//><${Button} href="/ui/runs">Runs<//><//><//>`;
}

// app.js
var pages2 = [
  ["/ui", Overview],
  ["/ui/runs", Runs],
  ["/ui/runs/:id", Run],
  ["/ui/sessions", Sessions],
  ["/ui/sessions/:id", Session],
  ["/ui/sessions/:id/tree", Tree],
  ["/ui/agents", Agents],
  ["/ui/agents/:name", Agent],
  ["/ui/schemas", Schemas],
  ["/ui/schemas/:name", Schemas],
  ["/ui/new", NewRun],
  ["/ui/runners", Runners2],
  ["/ui/queues", Queues2],
  ["/ui/callbacks", Callbacks2],
  ["/ui/settings", SettingsPage],
  ["/ui/login", Login]
];
function find(path2) {
  for (const [pattern, page] of pages2) {
    const params = match(pattern, path2);
    if (params) return { page, params };
  }
  return { page: NotFound, params: {} };
}
function Route() {
  const { path: path2 } = address.value;
  const { page: Shown4, params } = find(path2);
  return html`<${Shown4} key=${path2} ...${params} />`;
}
function App() {
  const [error, setError] = useState(null);
  useEffect(() => {
    let gone = false;
    (async () => {
      for (let n = 0; !gone && !me.value; n++) {
        try {
          await loadMe();
          setError(null);
        } catch (err) {
          setError(err);
          if (!err.passing) return;
          await new Promise((done) => setTimeout(done, backoff(n, err.retryAfter)));
        }
      }
    })();
    return () => gone = true;
  }, []);
  const login2 = match("/ui/login", address.value.path);
  if (login2) return html`<main class="alone"><${Route} /></main>`;
  if (!me.value) return error && error.status !== 401 ? html`<main class="alone"><${Failed} error=${error} what="The dashboard" /></main>` : html`<main class="alone"><${Loading} /></main>`;
  return html`<${Shell}><${Route} /><//>`;
}
setTheme(theme.value);
start();
var root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
export {
  api_exports as api,
  plan_exports as plan,
  runs_exports as runs,
  value_exports as value
};
