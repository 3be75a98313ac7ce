// Ao-claude-code-exec is the executor of autonomous agents by Claude Code, as a program that speaks protocol 2.2. A worker runs the
// same executor inside itself; this one is for other runners and for trying an agent by hand.
package main

import (
	"ao/shared/executor"
	"ao/worker/claudecode"
	"ao/worker/process"
)

const help = `The executor of autonomous agents by Claude Code, protocol 2.2: it reads one JSON document on stdin, has the claude program do
what the prompt says, and writes messages, tool calls and the result as JSON lines on stdout.

Usage: ao-claude-code-exec < invocation.json

  {"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":{"prompt":"Say hello"},
   "project_dir":"/srv","agent_name":"any","agent_blueprint":{"system_prompt":"Be brief."},"executor_config":{"model":"sonnet"}}

agent_blueprint: system_prompt, mcp_servers. executor_config (shared/docs/claude-code.md has them all): claude, model, fallback_model,
permission_mode, max_turns, max_retries, tools, allowed_tools, disallowed_tools, allow_mcp_tools, setting_sources, add_dirs,
system_prompt_mode. A resume needs executor_session_id: what the bind line of the earlier run said.

Claude Code has to be installed (npm install -g @anthropic-ai/claude-code) and logged in, or ANTHROPIC_API_KEY set.
Exit codes: 0 completed, 1 failed, 2 the document cannot be read, 143 stopped.
`

func main() {
	process.Init("ao-claude-code-exec", help)
	executor.Program(claudecode.Executor{}.Run)
}
