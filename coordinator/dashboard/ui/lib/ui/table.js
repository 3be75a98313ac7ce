// A table of any length: only the rows near what is seen are in the document.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../base.js";
import { navigate } from "../router.js";

const overscan = 12;

/**
 * Table. columns: [{id, label, width, render(row, i), hide: 1|2|3 (the narrower the page, the lower numbers stay), end}].
 * rows all have the same height. rowKey(row) is stable. total is the number of rows there are, where it is more than rows.
 * onNear is called when the last rows are near. select is {has(key), toggle(row, range), all, onAll, none} for checkboxes.
 */
export function Table({ label, columns, rows, rowKey, rowHeight = 36, total, onNear, rowClass, select, rowProps, more }) {
  const ref = useRef();
  const [range, setRange] = useState([0, 40]);
  const near = useRef(onNear);
  near.current = onNear;
  const measure = () => {
    const el = ref.current;
    const box = el?.closest("[data-scroller]");
    if (!box) return;
    const top = box.getBoundingClientRect().top - el.tBodies[0].getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / rowHeight) - overscan);
    const last = Math.min(rows.length, Math.ceil((top + box.clientHeight) / rowHeight) + overscan);
    setRange((r) => (r[0] === first && r[1] === last ? r : [first, Math.max(first, last)]));
    if (last > rows.length - 30) near.current?.();
  };
  const latest = useRef(measure);
  latest.current = measure;
  useLayoutEffect(() => latest.current(), [rows.length]);
  useEffect(() => {
    const box = ref.current.closest("[data-scroller]");
    if (!box) return;
    let frame = 0;
    const soon = () => (frame ||= requestAnimationFrame(() => ((frame = 0), latest.current())));
    box.addEventListener("scroll", soon, { passive: true });
    const sizes = new ResizeObserver(soon);
    sizes.observe(box);
    return () => (cancelAnimationFrame(frame), box.removeEventListener("scroll", soon), sizes.disconnect());
  }, []);
  const [first, last] = [Math.min(range[0], rows.length), Math.min(range[1], rows.length)];
  const shown = rows.slice(first, last);
  // A narrow page shows fewer columns: a cell across more than there are would make further ones.
  const height = (n) => html`<tr class="spacer" aria-hidden="true" key=${"space" + (n === first ? "1" : "2")}><td style=${{ height: n * rowHeight + "px" }}></td></tr>`;
  return html`<table ref=${ref} class="table" aria-label=${label} aria-rowcount=${(total ?? rows.length) + 1} style=${{ "--row": rowHeight + "px" }} onKeyDown=${(e) => arrows(e, ref.current)}>
    <thead><tr aria-rowindex="1">
      ${select && html`<th scope="col" class="pick"><input type="checkbox" aria-label="Select all that are loaded" checked=${select.all} indeterminate=${!select.all && !select.none} onChange=${select.onAll} /></th>`}
      ${columns.map((c) => html`<th key=${c.id} scope="col" class=${cell(c)} style=${c.width ? { width: c.width } : undefined}>${c.label}</th>`)}</tr></thead>
    <tbody>
      ${first > 0 && height(first)}
      ${shown.map((row, i) => {
        const key = rowKey(row);
        return html`<tr key=${key} aria-rowindex=${first + i + 2} class=${rowClass?.(row)} ...${rowProps?.(row) ?? {}}>
          ${select && html`<td class="pick"><input type="checkbox" aria-label=${"Select " + key} checked=${select.has(key)} onClick=${(e) => select.toggle(row, e.shiftKey)} /></td>`}
          ${columns.map((c) => html`<td key=${c.id} class=${cell(c)}>${c.render(row, first + i)}</td>`)}</tr>`;
      })}
      ${rows.length - last > 0 && html`<tr class="spacer" aria-hidden="true" key="space2"><td style=${{ height: (rows.length - last) * rowHeight + "px" }}></td></tr>`}
    </tbody>${more && html`<tfoot><tr><td colspan="2">${more}</td></tr></tfoot>`}
  </table>`;
}

/** rowLink has a press anywhere in a row open href, as the link in the row does; text that is being selected does not. */
export const rowLink = (href) => ({
  "data-opens": "",
  onClick: (e) => {
    const plain = e.button === 0 && !e.ctrlKey && !e.metaKey && !e.shiftKey && !e.altKey && !e.defaultPrevented;
    if (plain && !e.target.closest("a, button, input, label, .pick") && getSelection().isCollapsed) navigate(href);
  },
});

const cell = (c) => [c.hide && "hide" + c.hide, c.end && "end", c.class].filter(Boolean).join(" ") || undefined;

// arrows moves focus between rows by the arrow keys, to the same control of the next row.
function arrows(e, table) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step || e.target.matches("select, textarea, input:not([type=checkbox])")) return;
  const row = e.target.closest("tbody tr");
  if (!row || !table.contains(row)) return;
  const stops = (r) => [...r.querySelectorAll("a[href], button, input, summary")];
  let next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  while (next?.classList.contains("spacer")) next = step > 0 ? next.nextElementSibling : next.previousElementSibling;
  if (!next) return;
  e.preventDefault();
  const same = stops(row).indexOf(e.target);
  const to = stops(next)[same] ?? stops(next)[0];
  to?.focus();
  to?.scrollIntoView({ block: "nearest" });
}
