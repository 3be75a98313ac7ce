// The command that starts one more worker, where it works as it is printed.
import { html } from "../base.js";
import { get } from "./api.js";
import { may } from "./rights.js";
import { CodeLine, shellQuote, useResource } from "./components.js";

const loopback = /^(?:127\.0\.0\.1|localhost|\[::1\])$/;
const keys = ["AO_NATS_USERS", "AO_NATS_CREDS", "AO_NATS_CA", "AO_NATS_CERT"];

// commandOf is the command; undefined where nobody but the operator can say it: the coordinator is elsewhere, or NATS is,
// or asks for keys.
function commandOf(settings, flags) {
  const value = (name) => settings.find((s) => s.name === name)?.value ?? "";
  const url = value("AO_NATS_URL") === "embed" ? "nats://" + value("AO_NATS_LISTEN") : value("AO_NATS_URL");
  const [, host, port] = /^nats:\/\/(.+):(\d+)$/.exec(url) ?? [];
  if (!loopback.test(location.hostname) || !loopback.test(host) || keys.some((name) => !["", "unset"].includes(value(name)))) return undefined;
  const there = host === "127.0.0.1" && port === "4222" ? "" : ` --nats-url ${shellQuote(url)}`;
  return `PATH=bin:$PATH ao worker${flags}${there}`;
}

/** WorkerLine shows the command with flags and what follows it, and what it does. Where no command is known, it shows otherwise. */
export function WorkerLine({ flags = "", after = "", does, otherwise }) {
  const settings = useResource(async (signal) => (may("GET /settings") ? (await get("/settings", {}, { signal })).settings : []), []);
  const command = settings.data && commandOf(settings.data, flags);
  if (!command) return html`<p class="soft">${otherwise}</p>`;
  return html`<p class="soft">Run this in another terminal, in the folder of <code>scripts/up</code>: it ${does}</p><${CodeLine} text=${command + after} />`;
}

/** StartWorker is what a page without runners says. */
export const StartWorker = () => html`<${WorkerLine} does="starts a worker." otherwise="Whoever runs this coordinator starts a worker with the address of its NATS, and its keys." />`;
