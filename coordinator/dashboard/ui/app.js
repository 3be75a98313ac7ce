// The dashboard starts here: who we are, then the shell with the page of the address.
import { html, render, useEffect, useState } from "./base.js";
import { address, match, start } from "./lib/router.js";
import { loadMe, me } from "./lib/rights.js";
import { setTheme, theme } from "./lib/format.js";
import { Failed, Loading } from "./lib/components.js";
import { backoff } from "./lib/api.js";
import { Shell } from "./shell.js";
import Overview from "./pages/overview.js";
import Runs from "./pages/runs.js";
import Run from "./pages/run.js";
import Sessions from "./pages/sessions.js";
import Session from "./pages/session.js";
import Tree from "./pages/tree.js";
import Agents from "./pages/agents.js";
import Agent from "./pages/agent.js";
import Schemas from "./pages/schemas.js";
import NewRun from "./pages/newrun.js";
import Runners from "./pages/runners.js";
import Queues from "./pages/queues.js";
import Callbacks from "./pages/callbacks.js";
import Settings from "./pages/settings.js";
import Login from "./pages/login.js";
import NotFound from "./pages/notfound.js";

// What the tests in a browser call of the bundle.
export * as api from "./lib/api.js";
export * as plan from "./lib/form/plan.js";
export * as runs from "./lib/runs.js";
export * as value from "./lib/form/value.js";

// Each page gets the params of its path.
const pages = [
  ["/ui", Overview],
  ["/ui/runs", Runs],
  ["/ui/runs/:id", Run],
  ["/ui/sessions", Sessions],
  ["/ui/sessions/:id", Session],
  ["/ui/sessions/:id/tree", Tree],
  ["/ui/agents", Agents],
  ["/ui/agents/:name", Agent],
  ["/ui/schemas", Schemas],
  ["/ui/schemas/:name", Schemas],
  ["/ui/new", NewRun],
  ["/ui/runners", Runners],
  ["/ui/queues", Queues],
  ["/ui/callbacks", Callbacks],
  ["/ui/settings", Settings],
  ["/ui/login", Login],
];

function find(path) {
  for (const [pattern, page] of pages) {
    const params = match(pattern, path);
    if (params) return { page, params };
  }
  return { page: NotFound, params: {} };
}

function Route() {
  const { path } = address.value;
  const { page: Shown, params } = find(path);
  return html`<${Shown} key=${path} ...${params} />`;
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
