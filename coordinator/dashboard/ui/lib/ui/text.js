// Texts that agents, callers and runners wrote; times, ids, statuses.
import { html, useState, useRef, useEffect } from "../../base.js";
import { ago, clock, duration, exact, ms, short, shortId, tick, zone, count } from "../format.js";
import { now } from "../api.js";
import { Icon } from "./icons.js";
import { announce } from "./toast.js";

// Characters that change how the text around them looks, or that nobody sees.
const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|[\ud800-\udfff]/gu;
const breaks = /[\t\n\r]/g;

const codePoint = (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

/** visible is a text with what nobody sees written out, for attributes and titles. */
export const visible = (text) => String(text ?? "").replace(hidden, (c) => `‹${codePoint(c)}›`);

const longest = 200000; // characters that are shown; more would keep the page busy

/** Hostile shows a text that somebody else wrote: control and bidi characters become visible. lines keeps line breaks. */
export function Hostile({ text, lines = false }) {
  const whole = String(text ?? "");
  if (whole.length > longest) return html`<${Hostile} text=${whole.slice(0, longest)} lines=${lines} /><span class="ctl">… and ${count(whole.length - longest)} characters more</span>`;
  return shownText(whole, lines);
}

function shownText(s, lines) {
  if (s.search(hidden) < 0 && (lines || s.search(breaks) < 0)) return html`<bdi>${s}</bdi>`;
  const pattern = lines ? hidden : new RegExp(hidden.source + "|" + breaks.source, "gu");
  const parts = [];
  let at = 0;
  for (const m of s.matchAll(pattern)) {
    parts.push(s.slice(at, m.index), html`<span class="ctl" title="An invisible character">${codePoint(m[0])}</span>`);
    at = m.index + m[0].length;
    if (parts.length > 4000) break;
  }
  parts.push(visible(s.slice(at)));
  return html`<bdi>${parts}</bdi>`;
}

/** Text shows a name or a sentence of somebody else's, apart from the direction of the text around it. */
export const Text = ({ text }) => html`<bdi>${String(text ?? "").replace(hidden, "")}</bdi>`;

/**
 * Time shows a time of the API. as: "ago", "short" (default), "clock" or "exact". The exact time is in the title; focus
 * makes it reachable by keyboard.
 */
export function Time({ at, as = "short", focus = false }) {
  const t = ms(at);
  if (!Number.isFinite(t)) return html`<span class="none">–</span>`;
  if (as === "ago") tick.value;
  zone.value;
  const shown = as === "ago" ? ago(t) : as === "clock" ? clock(t, true) : as === "exact" ? exact(t) : short(t);
  return html`<time class="num" datetime=${at} title=${exact(t)} data-tip=${exact(t)} tabindex=${focus ? 0 : undefined}>${shown}</time>`;
}

/** Took shows how long something took; what has not ended goes on counting. */
export function Took({ from, to, running = false }) {
  const a = ms(from);
  let b = ms(to);
  if (!Number.isFinite(b) && running) {
    tick.value;
    b = now();
  }
  if (!Number.isFinite(a) || !Number.isFinite(b)) return html`<span class="none">–</span>`;
  return html`<span class="num">${duration(b - a)}</span>`;
}

/** Num shows a number for people, and copies as digits. */
export const Num = ({ value }) => html`<data class="num" value=${value}>${count(value)}</data>`;

/** copyText puts a text on the clipboard, also where the page is not served securely. */
export async function copyText(text, what = "Copied") {
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

/** Copy is a button that copies a text. */
export function Copy({ text, label = "Copy", class: c = "" }) {
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

/** Id shows an id, short, as a link where it has an href, with a button that copies it whole. */
export function Id({ id, href, full = false, copy = true }) {
  if (!id) return html`<span class="none">–</span>`;
  const shown = html`<${Hostile} text=${full ? id : shortId(id)} />`;
  return html`<span class="id">${href ? html`<a href=${href} title=${visible(id)}>${shown}</a>` : html`<span title=${visible(id)}>${shown}</span>`}${copy && html`<${Copy} text=${id} label=${"Copy " + visible(id)} />`}</span>`;
}

const looks = {
  pending: "pending", claimed: "claimed", running: "running", stopping: "stopping", completed: "done", finished: "done", failed: "failed",
  stopped: "stopped", idle: "idle", parked: "parked", waiting: "pending", owed: "running", delivered: "done", undeliverable: "failed", dead: "failed",
  suppressed: "stopped", online: "done", unable: "failed", unresponsive: "failed", draining: "stopping", stale: "failed", active: "done", inactive: "stopped", broken: "failed",
  ok: "done", warn: "stopping", fail: "failed", skip: "stopped", deleted: "stopped",
};

/** Dot is a status as a shape: each has its own, besides its colour. */
export function Dot({ status }) {
  const look = looks[status] ?? "idle";
  const inner = {
    pending: html`<circle cx="8" cy="8" r="5" stroke-dasharray="2.2 2" />`,
    claimed: html`<circle cx="8" cy="8" r="5" /><circle cx="8" cy="8" r="1.500" fill="currentColor" stroke="none" />`,
    running: html`<circle cx="8" cy="8" r="5" opacity=".3" /><path d="M8 3a5 5 0 0 1 5 5" class="spin" />`,
    stopping: html`<path d="M8 2.500 14 13H2z" />`,
    done: html`<circle cx="8" cy="8" r="6" fill="currentColor" stroke="none" /><path d="M5.400 8.200 7.200 10l3.500-3.900" class="cut" />`,
    failed: html`<circle cx="8" cy="8" r="6" fill="currentColor" stroke="none" /><path d="M6 6l4 4M10 6l-4 4" class="cut" />`,
    stopped: html`<rect x="3.500" y="3.500" width="9" height="9" rx="1.500" />`,
    idle: html`<circle cx="8" cy="8" r="5" /><path d="M8 5.500V8l1.800 1" />`,
    parked: html`<circle cx="8" cy="8" r="5" /><path d="M6.700 6.200v3.600M9.300 6.200v3.600" />`,
  }[look];
  return html`<svg class=${"dot look-" + look} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false" fill="none" stroke="currentColor"
    stroke-width="1.700" stroke-linecap="round" stroke-linejoin="round">${inner}</svg>`;
}

/** Status is a status with its shape and its word. */
export const Status = ({ status, label }) =>
  html`<span class=${"status look-" + (looks[status] ?? "idle")}><${Dot} status=${status} /><span>${label ?? status}</span></span>`;

/** Badge is a small word beside another. kind: "", "good", "warn", "bad", "accent". */
export const Badge = ({ kind = "", title, children }) => html`<span class=${"badge " + kind} title=${title}>${children}</span>`;

/** CodeLine is a line of a shell or a protocol, with a button that copies it. */
export const CodeLine = ({ text, label = "Copy the line" }) =>
  html`<div class="codeline"><code><${Hostile} text=${text} lines=${true} /></code><${Copy} text=${text} label=${label} /></div>`;

/** shellQuote is a word as sh takes it literally. */
export const shellQuote = (s) => (/^[A-Za-z0-9_\/:=.,@%+-]+$/.test(s) ? s : "'" + String(s).replaceAll("'", `'\\''`) + "'");
