// What is really sent to the model, and who would take a run now: the coordinator's own answer for the definition as it
// stands in the editor.
import { html, useEffect, useRef, useState } from "../../base.js";
import { ApiError, judge } from "../../lib/api.js";
import { Json, object, quote } from "../../lib/json.js";
import { plural } from "../../lib/format.js";
import { refusal } from "../../lib/rights.js";
import { Badge, Card, Copy, Empty, Hostile, Id, Loading, Problem } from "../../lib/components.js";
import { Form, canForm, formValue, unfinished } from "../../lib/form.js";
import { read, write } from "../../lib/form/value.js";
import { Editor } from "../../lib/editor.js";
import { Mismatches } from "../run_story.js";

const route = "POST /agents/preview";

/** usePreview asks what the definition would do, a moment after the last change. parameters is a node of form/value.js. */
export function usePreview(definition, on) {
  const [parameters, setParameters] = useState(null);
  const [state, setState] = useState({});
  const why = refusal(route);
  const broken = definition.broken();
  const stored = definition.fixed || !definition.dirty;
  const text = stored ? object([["agent_name", quote(definition.agent.name)]]) : broken ? null : object([["definition", definition.text()]]);
  const given = parameters && !unfinished(parameters) ? write(parameters) : "{}";
  const running = useRef(null);
  useEffect(() => {
    if (!on || why || text === null) return;
    const timer = setTimeout(async () => {
      running.current?.abort();
      const mine = (running.current = new AbortController());
      try {
        const data = await judge("/agents/preview", text.slice(0, -1) + `,"parameters":${given}}`, { signal: mine.signal });
        if (!mine.signal.aborted) setState({ data });
      } catch (error) {
        if (!mine.signal.aborted) setState((s) => ({ ...s, error: error instanceof ApiError ? error : new Error(String(error)) }));
      }
    }, 400);
    return () => clearTimeout(timer);
  }, [on, why, text, given]);
  useEffect(() => () => running.current?.abort(), []);
  const error = why ? new Error(why) : broken ? new Error(`${broken} is not valid JSON yet`) : state.error;
  return { data: state.data, error, parameters, setParameters };
}

export function Prompt({ definition, agent, preview }) {
  const text = definition.value("system_prompt");
  const value = text === undefined ? "" : new Json(text).string() ?? text;
  if (agent.type === "procedural") return html`<${Empty} icon="tool" title="No model is involved" text="A procedural agent is a program: its parameters become the arguments of the command." />`;
  return html`<div class="stack"><${Card} title="System prompt"><textarea class="code tall" aria-label="System prompt" spellcheck=${true} readonly=${Boolean(definition.fixed)} value=${value} placeholder="Who the agent is and how it works"
      onInput=${(e) => definition.set("system_prompt", e.currentTarget.value === "" ? '""' : quote(e.currentTarget.value))}></textarea><//>
    <div class="grid"><${Sample} preview=${preview} /><${Sent} preview=${preview} /></div></div>`;
}

/** Sample is what a caller might send; it is kept nowhere. */
function Sample({ preview }) {
  const schema = preview.data?.parameters_schema?.text;
  const errors = preview.data?.validation_errors ?? [];
  const value = preview.parameters ?? (schema && canForm(schema) ? formValue(schema) : read("{}"));
  return html`<${Card} title="Try it with these parameters"><div class="stack"><p class="faint">Nothing is started or saved.</p>
    ${schema && canForm(schema, value) ? html`<${Form} schema=${schema} value=${value} onChange=${preview.setParameters} errors=${preview.parameters ? errors : []} />`
      : html`<${Editor} label="Parameters" value=${write(value)} onChange=${(t) => preview.setParameters(read(t))} />`}</div><//>`;
}

function Sent({ preview }) {
  if (!preview.data && !preview.error) return html`<${Card} title="What is sent"><${Loading} lines=${4} /><//>`;
  const { system_prompt: system, prompt, validation_errors: wrong } = preview.data ?? {};
  return html`<${Card} title="What is sent"><div class="stack">${preview.error && html`<${Problem} error=${preview.error} />`}
    ${preview.data && html`<${Block} title="System prompt" text=${system} none="None" />
      <${Block} title="Prompt" text=${prompt} none=${wrong?.length ? "The parameters are not valid: a run would be refused." : "None"} />`}</div><//>`;
}

const Block = ({ title, text, none }) => html`<section class="block"><h3>${title}</h3>${text ? html`<div class="jsonbox"><pre class="json" tabindex="0" aria-label=${title}><${Hostile} text=${text} lines=${true} /></pre><${Copy} text=${text} label=${"Copy the " + title.toLowerCase()} /></div>` : html`<p class="faint">${none}</p>`}</section>`;

export function Runners({ agent, preview }) {
  if (preview.error && !preview.data) return html`<${Problem} error=${preview.error} />`;
  if (!preview.data) return html`<${Loading} lines=${3} />`;
  const runners = preview.data.runners ?? [];
  const fit = runners.filter((r) => r.matches).length;
  if (runners.length === 0) return html`<${Empty} icon="runners" title="No runner is online" text="A run would wait, and fail after RUN_NO_MATCH_TIMEOUT." />`;
  const rest = runners.filter((r) => !r.matches);
  return html`<${Card} title=${fit === 0 ? "No runner would take it now" : `${fit} of ${plural(runners.length, "runner")} would take it now`}><div class="stack">
    <ul class="stack">${runners.filter((r) => r.matches).map((r) => html`<li class="row wrap"><${Badge} kind="good">matches<//><${Id} id=${r.runner_id} href="/ui/runners" /><span class="faint"><${Hostile} text=${[r.hostname, r.executor_profile].filter(Boolean).join(" · ")} /></span></li>`)}</ul>
    ${rest.length > 0 && html`<h3>Why the others do not match</h3><${Mismatches} runners=${rest} agent=${agent.name} />`}</div><//>`;
}
