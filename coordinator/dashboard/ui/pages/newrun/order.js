// What is to be run, as the page holds it, and what that is as a request, as a line of ao, and as a line of curl.
import { object, parse, quote } from "../../lib/json.js";
import { emptyObject, member, read, stringOf, typed, write } from "../../lib/form/value.js";
import { shellQuote } from "../../lib/components.js";

/** fresh is an order that nobody has changed. output.kind: "agent", "name" or "inline". */
export const fresh = (agent) => ({
  agent, session: "new", resume: "", own: "", parent: "", prompt: "", parameters: emptyObject(), output: { kind: "agent", name: "", text: "", options: "null" },
  demands: "null", projectDir: "", timeout: "", attempts: "", mode: "async_poll", callback: "", in: "new_session",
});

const given = (text) => (text === "" ? undefined : quote(text));
const json = (text) => (text === "null" || text === "" ? undefined : text);

/** parametersOf is the parameters as JSON text: a further turn of a session is a prompt and nothing else. */
export const parametersOf = (o) => (o.session === "resume" ? object([["prompt", quote(o.prompt)]]) : write(o.parameters));

/** problems are what keeps an order from being a request at all: sentences. The rest is the coordinator's to judge. */
export function problems(o) {
  const list = [];
  if (o.session === "resume" && !o.resume) list.push("Enter the session to continue");
  if (o.session === "new" && !o.agent) list.push("Choose an agent");
  if (o.session === "new" && typed(o.parameters)) list.push("The parameters are not valid JSON yet");
  if (o.output.kind === "name" && !o.output.name) list.push("Choose an output schema");
  if (o.output.kind === "inline" && !isJson(o.output.text)) list.push("The output schema is not valid JSON yet");
  for (const [name, text] of [["time limit", o.timeout], ["attempts", o.attempts]]) if (text !== "" && !/^\d+$/.test(text)) list.push(`The ${name} is not a whole number`);
  return list;
}

function isJson(text) {
  return text.trim() !== "" && read(text).kind !== "typed";
}

/** pairs are the members of the body of POST /runs, in order: [name, JSON text]. */
export function pairs(o) {
  const resume = o.session === "resume";
  return [
    ["type", resume ? quote("resume_session") : o.own ? quote("start_session") : undefined],
    ["agent_name", resume ? undefined : given(o.agent)],
    ["session_id", resume ? given(o.resume) : given(o.own)],
    ["parameters", parametersOf(o)],
    ...common(o),
  ].filter(([, text]) => text !== undefined);
}

const common = (o) => [
  ["mode", o.mode === "async_poll" ? undefined : quote(o.mode)],
  ["parent_session_id", given(o.parent)],
  ["output_schema", o.output.kind === "inline" ? o.output.text.trim() : undefined],
  ["output_schema_name", o.output.kind === "name" ? given(o.output.name) : undefined],
  ["output_schema_options", json(o.output.options)],
  ["project_dir", given(o.projectDir)],
  ["additional_demands", json(o.demands)],
  ["timeout_seconds", json(o.timeout)],
  ["max_attempts", json(o.attempts)],
  ["callback_url", given(o.callback)],
];

/** changesOf is the body of a retry: what differs from the run that is done again. */
export function changesOf(o, run) {
  const before = run.parameters ? run.parameters.text.trim() : "null";
  const now = parametersOf(o);
  return [["in", quote(o.in)], ["parameters", now === before ? undefined : now], ...common(o)].filter(([, text]) => text !== undefined);
}

export const bodyText = (list) => object(list);

/** curlLine is the line of curl that sends the same body. It names the variable of a token, never a token. */
export function curlLine(url, body, withToken) {
  const token = withToken ? ' -H "Authorization: Bearer $AO_TOKEN"' : "";
  return `curl -sS -X POST ${shellQuote(url)} -H 'Content-Type: application/json'${token} -d ${shellQuote(body)}`;
}

/**
 * aoLine is the line of ao that does the same; null where ao has no flag for something. Values stand behind "=", so that
 * none is taken for a flag.
 */
export function aoLine(base, list) {
  const of = new Map(list);
  if (beyond(of)) return null;
  const text = (name) => stringOf(of.has(name) ? read(of.get(name)) : undefined);
  const flag = (name, value) => (value === undefined ? [] : [shellQuote(`--${name}=${value}`)]);
  const resume = text("type") === "resume_session";
  const words = ["ao", ...(base === "http://127.0.0.1:8765" ? [] : flag("url", base)), "run"];
  if (!resume) words.push(shellQuote(text("agent_name") ?? "AGENT"));
  words.push(...flag(resume ? "resume" : "session", text("session_id")), ...parameterWords(of.get("parameters") ?? "{}"));
  if (text("mode") !== "sync") words.push("--detach");
  words.push(...(text("mode") === "async_callback" ? ["--call-back"] : []), ...flag("parent", text("parent_session_id")), ...flag("callback-url", text("callback_url")));
  words.push(...flag("output-schema", of.get("output_schema")), ...flag("output-schema-name", text("output_schema_name")), ...optionWords(of.get("output_schema_options")));
  words.push(...demandWords(of.get("additional_demands")), ...flag("project-dir", text("project_dir")), ...flag("timeout", of.has("timeout_seconds") ? of.get("timeout_seconds") + "s" : undefined), ...flag("max-attempts", of.get("max_attempts")));
  return words.join(" ");
}

// beyond tells whether a body has something that no flag of ao says.
function beyond(of) {
  const demands = of.has("additional_demands") ? read(of.get("additional_demands")) : undefined;
  const options = of.has("output_schema_options") ? read(of.get("output_schema_options")) : undefined;
  return member(demands, "executor_type") || member(demands, "project_dir") || member(options, "strict_json_only")?.text === "false";
}

// A lone prompt is --prompt; "-" would mean standard input there.
function parameterWords(text) {
  const node = parse(text);
  const prompt = node.items?.length === 1 ? stringOf(member(node, "prompt")) : undefined;
  if (prompt !== undefined && prompt !== "-" && !prompt.includes("\0")) return [shellQuote("--prompt=" + prompt)];
  return text.trim() === "{}" ? [] : [shellQuote("--params=" + text)];
}

function optionWords(text) {
  const node = text && read(text);
  const words = [];
  const retries = node && member(node, "max_retries");
  if (retries) words.push(shellQuote("--output-retries=" + retries.text));
  if (node && member(node, "strict_json_only")?.text === "true") words.push("--strict-json");
  return words;
}

function demandWords(text) {
  const node = text ? read(text) : undefined;
  const one = (name, flag) => (member(node, name) ? [shellQuote(`--${flag}=${stringOf(member(node, name)) ?? ""}`)] : []);
  const tags = (member(node, "tags")?.items ?? []).map((t) => shellQuote("--tag=" + (stringOf(t) ?? "")));
  return [...one("hostname", "hostname"), ...one("executor_profile", "profile"), ...tags];
}
