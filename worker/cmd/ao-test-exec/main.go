// Ao-test-exec is the executor that needs no model, as a program that speaks protocol 2.2. A worker runs the same executor
// inside itself; this one is for other runners and for trying a prompt by hand.
package main

import (
	"ao/shared/executor"
	"ao/worker/process"
	"ao/worker/testexec"
)

const help = `The executor that needs no model, protocol 2.2: it reads one JSON document on stdin and does what the directives in its prompt
say (@say, @json, @tool, @sleep, @fail, @child …: the documentation of the package worker/testexec lists them).

Usage: ao-test-exec < invocation.json

  {"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":{"prompt":"@say hello"},
   "project_dir":"/srv","agent_name":"any","agent_blueprint":{},"executor_config":{}}

Exit codes: 0 completed, 1 failed, 2 the document cannot be read, 143 stopped.
`

func main() {
	process.Init("ao-test-exec", help)
	executor.Program(testexec.Run)
}
