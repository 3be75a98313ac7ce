// Markdown as elements, never as HTML text. Raw HTML is shown as it is written, images are not loaded, links go to http(s)
// only and name their host.
import { html, useEffect, useState } from "../base.js";
import { Hostile, Copy } from "./ui/text.js";

const largest = 200000; // characters; what is longer is shown as text

let loading;
const parser = () => (loading ??= import("../markdown.js"));

/** Markdown shows a text of a model's. Until the parser is loaded, and where it fails, it is shown as plain text. */
export function Markdown({ text }) {
  const [tree, setTree] = useState(null);
  useEffect(() => {
    let gone = false;
    setTree(null);
    if (text.length > largest) return;
    parser().then((m) => gone || setTree(m.parse(text))).catch(() => {});
    return () => (gone = true);
  }, [text]);
  if (!tree) return html`<div class="md plain"><${Hostile} text=${text} lines=${true} /></div>`;
  const defs = new Map();
  collect(tree, defs);
  return html`<div class="md">${children(tree, defs)}</div>`;
}

function collect(node, defs) {
  if (node.type === "definition") defs.set(node.identifier, node);
  node.children?.forEach((c) => collect(c, defs));
}

const children = (node, defs) => node.children.map((c) => element(c, defs));

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
  linkReference: (n, d) => (d.has(n.identifier) ? link(d.get(n.identifier).url, children(n, d)) : html`[${children(n, d)}]`),
  image: (n) => picture(n.url, n.alt),
  imageReference: (n, d) => picture(d.get(n.identifier)?.url ?? "", n.alt),
  definition: () => null,
  list: (n, d) => (n.ordered ? html`<ol start=${n.start ?? 1}>${children(n, d)}</ol>` : html`<ul>${children(n, d)}</ul>`),
  listItem: (n, d) => html`<li>${typeof n.checked === "boolean" && html`<input type="checkbox" disabled checked=${n.checked} aria-label=${n.checked ? "done" : "open"} />`}${n.children.map((c) => (c.type === "paragraph" && !n.spread ? children(c, d) : element(c, d)))}</li>`,
  table: (n, d) => {
    const [head, ...body] = n.children;
    const row = (r, tag) => html`<tr>${r.children.map((c, i) => html`<${tag} class=${n.align?.[i] ? "to-" + n.align[i] : undefined}>${children(c, d)}<//>`)}</tr>`;
    return html`<div class="mdtable" tabindex="0"><table><thead>${row(head, "th")}</thead><tbody>${body.map((r) => row(r, "td"))}</tbody></table></div>`;
  },
};

function element(node, defs) {
  if (node.type === "heading") {
    const tag = "h" + Math.min(6, Math.max(3, node.depth + 1));
    return html`<${tag}>${children(node, defs)}<//>`;
  }
  const make = elements[node.type];
  if (make) return make(node, defs);
  return node.children ? children(node, defs) : html`<${Hostile} text=${node.value ?? ""} lines=${true} />`;
}
