// Controls: buttons that know what the caller may do, dialogs, tabs, fields.
import { html, useEffect, useId, useRef, useState } from "../../base.js";
import { refusal } from "../rights.js";
import { me } from "../rights.js";
import { Icon } from "./icons.js";
import { Hostile } from "./text.js";

/**
 * Button. needs is a route of the API: without the right the button is disabled and says why. why disables it with a
 * reason of the page's. kind: "" | "primary" | "danger" | "plain".
 */
export function Button({ kind = "", icon, needs, why, busy = false, disabled = false, small = false, onClick, type = "button", title, label, children, href, ...rest }) {
  me.value;
  const reason = refusal(needs) ?? why;
  const off = disabled || busy || Boolean(reason);
  const cls = `button ${kind} ${small ? "small" : ""} ${busy ? "busy" : ""} ${!children || children.length === 0 ? "only" : ""}`;
  const inner = html`${icon && html`<${Icon} name=${icon} />`}${children}`;
  if (href && !off) return html`<a class=${cls} href=${href} title=${title} aria-label=${label} data-needs=${needs} ...${rest}>${inner}</a>`;
  // A disabled button takes no focus and shows no title in some browsers: aria-disabled keeps both.
  return html`<button type=${type} class=${cls} aria-disabled=${off ? "true" : undefined} aria-busy=${busy ? "true" : undefined} aria-label=${label}
    title=${reason ?? title} data-tip=${reason} data-needs=${needs} onClick=${(e) => (off ? e.preventDefault() : onClick?.(e))} ...${rest}>${inner}${reason && html`<span class="offscreen">. ${reason}</span>`}</button>`;
}

/** Dialog is a native modal dialog that is open while it is rendered. onClose is told of Esc and of the close button. */
export function Dialog({ title, onClose, children, wide = false, footer }) {
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
      <div class="body">${children}</div>
      ${footer && html`<footer>${footer}</footer>`}
    </div>
  </dialog>`;
}

/** Confirm asks before something is done. run is awaited; its error is shown and the dialog stays. */
export function Confirm({ title, children, verb, kind = "primary", needs, run, onClose, why }) {
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
  return html`<${Dialog} title=${title} onClose=${onClose} footer=${footer}>${children}${error && html`<${Problem} error=${error} />`}<//>`;
}

/** Problem is an error of the API within a page or a dialog. */
export const Problem = ({ error }) => html`<div class="problem" role="alert"><${Icon} name="warn" /><div>
  <p><${Hostile} text=${error.message} lines=${true} /></p>${error.code && html`<p class="faint"><code>${error.code}</code>${error.body?.field && html` · <code><${Hostile} text=${error.body.field} /></code>`}</p>`}</div></div>`;

/** Tabs shows one of several parts. tabs: [{id, label, badge}]; onSelect gets an id. Arrow keys move between them. */
export function Tabs({ tabs, selected, onSelect, label, children }) {
  const base = useId();
  const key = (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    const i = tabs.findIndex((t) => t.id === selected);
    const to = e.key === "Home" ? 0 : e.key === "End" ? tabs.length - 1 : step ? (i + step + tabs.length) % tabs.length : -1;
    if (to < 0) return;
    e.preventDefault();
    onSelect(tabs[to].id);
    document.getElementById(`${base}-${tabs[to].id}`)?.focus();
  };
  const list = useRef();
  useEffect(() => { // a narrow page may not show it
    const l = list.current, t = l.querySelector("[aria-selected=true]");
    if (t && (t.offsetLeft < l.scrollLeft || t.offsetLeft + t.offsetWidth > l.scrollLeft + l.clientWidth)) l.scrollLeft = t.offsetLeft - (l.clientWidth - t.offsetWidth) / 2;
  }, [selected]);
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${key} ref=${list}>
      ${tabs.map((t) => html`<button type="button" role="tab" id=${`${base}-${t.id}`} aria-selected=${t.id === selected} aria-controls=${base + "-panel"} tabindex=${t.id === selected ? 0 : -1}
        onClick=${() => onSelect(t.id)}>${t.label}${t.badge !== undefined && t.badge !== null && html` <span class="badge">${t.badge}</span>`}</button>`)}
    </div>
    <div role="tabpanel" id=${base + "-panel"} aria-labelledby=${`${base}-${selected}`}>${children}</div>`;
}

/** Field is a control with its label, a hint and an error. children gets {id, describedby}. */
export function Field({ label, hint, error, optional, children }) {
  const id = useId();
  const about = [hint && id + "-hint", error && id + "-error"].filter(Boolean).join(" ") || undefined;
  return html`<div class=${"field " + (error ? "wrong" : "")}><label for=${id}>${label}${optional && html` <span class="faint">optional</span>`}</label>
    ${children({ id, "aria-describedby": about, "aria-invalid": error ? "true" : undefined })}
    ${hint && html`<p class="hint" id=${id + "-hint"}>${hint}</p>`}${error && html`<p class="error" id=${id + "-error"}><${Hostile} text=${error} /></p>`}</div>`;
}

/** Choice is a native select. options: [{value, label}] or strings. */
export const Choice = ({ value, options, onChange, label, ...rest }) =>
  html`<select aria-label=${label} value=${value} onChange=${(e) => onChange(e.currentTarget.value)} ...${rest}>
    ${options.map((o) => (typeof o === "string" ? { value: o, label: o } : o)).map((o) => html`<option key=${o.value} value=${o.value} selected=${o.value === value}>${o.label}</option>`)}</select>`;

/** Switch is a checkbox that takes effect at once. */
export const Switch = ({ on, onChange, needs, why, children }) => {
  me.value;
  const reason = refusal(needs) ?? why;
  return html`<label class=${"switch " + (reason ? "off" : "")} title=${reason}><input type="checkbox" role="switch" checked=${on} disabled=${Boolean(reason)} data-needs=${needs} onChange=${(e) => onChange(e.currentTarget.checked)} />
    <span class="track" aria-hidden="true"></span><span>${children}</span></label>`;
};

/** Search is a text field that tells of a change a moment after the last key, and at once on Enter. */
export function Search({ value, onChange, placeholder, label, delay = 300 }) {
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

/** Details is a part that unfolds; its content is made only while it is open. */
export function Details({ summary, open = false, children, class: c = "" }) {
  const [shown, setShown] = useState(open);
  return html`<details class=${c} open=${shown} onToggle=${(e) => setShown(e.currentTarget.open)}><summary><${Icon} name="chevron" />${summary}</summary>${shown && html`<div class="inside">${children}</div>`}</details>`;
}

/** Menu is a button with actions below it: items are {label, icon, run, href, needs, why, kind}. */
export function Menu({ label, icon = "more", items, children }) {
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
  return html`<details class="menu" ref=${ref} onKeyDown=${key}><summary class="button" aria-label=${label} title=${label}>${children ?? html`<${Icon} name=${icon} />`}</summary>
    <div class="sheet">${items.filter(Boolean).map((i) => html`<${Button} kind=${"plain " + (i.kind ?? "")} icon=${i.icon} needs=${i.needs} why=${i.why} href=${i.href} onClick=${() => (shut(), i.run?.())}>${i.label}<//>`)}</div></details>`;
}
