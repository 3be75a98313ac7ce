// The dashboard starts here: who we are, then the shell with the page of the address.
import { html, render, useEffect, useState } from "./base.js";
import { address, match, start } from "./lib/router.js";
import { loadMe, me } from "./lib/rights.js";
import { setTheme, theme } from "./lib/format.js";
import { Failed, Loading } from "./lib/components.js";
import { backoff } from "./lib/api.js";
import { Shell } from "./shell.js";

// Pages are loaded when they are first shown. Each exports a component by default, which gets the path's params.
const pages = [
  ["/ui", () => import("./pages/overview.js")],
  ["/ui/runs", () => import("./pages/runs.js")],
  ["/ui/runs/:id", () => import("./pages/run.js")],
  ["/ui/sessions", () => import("./pages/sessions.js")],
  ["/ui/sessions/:id", () => import("./pages/session.js")],
  ["/ui/sessions/:id/tree", () => import("./pages/tree.js")],
  ["/ui/agents", () => import("./pages/agents.js")],
  ["/ui/agents/:name", () => import("./pages/agent.js")],
  ["/ui/schemas", () => import("./pages/schemas.js")],
  ["/ui/schemas/:name", () => import("./pages/schemas.js")],
  ["/ui/new", () => import("./pages/newrun.js")],
  ["/ui/runners", () => import("./pages/runners.js")],
  ["/ui/queues", () => import("./pages/queues.js")],
  ["/ui/callbacks", () => import("./pages/callbacks.js")],
  ["/ui/settings", () => import("./pages/settings.js")],
  ["/ui/login", () => import("./pages/login.js")],
];

const loaded = new Map(); // by pattern: the page's component

function find(path) {
  for (const [pattern, load] of pages) {
    const params = match(pattern, path);
    if (params) return { pattern, load, params };
  }
  return { pattern: "", load: () => import("./pages/notfound.js"), params: {} };
}

function Route() {
  const { path } = address.value;
  const { pattern, load, params } = find(path);
  const [state, setState] = useState({});
  useEffect(() => {
    let gone = false;
    if (loaded.has(pattern)) return;
    load().then((m) => (loaded.set(pattern, m.default), gone || setState({ pattern })), (error) => gone || setState({ pattern, error }));
    return () => (gone = true);
  }, [pattern]);
  const Shown = loaded.get(pattern);
  if (Shown) return html`<${Shown} key=${path} ...${params} />`;
  if (state.error && state.pattern === pattern) return html`<${Failed} error=${state.error} what="This page" reload=${() => location.reload()} />`;
  return html`<${Loading} />`;
}

function App() {
  const [error, setError] = useState(null);
  useEffect(() => {
    let gone = false;
    (async () => {
      for (let n = 0; !gone && !me.value; n++) {
        try {
          await loadMe();
          setError(null);
        } catch (err) {
          setError(err);
          if (!err.passing) return;
          await new Promise((done) => setTimeout(done, backoff(n, err.retryAfter)));
        }
      }
    })();
    return () => (gone = true);
  }, []);
  const login = match("/ui/login", address.value.path);
  if (login) return html`<main class="alone"><${Route} /></main>`;
  if (!me.value) return error && error.status !== 401 ? html`<main class="alone"><${Failed} error=${error} what="The dashboard" /></main>` : html`<main class="alone"><${Loading} /></main>`;
  return html`<${Shell}><${Route} /><//>`;
}

setTheme(theme.value);
start();
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
