// Ao-test-exec is the executor without a model (package testexec) as a program that speaks the executor protocol 2.2.
// A worker has the same executor built in; this program is for other runners and for trying a prompt by hand.
package main

import (
	"ao/shared/executor"
	"ao/worker/process"
	"ao/worker/testexec"
)

const help = `Executor without a model, protocol 2.2. It reads one JSON document on stdin and follows the
directives in its prompt (@say, @json, @tool, @sleep, @fail, @child …: the documentation of the
package worker/testexec lists them).

Usage: ao-test-exec < invocation.json

  {"schema_version":"2.2","mode":"start","session_id":"ses_1","parameters":{"prompt":"@say hello"},
   "project_dir":"/srv","agent_name":"any","agent_blueprint":{},"executor_config":{}}

Exit codes: 0 completed, 1 failed, 2 document unreadable, 143 stopped.
`

func main() {
	process.Init("ao-test-exec", help)
	executor.Program(testexec.Run)
}
