// Package claudecode is the executor of autonomous agents with Claude Code. It runs the claude program in its
// stream-json mode, one process per turn.
//
// The prompt and the system prompt go over stdin, never as arguments. Options are given as --flag=value, so no value
// can become a flag. A prompt is sent so that claude neither runs it as a command (/clear) nor reads files that it
// names (@/etc/passwd).
//
// How a turn ends:
//
//	claude                                        status     error code
//	answers                                       completed  –
//	does not exist                                failed     claude_not_found
//	cannot be started                             failed     claude_not_runnable
//	has no login, or an invalid one               failed     claude_not_logged_in
//	may not do what the run asks for              failed     claude_forbidden
//	has no credit left                            failed     claude_no_credit
//	is rate limited (429)                         failed     claude_rate_limited with resets_at or retry_after_seconds
//	finds the API overloaded (529)                failed     claude_overloaded
//	does not get the model                        failed     claude_model_not_found
//	needs more turns than allowed                 failed     claude_max_turns
//	has no such session                           failed     claude_session_gone
//	may not bypass permissions, as root           failed     claude_permission_mode
//	is kept from answering by a hook              failed     claude_failed with terminal_reason
//	ends in any other way                         failed     claude_failed
//	is stopped (the context ends)                 stopped    –
//
// The executor binds claude's own session id. The conversation is in claude's folder (HOME/.claude, or
// CLAUDE_CONFIG_DIR) under the working directory's name. So a session can be resumed only on this host, with this
// folder, in this working directory.
package claudecode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/process"
)

const (
	maxLine   = 64 << 20 // bytes of a line, which holds a whole answer or tool output
	maxOutput = 64 << 10 // bytes kept of stdout and stderr for errors
)

// Executor runs claude.
type Executor struct {
	Confinement *process.Confinement // of claude and its programs; nil: not confined
	exitDelay   time.Duration        // default exitDelay
}

// Run runs one turn: of a new session, or of the claude session in Invocation.ExecutorSession. When ctx ends, claude
// is stopped with everything it started, and its last text is the outcome's result.
func (e Executor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	c, err := readConfig(inv)
	if err != nil {
		return failed(fault.Of(err))
	}
	file, err := findClaude(c.Claude)
	if err != nil {
		return failed(notFound(c.Claude, err))
	}
	in, err := stdin(c, inv)
	if err != nil {
		return failed(fault.Of(err))
	}
	args, begun := c.args(inv), func() {}
	var reads []string
	if len(c.servers) > 0 {
		path, err := writeServersFile(c.servers)
		if err != nil {
			return failed(fault.Wrap(fault.Internal, codeFailed, "cannot write the file of MCP servers: "+err.Error(),
				err))
		}
		// removed as soon as claude has read it, in case this process is killed
		begun = sync.OnceFunc(func() { os.Remove(path) })
		defer begun()
		args, reads = append(args, "--mcp-config="+path), []string{path}
	}

	env := environment(host.Env, c)
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	s := stream{host: host, config: c, stopped: ctx.Err, onStarted: begun, kill: cancel, maxLine: maxLine,
		exit: exitWatch{delay: cmp.Or(e.exitDelay, exitDelay), taskWait: taskWait(env), kill: cancel}}
	s.deadline, _ = ctx.Deadline()
	exit, err := process.Run(turn, process.Spec{
		Path: file, Args: args, Dir: inv.ProjectDir, Env: env, Stdin: in,
		Confinement: e.Confinement, Kill: host.Kill,
		MaxOutput: maxOutput, MaxLine: maxLine, OnStdout: s.onLine, Reads: reads,
	})
	if bad, ok := errors.AsType[*process.StartError](err); ok {
		if bad.NotFound() {
			return failed(notFound(c.Claude, err))
		}
		return failed(fault.Wrap(fault.Internal, codeNotRunnable, "cannot start Claude Code: "+bad.Error(), bad))
	}
	return s.outcome(ctx, inv, exit)
}

func failed(f *fault.Fault) run.Outcome { return run.Outcome{Status: run.Failed, Error: f} }

// Ready returns why no run of a profile can start, such as that its claude program does not exist. nil: nothing is
// known to be wrong.
func Ready(profile json.RawMessage) *fault.Fault {
	c, err := readConfig(executor.Invocation{Config: profile})
	if err != nil {
		return fault.Of(err)
	}
	if _, err := findClaude(c.Claude); err != nil {
		return notFound(c.Claude, err)
	}
	return nil
}

// Files returns the files whose change may make a profile's runs work: the claude program, and its login. env is the
// environment of the runs.
func Files(profile json.RawMessage, env func(name string) string) []string {
	c, err := readConfig(executor.Invocation{Config: profile})
	if err != nil {
		return nil
	}
	home := cmp.Or(env("CLAUDE_CONFIG_DIR"), filepath.Join(env("HOME"), ".claude"))
	files := []string{filepath.Join(home, ".credentials.json")}
	if file, err := findClaude(c.Claude); err == nil {
		files = append(files, file)
	}
	return files
}

// findClaude returns the path of claude: absolute, or on PATH.
func findClaude(claude string) (string, error) {
	if filepath.IsAbs(claude) {
		return process.Find(claude, "")
	}
	return process.Find(claude, os.DevNull) // no folder, so only PATH is searched
}

// stdin returns all that claude reads: the session's settings and the prompt. The system prompt is sent with every
// turn, although claude has recorded it: the requested output can change from turn to turn.
func stdin(c config, inv executor.Invocation) ([]byte, error) {
	text := inv.Prompt
	if text == "" {
		var err error
		text, err = prompt.Text(inv.Blueprint, inv.Mode, inv.Parameters)
		if err != nil {
			return nil, err
		}
	}
	if strings.TrimSpace(text) == "" {
		return nil, fault.New(fault.Invalid, "", "the prompt is empty; Claude Code needs a text").
			With("field", "parameters.prompt")
	}
	begin := map[string]any{"subtype": "initialize"}
	if c.system != "" {
		field := map[string]string{appendPrompt: "appendSystemPrompt",
			replacePrompt: "systemPrompt"}[c.SystemPromptMode]
		begin[field] = c.system
		begin["systemPromptSnapshot"] = false
	}
	var b bytes.Buffer
	lines := []any{map[string]any{"type": "control_request", "request_id": "1", "request": begin}}
	if inv.Mode == executor.Resume {
		lines = append(lines, usageRequest)
	}
	lines = append(lines, map[string]any{"type": "user", "message": map[string]any{"role": "user",
		"content": promptBlocks(text)}, "parent_tool_use_id": nil, "session_id": ""})
	for _, line := range lines {
		raw, err := strictjson.Encode(line)
		if err != nil {
			return nil, err
		}
		b.Write(bytes.TrimSpace(raw))
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// endOfPrompt follows a prompt that claude might otherwise interpret.
const endOfPrompt = "(End of the message.)"

// promptBlocks returns the content blocks of the prompt. Claude looks for commands and file names in the last block
// only, so a prompt that may contain some is not the last block.
func promptBlocks(text string) []run.Text {
	all := []run.Text{{Type: "text", Text: text}}
	if strings.Contains(text, "@") || strings.ContainsAny(strings.TrimSpace(text)[:1], "/!#") {
		all = append(all, run.Text{Type: "text", Text: endOfPrompt})
	}
	return all
}

// writeServersFile writes the file of MCP servers, readable by this user only, as it can hold keys.
func writeServersFile(all json.RawMessage) (path string, err error) {
	f, err := os.CreateTemp("", "ao-claude-mcp-*.json") // of mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(strictjson.Object([]strictjson.Member{{Key: "mcpServers", Value: all}}))
	err = errors.Join(err, f.Close())
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// environment returns claude's environment: the run's, without the mark of a process above, and without claude's
// automatic updates.
func environment(env []string, c config) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, process.MarkEnv+"=") })
	for _, v := range c.environment() {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(env, func(set string) bool { return strings.HasPrefix(set, name+"=") }) {
			env = append(env, v)
		}
	}
	return env
}
