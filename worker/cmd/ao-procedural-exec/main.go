// Ao-procedural-exec is the executor of procedural agents as a program that speaks protocol 2.2: a document on stdin,
// JSON lines on stdout. A worker runs the same executor inside itself; this one is for other runners and for trying
// an agent by hand.
//
// It runs the command that the blueprint names: an absolute path or a program on PATH; or, where executor_config
// names an agents_dir, the command of the agent of that name in there. The environment is handed on.
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

const help = `The executor of procedural agents, protocol 2.2: it reads one JSON document on stdin, runs the agent's command with the
parameters as flags, and writes events and the result as JSON lines on stdout. It has no settings: the document says it all.

Usage: ao-procedural-exec < invocation.json

  {"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":{"file":"README.md"},
   "project_dir":"/srv","agent_name":"text-stats","agent_blueprint":{"command":"wc"},"executor_config":{"agents_dir":"agents"}}

executor_config.agents_dir is where the agent is looked for; without it agent_blueprint.command is run: an absolute path, or a
program on PATH. Exit codes: 0 completed, 1 failed, 2 the document cannot be read, 124 timed out, 143 stopped, else the command's.
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
		Tell:       func(kind string, body json.RawMessage) { out.Event(kind, body) },
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

// environ is this program's own environment without its mark: its command gets a new one that contains it.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, process.MarkEnv+"=") })
}

// command finds the agent's program and its time.
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
		return "", 0, fmt.Errorf("agent_blueprint.command %q is relative to the agent's file; name its folder in executor_config.agents_dir, or give an absolute path", blueprint.Command)
	}
	path, err = process.Find(blueprint.Command, "")
	return path, time.Duration(blueprint.Timeout) * time.Second, err
}
