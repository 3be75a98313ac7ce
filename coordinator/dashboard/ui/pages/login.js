// Login: a token is pasted once; the answer sets a cookie that no script can read.
import { html, useEffect, useRef, useState } from "../base.js";
import { get, loggedIn, request, send } from "../lib/api.js";
import { object, quote } from "../lib/json.js";
import { navigate, query, returnTo } from "../lib/router.js";
import { setMe } from "../lib/rights.js";
import { Button, CodeLine, Field, Hostile, Problem } from "../lib/components.js";

/** Login asks for a token, or takes the single-use code that `ao dashboard` put into the address's fragment. */
export default function Login() {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [other, setOther] = useState(null);
  const input = useRef();
  const there = returnTo(query.value.get("return_to"));
  const enter = async (name, value) => {
    setBusy(true);
    setError(null);
    try {
      const who = await send("POST", "/login", object([[name, quote(value)]]));
      loggedIn();
      setMe(who);
      navigate(there, { replace: true });
    } catch (err) {
      setError(err);
      setBusy(false);
      input.current?.focus();
    }
  };
  useEffect(() => {
    document.title = "Log in · Agent Orchestrator";
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (code) {
      history.replaceState(history.state, "", location.pathname + location.search); // a code is used once and stays in no history
      const login = () => enter("code", code);
      get("/me").then((me) => (me.kind === "cookie" && me.name !== nameIn(code) ? setOther({ me, code }) : login()), login);
      return;
    }
    input.current?.focus();
    request("GET", "/health").then(() => get("/me")).then((me) => me && !me.login && (setMe(me), navigate(there, { replace: true })), () => {});
  }, []);
  const submit = (e) => {
    e.preventDefault();
    if (token.trim() && !busy) enter("token", token.trim());
  };
  if (other) return html`<${Replace} ...${other} busy=${busy} error=${error} enter=${enter} stay=${() => (setMe(other.me), navigate(there, { replace: true }))} />`;
  return html`<form class="login stack" onSubmit=${submit}>
    <h1 tabindex="-1" data-heading>Log in</h1>
    <p class="soft">This coordinator asks for an API token. It is sent once; your browser keeps a cookie that ends after 12 hours without use.</p>
    <${Field} label="API token" hint="Whoever runs the coordinator creates one, with the scope read, run or admin.">${(p) => html`<input ...${p} ref=${input} type="password" autocomplete="current-password" spellcheck=${false} value=${token} onInput=${(e) => setToken(e.currentTarget.value)} />`}<//>
    ${error && html`<${Problem} error=${error} />`}
    <${Button} kind="primary" type="submit" busy=${busy} why=${token.trim() ? undefined : "Paste a token first"} onClick=${submit}>Log in<//>
    <details class="faint"><summary>No token yet?</summary><div class="stack"><p>On the coordinator's machine:</p><${CodeLine} text="ao tokens create --help" /><p>With AO_TOKEN set, this opens the dashboard logged in:</p><${CodeLine} text="ao dashboard" /></div></details>
  </form>`;
}

// nameIn is the name of the token that a code stands for. Whether that is true the coordinator says.
const nameIn = (code) => code.split(".").slice(3).join(".");

/** Replace asks before a code takes the place of somebody's login: a link may be sent by anybody. */
const Replace = ({ me, code, busy, error, enter, stay }) => html`<div class="login stack">
  <h1 tabindex="-1" data-heading>Log in as somebody else?</h1>
  <p>This browser is logged in as <strong><${Hostile} text=${me.name} /></strong>. The link that was opened logs it in as <strong><${Hostile} text=${nameIn(code)} /></strong>. Everything you do then is done under that name.</p>
  ${error && html`<${Problem} error=${error} />`}
  <div class="row"><${Button} kind="primary" onClick=${stay}>Stay as I am<//><${Button} busy=${busy} onClick=${() => enter("code", code)}>Log in as the other<//></div></div>`;
