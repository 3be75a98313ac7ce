// Ao-procedural-exec runs procedural agents as a program that speaks the executor protocol 2.2: a document on stdin,
// JSON lines on stdout. A worker has the same executor built in; this program is for other runners and for trying an
// agent by hand.
//
// It runs the blueprint's command, an absolute path or a program on PATH. If executor_config has an agents_dir, it
// runs the command of the agent of that name in there. The command inherits the environment.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/procedural"
	"ao/worker/process"
	"ao/worker/profile"
)

const help = `Executor of procedural agents, protocol 2.2. It reads one JSON document on stdin, runs the agent's
command with the parameters as flags, and writes events and the result as JSON lines on stdout. It
has no settings besides the document.

Usage: ao-procedural-exec < invocation.json

  {"schema_version":"2.2","mode":"start","session_id":"ses_1","parameters":{"file":"README.md"},
   "project_dir":"/srv","agent_name":"text-stats","agent_blueprint":{"command":"wc"},
   "executor_config":{"agents_dir":"agents"}}

executor_config.agents_dir is the folder of the agent; without it agent_blueprint.command is run: an absolute path or
a program on PATH.
Exit codes: 0 completed, 1 failed, 2 document unreadable, 124 timed out, 143 stopped, else the command's.
`

func main() {
	process.Init("ao-procedural-exec", help)
	executor.Main(do)
}

func do(ctx context.Context, v executor.Invocation, out *executor.Out) error {
	command, timeout, err := command(v)
	if err != nil {
		return err
	}
	o := procedural.Run(ctx, procedural.Job{
		Invocation: v,
		Command:    command,
		Env:        environ(),
		Timeout:    timeout,
		OnEvent:    func(kind string, body json.RawMessage) { out.Event(kind, body) },
	})
	if o.Result != nil {
		if err := out.Result(*o.Result, o.Error); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	switch {
	case o.Status == run.Completed:
		return nil
	case o.Status == run.Stopped:
		return executor.Exit{Code: executor.CodeStopped}
	case o.Result != nil && o.Result.ExitCode != nil:
		return executor.Exit{Code: *o.Result.ExitCode, Message: o.Error.Message}
	}
	return o.Error
}

// environ returns this program's environment without its mark: its command gets a new one that includes it.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, process.MarkEnv+"=") })
}

// command returns the path of the agent's program and its time limit.
func command(v executor.Invocation) (path string, timeout time.Duration, err error) {
	var config struct {
		AgentsDir string `json:"agents_dir"`
	}
	if len(v.Config) > 0 && string(v.Config) != "null" {
		if err := strictjson.Decode(v.Config, &config); err != nil {
			return "", 0, fmt.Errorf("executor_config: %w", err)
		}
	}
	if config.AgentsDir != "" {
		agents, broken, err := profile.Agents(config.AgentsDir)
		if err != nil {
			return "", 0, fmt.Errorf("executor_config.agents_dir: %w", err)
		}
		for _, a := range agents {
			if a.Name == v.AgentName {
				return a.Program, time.Duration(a.TimeoutSeconds) * time.Second, nil
			}
		}
		for _, b := range broken {
			if b.Name == v.AgentName {
				return "", 0, fmt.Errorf("agent %q (%s): %s", b.Name, b.Path, b.Reason)
			}
		}
		return "", 0, fmt.Errorf("agent %q is not in %s", v.AgentName, config.AgentsDir)
	}
	var blueprint struct {
		Command string `json:"command"`
		Timeout int    `json:"timeout_seconds"`
	}
	if len(v.Blueprint) > 0 {
		if err := json.Unmarshal(v.Blueprint, &blueprint); err != nil {
			return "", 0, fmt.Errorf("agent_blueprint: %w", err)
		}
	}
	if strings.Contains(blueprint.Command, "/") && !filepath.IsAbs(blueprint.Command) {
		return "",
			0,
			fmt.Errorf("agent_blueprint.command %q is relative to the agent's file; name its folder in "+
				"executor_config.agents_dir, or use an absolute path", blueprint.Command)
	}
	path, err = process.Find(blueprint.Command, "")
	return path, time.Duration(blueprint.Timeout) * time.Second, err
}
