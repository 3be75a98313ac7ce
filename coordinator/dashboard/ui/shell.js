// The shell: navigation, search, how the connection stands, and the place of the page.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./base.js";
import { address } from "./lib/router.js";
import { me, may } from "./lib/rights.js";
import { liveState } from "./lib/live.js";
import { reachable, send } from "./lib/api.js";
import { setTheme, setZone, theme, zone, zoneName } from "./lib/format.js";
import { Button, Icon, Toasts, toast } from "./lib/components.js";
import Palette from "./pages/palette.js";

const places = [
  [["overview", "/ui/", "Overview"], ["runs", "/ui/runs", "Runs"], ["sessions", "/ui/sessions", "Sessions"]],
  [["agents", "/ui/agents", "Agents"], ["schemas", "/ui/schemas", "Schemas"]],
  [["runners", "/ui/runners", "Runners"], ["queues", "/ui/queues", "Queues"], ["callbacks", "/ui/callbacks", "Callbacks"], ["settings", "/ui/settings", "Settings"]],
];

const here = (href, path) => (href === "/ui/" ? path === "/ui/" || path === "/ui" : path === href || path.startsWith(href + "/"));

function Connection() {
  const state = !reachable.value ? "away" : liveState.value;
  const say = {
    away: ["bad", "Reconnecting"], retrying: ["bad", "Reconnecting"], connecting: ["soft", "Connecting"], live: ["good", "Live", "Changes arrive as they happen"],
    polling: ["soft", "Polling", "This page asks for changes every few seconds"], off: ["off", "Connected", "This page is not live: reload it to see changes"],
  }[state];
  return html`<p class=${"connection " + say[0]} role="status" title=${say[2]}><span class="lamp" aria-hidden="true"></span>${say[1]}</p>`;
}

const next = { auto: "light", light: "dark", dark: "auto" };

function Foot() {
  const who = me.value;
  return html`<footer>
    <${Connection} />
    <div class="choices">
      <button type="button" class="plain" title="Switch between local time and UTC" onClick=${() => setZone(zone.value === "utc" ? "local" : "utc")} aria-label=${"Times are shown in " + zoneName() + ". Change"}><${Icon} name="clock" />${zoneName()}</button>
      <button type="button" class="plain" title="Switch the theme" onClick=${() => setTheme(next[theme.value])} aria-label=${"Theme: " + theme.value + ". Change"}><${Icon} name=${{ auto: "auto", light: "sun", dark: "moon" }[theme.value]} />${theme.value}</button>
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
  const { path } = address.value;
  return html`<a class="brand" href="/ui/"><svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true"><rect width="32" height="32" rx="8" class="mark" /><g fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round"><path d="M9.5 16h5c5 0 8-2 8-6M14.5 16c5 0 8 2 8 6" /></g><g fill="#fff"><circle cx="9.5" cy="16" r="3" /><circle cx="22.5" cy="10" r="3" /><circle cx="22.5" cy="22" r="3" /></g></svg><span>Agent Orchestrator</span></a>
    <div class="first"><${Button} kind="primary" icon="plus" href="/ui/new" needs="POST /runs">New run<//>
      <${Button} icon="search" title="Search (Ctrl-K)" onClick=${onSearch}><span class="wide">Search</span><kbd>Ctrl K</kbd><//></div>
    <nav aria-label="Pages">${places.map((group) => html`<ul>${group.map(([icon, href, label]) => html`<li><a href=${href} aria-current=${here(href, path) ? "page" : undefined}><${Icon} name=${icon} />${label}</a></li>`)}</ul>`)}</nav>
    <${Foot} />`;
}

// usePalette opens the palette by its key, too.
function usePalette() {
  const [open, setOpen] = useState(false);
  const show = () => setOpen(true);
  useLayoutEffect(() => { // before the page is seen: a key that is pressed at once counts
    const key = (e) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey) return;
      e.preventDefault();
      show();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  return [show, open ? html`<${Palette} onClose=${() => setOpen(false)} />` : null];
}

/** Shell is everything around the page. */
export function Shell({ children }) {
  const [search, palette] = usePalette();
  const [menu, setMenu] = useState(false);
  const side = useRef();
  const { path } = address.value;
  useEffect(() => setMenu(false), [path]);
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
    <main id="main" tabindex="-1" data-scroller>${children}</main>
    ${palette}<${Toasts} />`;
}
