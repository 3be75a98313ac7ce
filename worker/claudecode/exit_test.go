package claudecode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ao/shared/executor"
	"ao/worker/claudecode/standin"
)

// TestAClaudeThatDoesNotExit is ended with what it started, and its result counts, whatever it reports of that.
func TestAClaudeThatDoesNotExit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ result, want string }{
		{`{"type":"result","subtype":"success","is_error":false,"result":"fine"}`, "completed | fine"},
		{`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["no luck"]}`,
			`failed {"error":"claude_failed","message":"no luck"`},
	} {
		inv, host, h := turn(t, fakeClaude(t, `late() { echo '{"type":"result","subtype":"error_during_execution",`+
			`"is_error":true,"errors":["Interrupted"]}'; exit 1; }
trap late TERM
cat >/dev/null; sleep 1000 & echo $! >pid
echo '`+tt.result+`'
while :; do sleep 0.05; done`), "", "Hello", "", "")
		e := Executor{exitDelay: 50 * time.Millisecond}
		if got := outcomeText(e.Run(t.Context(), inv, host)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		raw, _ := os.ReadFile(filepath.Join(inv.ProjectDir, "pid"))
		if pid, _ := strconv.Atoi(strings.TrimSpace(string(raw))); pid == 0 || syscall.Kill(pid, 0) == nil {
			t.Errorf("%q is left", raw)
		}
		if all := strings.Join(h.all(), "\n"); !strings.Contains(all, "did not exit after its result and was ended") ||
			strings.Count(all, "metadata {") != 1 {
			t.Errorf("readers got %s", all)
		}
	}
}

// TestWhenClaudeIsEnded: ten seconds after its last sign of work, and later while a task is open. The lines come every
// 9 s.
func TestWhenClaudeIsEnded(t *testing.T) {
	const (
		init     = `{"type":"system","subtype":"init","session_id":"s"}`
		result   = `{"type":"result","subtype":"success","is_error":false,"result":"fine"}`
		text     = `{"type":"assistant","message":{"content":[{"type":"text","text":"x"}]}}`
		started  = `{"type":"system","subtype":"task_started","task_id":"1"}`
		progress = `{"type":"system","subtype":"task_progress","task_id":"1"}`
		ended    = `{"type":"system","subtype":"task_notification","task_id":"1"}`
		hook     = `{"type":"system","subtype":"hook_progress","hook_id":"h"}`
		wait     = taskWaitEnv + "="
		never    = 0
	)
	for _, tt := range []struct {
		name  string
		env   string
		lines []string
		ended time.Duration // since the start
	}{
		{"it has answered", "", []string{init, text, result}, 37 * time.Second},
		{"it has not", "", []string{init, text}, never},
		{"it works on", "", []string{init, result, text, text}, 46 * time.Second},
		{"it writes something else", "", []string{init, result, "plain", hook, "plain", hook}, 28 * time.Second},
		{"a task is open", "", []string{init, started, result, "plain", hook}, 27*time.Second + 610*time.Second},
		{"a task goes on", "", []string{init, started, result, progress}, 36*time.Second + 610*time.Second},
		{"a task has ended", "", []string{init, started, result, ended}, 46 * time.Second},
		{"it waits longer", wait + "1200000", []string{init, started, result}, 27*time.Second + 1210*time.Second},
		{"it waits without end", wait + "0", []string{init, started, result}, never},
		{"and the task has ended", wait + "0", []string{init, started, result, ended}, 46 * time.Second},
		{"it waits too long", wait + "9223372036854775807", []string{init, started, result}, never},
		{"a wait of nonsense", wait + "-1", []string{init, started, result}, 27*time.Second + 610*time.Second},
		{"another turn is open", "", []string{init, started, result, ended, init, text}, never},
		{"another turn has ended", "", []string{init, started, result, ended, init, text, result, result},
			82 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, got := time.Now(), make(chan time.Duration, 1)
				s := stream{host: executor.Host{Emit: func(string, json.RawMessage) {}}, stopped: t.Context().Err,
					onStarted: func() {}, maxLine: maxLine, exit: exitWatch{delay: exitDelay,
						taskWait: taskWait([]string{"A=b", tt.env}), kill: func() { got <- time.Since(start) }}}
				for _, l := range tt.lines {
					time.Sleep(9 * time.Second)
					s.onLine([]byte(l))
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				s.exit.stop()
				close(got)
				if ended := <-got; ended != tt.ended {
					t.Errorf("ended after %v, want %v", ended, tt.ended)
				}
			})
		})
	}
}

// TestWithoutAnAnswer: what counts if a result has no text. The lines are those of real programs, shortened.
func TestWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	const text = `{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"I look."}]}}`
	for _, tt := range []struct{ name, before, result, want string }{
		{"text was written", text, `"result":""`, "completed | I look."},
		{"text was written, and there is none", text, `"terminal_reason":"completed"`, "completed | I look."},
		{"nothing was written", "", `"result":"","terminal_reason":"completed"`, "completed | "},
		{"a hook deferred a tool", text, `"result":"","terminal_reason":"tool_deferred","num_turns":1,` +
			`"deferred_tool_use":{"id":"t","name":"Bash","input":{}}`,
			`failed {"error":"claude_failed","message":"Claude Code ended the turn without an answer ` +
				`(tool_deferred): a hook deferred the tool Bash, which nobody can resume here. Let the hook allow or ` +
				`deny it, or leave its settings out with setting_sources in the profile's config",` +
				`"terminal_reason":"tool_deferred"} | I look.`},
		{"a hook stopped the turn", text, `"result":"","terminal_reason":"hook_stopped","num_turns":2`,
			`failed {"error":"claude_failed","message":"Claude Code ended the turn without an answer (hook_stopped): ` +
				`a hook stopped it. Change the hook, or leave its settings out with setting_sources in the profile's ` +
				`config","terminal_reason":"hook_stopped"} | I look.`},
		{"any other reason", "", `"result":" ","terminal_reason":"weather"`,
			`failed {"error":"claude_failed","message":"Claude Code ended the turn without an answer (weather)",` +
				`"terminal_reason":"weather"}`},
		{"a hook refused the prompt", "", `"result":"Operation stopped by hook: not today","num_turns":0`,
			`failed {"error":"claude_failed","message":"Operation stopped by hook: not today","exit_code":0}`},
		{"a hook of the end", text, `"result":"Done.","terminal_reason":"stop_hook_prevented","num_turns":2`,
			"completed | Done."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inv, host, _ := turn(t, fakeClaude(t, fmt.Sprintf("cat >/dev/null\necho '%s'\necho '%s'", tt.before,
				`{"type":"result","subtype":"success","is_error":false,`+tt.result+`}`)), "", "Hello", "", "")
			if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestHooksOfTheProject: real programs whose hook keeps the model from answering.
func TestHooksOfTheProject(t *testing.T) {
	t.Parallel()
	standin.Each(t, func(t *testing.T, claude string) {
		for hook, want := range map[string]string{
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"}}`: `"terminal_reason":` +
				`"tool_deferred"} | I use Bash`,
			`{"continue":false,"stopReason":"no"}`: `"terminal_reason":"hook_stopped"} | I use Bash`,
		} {
			api := standin.New(t, standin.ToolCall("Bash", map[string]any{"command": "echo hi"}), standin.Text("Done."))
			inv, host, h := turn(t, claude, api.URL, "Hello", "", `{"allowed_tools":["Bash"]}`)
			command, _ := json.Marshal("echo '" + hook + "'")
			settings := fmt.Appendf(nil, `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command",`+
				`"command":%s}]}]}}`, command)
			folder := filepath.Join(inv.ProjectDir, ".claude")
			os.Mkdir(folder, 0o700)
			os.WriteFile(filepath.Join(folder, "settings.json"), settings, 0o600)
			if got := outcomeText(unconfined.Run(t.Context(), inv, host)); !strings.HasPrefix(got, "failed {") ||
				!strings.HasSuffix(got, want) {
				t.Errorf("%s: got %s, want %s; %q", hook, got, want, h.all())
			}
		}
	})
}

// TestTasksAreBounded: a program that tells of tasks without end takes little of the worker's memory.
func TestTasksAreBounded(t *testing.T) {
	var w exitWatch
	w.onLine("system/task_started", fmt.Appendf(nil, `{"task_id":%q}`, strings.Repeat("x", maxTaskID+1)))
	if len(w.tasks) != 0 {
		t.Error("a task with a huge id is kept")
	}
	for i := range 2 * maxTasks {
		w.onLine("system/task_started", fmt.Appendf(nil, `{"task_id":"%d"}`, i))
	}
	if len(w.tasks) != maxTasks {
		t.Errorf("%d tasks are kept, at most %d may be", len(w.tasks), maxTasks)
	}
}
