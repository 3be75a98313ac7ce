// Short messages, and the live region that tells readers of the screen, at most one message in five seconds.
import { html, signal } from "../../base.js";
import { Icon } from "./icons.js";

const toasts = signal([]);
const spoken = signal("");
let last = -Infinity, waiting, next = 1;

/** announce tells a reader of the screen; of several within five seconds the newest. */
export function announce(text) {
  const wait = last + 5000 - performance.now();
  clearTimeout(waiting);
  if (wait > 0) return void (waiting = setTimeout(() => announce(text), wait));
  last = performance.now();
  spoken.value = text === spoken.value ? text + "\u00a0" : text;
}

/** toast shows a message for a while. kind: "good", "bad" or "". An action is {label, run} or {label, href}. */
export function toast(text, { kind = "", action, seconds = kind === "bad" ? 12 : 5 } = {}) {
  const id = next++;
  toasts.value = [...toasts.value, { id, text, kind, action }].slice(-4);
  setTimeout(() => dismiss(id), seconds * 1000);
  announce(text);
}

function dismiss(id) {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}

/** Toasts is where messages appear; the shell has one. */
export function Toasts() {
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
