// What a page shows when there is nothing, not yet anything, or a refusal.
import { html, useEffect, useState } from "../../base.js";
import { ApiError } from "../api.js";
import { refusal } from "../rights.js";
import { Icon } from "./icons.js";
import { Hostile } from "./text.js";
import { Button } from "./controls.js";

/** Empty says that there is nothing and what to do: children are actions. */
export const Empty = ({ title, text, icon = "info", children }) => html`<div class="state empty"><${Icon} name=${icon} /><h2>${title}</h2>${text && html`<p>${text}</p>`}${children && html`<div class="actions">${children}</div>`}</div>`;

/** Loading keeps the place of what comes: lines of it. It shows nothing for a moment, so that fast answers do not flash. */
export function Loading({ lines = 6, label = "Loading" }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => setShown(true), 150);
    return () => clearTimeout(t);
  }, []);
  return html`<div class=${"skeleton " + (shown ? "shown" : "")} role="status" aria-label=${label}>${Array.from({ length: lines }, (_, i) => html`<div class="bar" style=${{ width: [92, 74, 83, 60, 88, 70][i % 6] + "%" }}></div>`)}</div>`;
}

/** NoPermission says which right is missing. */
export const NoPermission = ({ route, text }) => html`<${Empty} icon="shield" title="You have no access to this" text=${text ?? refusal(route) ?? "Ask for a token with another scope."}><${Button} href="/ui/login">Log in with another token<//><//>`;

/** Failed shows an error of the API, what it means and what to do. */
export function Failed({ error, reload, what = "This page" }) {
  if (error instanceof ApiError && error.status === 403) return html`<${NoPermission} text=${error.message} />`;
  const gone = error.status === 404;
  const title = gone ? "Not found" : error.passing ? "The coordinator is not available" : `${what} could not be loaded`;
  const advice = gone ? "It may have been deleted, or be older than the history that is kept." : error.passing ? "This page retries by itself." : undefined;
  return html`<div class="state failed" role="alert"><${Icon} name="warn" /><h2>${title}</h2><p><${Hostile} text=${error.message} lines=${true} /></p>${advice && html`<p class="faint">${advice}</p>`}
    <p class="faint"><code>${error.code ?? error.name}</code></p><div class="actions">${reload && html`<${Button} icon="retry" onClick=${reload}>Try again<//>`}</div></div>`;
}

/** Loaded shows a resource of useResource: children is a function of its data. */
export function Loaded({ resource, what, lines, children }) {
  if (resource.data !== undefined) {
    return html`${resource.error && html`<div class="banner warn" role="status"><${Icon} name="warn" /><span>What is shown may be old: <${Hostile} text=${resource.error.message} /></span></div>`}${children(resource.data)}`;
  }
  if (resource.error) return html`<${Failed} error=${resource.error} reload=${resource.reload} what=${what} />`;
  return html`<${Loading} lines=${lines} />`;
}
