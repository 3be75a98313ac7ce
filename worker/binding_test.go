package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker/profile"
)

// autonomous returns a profile whose program is a shell script.
func autonomous(t *testing.T, script string) func(*Config) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"model.json": `{"type":"autonomous","command":"./model",` +
		`"config":{"model":"m"},"max_concurrent_runs":4}`, "model": "#!/bin/sh\n" + script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := profile.Read(dir, "model")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Executor, c.Profile = nil, p }
}

// TestProgramBindsBeforeEnd: the binding of a program precedes its end record, and a resume gets it back.
func TestProgramBindsBeforeEnd(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, nil, autonomous(t, `
echo "{\"type\":\"bind\",\"executor_session_id\":\"model-of-$AGENT_SESSION_ID\"}"
echo '{"type":"bind","executor_session_id":"another"}'
echo '{"type":"event","event_type":"pre_tool","tool_name":"ls"}'
printf '{"type":"result","result_data":{"attempt":"%s","in":%s}}\n' "$AGENT_ORCHESTRATOR_ATTEMPT" "$(cat)"
`))
	model := func(q *run.Queued) { q.AgentType, q.Attempts = run.Autonomous, 5 }
	q := s.enqueue(model)
	e := s.waitEnded(q)
	var bound run.Bound
	subj := subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key)
	if !s.record(subj, &bound) {
		t.Fatal("nothing is bound")
	}
	if want := (run.Bound{V: 1, SessionID: q.SessionID, RunnerID: w.ID(), Attempt: 1,
		ExecutorSessionID: "model-of-" + q.SessionID,
		Hostname:          "h", Profile: "model", At: bound.At}); bound != want || bound.At.IsZero() {
		t.Errorf("got %+v, want %+v", bound, want)
	}
	first, _ := b.Last(t.Context(), subj)
	last, err := b.Last(t.Context(), subject.Ended(subject.Partition(q.SessionID), q.ID, q.Key))
	if err != nil || first.Seq > last.Seq {
		t.Errorf("bound is number %d, ended %d, %v", first.Seq, last.Seq, err)
	}
	events, err := b.Events(t.Context(), subject.RunEvents(q.SessionID, q.ID), 0, 10)
	if err != nil || len(events) != 1 || events[0].Seq != e.Events || !strings.Contains(string(events[0].Body),
		`"event_type":"pre_tool"`) {
		t.Errorf("events %+v, %v", events, err)
	}
	in := func(e run.Ended) (attempt string, v executor.Invocation) {
		t.Helper()
		var d struct {
			Attempt string
			In      executor.Invocation
		}
		if e.Status != run.Completed || e.Result.Type != run.Autonomous || json.Unmarshal(e.Result.Data, &d) != nil {
			t.Fatalf("%s %v %+v", e.Status, e.Error, e.Result)
		}
		return d.Attempt, d.In
	}
	if attempt, v := in(e); attempt != "1" || v.Attempt != 1 || v.Mode != executor.Start || v.ExecutorSession != "" ||
		string(v.Config) != `{"model":"m"}` || v.ProjectDir != w.ProjectDir {
		t.Errorf("attempt %s of %+v", attempt, v)
	}
	// The next turn, and its third attempt, as a coordinator queues them.
	q = s.enqueue(model, func(next *run.Queued) {
		next.Type, next.SessionID, next.ExecutorSessionID, next.Attempt = run.Resume, q.SessionID,
			bound.ExecutorSessionID, 3
	})
	if attempt, v := in(s.waitEnded(q)); attempt != "3" || v.Attempt != 3 || v.Mode != executor.Resume ||
		v.ExecutorSession != "model-of-"+q.SessionID {
		t.Errorf("attempt %s of %+v", attempt, v)
	}
}

// TestBindingWhileNATSIsDown: the executor does not wait for the binding, but the end record does.
func TestBindingWhileNATSIsDown(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	s := newFakeCoordinator(t, p.Bus(t))
	started, goOn, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w := start(t, p.Bus(t), func(_ context.Context, _ executor.Invocation, host executor.Host) run.Outcome {
		close(started)
		<-goOn
		host.Emit(executor.LineBind, json.RawMessage(`"nonsense"`))
		host.Emit(executor.LineBind, json.RawMessage(fmt.Sprintf(`{"type":"bind","executor_session_id":%q}`,
			strings.Repeat("x", maxExecutorSession+1))))
		host.Emit(executor.LineBind, json.RawMessage(`{"type":"bind","executor_session_id":"m"}`))
		close(over)
		return completed("1")
	})
	q := s.enqueue()
	<-started
	p.Kill()
	natstest.Until(t, "the worker has noticed", func() bool { return !w.bus.Connected() })
	close(goOn)
	<-over // NATS is still away
	p.Start()
	if e := s.waitEnded(q); e.Status != run.Completed {
		t.Errorf("got %s %s", e.Status, code(e))
	}
	first, err := s.b.Last(t.Context(), subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key))
	last, _ := s.b.Last(t.Context(), subject.Ended(subject.Partition(q.SessionID), q.ID, q.Key))
	if err != nil || first.Seq > last.Seq || !strings.Contains(string(first.Body), `"executor_session_id":"m"`) {
		t.Errorf("bound as number %d, ended %d: %s, %v", first.Seq, last.Seq, first.Body, err)
	}
}
