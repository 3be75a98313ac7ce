package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
)

// TestMain turns the test binary into an executor where EXECUTOR is set.
func TestMain(m *testing.M) {
	if os.Getenv("EXECUTOR") != "" {
		executor.Serve(func(_ context.Context, v executor.Invocation, out *executor.Out) (run.Result, error) {
			out.Bind("model-of-" + v.SessionID)
			out.Message("assistant", v.Prompt)
			text := "done"
			return run.Result{Text: &text}, nil
		})
	}
	os.Exit(m.Run())
}

// script writes a shell program and gives its command.
func script(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "executor")
	// else a program that is started meanwhile holds the file open for a moment, and nobody can execute it
	// (go.dev/issue/22315)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

// found is a report as text: what did not pass, by name.
func found(r Report) string {
	var all []string
	for _, c := range r.Checks {
		if c.Result == Fail || c.Result == Warn {
			all = append(all, c.Result+" "+c.Name)
		}
	}
	return strings.Join(all, "\n")
}

func examine(t *testing.T, c Config) Report {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGood: an executor that is written with this project's own package passes every check, in both lifecycles.
func TestGood(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		r := examine(t, Config{Command: []string{os.Args[0]}, Env: []string{"EXECUTOR=1"}, Persistent: persistent})
		if got := found(r); got != "" || !r.OK || len(r.Checks) < 12 {
			t.Errorf("persistent %v: %d checks, ok %v\n%s", persistent, len(r.Checks), r.OK, got)
		}
		for _, c := range r.Checks {
			if c.Result == Skip {
				t.Errorf("%s was skipped: %s", c.Name, c.Detail)
			}
		}
	}
}

// The scripts read a line with head, because the shell's own read takes 1 MiB byte by byte.

// TestBad: each fault is found by its name, and nothing else is.
func TestBad(t *testing.T) {
	const manners = "warn it binds its own session id\nwarn an invalid document is refused"
	for _, tt := range []struct{ name, script, want string }{
		{"plain output is fine", `cat >/dev/null; echo hello`, manners},
		{"silent", `cat >/dev/null`, "warn it has a result\n" + manners},
		{"fails", `cat >/dev/null; echo no >&2; exit 3`, "fail a start is done\nwarn it is refused with exit code 2"},
		{"hangs", `cat >/dev/null; sleep 100`, "fail a start is done\nfail an invalid document is refused in time"},
		{"a bad line", `cat >/dev/null; echo '{"type":"event"}'; echo '{"type":"result","result_text":"x"}'`,
			"fail its lines on stdout are readable\n" + manners},
		{"half a line", `cat >/dev/null; echo '{"type":"bind","executor_session_id":"m"}'; echo ` +
			`'{"type":"result","result_text":'`,
			"fail its lines on stdout are readable\nwarn an invalid document is refused"},
		{"text beside", `cat >/dev/null; echo loading; echo '{"type":"result","result_text":"x"}'`,
			"warn nothing is beside the lines\n" + manners},
		{"a result that failed",
			`cat >/dev/null; echo '{"type":"result","error":{"error":"quota","message":"no money"}}'`,
			"fail a start is done\nwarn an invalid document is refused"},
		{"leaves a child", `cat >/dev/null; sleep 100 >/dev/null 2>&1 & echo hello`,
			"warn nothing of it is left after its end\n" + manners},
		{"ignores SIGTERM", `trap "" TERM; cat >/dev/null; echo hello`, manners +
			"\nfail SIGTERM ends it within the grace"},
		{"a child leaves the group at a stop", `setsid sleep 100 >/dev/null 2>&1 & cat >/dev/null; kill $!; echo hello`,
			manners + "\nfail nothing of it is left after a stop"},
		{"no resume", `line=$(head -n 1); case "$line" in *'"mode":"resume"'*) exit 1;; esac; echo hello`,
			"warn it binds its own session id\nfail a resume is done\nwarn an invalid document is refused"},
		{"no large input", `line=$(head -n 1); [ ${#line} -lt 100000 ] || { echo too long >&2; exit 1; }; echo hello`,
			"warn it binds its own session id\nwarn 1 MiB of input is taken\nwarn an invalid document is refused"},
		{"an error result for large input", `line=$(head -n 1); [ ${#line} -lt 100000 ] || { echo ` +
			`'{"type":"result","error":{"error":"too_long","message":"too long"}}'; exit 1; }; echo hello`, manners},
		{"another program's JSON", `cat >/dev/null; echo '{"type":"result","result":"x"}'`, manners},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Command: script(t, tt.script), Grace: 10 * time.Second}
			switch tt.name {
			case "hangs":
				c.Timeout = time.Second
			case "ignores SIGTERM":
				c.Grace = time.Second
			}
			r := examine(t, c)
			if got := found(r); got != tt.want || r.OK == strings.Contains(tt.want, "fail") {
				t.Errorf("ok %v, got\n%s\nwant\n%s\n%+v", r.OK, got, tt.want, r.Checks)
			}
		})
	}
}

func TestBadPersistent(t *testing.T) {
	const loop = `
while line=$(head -n 1) && [ -n "$line" ]; do
  id=$(printf '%s' "$line" | sed 's/.*"run_id":"\([^"]*\)".*/\1/')
  case "$line" in
  *'"type":"shutdown"'*) exit 0;;
  *) ANSWER;;
  esac
done`
	const complete = `printf '{"type":"turn_complete","run_id":"%s","result":"x"}\n' "$id"`
	const manners = "warn it binds its own session id"
	const last = "\nwarn an invalid document is refused"
	for _, tt := range []struct{ name, script, want string }{
		{"small and good", strings.ReplaceAll(loop, "ANSWER", complete), manners + last},
		{"a failed turn for large input", strings.ReplaceAll(loop, "ANSWER", `if [ ${#line} -gt 100000 ]; then echo `+
			`'{"type":"turn_failed","error":{"error":"too_long","message":"too long"}}'; else `+complete+`; fi`),
			manners + "\nwarn answers carry the turn's run_id" + last},
		{"no run_id", strings.ReplaceAll(loop, "ANSWER", `echo '{"type":"turn_complete","result":"x"}'`), manners +
			"\nwarn answers carry the turn's run_id" + last},
		{"one turn only", `head -n 1 >/dev/null; echo '{"type":"turn_complete","result":"x"}'`, manners +
			"\nfail it stays after its answer" + last},
		{"a oneshot one", `head -n 1 >/dev/null; echo hello`, "fail a start is done" + last},
		{"two answers", strings.ReplaceAll(loop, "ANSWER", complete+";"+complete), manners +
			"\nfail a turn has one answer" + last},
		{"another's answer",
			strings.ReplaceAll(loop, "ANSWER",
				`echo '{"type":"turn_complete","run_id":"run_conformance1","result":"x"}'`), manners +
				"\nfail a further turn is done\nfail a new process resumes the session" + last},
		{"deaf to shutdown", strings.ReplaceAll(strings.ReplaceAll(loop, "ANSWER", complete), "exit 0", "sleep 100"),
			manners + "\nfail shutdown ends it" + last},
		{"a code at shutdown", strings.ReplaceAll(strings.ReplaceAll(loop, "ANSWER", complete), "exit 0", "exit 4"),
			manners + "\nwarn shutdown ends it with exit code 0" + last},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Command: script(t, tt.script), Grace: 10 * time.Second, Persistent: true}
			if tt.name == "deaf to shutdown" {
				c.Grace = time.Second
			}
			r := examine(t, c)
			if got := found(r); got != tt.want || r.OK == strings.Contains(tt.want, "fail") {
				t.Errorf("ok %v, got\n%s\nwant\n%s", r.OK, got, tt.want)
			}
		})
	}
}

func TestNoExecutor(t *testing.T) {
	for _, command := range [][]string{nil, {"/no/such/program"}, {"no-such-program-anywhere"}} {
		if _, err := Run(t.Context(), Config{Command: command}); err == nil {
			t.Errorf("%v: no error", command)
		}
	}
}
