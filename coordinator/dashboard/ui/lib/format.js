// Values for people: times, durations, numbers, names.
import { signal } from "../base.js";
import { now } from "./api.js";

const stored = (key) => {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
};

export function store(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch { /* a browser may forbid it: then the choice lasts for the page */ }
}

/** zone is "local" or "utc": how times are shown. */
export const zone = signal(stored("ao-zone") === "utc" ? "utc" : "local");

export function setZone(value) {
  zone.value = value;
  store("ao-zone", value);
}

/** theme is "auto", "light" or "dark". */
export const theme = signal(stored("ao-theme") ?? "auto");

export function setTheme(value) {
  theme.value = value;
  store("ao-theme", value);
  document.documentElement.dataset.theme = value;
}

/** tick changes once a second while the page is visible; what shows "ago" reads it. */
export const tick = signal(0);
setInterval(() => document.hidden || tick.value++, 1000);
document.addEventListener("visibilitychange", () => document.hidden || tick.value++);

const zoneFormat = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });
const zoneNames = new Map(); // by offset, which summer time changes

/** zoneName is the name of the zone that times are shown in, at a time. */
export function zoneName(at = now()) {
  if (zone.value === "utc") return "UTC";
  const offset = new Date(at).getTimezoneOffset();
  if (!zoneNames.has(offset)) zoneNames.set(offset, zoneFormat.formatToParts(at).find((p) => p.type === "timeZoneName")?.value ?? "local");
  return zoneNames.get(offset);
}

const two = (n) => String(n).padStart(2, "0");

function parts(ms) {
  const d = new Date(ms);
  return zone.value === "utc"
    ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds(), d.getUTCMilliseconds()]
    : [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds(), d.getMilliseconds()];
}

/** clock is the time of day, with milliseconds where they are asked for. */
export function clock(ms, milliseconds = false) {
  const [, , , h, m, s, f] = parts(ms);
  return `${two(h)}:${two(m)}:${two(s)}${milliseconds ? "." + String(f).padStart(3, "0") : ""}`;
}

/** exact is date and time with milliseconds and the zone's name. */
export function exact(ms) {
  const [y, mo, d] = parts(ms);
  return `${y}-${two(mo)}-${two(d)} ${clock(ms, true)} ${zoneName(ms)}`;
}

/** short is the time of day, with the date where it is another day than today. */
export function short(ms) {
  const [y, mo, d] = parts(ms), [ty, tmo, td] = parts(now());
  if (y === ty && mo === tmo && d === td) return clock(ms);
  const [, , , h, m] = parts(ms);
  return `${y === ty ? "" : y + "-"}${two(mo)}-${two(d)} ${two(h)}:${two(m)}`;
}

/** ago is how long ago a time is by the server's clock; "in 3m" for one to come. */
export function ago(ms) {
  const diff = now() - ms;
  if (Math.abs(diff) < 1500) return "now";
  return diff > 0 ? coarse(diff).split(" ")[0] + " ago" : "in " + coarse(-diff);
}

/** coarse is a duration in its largest unit, two for hours and more: 41s, 12m, 3h 10m, 2d 4h. */
export function coarse(ms) {
  const s = Math.round(ms / 1000);
  if (s < 60) return s + "s";
  if (s < 3600) return Math.floor(s / 60) + "m";
  if (s < 86400) return pair(s, 3600, "h", 60, "m");
  return pair(s, 86400, "d", 3600, "h");
}

const pair = (s, big, b, small, c) => {
  const rest = Math.floor((s % big) / small);
  return Math.floor(s / big) + b + (rest ? ` ${rest}${c}` : "");
};

/** duration is how long something took: 12 ms, 1.24 s, 3m 05s, 2h 10m. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) ms = 0;
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 10000) return (ms / 1000).toFixed(2) + " s";
  if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
  const s = Math.floor(ms / 1000);
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  return pair(s, s < 86400 ? 3600 : 86400, s < 86400 ? "h" : "d", s < 86400 ? 60 : 3600, s < 86400 ? "m" : "h");
}

const plainNumber = new Intl.NumberFormat();

/** count is a number for display. */
export const count = (n) => (n === undefined || n === null ? "–" : plainNumber.format(n));

/** bytes is a size for display. */
export function bytes(n) {
  if (n < 1024) return `${n} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let i = -1;
  do [n, i] = [n / 1024, i + 1];
  while (n >= 1024 && i < units.length - 1);
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** plural is "1 run", "2 runs". */
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

/** shortId keeps an id's prefix and its last eight characters, which tell ids of one moment apart. */
export function shortId(id) {
  const m = /^([a-z]+_)([0-9a-f]{32})$/.exec(id ?? "");
  return m ? m[1] + "…" + m[2].slice(-8) : id ?? "";
}

/** ms is a time of the API as milliseconds, NaN without one. */
export const ms = (time) => (time ? Date.parse(time) : NaN);
