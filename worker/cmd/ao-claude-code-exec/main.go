// Ao-claude-code-exec runs autonomous agents with Claude Code, as a program that speaks the executor protocol 2.2. A
// worker has the same executor built in; this program is for other runners and for trying an agent by hand.
package main

import (
	"ao/shared/executor"
	"ao/worker/claudecode"
	"ao/worker/process"
)

const help = `Executor of autonomous agents with Claude Code, protocol 2.2. It reads one JSON document on stdin,
runs the program claude with the prompt, and writes messages, tool calls and the result as JSON
lines on stdout.

Usage: ao-claude-code-exec < invocation.json

  {"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":{"prompt":"Say hello"},
   "project_dir":"/srv","agent_name":"any","agent_blueprint":{"system_prompt":"Be brief."},
   "executor_config":{"model":"sonnet"}}

agent_blueprint: system_prompt, mcp_servers. executor_config (shared/docs/claude-code.md has them all): claude, model,
fallback_model, permission_mode, max_turns, max_retries, tools, allowed_tools, disallowed_tools, allow_mcp_tools,
setting_sources, add_dirs, system_prompt_mode. A resume needs executor_session_id: the one in the bind line of the
earlier run.

Claude Code must be installed (npm install -g @anthropic-ai/claude-code) and logged in, or ANTHROPIC_API_KEY set.
Exit codes: 0 completed, 1 failed, 2 document unreadable, 143 stopped.
`

func main() {
	process.Init("ao-claude-code-exec", help)
	executor.Program(claudecode.Executor{}.Run)
}
