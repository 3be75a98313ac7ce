// The frame of a page: its title, where it is, its actions.
import { html, useEffect } from "../../base.js";
import { focusHeading } from "../router.js";

/** Page sets the document's title and shows the heading, which takes focus after a navigation. crumbs: [{label, href}]. */
export function Page({ title, heading, crumbs = [], actions, children, class: c = "" }) {
  useEffect(() => {
    document.title = `${title} · Agent Orchestrator`;
  }, [title]);
  useEffect(focusHeading, []);
  return html`<div class=${"page " + c}>
    <header class="top"><div class="where">
      ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Above this page">${crumbs.map((x) => html`<a href=${x.href}>${x.label}</a><span aria-hidden="true">/</span>`)}</nav>`}
      <h1 tabindex="-1" data-heading>${heading ?? title}</h1></div>
      ${actions && html`<div class="actions">${actions}</div>`}</header>
    ${children}
  </div>`;
}

/** Card is a part of a page with a heading of its own. */
export const Card = ({ title, actions, children, class: c = "", id }) => html`<section class=${"card " + c} id=${id}>${(title || actions) && html`<header><h2>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</header>`}<div class="inner">${children}</div></section>`;

/** Facts is a list of names and values: [[name, value], …]; a value of undefined or null leaves its row out. */
export const Facts = ({ of }) => html`<dl class="facts">${of.filter((f) => f && f[1] !== undefined && f[1] !== null).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
