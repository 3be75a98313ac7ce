package mcpapi

import (
	"encoding/json"

	"ao/coordinator/access"
	"ao/coordinator/audit"
	"ao/shared/schema"
)

// refuses returns why a caller may not call the tool; nil: it may.
func (t tool) refuses(who access.Caller) error {
	if err := who.RequireScope(t.scope); err != nil {
		return err
	}
	if who.Session != "" && !t.forSessions {
		return access.ErrNotForSessions
	}
	return nil
}

// arguments returns the schema of the tool's arguments.
func (t tool) arguments() *schema.Schema {
	s, err := schema.Compile(json.RawMessage(t.inputSchema))
	if err != nil { // a mistake in the table below, which every call would show
		panic(err)
	}
	return s
}

// Arguments that several tools take.
const (
	sessionArg = `"session_id":{"type":"string","description":"The session (ses_…)."}`
	modeArg    = `"mode":{"type":"string","enum":["sync","async_poll","async_callback"],"description":"sync ` +
		`(default): wait for the result. async_poll: return at once, ask get_agent_session_result later. ` +
		`async_callback: return at once; your own session is resumed with the result when the run has ended (only ` +
		`for agents that Agent Orchestrator runs)."},` +
		`"wait_seconds":{"type":"integer","minimum":0,"maximum":600,"description":"mode sync: how long to wait, ` +
		`default 50. The run goes on after that."},` +
		`"timeout_seconds":{"type":"integer","minimum":1,"description":"Limit of the run itself; when it is over, ` +
		`the run fails. The agent's own limit is the most there can be."}`
	outputArgs = `"output_schema":{"type":"object","description":"JSON Schema (draft-07) that the answer must match. ` +
		`The agent is asked again until it does, or the run fails with what is wrong; result_data then has the JSON. ` +
		`Wins over the agent's own output_schema."},` +
		`"output_schema_name":{"type":"string","description":"The name of a registered output schema ` +
		`(list_output_schemas), instead of output_schema."},` +
		`"output_schema_options":{"type":"object","description":"How it is enforced.",` +
		`"properties":{"max_retries":{"type":"integer","minimum":0,"maximum":10},"extract_json":{"type":"boolean"},` +
		`"strict_json_only":{"type":"boolean"},"validation_mode":{"type":"string","enum":["strict","lenient"]}}}`
	nothing = `{"type":"object","properties":{},"additionalProperties":false}`
)

// tools are all tools.
var tools = []tool{
	{
		name: "list_agent_blueprints", title: "List agents", scope: access.Read, forSessions: true, readOnly: true,
		inputSchema: nothing, do: (*API).agents,
		description: `List the agents that can be started, with the input each takes.

Input depends on the agent's type:
- procedural (a program): give "parameters" that match its parameters_schema; without a schema any object is taken. ` +
			`It has no conversation and cannot be resumed.
- autonomous (an AI) without parameters_schema: give "prompt".
- autonomous with parameters_schema: give "parameters" that match exactly that schema. There is a prompt among them ` +
			`only where the schema has one.
start_with says which of the two: prompt or parameters. output_schema, where there is one, is the form of the ` +
			`result's result_data.`,
	},
	{
		name: "start_agent_session", title: "Start an agent", scope: access.Run, forSessions: true,
		action: audit.RunCreate, do: (*API).start,
		description: `Start a new session of an agent, and by default wait for its result.

Input: see list_agent_blueprints. An autonomous agent without parameters_schema takes "prompt"; every other agent ` +
			`takes "parameters" that match its parameters_schema. Input that does not match is refused with every ` +
			`error and the schema: mend it and call again; nothing was started.

The result: result_text is what the agent said, result_data is JSON (of procedural agents, and wherever an output ` +
			`schema is enforced); one of them is null. To get JSON of a form you need from any agent, give ` +
			`output_schema, or output_schema_name.

Keep session_id: with resume_agent_session the conversation of an autonomous agent goes on.`,
		inputSchema: `{"type":"object","required":["agent_name"],"additionalProperties":false,"properties":{` +
			`"agent_name":{"type":"string","description":"An agent's name, from list_agent_blueprints."},` +
			`"prompt":{"type":"string","description":"What to do: for autonomous agents without parameters_schema. ` +
			`Short for parameters {\"prompt\":…}."},` +
			`"parameters":{"type":"object","description":"Input that matches the agent's parameters_schema."},` +
			modeArg + `,` +
			`"project_dir":{"type":"string","description":"The folder to work in: an absolute path on the runner's ` +
			`machine. Only runners of that folder take the run."},` +
			`"additional_demands":{"type":"object","description":"What the runner must have: it runs nowhere else.",` +
			`"properties":{"hostname":{"type":"string"},"project_dir":{"type":"string"},` +
			`"executor_profile":{"type":"string"},"executor_type":{"type":"string","enum":["autonomous",` +
			`"procedural"]},"tags":{"type":"array","items":{"type":"string"}}}},` + outputArgs + `}}`,
	},
	{
		name: "resume_agent_session", title: "Resume an agent", scope: access.Run, forSessions: true,
		action: audit.RunCreate, do: (*API).resume,
		description: `Go on with a session of an autonomous agent: it remembers what was said. Also after a run that ` +
			`failed or was stopped.

It takes "prompt" only, whatever parameters_schema the agent has: that is for starts. Sessions of procedural agents ` +
			`cannot be resumed; start a new one. While the session is at work, the new turn waits for the one before.`,
		inputSchema: `{"type":"object","required":["session_id","prompt"],"additionalProperties":false,"properties":{` +
			sessionArg +
			`,"prompt":{"type":"string","minLength":1,"description":"What to say to the agent."},` + modeArg + `,` +
			outputArgs + `}}`,
	},
	{
		name: "get_agent_session_status", title: "Status of a session", scope: access.Read, forSessions: true,
		readOnly: true,
		do:       (*API).status,
		description: `How a session stands: pending, running, idle, stopping, finished, stopped or ` +
			`failed; and of its newest run why it waits, or why it failed.`,
		inputSchema: `{"type":"object","required":["session_id"],"additionalProperties":false,"properties":{` +
			sessionArg + `}}`,
	},
	{
		name: "get_agent_session_result", title: "Result of a session", scope: access.Read, forSessions: true,
		readOnly: true,
		do:       (*API).resultOf,
		description: `The result of a session's newest ended run. With wait_seconds it waits for the ` +
			`newest run to end first; that is better than asking again and again.`,
		inputSchema: `{"type":"object","required":["session_id"],"additionalProperties":false,"properties":{` +
			sessionArg +
			`,"wait_seconds":{"type":"integer","minimum":0,"maximum":600,"description":"How long to wait for the end,` +
			` default 0. 50 is safe with every client."}}}`,
	},
	{
		name: "list_agent_sessions", title: "List sessions", scope: access.Read, forSessions: true, readOnly: true,
		do: (*API).sessions,
		description: `List sessions, newest first. An agent that Agent Orchestrator runs sees those that ` +
			`it started, or, with parent_session_id, those that one of them started.`,
		inputSchema: `{"type":"object","additionalProperties":false,"properties":{` +
			`"status":{"type":"string","enum":["pending","running","idle","stopping","finished","stopped","failed"]},` +
			`"agent_name":{"type":"string"},"parent_session_id":{"type":"string","description":"Only sessions that ` +
			`this one started."},` +
			`"limit":{"type":"integer","minimum":1,"maximum":100,"description":"Default 20."},` +
			`"cursor":{"type":"string","description":"next_cursor of the answer before."}}}`,
	},
	{
		name: "stop_agent_session", title: "Stop a session", scope: access.Run, forSessions: true, destructive: true,
		action: audit.SessionStop, do: (*API).stop,
		description: `Stop what runs in a session, and cancel what waits there. It can be resumed later.

The sessions that it started go on; the answer's open_below names their runs. With "tree": true they are stopped too,` +
			` with all below them.`,
		inputSchema: `{"type":"object","required":["session_id"],"additionalProperties":false,"properties":{` +
			sessionArg + `,"tree":{"type":"boolean","description":"Stop all that is below it, too. Default false."}}}`,
	},
	{
		name: "list_output_schemas", title: "List output schemas", scope: access.Read, forSessions: true,
		readOnly:    true,
		inputSchema: nothing, do: (*API).schemas,
		description: `List the registered output schemas: their names can be given as output_schema_name.`,
	},
	{
		name: "register_output_schema", title: "Register an output schema", scope: access.Admin,
		action: audit.SchemaCreate, do: (*API).register,
		description: `Register a JSON Schema (draft-07) under a name, for output_schema_name. It cannot be changed ` +
			`afterwards: register another one. Needs an API token with scope admin; agents give output_schema with ` +
			`their call instead.`,
		inputSchema: `{"type":"object","required":["name","schema"],"additionalProperties":false,"properties":{` +
			`"name":{"type":"string","description":"1 to 60 letters, digits, _ or -."},` +
			`"description":{"type":"string"},"schema":{"type":"object","description":"The JSON Schema."}}}`,
	},
}
