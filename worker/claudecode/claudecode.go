// Package claudecode is the executor of autonomous agents by Claude Code: it drives the claude program in its stream-json mode, one
// process a turn.
//
// The prompt and the system prompt go over stdin, never as arguments; options are given as --flag=value, so that no value can become
// a flag. A prompt is what its caller said and nothing else: where claude would take its beginning for a command of its own (/clear)
// or read a file that it names (@/etc/passwd), it is sent so that claude leaves it alone.
//
// How a turn ends:
//
//	claude                                        status     error code
//	answers                                       completed  –
//	is not there                                  failed     claude_not_found
//	cannot be started                             failed     claude_not_runnable
//	has no login, or one that is refused          failed     claude_not_logged_in
//	has no credit left                            failed     claude_no_credit
//	is told to come later (429)                   failed     claude_rate_limited, with resets_at or retry_after_seconds where told
//	finds the API overloaded (529)                failed     claude_overloaded
//	does not get the model                        failed     claude_model_not_found
//	needs more turns than it may take             failed     claude_max_turns
//	has no such session                           failed     claude_session_gone
//	may not work without permissions, as root     failed     claude_permission_mode
//	ends in any other way                         failed     claude_failed
//	is stopped (the context ends)                 stopped    –
//
// Claude's own session id is what the executor binds. The conversation lies in claude's folder (HOME/.claude, or CLAUDE_CONFIG_DIR) under
// the working directory's name: a session goes on only on this host, with this folder, in this working directory.
package claudecode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/process"
)

const (
	maxLine = 64 << 20 // bytes of a line of claude's; an answer or a tool's output is on one
	maxKept = 64 << 10 // bytes kept of stdout and stderr to tell why it failed
)

// Executor runs claude.
type Executor struct {
	In *process.Confinement // what claude may have and see, and all it starts; nil: all that this process may
}

// Run is one turn: a session begins, or goes on where Invocation.ExecutorSession names claude's. When ctx ends claude is stopped with all
// it started, and what it had said by then is the outcome's result.
func (e Executor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	c, err := read(inv)
	if err != nil {
		return failed(fault.Of(err))
	}
	file, err := program(c.Claude)
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
		path, err := servers(c.servers)
		if err != nil {
			return failed(fault.Wrap(fault.Internal, codeFailed, "The file of the MCP servers cannot be written: "+err.Error(), err))
		}
		begun = sync.OnceFunc(func() { os.Remove(path) }) // claude has read it by then, and who is killed removes nothing
		defer begun()
		args, reads = append(args, "--mcp-config="+path), []string{path}
	}

	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	s := stream{host: host, config: c, stopped: ctx.Err, begun: begun, giveUp: cancel, longest: maxLine}
	s.deadline, _ = ctx.Deadline()
	exit, err := process.Run(turn, process.Spec{
		Path: file, Args: args, Dir: inv.ProjectDir, Env: environ(host.Env, c), Stdin: in, Confinement: e.In, Kill: host.Kill,
		MaxOutput: maxKept, MaxLine: maxLine, OnStdout: s.line, Reads: reads,
	})
	if bad, ok := errors.AsType[*process.StartError](err); ok {
		if errors.Is(bad, fs.ErrNotExist) && !strings.Contains(bad.Reason, "working directory") {
			return failed(notFound(c.Claude, err))
		}
		return failed(fault.Wrap(fault.Internal, codeNotRunnable, "Claude Code cannot be started: "+bad.Error(), bad.Err))
	}
	return s.outcome(ctx, inv, exit)
}

func failed(f *fault.Fault) run.Outcome { return run.Outcome{Status: run.Failed, Error: f} }

// Ready tells whether the program is there that a profile with this config needs: without it each of its runs fails.
func Ready(profile json.RawMessage) error {
	c, err := read(executor.Invocation{Config: profile})
	if err != nil {
		return err
	}
	if _, err := program(c.Claude); err != nil {
		return notFound(c.Claude, err)
	}
	return nil
}

// program finds claude: by its absolute path, or on PATH.
func program(claude string) (string, error) {
	if filepath.IsAbs(claude) {
		return process.Find(claude, "")
	}
	return process.Find(claude, os.DevNull) // nothing lies in there, so that PATH alone counts
}

// stdin is all that claude reads: how the session is to be, and the prompt. The system prompt is sent with every turn and not taken
// from what claude recorded of the session, which newer versions would do: the output that is asked for changes from turn to turn.
func stdin(c config, inv executor.Invocation) ([]byte, error) {
	text := inv.Prompt
	if text == "" {
		var err error
		if text, err = prompt.Text(inv.Blueprint, inv.Mode, inv.Parameters); err != nil {
			return nil, err
		}
	}
	if strings.TrimSpace(text) == "" {
		return nil, fault.New(fault.Invalid, "", "The prompt is empty; Claude Code needs one that says something").With("field", "parameters.prompt")
	}
	begin := map[string]any{"subtype": "initialize"}
	if c.system != "" {
		begin[map[string]string{appendPrompt: "appendSystemPrompt", replacePrompt: "systemPrompt"}[c.SystemPromptMode]] = c.system
		begin["systemPromptSnapshot"] = false
	}
	var b bytes.Buffer
	lines := []any{map[string]any{"type": "control_request", "request_id": "1", "request": begin}}
	if inv.Mode == executor.Resume {
		lines = append(lines, askUsage)
	}
	lines = append(lines, map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": blocks(text)}, "parent_tool_use_id": nil, "session_id": ""})
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

// endOfPrompt follows a prompt that claude would otherwise not leave as it is.
const endOfPrompt = "(End of the message.)"

// blocks are the blocks of the message that hands the model a prompt. Claude looks for its commands and for the files to read in the
// last block only, so a prompt that could hold such is not the last one.
func blocks(text string) []run.Text {
	all := []run.Text{{Type: "text", Text: text}}
	if strings.Contains(text, "@") || strings.ContainsAny(strings.TrimSpace(text)[:1], "/!#") {
		all = append(all, run.Text{Type: "text", Text: endOfPrompt})
	}
	return all
}

// servers writes the file of MCP servers, which only this user may read, as it can hold keys.
func servers(all json.RawMessage) (path string, err error) {
	f, err := os.CreateTemp("", "ao-claude-mcp-*.json") // of mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(strictjson.Object([]strictjson.Member{{Key: "mcpServers", Value: all}}))
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// environ is claude's environment: the run's, without the mark of a process above, and without the updates that claude would make of itself.
func environ(env []string, c config) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, process.MarkEnv+"=") })
	for _, v := range c.environ() {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(env, func(set string) bool { return strings.HasPrefix(set, name+"=") }) {
			env = append(env, v)
		}
	}
	return env
}
