// The palette (Ctrl-K): paste any id or name, go anywhere, run any action.
import { html, useEffect, useId, useMemo, useRef, useState } from "../base.js";
import { get, seg } from "../lib/api.js";
import { navigate } from "../lib/router.js";
import { may, refusal } from "../lib/rights.js";
import { setTheme, setZone, theme, zone } from "../lib/format.js";
import { Hostile, Icon, useResource } from "../lib/components.js";

const pages = [
  ["Overview", "/ui/", "overview"], ["Runs", "/ui/runs", "runs"], ["Failed runs", "/ui/runs?status=failed", "runs"], ["Waiting runs", "/ui/runs?status=pending", "runs"],
  ["Sessions", "/ui/sessions", "sessions"], ["Agents", "/ui/agents", "agents"], ["Schemas", "/ui/schemas", "schemas"], ["Runners", "/ui/runners", "runners"],
  ["Queues", "/ui/queues", "queues"], ["Callbacks", "/ui/callbacks", "callbacks"], ["Doctor", "/ui/settings?tab=doctor", "settings"],
  ["Effective settings", "/ui/settings?tab=settings", "settings"], ["Audit log", "/ui/settings?tab=audit", "shield"],
];

const actions = () => [
  { label: "New run", icon: "plus", needs: "POST /runs", run: () => navigate("/ui/new") },
  { label: "New agent", icon: "plus", needs: "POST /agents", run: () => navigate("/ui/agents?new=1") },
  { label: "Prove that nothing was lost", icon: "shield", needs: "GET /ledger", run: () => navigate("/ui/?prove=1") },
  { label: "Show me: an agent with four children", icon: "play", needs: "POST /runs", run: () => navigate("/ui/?first=") },
  { label: zone.value === "utc" ? "Show times in local time" : "Show times in UTC", icon: "clock", run: () => setZone(zone.value === "utc" ? "local" : "utc") },
  { label: theme.value === "dark" ? "Light theme" : "Dark theme", icon: theme.value === "dark" ? "sun" : "moon", run: () => setTheme(theme.value === "dark" ? "light" : "dark") },
];

// What the page behind the palette does, by the controls of its heading: an action presses its control, which asks where it must.
function ofPage() {
  const controls = [...document.querySelectorAll(".page > header .actions :is(button, a.button)")];
  return controls.filter((c) => c.getAttribute("aria-disabled") !== "true" && nameOf(c) !== "")
    .map((c) => ({ label: `Here: ${nameOf(c)}`, icon: "chevron", needs: c.dataset.needs, run: () => setTimeout(() => c.isConnected && c.click()) }));
}

const nameOf = (control) => (control.getAttribute("aria-label") ?? control.textContent).trim();

const ids = [[/^run_[0-9A-Za-z]+$/, "Run", "/ui/runs/", "runs"], [/^ses_[0-9A-Za-z_-]+$/, "Session", "/ui/sessions/", "sessions"], [/^rnr_[0-9A-Za-z]+$/, "Runs of runner", "/ui/runs?runner_id=", "runners"]];

// What a text finds: an id first, then names, pages and actions, and a search of the runs last.
function found(text, names, here) {
  const t = text.trim(), low = t.toLowerCase();
  const has = (label) => low === "" || label.toLowerCase().includes(low);
  const items = [];
  for (const [pattern, label, to, icon] of ids) if (pattern.test(t)) items.push({ label: `${label} ${t}`, icon, run: () => navigate(to + seg(t)) });
  for (const a of [...here, ...actions()]) if (has(a.label)) items.push(a);
  for (const [label, to, icon] of pages) if (has(label)) items.push({ label, icon, run: () => navigate(to) });
  if (low !== "") {
    for (const n of names.filter((n) => has(n.name)).slice(0, 12)) items.push({ label: `${n.kind} ${n.name}`, icon: n.icon, run: () => navigate(n.to) });
    items.push({ label: `Search the runs for “${t}”`, icon: "search", run: () => navigate("/ui/runs?q=" + seg(t)) });
  }
  return items;
}

async function loadNames(signal) {
  const list = async (route, path, read) => (may(route) ? read(await get(path, {}, { signal })) : []);
  const [agents, schemas] = await Promise.all([
    list("GET /agents", "/agents", (d) => d.agents.map((a) => ({ kind: "Agent", icon: "agents", name: a.name, to: "/ui/agents/" + seg(a.name) }))),
    list("GET /schemas", "/schemas", (d) => d.schemas.filter((s) => !s.error).map((s) => ({ kind: "Schema", icon: "schemas", name: s.name, to: "/ui/schemas/" + seg(s.name) }))),
  ]);
  return [...agents, ...schemas];
}

/** Palette is the dialog; onClose is told when it is done with. */
export default function Palette({ onClose }) {
  const dialog = useRef(), list = useRef();
  const base = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const names = useResource(loadNames, []);
  const here = useMemo(ofPage, []);
  const items = useMemo(() => found(text, names.data ?? [], here), [text, names.data, zone.value, theme.value]);
  const chosen = Math.min(at, items.length - 1);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => (dialog.current?.close(), before?.focus?.());
  }, []);
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);
  const act = (item) => {
    if (!item || refusal(item.needs)) return;
    onClose();
    item.run();
  };
  const key = (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step) {
      e.preventDefault();
      setAt((chosen + step + items.length) % Math.max(1, items.length));
    } else if (e.key === "Enter") {
      e.preventDefault();
      act(items[chosen]);
    } else if (e.key === "Escape") { // a search field would only clear its text
      e.preventDefault();
      onClose();
    }
  };
  return html`<dialog ref=${dialog} class="palette" aria-label="Search and actions" onCancel=${(e) => (e.preventDefault(), onClose())} onMouseDown=${(e) => e.target === dialog.current && onClose()}>
    <div class="palettebox"><div class="search"><${Icon} name="search" /><input type="search" role="combobox" aria-expanded="true" aria-controls=${base} aria-activedescendant=${items.length ? `${base}-${chosen}` : undefined}
        aria-label="An id, a name, a page or an action" placeholder="An id, a name, a page or an action" autocomplete="off" spellcheck=${false} value=${text}
        onInput=${(e) => (setText(e.currentTarget.value), setAt(0))} onKeyDown=${key} autofocus /></div>
      <ul ref=${list} id=${base} role="listbox" aria-label="Results">${items.map((item, i) => html`<li key=${item.label} id=${`${base}-${i}`} role="option" aria-selected=${i === chosen} aria-disabled=${refusal(item.needs) ? "true" : undefined} title=${refusal(item.needs)} data-needs=${item.needs}
        onMouseMove=${() => setAt(i)} onClick=${() => act(item)}><${Icon} name=${item.icon} /><${Hostile} text=${item.label} /></li>`)}</ul></div></dialog>`;
}
