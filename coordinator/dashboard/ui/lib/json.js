// JSON without loss. JSON.parse rounds numbers beyond 2^53, reorders keys such as "10" and "2", and drops duplicate
// keys. What users wrote is therefore kept as text: decode reads a document and leaves users' members as Json values,
// which know their exact text.

// userMembers are the members of API documents whose values belong to users, agents or runners.
export const userMembers = new Set([
  "parameters", "result_data", "tool_input", "tool_output", "parameters_schema", "output_schema", "default_output_schema",
  "schema", "mcp_servers", "data", "definition", "output_schema_options", "default_output_schema_options", "current",
  "metadata", "parameters_omitted_text",
]);

/** A Json is a value of a JSON document, as the text that it came as. */
export class Json {
  constructor(text) {
    this.text = text;
  }

  /** kind is "object", "array", "string", "number", "boolean" or "null". */
  get kind() {
    return kindAt(this.text, skipSpace(this.text, 0));
  }

  /** members are those of an object as {name, text}, without what is in them; empty for another kind. */
  get members() {
    return (this.listed ??= this.kind === "object" ? membersOf(this.text) : []);
  }

  /** member is the value of the last member of that name, as a reader of JSON would take it; undefined without one. */
  member(name) {
    const found = this.members.findLast((m) => m.name === name);
    return found && new Json(found.text);
  }

  /** string is the value of a JSON string, undefined for another kind. */
  string() {
    return this.kind === "string" ? JSON.parse(this.text.trim()) : undefined;
  }

  get isNull() {
    return this.kind === "null";
  }

  /** pretty is the same tokens with line breaks and an indentation of two. */
  pretty() {
    return prettify(this.text);
  }

  toString() {
    return this.text;
  }
}

/** A JsonError says where a text is no JSON: offset, line and column (both from 1). tooDeep is set where it may be one. */
export class JsonError extends Error {
  constructor(message, text, offset, tooDeep = false) {
    const before = text.slice(0, offset);
    const line = before.split("\n").length;
    const column = offset - before.lastIndexOf("\n");
    super(`${message} (line ${line}, column ${column})`);
    Object.assign(this, { offset, line, column, tooDeep });
  }
}

const space = /[ \t\n\r]*/y;
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const plain = /[^"\\\u0000-\u001f]*/y;
const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const deepest = 2000;

function skipSpace(text, i) {
  space.lastIndex = i;
  space.test(text);
  return space.lastIndex;
}

function kindAt(text, i) {
  switch (text[i]) {
    case "{": return "object";
    case "[": return "array";
    case '"': return "string";
    case "t": case "f": return "boolean";
    case "n": return "null";
    default: return "number";
  }
}

function stringEnd(text, i) {
  for (i++; ;) {
    plain.lastIndex = i;
    plain.test(text);
    i = plain.lastIndex;
    if (text[i] === '"') return i + 1;
    escape.lastIndex = i;
    if (!escape.test(text)) throw new JsonError(i >= text.length ? "a string has no end" : "a character is not allowed in a string", text, i);
    i = escape.lastIndex;
  }
}

function scalarEnd(text, i) {
  for (const word of ["true", "false", "null"]) if (text.startsWith(word, i)) return i + word.length;
  number.lastIndex = i;
  if (!number.test(text)) throw new JsonError(i >= text.length ? "the text ends where a value is expected" : "a value is expected", text, i);
  return number.lastIndex;
}

const ends = { object: "}", array: "]" };

// walk reads one value at i and tells the visitor: open(kind, i), name(start, end), scalar(kind, start, end), close(kind, i).
// It returns the offset behind the value. Values may be nested `most` deep; the stack of calls does not grow with them.
function walk(text, i, visit, most = deepest) {
  const open = [];
  for (; ;) {
    i = skipSpace(text, i);
    const kind = kindAt(text, i);
    if (ends[kind]) {
      if (open.length > most) throw new JsonError("values are nested too deeply", text, i, true);
      visit.open(kind, i);
      open.push(kind);
      i = skipSpace(text, i + 1);
      if (text[i] !== ends[kind]) {
        if (kind === "object") i = member(text, i, visit);
        continue;
      }
    } else {
      const end = kind === "string" ? stringEnd(text, i) : scalarEnd(text, i);
      visit.scalar(kind, i, end);
      i = open.length > 0 ? skipSpace(text, end) : end;
    }
    while (open.length > 0 && text[i] === ends[open.at(-1)]) {
      visit.close(open.pop(), i++);
      if (open.length > 0) i = skipSpace(text, i);
    }
    if (open.length === 0) return i;
    if (text[i] !== ",") throw new JsonError(`"," or "${ends[open.at(-1)]}" is expected`, text, i);
    i = skipSpace(text, i + 1);
    if (open.at(-1) === "object") i = member(text, i, visit);
  }
}

function member(text, i, visit) {
  if (text[i] !== '"') throw new JsonError("the name of a member is expected", text, i);
  const end = stringEnd(text, i);
  visit.name(i, end);
  i = skipSpace(text, end);
  if (text[i] !== ":") throw new JsonError('":" is expected', text, i);
  return i + 1;
}

function whole(text, visit, most) {
  const end = skipSpace(text, walk(text, 0, visit, most));
  if (end < text.length) throw new JsonError("the text goes on behind the value", text, end);
}

/** check returns the JsonError of a text, or null for JSON. */
export function check(text) {
  const nothing = () => {};
  try {
    whole(text, { open: nothing, close: nothing, name: nothing, scalar: nothing });
    return null;
  } catch (err) {
    if (err instanceof JsonError) return err;
    throw err;
  }
}

/** parse makes a tree of nodes {kind, text, name, items}; items of an object have name, and may repeat it. */
export function parse(text) {
  const root = { items: [] };
  const stack = [root];
  let name;
  const add = (node) => {
    stack.at(-1).items.push(node);
    if (name !== undefined) [node.name, name] = [name, undefined];
    return node;
  };
  whole(text, {
    open: (kind, start) => stack.push(add({ kind, start, items: [] })),
    close: (kind, at) => {
      const node = stack.pop();
      node.text = text.slice(node.start, at + 1);
    },
    name: (start, end) => (name = JSON.parse(text.slice(start, end))),
    scalar: (kind, start, end) => add({ kind, text: text.slice(start, end) }),
  });
  return root.items[0];
}

// membersOf lists the members of an object. It makes nothing of their values, which may be large.
function membersOf(text) {
  const list = [];
  let depth = 0, name, from;
  const end = (at) => depth === 1 && list.push({ name, text: text.slice(from, at) });
  whole(text, {
    open: (kind, at) => {
      if (depth === 1) from = at;
      depth++;
    },
    close: (kind, at) => {
      depth--;
      end(at + 1);
    },
    name: (start, stop) => depth === 1 && (name = JSON.parse(text.slice(start, stop))),
    scalar: (kind, start, stop) => {
      if (depth === 1) from = start;
      end(stop);
    },
  }, Infinity);
  return list;
}

/** tokens are the parts of a JSON text in order: {type, text}, type being a kind, "name" or "mark". */
export function tokens(text) {
  const list = [];
  const pattern = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false)|(null)|([{}[\],:])/g;
  for (const m of text.matchAll(pattern)) {
    if (m[1] !== undefined) {
      list.push({ type: m[2] ? "name" : "string", text: m[1] });
      if (m[2]) list.push({ type: "mark", text: ":" });
    } else if (m[3]) list.push({ type: "number", text: m[3] });
    else if (m[4]) list.push({ type: "boolean", text: m[4] });
    else if (m[5]) list.push({ type: "null", text: m[5] });
    else list.push({ type: "mark", text: m[6] });
  }
  return list;
}

/** prettyTokens are tokens with line breaks and an indentation of two between them; digits, order and escapes stay. */
export function prettyTokens(text) {
  const out = [];
  let depth = 0;
  const all = tokens(text);
  const line = () => out.push({ type: "space", text: "\n" + "  ".repeat(depth) });
  all.forEach((t, i) => {
    const before = all[i - 1]?.text, after = all[i + 1]?.text;
    const opens = t.type === "mark" && (t.text === "{" || t.text === "[");
    const closes = t.type === "mark" && (t.text === "}" || t.text === "]");
    if (closes && --depth >= 0 && !(all[i - 1]?.type === "mark" && (before === "{" || before === "["))) line();
    out.push(t);
    if (opens) {
      depth++;
      if (!(all[i + 1]?.type === "mark" && (after === "}" || after === "]"))) line();
    } else if (t.text === "," && t.type === "mark") line();
    else if (t.text === ":" && t.type === "mark") out.push({ type: "space", text: " " });
  });
  return out;
}

/** prettify is a text with its tokens on lines of their own. A text that is no JSON throws a JsonError. */
export function prettify(text) {
  const err = check(text);
  if (err) throw err;
  return prettyTokens(text).map((t) => t.text).join("");
}

/** decode reads an API document: plain values, but members of users (userMembers) as Json. */
export function decode(text, opaque = userMembers) {
  const stack = [];
  const nothing = () => {};
  const skipper = { open: nothing, close: nothing, name: nothing, scalar: nothing };
  let result;
  const read = (i) => {
    i = skipSpace(text, i);
    const kind = kindAt(text, i);
    if (kind === "string") {
      const end = stringEnd(text, i);
      const inner = text.slice(i + 1, end - 1);
      result = inner.includes("\\") ? JSON.parse(text.slice(i, end)) : inner;
      return end;
    }
    if (kind === "object" || kind === "array") return kind === "object" ? readObject(i) : readArray(i);
    const end = scalarEnd(text, i);
    result = kind === "number" ? Number(text.slice(i, end)) : kind === "null" ? null : text[i] === "t";
    return end;
  };
  const readObject = (i) => {
    const object = {};
    stack.push(object);
    i = skipSpace(text, i + 1);
    while (text[i] !== "}") {
      let name;
      i = member(text, i, { name: (s, e) => (name = JSON.parse(text.slice(s, e))) });
      if (opaque.has(name)) {
        i = skipSpace(text, i);
        const end = walk(text, i, skipper, Infinity);
        result = text.startsWith("null", i) ? null : new Json(text.slice(i, end));
        i = end;
      } else i = read(i);
      if (name !== "__proto__") object[name] = result;
      i = skipSpace(text, i);
      if (text[i] === ",") i = skipSpace(text, i + 1);
      else if (text[i] !== "}") throw new JsonError('"," or "}" is expected', text, i);
    }
    result = stack.pop();
    return i + 1;
  };
  const readArray = (i) => {
    const array = [];
    i = skipSpace(text, i + 1);
    while (text[i] !== "]") {
      i = skipSpace(text, read(i));
      array.push(result);
      if (text[i] === ",") i = skipSpace(text, i + 1);
      else if (text[i] !== "]") throw new JsonError('"," or "]" is expected', text, i);
    }
    result = array;
    return i + 1;
  };
  const end = skipSpace(text, read(0));
  if (end < text.length) throw new JsonError("the text goes on behind the value", text, end);
  return result;
}

/** quote is a string as JSON text. */
export const quote = (s) => JSON.stringify(String(s));

/**
 * object makes the text of a JSON object of [name, text] pairs; values are JSON text already, undefined ones are left out.
 * Bodies of requests are made with it, so that users' digits and order stay as they were typed.
 */
export function object(pairs) {
  return "{" + pairs.filter(([, text]) => text !== undefined).map(([name, text]) => `${quote(name)}:${text}`).join(",") + "}";
}
