package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
)

// addToState returns an autonomous run that adds this to its session's state.
func addToState(more ...string) func(*run.Queued) {
	return withPrompt(map[string][]string{"add": more})
}

// nextTurn makes a run the next one of a session, as a coordinator queues it.
func (s *fakeCoordinator) nextTurn(q run.Queued) func(*run.Queued) {
	var b run.Bound
	s.record(subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key), &b)
	return func(next *run.Queued) {
		next.Type, next.SessionID, next.ExecutorSessionID = run.Resume, q.SessionID, b.ExecutorSessionID
	}
}

// answer returns a run's result or error.
func answer(e run.Ended) string {
	if e.Status != run.Completed || e.Result == nil {
		return fmt.Sprint(e.Status, " ", e.Error)
	}
	return string(e.Result.Data)
}

// stateParts lists the stored parts of states.
func (s *fakeCoordinator) stateParts() (all []string) {
	s.with(func() {
		for name := range s.parts {
			if strings.Contains(name, ".state/") {
				all = append(all, name)
			}
		}
	})
	slices.Sort(all)
	return all
}

// TestState: the next run of a session gets the last state that a run kept, on any worker, inside it or as a program.
// Older states are deleted.
func TestState(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"inside", "program"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newFakeCoordinator(t, natstest.Bus(t))
			newWorker := func() runningWorker { // each time on another host
				if kind == "program" {
					return start(t, s.b, nil, testBinary(t, "memory"), func(c *Config) { c.Host = run.NewID() })
				}
				return start(t, s.b, stateExecutor, func(c *Config) { c.Host = run.NewID() })
			}
			large, shown := strings.Repeat("x", run.PartSize), strings.Repeat("[64 KiB]", run.PartSize>>16)
			w := newWorker()
			q := s.enqueue(addToState("one", large, "two"))
			e := s.waitEnded(q)
			if answer(e) != "null" {
				t.Fatalf("got %.200s", answer(e))
			}
			var bound run.Bound
			s.record(subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key), &bound)
			if want := (run.Bound{V: 1, SessionID: q.SessionID, RunnerID: w.ID(), Attempt: 1,
				ExecutorSessionID: "state:" + q.ID + ".1", Profile: w.Profile.Name, At: bound.At}); bound != want {
				t.Errorf("bound %+v, want %+v", bound, want)
			}
			w.end(t)

			w = newWorker()
			next := s.enqueue(s.nextTurn(q), addToState("three"))
			if e := s.waitEnded(next); answer(e) != `"one`+shown+`two"` {
				t.Fatalf("the second run: %.200s", answer(e))
			}
			want := []string{next.ID + ".1.0.state/0", next.ID + ".1.0.state/1", next.ID + ".1.state/0"}
			natstest.Until(t, "the older state is removed", func() bool {
				return fmt.Sprint(s.stateParts()) == fmt.Sprint(want)
			})
			w.end(t)

			newWorker()
			quiet := s.enqueue(s.nextTurn(next), addToState())
			if e := s.waitEnded(quiet); answer(e) != `"one`+shown+`twothree"` {
				t.Errorf("the third run: %.200s", answer(e))
			}
			if got := s.stateParts(); fmt.Sprint(got) != fmt.Sprint(want) { // it kept nothing: what there is stays
				t.Errorf("parts %v", got)
			}
		})
	}
}

// TestStateIsNoExecutorSession: an executor never gets a kept state as its session id.
func TestStateIsNoExecutorSession(t *testing.T) {
	t.Parallel()
	s := newFakeCoordinator(t, natstest.Bus(t))
	start(t, s.b, func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
		if v.Mode == executor.Start {
			if err := host.SaveState(ctx, []byte("kept")); err != nil {
				t.Error(err)
			}
		}
		return completed(fmt.Sprintf("%q", v.ExecutorSession))
	}, func(c *Config) { c.Profile.Type = run.Autonomous })
	q := s.enqueue(addToState())
	s.waitEnded(q)
	if e := s.waitEnded(s.enqueue(s.nextTurn(q), addToState())); answer(e) != `""` {
		t.Errorf("the next run got the session %s", answer(e))
	}
}

// TestStateLost: a deleted or damaged state is reported.
func TestStateLost(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(parts map[string][]byte, name string){
		"gone":            func(p map[string][]byte, name string) { delete(p, name+".state/0") },
		"its body gone":   func(p map[string][]byte, name string) { delete(p, name+".0.state/0") },
		"its body other":  func(p map[string][]byte, name string) { p[name+".0.state/0"] = []byte("two") },
		"no longer names": func(p map[string][]byte, name string) { p[name+".state/0"] = []byte("?") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeCoordinator(t, natstest.Bus(t))
			start(t, s.b, nil, testBinary(t, "memory"))
			q := s.enqueue(addToState("one"))
			s.waitEnded(q)
			s.with(func() { spoil(s.parts, q.ID+".1") })
			e := s.waitEnded(s.enqueue(s.nextTurn(q), addToState("x")))
			if code(e) != "conversation_lost" || !strings.Contains(e.Error.Message, "start a new session") {
				t.Errorf("got %s %v", e.Status, e.Error)
			}
		})
	}
}

// TestStateOrExecutorSession: a run uses either a state or an executor session, whichever it used first.
func TestStateOrExecutorSession(t *testing.T) {
	t.Parallel()
	s := newFakeCoordinator(t, natstest.Bus(t))
	bind := func(host executor.Host, id string) {
		host.Emit(executor.LineBind, json.RawMessage(fmt.Sprintf(`{"type":"bind","executor_session_id":%q}`, id)))
	}
	start(t, s.b, func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
		if strings.Contains(v.Prompt, "keep") {
			err := host.SaveState(ctx, []byte("kept"))
			bind(host, "m")
			if status, body, _ := ask(ctx, "POST", host.URL+"/bind", `{"executor_session_id":"m"}`); status != 409 {
				t.Errorf("bind after keep: %d %s", status, body)
			}
			return run.Outcome{Status: run.Completed, Error: fault.Of(err)}
		}
		bind(host, "state:run_of_another.1")
		bind(host, "m")
		err := host.SaveState(ctx, []byte("kept"))
		if fault.KindOf(err) != fault.Conflict {
			t.Errorf("keep after bind: %v", err)
		}
		for _, b := range []string{`{"executor_session_id":"other"}`, `{"executor_session_id":"m"}`,
			`{"executor_session_id":"state:run_1.1"}`} {
			status, body, _ := ask(ctx, "POST", host.URL+"/bind", b)
			t.Log(status, body)
			// nobody listens to a bind here
			if want := map[bool]int{true: 400, false: 409}[strings.Contains(b, "state:")]; status != want {
				t.Errorf("%s: %d %s", b, status, body)
			}
		}
		return run.Outcome{Status: run.Completed}
	})
	for _, tt := range []struct{ add, model, host string }{{"keep", "state:", ""}, {"bind", "m", "h"}} {
		q := s.enqueue(addToState(tt.add))
		s.waitEnded(q)
		var b run.Bound
		s.record(subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key), &b)
		if !strings.HasPrefix(b.ExecutorSessionID, tt.model) || b.Hostname != tt.host {
			t.Errorf("%s: bound %+v", tt.add, b)
		}
	}
}

// TestStateLimits: an empty or too large state is refused. A failed attempt that may be repeated deletes nothing.
func TestStateLimits(t *testing.T) {
	t.Parallel()
	s := newFakeCoordinator(t, natstest.Bus(t))
	start(t, s.b, stateExecutor, func(c *Config) { c.MaxPayload = 100 })
	for _, tt := range []struct{ add, code string }{{"", "invalid_request"}, {strings.Repeat("x", 101), "too_large"}} {
		if e := s.waitEnded(s.enqueue(addToState(tt.add))); code(e) != tt.code {
			t.Errorf("%d bytes: %s %v", len(tt.add), e.Status, e.Error)
		}
	}
	q := s.enqueue(addToState("one"))
	s.waitEnded(q)
	next := s.enqueue(s.nextTurn(q), addToState("two", strings.Repeat("x", 101)), func(q *run.Queued) {
		q.Attempts = 2
	})
	if e := s.waitEnded(next); e.Status != run.Failed {
		t.Errorf("got %s", e.Status)
	}
	if got := s.stateParts(); len(got) != 4 {
		t.Errorf("parts %v", got)
	}
	again := s.enqueue(s.nextTurn(next), addToState("three"), func(q *run.Queued) {
		q.ID, q.Attempt, q.Attempts, q.Key = next.ID, 2, 2, "second-"+next.ID
	})
	if e := s.waitEnded(again); answer(e) != `"onetwo"` {
		t.Errorf("got %.200s", answer(e))
	}
	// the first run's stays: nobody names it any more
	natstest.Until(t, "the older states are removed", func() bool { return len(s.stateParts()) == 4 })
}

// TestStateIsAlwaysComplete: while it is unknown which body is committed, none is overwritten.
func TestStateIsAlwaysComplete(t *testing.T) {
	t.Parallel()
	for _, landed := range []bool{false, true} {
		s := newFakeCoordinator(t, natstest.Bus(t))
		var name string
		lost := 0
		s.onPart = func(part string) error {
			if part == name+".state/0" && lost > 0 {
				if lost--; landed {
					s.parts[part] = []byte(fmt.Sprintf(`{"name":%q}`, name+".1.state"))
				}
				return fault.New(fault.Internal, "", "nobody knows")
			}
			var p run.Payload
			json.Unmarshal(s.parts[name+".state/0"], &p)
			if strings.HasPrefix(part, p.Name+"/") && p.Name != "" {
				t.Errorf("landed %v: %s is written while it is the one that is named", landed, part)
			}
			return nil
		}
		start(t, s.b, func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
			s.with(func() { name = v.RunID + ".1" })
			for i, state := range []string{"one", "two", "three", "four"} {
				if s.with(func() { lost = 0 }); i == 1 {
					s.with(func() { lost = 3 })
				}
				if err := host.SaveState(ctx, []byte(state)); (err != nil) != (i == 1) {
					return run.Outcome{Status: run.Failed, Error: fault.Newf(fault.Internal, "%s: %v", state, err)}
				}
			}
			state, err := host.LoadState(ctx)
			raw, _ := json.Marshal(string(state))
			return run.Outcome{Status: run.Completed, Error: fault.Of(err),
				Result: &run.Result{Type: run.Autonomous, Data: raw}}
		})
		if e := s.waitEnded(s.enqueue(addToState())); answer(e) != `"four"` {
			t.Errorf("landed %v: %s", landed, answer(e))
		}
	}
}
