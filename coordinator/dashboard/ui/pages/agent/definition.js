// A definition while it is edited: what was changed, as JSON text by member, and its two schemas.
import { useMemo, useRef, useState } from "../../base.js";
import { Json, check, parse, quote } from "../../lib/json.js";
import { changed, members, noChange, sameJson, textOf } from "../../lib/agents.js";
import { useDraft } from "../../lib/drafts.js";
import { refusal } from "../../lib/rights.js";

/**
 * useDefinition returns {agent, fixed, changes, dirty, kept, text(), value(name), set(name, text), input, output, apply(text),
 * discard()}. fixed says why nothing can be changed. changes are what a PATCH would send: "null" takes a member away.
 * kept tells that all of them are texts of schemas that are kept as drafts: who leaves the page loses nothing.
 */
export function useDefinition(agent, drafts) {
  const fixed = noChange(agent) ?? refusal("PATCH /agents/:name");
  const [edits, setEdits] = useState({});
  const original = useMemo(() => new Map(members(agent.text)), [agent]);
  const input = useInput(agent, drafts.input);
  const output = useOutput(agent, drafts.output);
  const all = { ...edits, ...input.changes, ...output.changes };
  const changes = Object.fromEntries(Object.entries(all).filter(([name, text]) => !same(original.get(name), text)));
  const value = (name) => {
    const text = changes[name] ?? original.get(name);
    return text === "null" ? undefined : text;
  };
  const sides = { parameters_schema: input, output_schema: output };
  return {
    agent, fixed, changes, dirty: Object.keys(changes).length > 0, input, output, value,
    kept: Object.keys(changes).every((name) => sides[name]?.kept.safe()),
    original: (name) => original.get(name),
    text: () => changed(agent.text, changes),
    set: (name, text) => setEdits((e) => ({ ...e, [name]: text ?? "null" })),
    broken: () => Object.keys(changes).find((name) => check(changes[name])),
    discard: () => (setEdits({}), input.reset(), output.reset()),
    apply: (text) => apply(text, { original, setEdits, input, output }),
  };
}

const same = (before, now) => (before === undefined || before === "null" ? now === "null" : now !== "null" && sameJson(before, now));

const schemaMembers = new Set(["parameters_schema", "output_schema", "output_schema_name", "output_schema_options", "name"]);

// apply takes a whole definition as it was typed; what is not in it is taken away.
function apply(text, { original, setEdits, input, output }) {
  const given = new Map(parse(text).items.map((m) => [m.name, m.text]));
  const edits = {};
  for (const name of new Set([...original.keys(), ...given.keys()])) {
    if (!schemaMembers.has(name)) edits[name] = given.get(name) ?? "null";
  }
  setEdits(edits);
  input.apply(given.get("parameters_schema"));
  output.apply(given);
}

const pretty = (text) => new Json(text).pretty();
const absent = (text) => text === undefined || text.trim() === "null";

// useSchemaText is the text of a schema's editor. What differs from the active schema is kept as a draft.
function useSchemaText(agent, member, side, draft) {
  const active = textOf(agent, member);
  const [text, setText] = useState(draft?.text ?? active);
  const kept = useDraft(agent.name, side, draft);
  const latest = useRef();
  latest.current = text;
  const set = (next) => {
    setText(next);
    kept.keep(next === active ? "" : next);
  };
  return {
    text, set, active, drafted: text !== active && text.trim() !== "", kept,
    reset: () => set(active),
    take: () => setText(kept.take() || active),
    // settle leaves a draft of what is not active after a save.
    settle: (on) => kept.flush(on || latest.current.trim() === "" ? "" : latest.current),
  };
}

function useInput(agent, draft) {
  const schema = useSchemaText(agent, "parameters_schema", "input", draft);
  const was = schema.active !== "";
  const [on, setOn] = useState(was);
  const text = schema.text.trim();
  return {
    ...schema, on, was, setOn,
    // An empty editor activates nothing; it does not take an active schema away either: the switch does.
    changes: { parameters_schema: on && text !== "" ? schema.text : on && was ? pretty(schema.active) : "null" },
    empty: on && text === "",
    reset: () => (setOn(was), was && schema.reset()),
    settle: () => schema.settle(on),
    apply: (json) => (absent(json) ? setOn(false) : (setOn(true), schema.set(pretty(json)))),
  };
}

function useOutput(agent, draft) {
  const schema = useSchemaText(agent, "output_schema", "output", draft);
  const first = schema.active !== "" ? "inline" : agent.output_schema_name ? "name" : "none";
  const firstOptions = new Json(agent.text).member("output_schema_options")?.text ?? "null";
  const [mode, setMode] = useState(first);
  const [name, setName] = useState(agent.output_schema_name ?? "");
  const [options, setOptions] = useState(firstOptions);
  const text = schema.text.trim();
  const inline = mode === "inline" && text !== "" ? schema.text : mode === "inline" && first === "inline" ? pretty(schema.active) : "null";
  const byName = mode === "name" && name ? quote(name) : "null";
  const any = inline !== "null" || byName !== "null";
  return {
    ...schema, on: mode === "inline", mode, setMode, name, setName, options, setOptions, was: first === "inline",
    changes: { output_schema: inline, output_schema_name: byName, output_schema_options: any ? options : "null" },
    empty: mode === "inline" && text === "",
    reset: () => (setMode(first), setName(agent.output_schema_name ?? ""), setOptions(firstOptions), first === "inline" && schema.reset()),
    settle: () => schema.settle(mode === "inline"),
    apply(given) {
      const [own, named] = [given.get("output_schema"), given.get("output_schema_name")];
      if (!absent(own)) schema.set(pretty(own));
      if (!absent(named)) setName(new Json(named).string() ?? "");
      setMode(!absent(own) ? "inline" : !absent(named) ? "name" : "none");
      setOptions(given.get("output_schema_options") ?? "null");
    },
  };
}
