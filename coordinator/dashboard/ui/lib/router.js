// The router: the address is the state. Pages read route, links are plain <a href="/ui/…">.
import { signal, computed } from "../base.js";

const home = "/ui/";

/** address is the path and the query of the page that is shown. */
export const address = signal(read());

function read() {
  return { path: location.pathname, search: location.search, hash: location.hash };
}

/** query is the address's query as URLSearchParams; do not change it, use setQuery. */
export const query = computed(() => new URLSearchParams(address.value.search));

/** match returns the parameters of a pattern such as "/ui/runs/:id" for a path, or null. */
export function match(pattern, path) {
  const want = pattern.split("/").filter(Boolean);
  const have = path.split("/").filter(Boolean);
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

/** path joins parts to an address below /ui/, each escaped; undefined and empty values of the query are left out. */
export function path(parts, values) {
  const q = queryString(values);
  return home + parts.map(encodeURIComponent).join("/") + (q && "?" + q);
}

export function queryString(values = {}) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) q.set(name, String(value));
  }
  return q.toString();
}

const scrolls = new Map(); // by key of the history entry: where its page was scrolled to
let entry = history.state?.key ?? fresh();

function fresh() {
  return String(Date.now()) + Math.random().toString(36).slice(2, 8);
}

const scroller = () => document.querySelector("[data-scroller]");

function remember() {
  const s = scroller();
  if (s) scrolls.set(entry, s.scrollTop);
  if (scrolls.size > 100) scrolls.delete(scrolls.keys().next().value);
}

const guards = new Set(); // functions that return a question while something would be lost

/** guard keeps a page from being left while ask() returns a sentence; it returns what takes the guard away. */
export function guard(ask) {
  guards.add(ask);
  return () => guards.delete(ask);
}

const blocked = () => [...guards].map((g) => g()).find(Boolean);

/** navigate shows an address of the dashboard. Another address below /ui/ is a page of its own in the history. */
export function navigate(to, { replace = false } = {}) {
  const url = new URL(to, location.href);
  if (url.origin !== location.origin || !url.pathname.startsWith("/ui")) return void location.assign(url.href);
  const samePage = url.pathname === location.pathname;
  const question = samePage ? undefined : blocked();
  if (question && !confirm(question)) return;
  remember();
  if (!replace) entry = fresh();
  history[replace ? "replaceState" : "pushState"]({ key: entry }, "", url.pathname + url.search + url.hash);
  address.value = read();
  if (!samePage) arrive(0);
}

/** setQuery changes values of the query; null takes one away. By default it replaces the entry of the history. */
export function setQuery(changes, { push = false } = {}) {
  const q = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) q.delete(name);
    else q.set(name, String(value));
  }
  const text = q.toString();
  navigate(location.pathname + (text && "?" + text) + location.hash, { replace: !push });
}

let arriving = false; // the heading of the page that was navigated to has not had the focus yet

// arrive puts focus on the page's heading, as a browser does when it loads one, and scrolls.
function arrive(top) {
  arriving = true;
  requestAnimationFrame(() => {
    const s = scroller();
    if (s) s.scrollTop = top;
    focusHeading();
  });
}

/** focusHeading is for a page that has just appeared: where it was navigated to, its heading takes the focus. */
export function focusHeading() {
  const heading = document.querySelector("[data-heading]");
  if (!arriving || !heading) return;
  arriving = false;
  if (!document.querySelector("dialog[open]")) heading.focus({ preventScroll: true });
}

/** returnTo is an address to come back to after a login: only one below /ui/ counts. */
export function returnTo(value) {
  if (!value || !value.startsWith(home)) return home;
  const url = new URL(value, location.href);
  return url.origin === location.origin && url.pathname.startsWith(home) ? url.pathname + url.search + url.hash : home;
}

/** start listens for links and for the history. */
export function start() {
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
