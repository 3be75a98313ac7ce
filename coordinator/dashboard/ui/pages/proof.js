// The proof: the coordinator reads every record there is and counts anew.
import { html, useEffect, useState } from "../base.js";
import { get, seg } from "../lib/api.js";
import { count, duration, plural } from "../lib/format.js";
import { query, setQuery } from "../lib/router.js";
import { Button, Dialog, Failed, Hostile, Icon, Id, Loading } from "../lib/components.js";

/** Proof is a button that has the ledger checked and shows the sums. */
export function Proof({ kind = "" }) {
  const [open, setOpen] = useState(query.value.has("prove"));
  return html`<${Button} icon="shield" kind=${kind} needs="GET /ledger" title="Recount every record in the log" onClick=${() => setOpen(true)}>Prove it<//>${open && html`<${Sums} onClose=${() => (setOpen(false), setQuery({ prove: null }))} />`}`;
}

function Sums({ onClose }) {
  const [state, setState] = useState({});
  const ask = async (signal) => {
    setState({});
    const began = performance.now();
    try {
      const ledger = await get("/ledger", {}, { signal, patience: 60000 });
      setState({ ledger, took: performance.now() - began });
    } catch (error) {
      if (!signal?.aborted) setState({ error });
    }
  };
  useEffect(() => {
    const gone = new AbortController();
    ask(gone.signal);
    return () => gone.abort();
  }, []);
  const { ledger, error, took } = state;
  return html`<${Dialog} title="Is every run accounted for?" wide=${true} onClose=${onClose} footer=${html`<${Button} icon="retry" busy=${!ledger && !error} onClick=${() => ask()}>Count again<//><${Button} kind="primary" onClick=${onClose}>Close<//>`}>
    ${error ? html`<${Failed} error=${error} what="The ledger" />` : !ledger ? html`<p class="faint">Reading every record in the log…</p><${Loading} lines=${4} />` : html`<${Ledger} ledger=${ledger} took=${took} />`}<//>`;
}

/** Ledger shows the answer of GET /ledger as sums. */
export function Ledger({ ledger: l, took }) {
  const { runs: r, callbacks: c, webhooks: w, attempts: a } = l;
  return html`<div class=${"banner " + (l.ok ? "good" : "bad")} role="status"><${Icon} name=${l.ok ? "check" : "warn"} /><b>${l.ok ? "Yes. Nothing was lost, nothing was done twice." : `No: ${plural(l.wrong_count, "problem was", "problems were")} found.`}</b></div>
    <p class="soft">${plural(l.records, "record")} read, up to number ${count(l.sequence)}${took !== undefined && `, in ${duration(took)}`}. The coordinator's own state was not used, and each number below is counted separately.</p>
    <${Sum} of="runs accepted" total=${r.accepted} parts=${[["waiting", r.waiting], ["running", r.running], ["ended", r.ended]]} />
    <${Sum} of="runs ended" total=${r.ended} parts=${[["completed", r.completed], ["failed", r.failed], ["stopped", r.stopped]]} />
    <${Sum} of="callbacks owed to parents" total=${c.owed} parts=${[["delivered", c.delivered], ["waiting", c.waiting], ["undeliverable", c.undeliverable], ["suppressed", c.suppressed ?? 0]]} />
    ${w.owed > 0 && html`<${Sum} of="webhooks owed" total=${w.owed} parts=${[["delivered", w.delivered], ["waiting", w.waiting], ["dead", w.dead]]} />`}
    <p class="soft">${plural(a.begun, "attempt")} claimed, ${count(a.ended)} ended, ${count(a.retried)} retried. ${plural(l.sessions, "session")}.${l.truncated_before > 1 ? ` Records before ${count(l.truncated_before)} are no longer kept.` : ""}</p>
    ${l.wrong.length > 0 && html`<ul class="wrongs">${l.wrong.map((x) => html`<li><code>${x.kind}</code> <${Hostile} text=${x.message} /> ${x.run_id && html`<${Id} id=${x.run_id} href=${"/ui/runs/" + seg(x.run_id)} />`}${x.sequence && html` <span class="faint">record ${x.sequence}</span>`}</li>`)}</ul>`}`;
}

// Sum is one line: the total, and the parts that it must be made of.
function Sum({ of, total, parts }) {
  const sum = parts.reduce((n, [, v]) => n + v, 0);
  return html`<p class="sum"><b class="num">${count(total)}</b> <span>${of}</span> <span class="eq" aria-label=${sum === total ? "is" : "is not"}>${sum === total ? "=" : "≠"}</span> ${parts.map(([name, v], i) => html`${i > 0 && html`<span class="faint">+</span>`} <span class="part"><b class="num">${count(v)}</b> ${name}</span> `)}</p>`;
}
