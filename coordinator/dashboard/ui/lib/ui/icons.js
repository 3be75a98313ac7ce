// Icons: 16 × 16, drawn with the current colour, hidden from readers of the screen.
import { html } from "../../base.js";

const shapes = {
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
  more: "M3.5 8h.010M8 8h.010M12.5 8h.010",
};

/** Icon draws one of the shapes by name. */
export function Icon({ name, class: c = "" }) {
  return html`<svg class=${"icon icon-" + name + " " + c} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"
    fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"><path d=${shapes[name] ?? shapes.info} /></svg>`;
}
