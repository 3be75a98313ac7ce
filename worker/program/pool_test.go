package program

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/shared/clock/clocktest"
	"ao/shared/executor"
	"ao/shared/run"
)

// echo is a persistent program: it answers each turn with its process id and the number of the turn. The prompt's "do"
// may change how.
const echo = `
n=0
answer() { printf '{"type":"turn_complete","result":"%s %s %s"}\n' $$ $n "$1"; }
while read -r line; do
  n=$((n+1))
  case "$line" in
  *'"type":"shutdown"'*) echo bye >>log; exit 0;;
  *'"do":"die"'*) echo "last words" >&2; exit 3;;
  *'"do":"vanish"'*) exit 0;;
  *'"do":"leave"'*) answer left; exit 0;;
  *'"do":"wait"'*) echo at work >&2; sh -c 'echo $$ >>pids; sleep 100' & echo $! >>pids; wait;;
  *'"do":"twice"'*) printf '{"type":"turn_complete","result":"%s %s one"}\n{"type":"turn_complete","result":"2"}\n' ` +
	`$$ $n;;
  *'"do":"half"'*) printf '{"type":"turn_complete","result":\n';;
  *'"do":"fail"'*) printf '{"type":"turn_failed","error":{"error":"quota","message":"no money"}}\n';;
  *'"do":"data"'*) printf '{"type":"turn_complete","result":{"a":1.0}}\n';;
  *'"do":"document"'*) printf '{"type":"turn_complete","result":{"result_type":"procedural","result_text":null,` +
	`"result_data":[0]}}\n';;
  *'"do":"bad"'*) printf '{"type":"turn_complete","result":{"result_text":"a","result_data":1}}\n';;
  *'"do":"text"'*) echo plain; printf '{"type":"turn_complete"}\n';;
  *'"do":"result"'*) printf '{"type":"result","result_data":7}\n{"type":"turn_complete"}\n';;
  *'"do":"other"'*) printf '{"type":"turn_complete","run_id":"run_other","result":"x"}\n';;
  *'"do":"event"'*) printf '{"type":"event","event_type":"message","role":"assistant","content":[]}\n{"type":"bind",` +
	`"executor_session_id":"m"}\n'; answer told;;
  *'"do":"stray"'*) answer "then more"; echo "stray one"; printf '{"type":"event","event_type":"message"}\n';;
  *'"do":"flood"'*) answer flood; yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;;
  *'"do":"line"'*) printf '%s\n' "$line" >>lines; answer line;;
  *) answer ok;;
  esac
done
echo end >>log
`

// testPool is a pool with a program and a session's turns.
type testPool struct {
	t    *testing.T
	p    *Pool
	job  Job
	said []string
	n    int
	mu   sync.Mutex
	idle int
}

func newTestPool(t *testing.T, script string, c PoolConfig) *testPool {
	h := &testPool{t: t}
	h.job = scriptJob(t, script, &h.said)
	c.OnChange = func() { h.mu.Lock(); h.idle++; h.mu.Unlock() }
	c.Grace = cmp.Or(c.Grace, 10*time.Second) // who is polite has time for it on a slow machine, too
	h.p = NewPool(c)
	t.Cleanup(func() { h.p.Close(t.Context()) })
	return h
}

func scriptJob(t *testing.T, text string, said *[]string) Job {
	j := script(t, text, said)
	j.Invocation.Mode, j.Invocation.Attempt, j.Invocation.RunID, j.Invocation.ExecutorSession = executor.Start, 1, "",
		""
	return j
}

// turn does the next turn of a session.
func (h *testPool) turn(ctx context.Context, do string, change ...func(*Job)) string {
	j := h.next(do, change...)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return outcomeText(h.p.Run(ctx, j), nil)
}

func (h *testPool) next(do string, change ...func(*Job)) Job {
	j := h.job
	h.n++
	j.Invocation.RunID = fmt.Sprintf("run_%d", h.n)
	if h.n > 1 {
		j.Invocation.Mode, j.Invocation.PreviousRunID = executor.Resume, fmt.Sprintf("run_%d", h.n-1)
	}
	j.Invocation.Parameters = json.RawMessage(fmt.Sprintf(`{"do":%q}`, do))
	for _, f := range change {
		f(&j)
	}
	return j
}

// answerOf parses "completed | {…"result_text":"PID N rest"…}".
func answerOf(t *testing.T, out string) (pid, n int, rest string) {
	t.Helper()
	_, text, ok := strings.Cut(out, `"result_text":"`)
	text, _, _ = strings.Cut(text, `"`)
	words := strings.SplitN(text, " ", 3)
	if !ok || len(words) < 3 || !strings.HasPrefix(out, "completed") {
		t.Fatalf("no answer: %s", out)
	}
	pid, _ = strconv.Atoi(words[0])
	n, _ = strconv.Atoi(words[1])
	return pid, n, words[2]
}

func dead(pid int) bool { return syscall.Kill(pid, 0) != nil }

func (h *testPool) log() string {
	raw, _ := os.ReadFile(filepath.Join(h.job.Invocation.ProjectDir, "log"))
	return string(raw)
}

// TestTurns: one process does the turns of a session, and each answer is that turn's.
func TestTurns(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, echo, PoolConfig{})
	first, n, _ := answerOf(t, h.turn(t.Context(), "ok"))
	if n != 1 || !slices.Equal(h.p.Sessions(), []string{"ses_1"}) || h.idle == 0 {
		t.Errorf("turn %d, idle %v, idle called %d times", n, h.p.Sessions(), h.idle)
	}
	for i, tt := range []struct{ do, want string }{
		{"ok", ""},
		{"data", `completed | ` + data(`{"a":1.0}`)},
		{"document", `completed | ` + data(`[0]`)},
		{"text", `completed | ` + text("plain")},
		{"result", `completed | ` + data(`7`)},
		{"fail", `failed {"error":"quota","message":"no money"}`},
		{"event", ""},
		{"ok", ""},
	} {
		got := h.turn(t.Context(), tt.do)
		if tt.want != "" {
			if got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.do, got, tt.want)
			}
			continue
		}
		if pid, n, _ := answerOf(t, got); pid != first || n != i+2 {
			t.Errorf("%s: process %d, turn %d, want %d and %d", tt.do, pid, n, first, i+2)
		}
	}
	if want := []string{`message {"role":"assistant","content":[]}`,
		`bind {"type":"bind","executor_session_id":"m"}`}; !slices.Equal(h.said, want) {
		t.Errorf("got %q", h.said)
	}
	h.p.Close(t.Context())
	if !dead(first) || h.log() != "bye\n" || h.p.Sessions() != nil {
		t.Errorf("after the end: gone %v, log %q", dead(first), h.log())
	}
}

// TestTurnLine: the first line has the whole document, a further turn only what changed.
func TestTurnLine(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, echo, PoolConfig{})
	h.turn(t.Context(), "line")
	h.turn(t.Context(), "line", func(j *Job) {
		j.Invocation.Prompt, j.Invocation.ExecutorSession, j.Invocation.APIURL, j.Invocation.MCPURL = "say <&>", "m",
			"http://127.0.0.1:1/x", "http://h/mcp"
		j.Invocation.Blueprint = json.RawMessage(`{"name":"b"}`)
		h.job.Invocation.Blueprint = j.Invocation.Blueprint
	})
	h.turn(t.Context(), "line")
	raw, _ := os.ReadFile(filepath.Join(h.job.Invocation.ProjectDir, "lines"))
	got := strings.ReplaceAll(string(raw), h.job.Invocation.ProjectDir, "DIR")
	want := `{"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":{"do":"line"},` +
		`"project_dir":"DIR","agent_name":"a","agent_blueprint":{},"executor_config":{"model":"m"},"attempt":1,` +
		`"lifecycle":"persistent"}
{"type":"turn","mode":"resume","run_id":"run_2","attempt":1,"parameters":{"do":"line"},"prompt":"say <&>",` +
		`"executor_session_id":"m","agent_blueprint":{"name":"b"},"api_url":"http://127.0.0.1:1/x",` +
		`"mcp_url":"http://h/mcp"}
{"type":"turn","mode":"resume","run_id":"run_3","attempt":1,"parameters":{"do":"line"}}
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestBadTurns: each way to break the protocol has its outcome, and a new process does the next turn.
func TestBadTurns(t *testing.T) {
	for _, tt := range []struct{ do, want string }{
		{"die", `failed {"error":"executor_failed","message":"last words","exit_code":3}`},
		{"vanish",
			`failed {"error":"executor_failed","message":"the executor ended before it answered its turn (a ` +
				`persistent one ends each turn with a turn_complete or turn_failed line)","exit_code":0}`},
		{"leave", "completed"},
		{"twice", "completed"},
		{"half",
			`failed {"error":"executor_result_unreadable","message":"the executor's turn_complete line is ` +
				`unreadable: it is not JSON"}`},
		{"bad",
			`failed {"error":"executor_result_unreadable","message":"the executor's turn_complete line is ` +
				`unreadable: result_text and result_data exclude each other; send one"}`},
		{"other",
			`failed {"error":"executor_result_unreadable","message":"the executor's turn_complete line is ` +
				`unreadable: it answers run run_other, but the turn belongs to run run_2"}`},
		{"flood", "completed"},
	} {
		t.Run(tt.do, func(t *testing.T) {
			t.Parallel()
			h := newTestPool(t, echo, PoolConfig{})
			first, _, _ := answerOf(t, h.turn(t.Context(), "ok"))
			if got := h.turn(t.Context(), tt.do); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if tt.do == "flood" || tt.do == "leave" {
				clocktest.Until(t, "the process is gone", func() bool { return dead(first) })
			}
			pid, n, rest := answerOf(t, h.turn(t.Context(), "ok"))
			if pid == first || n != 1 || rest != "ok" || !dead(first) {
				t.Errorf("then process %d, turn %d: %s; the first one was %d, gone %v", pid, n, rest, first,
					dead(first))
			}
		})
	}
}

// TestOutputBetweenTurns: output between turns is reported with the next turn, and is in no result.
func TestOutputBetweenTurns(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, echo, PoolConfig{})
	first, _, _ := answerOf(t, h.turn(t.Context(), "stray"))
	clocktest.Until(t, "the stray lines have come", func() bool {
		h.p.mu.Lock()
		l := h.p.bySession["ses_1"]
		h.p.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.strayBytes > 40
	})
	if pid, _, rest := answerOf(t, h.turn(t.Context(), "ok")); pid != first || rest != "ok" {
		t.Errorf("got process %d, %s; it was %d", pid, rest, first)
	}
	want := []string{"message " + string(run.TextMessage("system",
		"the executor wrote 50 bytes between its turns, dropped: stray one\n"+
			`{"type":"event","event_type":"message"}`))}
	if !slices.Equal(h.said, want) {
		t.Errorf("got %q\nwant %q", h.said, want)
	}
}

// TestNothingAfterTheAnswer: a line over the gateway after a turn's answer, even at the same moment, neither undoes
// nor replaces the answer.
func TestNothingAfterTheAnswer(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"type":"turn_complete","result":"the answer"}`, `{"type":"turn_complete"}`,
		`{"type":"turn_complete","result":`} {
		tr := newTurn(Job{Invocation: executor.Invocation{RunID: "run_1"}}, 1<<10)
		early, late := "early", "late"
		tr.fromGateway(executor.Line{Type: executor.LineResult, Result: &run.Result{Text: &early}})
		tr.onLine([]byte(answer))
		_, unread := tr.status()
		before := outcomeText(tr.outcome(1<<10), nil)
		tr.fromGateway(executor.Line{Type: executor.LineResult, Result: &run.Result{Text: &late}})
		if answered, still := tr.status(); !answered || still != unread {
			t.Errorf("%s: answered %v, unread %v after %v", answer, answered, still, unread)
		}
		if got := outcomeText(tr.outcome(1<<10), nil); got != before || strings.Contains(got, late) {
			t.Errorf("%s: it became %s, was %s", answer, got, before)
		}
	}
}

// TestDiesBetweenTurns: a process that has ended is replaced by another, which resumes.
func TestDiesBetweenTurns(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, echo, PoolConfig{})
	first, _, _ := answerOf(t, h.turn(t.Context(), "ok"))
	syscall.Kill(first, syscall.SIGKILL)
	clocktest.Until(t, "the process is gone", func() bool { return dead(first) })
	pid, n, _ := answerOf(t, h.turn(t.Context(), "line"))
	raw, _ := os.ReadFile(filepath.Join(h.job.Invocation.ProjectDir, "lines"))
	if pid == first || n != 1 || !strings.Contains(string(raw), `"mode":"resume"`) {
		t.Errorf("process %d after %d, turn %d: %s", pid, first, n, raw)
	}
}

// TestEndingProcessGetsNoTurn: a process that is being ended gets no more turns; another one does them.
func TestEndingProcessGetsNoTurn(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, `trap "" TERM`+echo, PoolConfig{Grace: 200 * time.Millisecond})
	h.turn(t.Context(), "ok")
	j := h.next("ok")
	l, err := h.p.acquire(t.Context(), j, maxResult)
	if err != nil {
		t.Fatal(err)
	}
	l.cancel(errors.New("a second answer to its turn"))
	if asked, err := l.startTurn(t.Context(), j, newTurn(j, maxResult)); asked || err != nil {
		t.Errorf("asked %v, %v", asked, err)
	}
	<-l.done
}

// TestWrongProcessIsReplaced: a process only does the turn that follows its own last one.
func TestWrongProcessIsReplaced(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Job)
		same   bool
	}{
		{"the next turn", func(*Job) {}, true},
		{"the same run again", func(j *Job) { j.Invocation.RunID = "run_1" }, true},
		{"a turn was done elsewhere", func(j *Job) { j.Invocation.PreviousRunID = "run_elsewhere" }, false},
		{"nobody knows what was before", func(j *Job) { j.Invocation.PreviousRunID = "" }, false},
		{"a further attempt", func(j *Job) { j.Invocation.Attempt = 2 }, false},
		{"another session of that name", func(j *Job) { j.Invocation.Mode = executor.Start }, false},
		{"another folder", func(j *Job) { j.Invocation.ProjectDir = os.TempDir() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newTestPool(t, echo, PoolConfig{})
			first, _, _ := answerOf(t, h.turn(t.Context(), "ok"))
			if pid, _, _ := answerOf(t, h.turn(t.Context(), "ok", tt.change)); (pid == first) != tt.same {
				t.Errorf("process %d after %d", pid, first)
			}
			if !tt.same && (!dead(first) || h.log() != "bye\n") {
				t.Errorf("gone %v, log %q", dead(first), h.log())
			}
		})
	}
}

// TestStopTurn: nothing of the tree is left after a stop in the first turn or a later one, and the session can
// continue.
func TestStopTurn(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			h := newTestPool(t, `trap "" TERM`+echo, PoolConfig{Grace: 200 * time.Millisecond})
			if !first {
				h.turn(t.Context(), "ok")
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var got string
			var wg sync.WaitGroup
			wg.Go(func() { got = h.turn(ctx, "wait") })
			file := filepath.Join(h.job.Invocation.ProjectDir, "pids")
			var pids []string
			clocktest.Until(t, "two processes", func() bool {
				raw, _ := os.ReadFile(file)
				pids = strings.Fields(string(raw))
				return len(pids) == 2
			})
			cancel(errors.New("stop"))
			wg.Wait()
			if got != stoppedAtWork || h.p.Sessions() != nil {
				t.Errorf("got %s, idle %v", got, h.p.Sessions())
			}
			for _, one := range pids {
				if pid, _ := strconv.Atoi(one); !dead(pid) {
					t.Errorf("%d is left", pid)
				}
			}
			answerOf(t, h.turn(t.Context(), "ok"))
		})
	}
}

// TestKillTurn: a killed process has no grace period.
func TestKillTurn(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, `trap "" TERM`+echo, PoolConfig{Grace: time.Minute})
	h.turn(t.Context(), "ok")
	ctx, cancel := context.WithCancel(t.Context())
	kill, end := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(50*time.Millisecond, func() { cancel(); end() })
	start := time.Now()
	if got := h.turn(ctx, "wait", func(j *Job) {
		j.Kill = kill.Done()
	}); !strings.HasPrefix(got, "stopped") || time.Since(start) > 10*time.Second {
		t.Errorf("got %s after %v", got, time.Since(start))
	}
}

// TestIdle: an idle process is shut down after the timeout, and the oldest one if there are too many.
func TestIdle(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, echo, PoolConfig{IdleTimeout: 30 * time.Millisecond})
	first, _, _ := answerOf(t, h.turn(t.Context(), "ok"))
	clocktest.Until(t, "the process is gone", func() bool { return dead(first) })
	clocktest.Until(t, "it is forgotten", func() bool { return h.p.Sessions() == nil })
	if h.log() != "bye\n" {
		t.Errorf("log %q", h.log())
	}

	h = newTestPool(t, echo, PoolConfig{MaxProcesses: 2})
	var pids []int
	for _, session := range []string{"ses_a", "ses_b", "ses_c"} {
		pid, _, _ := answerOf(t, h.turn(t.Context(), "ok", func(j *Job) { j.Invocation.SessionID = session }))
		pids = append(pids, pid)
	}
	all := h.p.Sessions()
	slices.Sort(all)
	if !dead(pids[0]) || dead(pids[1]) || !slices.Equal(all, []string{"ses_b", "ses_c"}) {
		t.Errorf("idle %v", all)
	}
	h.p.Forget([]string{"ses_b", "ses_x"})
	clocktest.Until(t, "the forgotten one is gone", func() bool { return dead(pids[1]) })
}

// TestProcessThatDoesNotRead: it is ended at shutdown, and an unread turn ends with its run.
func TestProcessThatDoesNotRead(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, `read -r line; printf '{"type":"turn_complete","result":"1 1 x"}\n'; sleep 100`,
		PoolConfig{Grace: 200 * time.Millisecond})
	answerOf(t, h.turn(t.Context(), "ok"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	big := json.RawMessage(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	if got := h.turn(ctx, "", func(j *Job) { j.Invocation.Parameters = big }); got != "stopped" {
		t.Errorf("got %s", got)
	}
	answerOf(t, h.turn(t.Context(), "ok"))
	start := time.Now()
	h.p.Close(t.Context())
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// TestClosedStdin: a process that cannot read a turn has not started it; another one does it.
func TestClosedStdin(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, `read -r line; exec <&-; printf '{"type":"turn_complete","result":"%s 1 x"}\n' $$; sleep 100`,
		PoolConfig{})
	first, _, _ := answerOf(t, h.turn(t.Context(), "ok"))
	if second, _, _ := answerOf(t, h.turn(t.Context(), "ok")); second == first || !dead(first) {
		t.Errorf("process %d after %d, gone %v", second, first, dead(first))
	}
}

// TestNoPersistentProgram: a program that cannot be started is reported as with oneshot.
func TestNoPersistentProgram(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, "", PoolConfig{})
	os.Remove(h.job.Command)
	if got := h.turn(t.Context(), ""); !strings.HasPrefix(got, `failed {"error":"executor_not_found"`) {
		t.Errorf("got %s", got)
	}
}

// TestManySessions: concurrent sessions with crossing turns, stops and deaths: each answer is its own turn's, and
// nothing is left.
func TestManySessions(t *testing.T) {
	t.Parallel()
	h := newTestPool(t, strings.ReplaceAll(echo, `answer ok`, `id=${line##*\"run_id\":\"}; answer "${id%%\"*}"`),
		PoolConfig{MaxProcesses: 6, IdleTimeout: 20 * time.Millisecond})
	var wg sync.WaitGroup
	for s := range 4 {
		wg.Go(func() {
			for n := range 12 {
				j := h.job
				j.OnEvent = nil
				v := &j.Invocation
				v.SessionID, v.RunID = fmt.Sprintf("ses_%d", s), fmt.Sprintf("run_%d_%d", s, n)
				v.Parameters = json.RawMessage(`{"do":"ok"}`)
				if n > 0 {
					v.Mode, v.PreviousRunID = executor.Resume, fmt.Sprintf("run_%d_%d", s, n-1)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if n%4 == 3 {
					time.AfterFunc(time.Duration(n)*time.Millisecond, cancel)
				}
				o := h.p.Run(ctx, j)
				if o.Status == run.Completed && !strings.Contains(*o.Result.Text, v.RunID) || o.Status == run.Failed {
					t.Errorf("%s: %s", v.RunID, outcomeText(o, nil))
				}
				cancel()
			}
		})
	}
	wg.Wait()
	h.p.Close(t.Context())
	if len(h.p.bySession) != 0 {
		t.Errorf("%d processes are left", len(h.p.bySession))
	}
}
