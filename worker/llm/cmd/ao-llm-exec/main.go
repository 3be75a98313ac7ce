// Ao-llm-exec runs autonomous agents with an endpoint that speaks OpenAI's Chat Completions or Anthropic's Messages
// API, as a program that speaks the executor protocol 2.2. A worker starts it for its profiles; by hand it tries an
// endpoint.
package main

import (
	"fmt"
	"os"

	"ao/shared/executor"
	"ao/worker/launch"
	"ao/worker/llm"
	"ao/worker/process"
)

const help = `Executor of autonomous agents with a model's API, protocol 2.2. It reads one JSON document on stdin,
calls the endpoint and the tools of the agent's MCP servers, and writes events and the result as
JSON lines on stdout. It has no flags: all settings are in the document.

Usage: ao-llm-exec < invocation.json

  {"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":{"prompt":"Say hello"},
   "project_dir":"/srv","agent_name":"greeter","agent_blueprint":{"system_prompt":"You are brief."},
   "executor_config":{"provider":"openai","base_url":"http://127.0.0.1:11434/v1","model":"llama3.2"}}

executor_config: provider (openai, anthropic), base_url, model (agent_blueprint.model comes first), api_key_env (the
name of the variable that holds the key; default OPENAI_API_KEY or ANTHROPIC_API_KEY), max_tokens, temperature,
max_turns (50), max_retries (8), headers, idle_timeout_seconds (300), tool_timeout_seconds (600),
mcp_connect_timeout_seconds (30), max_tool_output_bytes (65536), max_history_bytes (4194304).
agent_blueprint.mcp_servers: {"name":{"type":"http"|"sse","url","headers"} or {"command","args","env"}}.

The orchestrator keeps the conversation, through AGENT_ORCHESTRATOR_API_URL; without it a session cannot be resumed.
Exit codes: 0 completed, 1 failed, 2 document unreadable, 143 stopped.
`

func main() {
	process.Private()
	process.Init("ao-llm-exec", help)
	box, own, err := launch.Accept()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(executor.CodeFailed)
	}
	executor.Program(llm.Executor{Confinement: box, OwnVariables: own}.Run)
}
