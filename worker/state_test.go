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

// adding makes a run of an autonomous agent that adds this to what its session keeps.
func adding(more ...string) func(*run.Queued) {
	return asking(map[string][]string{"add": more})
}

// after makes a run the next one of a session, as a coordinator queues it.
func (s *fakeCoordinator) after(q run.Queued) func(*run.Queued) {
	var b run.Bound
	s.record(subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key), &b)
	return func(next *run.Queued) {
		next.Type, next.SessionID, next.ExecutorSessionID = run.Resume, q.SessionID, b.ExecutorSessionID
	}
}

// answer is a run's result, or how it failed.
func answer(e run.Ended) string {
	if e.Status != run.Completed || e.Result == nil {
		return fmt.Sprint(e.Status, " ", e.Error)
	}
	return string(e.Result.Data)
}

// names lists the parts of states that the coordinators have.
func (s *fakeCoordinator) names() (all []string) {
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

// TestMemory: what a run keeps is what the session's next one finds, on whatever worker, inside it or as a program;
// the last that it kept counts, and what is older goes.
func TestMemory(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"inside", "program"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newFakeCoordinator(t, natstest.Bus(t))
			begin := func() runningWorker { // each time on another host
				if kind == "program" {
					return start(t, s.b, nil, itself(t, "memory"), func(c *Config) { c.Host = run.NewID() })
				}
				return start(t, s.b, remember, func(c *Config) { c.Host = run.NewID() })
			}
			large, shown := strings.Repeat("x", run.PartSize), strings.Repeat("[64 KiB]", run.PartSize>>16)
			w := begin()
			q := s.enqueue(adding("one", large, "two"))
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

			w = begin()
			next := s.enqueue(s.after(q), adding("three"))
			if e := s.waitEnded(next); answer(e) != `"one`+shown+`two"` {
				t.Fatalf("the second run: %.200s", answer(e))
			}
			want := []string{next.ID + ".1.0.state/0", next.ID + ".1.0.state/1", next.ID + ".1.state/0"}
			natstest.Until(t, "the older state is removed", func() bool {
				return fmt.Sprint(s.names()) == fmt.Sprint(want)
			})
			w.end(t)

			begin()
			quiet := s.enqueue(s.after(next), adding())
			if e := s.waitEnded(quiet); answer(e) != `"one`+shown+`twothree"` {
				t.Errorf("the third run: %.200s", answer(e))
			}
			if got := s.names(); fmt.Sprint(got) != fmt.Sprint(want) { // it kept nothing: what there is stays
				t.Errorf("parts %v", got)
			}
		})
	}
}

// TestAStateIsNoModelsSession: what a run kept is nothing that an executor could take for a session it has bound.
func TestAStateIsNoModelsSession(t *testing.T) {
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
	q := s.enqueue(adding())
	s.waitEnded(q)
	if e := s.waitEnded(s.enqueue(s.after(q), adding())); answer(e) != `""` {
		t.Errorf("the next run is told of the session %s", answer(e))
	}
}

// TestMemoryLost: a state that is gone, or damaged, is said to be.
func TestMemoryLost(t *testing.T) {
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
			start(t, s.b, nil, itself(t, "memory"))
			q := s.enqueue(adding("one"))
			s.waitEnded(q)
			s.with(func() { spoil(s.parts, q.ID+".1") })
			e := s.waitEnded(s.enqueue(s.after(q), adding("x")))
			if code(e) != "conversation_lost" || !strings.Contains(e.Error.Message, "start a new session") {
				t.Errorf("got %s %v", e.Status, e.Error)
			}
		})
	}
}

// TestMemoryAndModel: a run goes on either by what it keeps, or by a session of a model side, whichever came first.
func TestMemoryAndModel(t *testing.T) {
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
		q := s.enqueue(adding(tt.add))
		s.waitEnded(q)
		var b run.Bound
		s.record(subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key), &b)
		if !strings.HasPrefix(b.ExecutorSessionID, tt.model) || b.Hostname != tt.host {
			t.Errorf("%s: bound %+v", tt.add, b)
		}
	}
}

// TestMemoryLimits: what is too large, or nothing, is not kept; a failed attempt that has another behind it removes
// nothing.
func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	s := newFakeCoordinator(t, natstest.Bus(t))
	start(t, s.b, remember, func(c *Config) { c.MaxPayload = 100 })
	for _, tt := range []struct{ add, code string }{{"", "invalid_request"}, {strings.Repeat("x", 101), "too_large"}} {
		if e := s.waitEnded(s.enqueue(adding(tt.add))); code(e) != tt.code {
			t.Errorf("%d bytes: %s %v", len(tt.add), e.Status, e.Error)
		}
	}
	q := s.enqueue(adding("one"))
	s.waitEnded(q)
	next := s.enqueue(s.after(q), adding("two", strings.Repeat("x", 101)), func(q *run.Queued) { q.Attempts = 2 })
	if e := s.waitEnded(next); e.Status != run.Failed {
		t.Errorf("got %s", e.Status)
	}
	if got := s.names(); len(got) != 4 {
		t.Errorf("parts %v", got)
	}
	again := s.enqueue(s.after(next), adding("three"), func(q *run.Queued) {
		q.ID, q.Attempt, q.Attempts, q.Key = next.ID, 2, 2, "second-"+next.ID
	})
	if e := s.waitEnded(again); answer(e) != `"onetwo"` {
		t.Errorf("got %.200s", answer(e))
	}
	// the first run's stays: nobody names it any more
	natstest.Until(t, "the older states are removed", func() bool { return len(s.names()) == 4 })
}

// TestMemoryIsWholeAtAnyMoment: where nobody said which body is named, none is written anew before that is known.
func TestMemoryIsWholeAtAnyMoment(t *testing.T) {
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
		if e := s.waitEnded(s.enqueue(adding())); answer(e) != `"four"` {
			t.Errorf("landed %v: %s", landed, answer(e))
		}
	}
}
