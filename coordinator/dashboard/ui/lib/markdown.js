// Markdown as elements, never as HTML text. Raw HTML is shown as it is written, images are not loaded, links go to http(s)
// only and name their host.
import { html, useEffect, useState } from "../base.js";
import { Hostile, Copy } from "./ui/text.js";

// What is beyond one of these is shown as text: a hostile answer is not to keep the page busy, nor to fill its stack.
const largest = 65536; // characters
const mostLines = 8000;
const mostCells = 6000; // marks between the cells of tables
const mostPairs = 16e6; // of marks of emphasis within a paragraph, which the parser compares with each other
const deepest = 40; // quotes and lists within each other at the beginning of a line, and elements within each other

let loading;
const parser = () => (loading ??= import("../markdown.js"));

const count = (text, pattern) => (text.match(pattern) ?? []).length;
const nested = new RegExp(`^(?:[ \\t]*(?:>|[-+*](?=[ \\t])|\\d{1,9}[.)](?=[ \\t]))){${deepest}}`, "m");

/** tooCostly tells whether a text would take the parser or the browser long. */
export function tooCostly(text) {
  if (text.length > largest || count(text, /\n/g) > mostLines || count(text, /\|/g) > mostCells || nested.test(text)) return true;
  return text.split(/\n[ \t]*\n/).reduce((sum, block) => sum + count(block, /[*_~]+/g) ** 2, 0) > mostPairs;
}

/** Markdown shows a text of a model's. Until the parser is loaded, and where it fails, it is shown as plain text. */
export function Markdown({ text }) {
  const [tree, setTree] = useState(null);
  useEffect(() => {
    let gone = false;
    setTree(null);
    if (tooCostly(text)) return;
    parser().then((m) => gone || setTree(m.parse(text))).catch(() => {});
    return () => (gone = true);
  }, [text]);
  if (!tree) return html`<div class="md plain"><${Hostile} text=${text} lines=${true} /></div>`;
  return html`<div class="md">${children(tree, { defs: definitions(tree), depth: 0 })}</div>`;
}

// walk visits a node and all below it, in their order. It is no recursion: nodes may be thousands deep.
function walk(root, visit) {
  const open = [root];
  for (let node; (node = open.pop());) {
    visit(node);
    if (node.children) open.push(...node.children.toReversed());
  }
}

function definitions(tree) {
  const all = new Map();
  walk(tree, (n) => n.type === "definition" && all.set(n.identifier, n));
  return all;
}

// flat is the text of a node and all below it.
function flat(root) {
  const parts = [];
  walk(root, (n) => n.value !== undefined && parts.push(n.value));
  return parts.join(" ");
}

// children are the elements below a node; at has the definitions of links, and how deep it is.
function children(node, at) {
  if (at.depth >= deepest) return html`<${Hostile} text=${flat(node)} lines=${true} />`;
  return node.children.map((c) => element(c, { ...at, depth: at.depth + 1 }));
}

/** safeLink is an address that may be followed, or null: http and https only. */
export function safeLink(to) {
  try {
    const url = new URL(to);
    return url.protocol === "http:" || url.protocol === "https:" ? url : null;
  } catch {
    return null;
  }
}

function link(to, content) {
  const url = safeLink(to);
  if (!url) return html`<span class="deadlink">${content} <code><${Hostile} text=${to} /></code></span>`;
  return html`<a href=${url.href} target="_blank" rel="noopener noreferrer">${content}</a><span class="host"> (${url.host})</span>`;
}

const picture = (to, alt) => {
  const url = safeLink(to);
  return html`<span class="picture">Image${alt ? html`: <${Hostile} text=${alt} />` : ""} ${url && link(to, "open")}</span>`;
};

const elements = {
  paragraph: (n, d) => html`<p>${children(n, d)}</p>`,
  text: (n) => html`<${Hostile} text=${n.value} lines=${true} />`,
  emphasis: (n, d) => html`<em>${children(n, d)}</em>`,
  strong: (n, d) => html`<strong>${children(n, d)}</strong>`,
  delete: (n, d) => html`<del>${children(n, d)}</del>`,
  inlineCode: (n) => html`<code><${Hostile} text=${n.value} /></code>`,
  break: () => html`<br />`,
  thematicBreak: () => html`<hr />`,
  blockquote: (n, d) => html`<blockquote>${children(n, d)}</blockquote>`,
  html: (n) => html`<code class="raw"><${Hostile} text=${n.value} lines=${true} /></code>`,
  code: (n) => html`<div class="codeblock">${n.lang && html`<span class="lang"><${Hostile} text=${n.lang} /></span>`}<pre tabindex="0"><code><${Hostile} text=${n.value} lines=${true} /></code></pre><${Copy} text=${n.value} label="Copy the code" /></div>`,
  link: (n, d) => link(n.url, children(n, d)),
  linkReference: (n, d) => (d.defs.has(n.identifier) ? link(d.defs.get(n.identifier).url, children(n, d)) : html`[${children(n, d)}]`),
  image: (n) => picture(n.url, n.alt),
  imageReference: (n, d) => picture(d.defs.get(n.identifier)?.url ?? "", n.alt),
  definition: () => null,
  list: (n, d) => (n.ordered ? html`<ol start=${n.start ?? 1}>${children(n, d)}</ol>` : html`<ul>${children(n, d)}</ul>`),
  listItem: (n, d) => html`<li>${typeof n.checked === "boolean" && html`<input type="checkbox" disabled checked=${n.checked} aria-label=${n.checked ? "done" : "open"} />`}${n.children.map((c) => (c.type === "paragraph" && !n.spread ? children(c, d) : element(c, d)))}</li>`,
  table: (n, d) => {
    const [head, ...body] = n.children;
    const row = (r, tag) => html`<tr>${r.children.map((c, i) => html`<${tag} class=${n.align?.[i] ? "to-" + n.align[i] : undefined}>${children(c, d)}<//>`)}</tr>`;
    return html`<div class="mdtable" tabindex="0"><table><thead>${row(head, "th")}</thead><tbody>${body.map((r) => row(r, "td"))}</tbody></table></div>`;
  },
};

function element(node, at) {
  if (node.type === "heading") {
    const tag = "h" + Math.min(6, Math.max(3, node.depth + 1));
    return html`<${tag}>${children(node, at)}<//>`;
  }
  const make = elements[node.type];
  if (make) return make(node, at);
  return node.children ? children(node, at) : html`<${Hostile} text=${node.value ?? ""} lines=${true} />`;
}
