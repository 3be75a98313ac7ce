package worker

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestSlots: never more concurrent runs than slots, over several task queues; other workers get the rest.
func TestSlots(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	var now, most atomic.Int32
	do := func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		runtime.Gosched()
		return completed("1")
	}
	w := start(t, b, do, func(c *Config) { c.Profile.MaxConcurrentRuns = 3 })
	var all []run.Queued
	for range 100 {
		all = append(all, s.enqueue())
	}
	for _, q := range all {
		s.waitEnded(q)
	}
	natstest.Until(t, "all are counted", func() bool { return w.counts.ended.Load() == 100 })
	if most.Load() > 3 {
		t.Errorf("%d at once with 3 slots", most.Load())
	}
	s.with(func() {
		for _, heartbeat := range s.heartbeats {
			if len(heartbeat.Attempts) > 3 {
				t.Fatalf("a heartbeat names %d attempts", len(heartbeat.Attempts))
			}
		}
	})
	w.end(t)
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, untilCanceled)
	q := s.enqueue()
	natstest.Until(t, "a beat names the attempt and its start", func() (ok bool) {
		s.with(func() {
			for _, heartbeat := range s.heartbeats {
				for _, a := range heartbeat.Attempts {
					ok = ok || a.Key == q.Key && a.RunID == q.ID && a.SessionID == q.SessionID && a.StartedAt != nil &&
						heartbeat.RunnerID == w.ID()
				}
			}
		})
		return ok
	})
	s.with(func() {
		s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
			return runnerapi.HeartbeatReply{Known: true, TaskQueues: []string{queue}, Abandoned: []string{q.Key}}
		}
	})
	natstest.Until(t, "the attempt is killed", func() bool { return !w.attempts.has(q.Key) })
	if c := &w.counts; c.abandoned.Load() != 1 || c.ended.Load() != 0 || c.refused.Load() != 0 {
		t.Errorf("got %+v", c)
	}
	s.with(func() { s.answer = knownReply })
	if e := s.waitEnded(s.enqueue(func(q *run.Queued) { q.Timeout = 1 })); code(e) != "timeout" {
		t.Errorf("the next run: %s %s", e.Status, code(e))
	}
}

func TestTaskQueuesAreAdjusted(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply { return runnerapi.HeartbeatReply{Known: true} }
	w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		return completed("1")
	})
	open := func() []string {
		w.queues.mu.Lock()
		defer w.queues.mu.Unlock()
		var all []string
		for l := range w.queues.open {
			all = append(all, l)
		}
		slices.Sort(all)
		return all
	}
	natstest.Until(t, "no queue is taken from", func() bool { return len(open()) == 0 })
	q := s.enqueue()
	s.with(func() { s.answer = knownReply })
	s.waitEnded(q)
	if got := fmt.Sprint(open()); got != "["+queue+"]" {
		t.Errorf("got %s", got)
	}
	s.with(func() {
		s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
			return runnerapi.HeartbeatReply{Known: true, TaskQueues: []string{queue, "x.y.z"}}
		}
	})
	natstest.Until(t, "a queue more", func() bool { return len(open()) == 2 })
	w.end(t)
}

// TestReregisters: a worker that coordinators no longer know registers again. While that is refused it takes no runs.
func TestReregisters(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		return completed("1")
	})
	s.with(func() {
		s.refuseRegistration = fault.New(fault.Conflict, "agent_name_collision", "taken")
		s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply { return runnerapi.HeartbeatReply{} }
	})
	natstest.Until(t, "it has tried again, and takes nothing", func() (ok bool) {
		s.with(func() { ok = len(s.registrations) > 2 })
		w.queues.mu.Lock()
		defer w.queues.mu.Unlock()
		return ok && len(w.queues.open) == 0
	})
	s.with(func() { s.refuseRegistration, s.answer = nil, knownReply })
	s.waitEnded(s.enqueue())
}

func TestRegistrationRefused(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	for _, code := range []string{"agent_name_collision", "runner_already_online"} {
		s.with(func() { s.refuseRegistration, s.registrations = fault.New(fault.Conflict, code, "no"), nil })
		w := startUnready(t, b, untilCanceled)
		natstest.Until(t, "it keeps trying", func() (ok bool) {
			s.with(func() { ok = len(s.registrations) > 1 })
			return ok
		})
		s.with(func() { s.refuseRegistration = nil })
		<-w.Ready()
		w.end(t)
	}
	s.with(func() { s.refuseRegistration, s.farewells = fault.New(fault.Invalid, "", "tags: none empty"), nil })
	w := startUnready(t, b, untilCanceled)
	select {
	case err := <-w.done:
		if fault.KindOf(err) != fault.Invalid || err.Error() != "tags: none empty" {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on with a registration that can never succeed")
	}
	s.with(func() {
		if slices.ContainsFunc(s.farewells, func(f runnerapi.Deregistration) bool {
			return f.Instance == w.client.Instance
		}) {
			t.Error("it said goodbye without having been there")
		}
	})
}

func TestNoCoordinator(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	w := startUnready(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		return completed("1")
	})
	s := newFakeCoordinator(t, b)
	<-w.Ready()
	s.waitEnded(s.enqueue())
	w.end(t)
	lonely := startUnready(t, natstest.Bus(t), untilCanceled)
	lonely.end(t)
}

func TestSuperseded(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	var cut atomic.Bool
	began := make(chan struct{}, 1)
	w := start(t, b, func(ctx context.Context, _ executor.Invocation, _ executor.Host) run.Outcome {
		began <- struct{}{}
		<-ctx.Done()
		cut.Store(true)
		return run.Outcome{Status: run.Stopped}
	})
	s.enqueue()
	<-began
	s.with(func() {
		s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
			return runnerapi.HeartbeatReply{Superseded: true}
		}
	})
	w.wait(t, errSuperseded)
	if !cut.Load() {
		t.Error("its executor continues")
	}
	s.with(func() {
		if len(s.farewells) > 0 {
			t.Error("it deregistered its successor")
		}
	})
}

// TestDrain: after a drain by command or heartbeat the worker takes no more, finishes its runs and ends.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"command", "beat"} {
		t.Run(by, func(t *testing.T) {
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			goOn := make(chan struct{})
			w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
				<-goOn
				return completed("1")
			})
			q := s.enqueue()
			natstest.Until(t, "claimed", func() bool { _, ok := s.claim(q); return ok })
			if by == "command" {
				s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandDrain})
			} else {
				s.with(func() {
					s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
						return runnerapi.HeartbeatReply{Known: true, Drain: true, TaskQueues: []string{queue}}
					}
				})
			}
			natstest.Until(t, "it says that it drains", func() (ok bool) {
				s.with(func() { ok = len(s.heartbeats) > 0 && s.heartbeats[len(s.heartbeats)-1].Draining })
				return ok
			})
			left := s.enqueue()
			close(goOn)
			w.wait(t, nil)
			if e := s.waitEnded(q); e.Status != run.Completed {
				t.Errorf("got %s", e.Status)
			}
			if _, ok := s.claim(left); ok {
				t.Error("a draining worker began a run")
			}
			s.with(func() {
				if len(s.farewells) != 1 {
					t.Errorf("%d farewells", len(s.farewells))
				}
			})
		})
	}
}

// TestShutdown: runs may finish within the grace period. After it they are ended, with the reason. Heartbeats
// continue all the time.
func TestShutdown(t *testing.T) {
	t.Parallel()
	enough := make(chan struct{}) // some heartbeats have come meanwhile
	for _, tt := range []struct {
		name  string
		grace time.Duration
		do    executorStub
		now   bool
		want  string
	}{
		{"finishes", time.Minute, func(ctx context.Context, v executor.Invocation, _ executor.Host) run.Outcome {
			select {
			case <-enough:
			case <-ctx.Done():
			}
			return completed("1")
		}, false, "completed "},
		{"grace over", 100 * time.Millisecond, untilCanceled, false, "failed runner_disconnected"},
		{"no grace", -1, untilCanceled, false, "failed runner_disconnected"},
		{"second signal", time.Minute, untilCanceled, true, "failed runner_disconnected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			w := start(t, b, tt.do, func(c *Config) { c.Grace = tt.grace })
			q := s.enqueue()
			natstest.Until(t, "claimed", func() bool { _, ok := s.claim(q); return ok })
			w.stop()
			natstest.Until(t, "it said at once that it finishes", func() (ok bool) {
				s.with(func() { ok = len(s.farewells) == 1 && s.farewells[0].Finishing })
				return ok
			})
			if tt.now {
				w.StopNow()
			}
			if tt.name == "finishes" {
				natstest.Until(t, "beats for the run go on while the worker ends", func() bool {
					alive := 0
					s.with(func() {
						for _, heartbeat := range s.heartbeats {
							if heartbeat.Draining && len(heartbeat.Attempts) == 1 {
								alive++
							}
						}
					})
					return alive >= 3
				})
				close(enough)
			}
			w.wait(t, nil)
			e := s.waitEnded(q)
			if got := fmt.Sprintf("%s %s", e.Status, code(e)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			s.with(func() {
				if len(s.farewells) != 2 || s.farewells[1].Finishing {
					t.Errorf("farewells: %+v", s.farewells)
				}
			})
		})
	}
}

// TestCommandsBeforeReady: a worker serves commands before it takes a run, so that every run can be stopped.
func TestCommandsBeforeReady(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	for range 20 {
		w := start(t, b, untilCanceled)
		if r := s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandPing}); r.Instance != w.client.Instance {
			t.Errorf("got %+v", r)
		}
		w.end(t)
	}
}

// TestACommandNamesItsProcess: a command that ends the taking of runs must name the process, which only coordinators
// know.
func TestACommandNamesItsProcess(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome { return completed("1") })
	ask := func(body string) error {
		_, err := b.Request(t.Context(), subject.Commands(w.ID()), []byte(body))
		return err
	}
	for _, body := range []string{`{"type":"drain"}`, `{"type":"drain","instance":"another"}`,
		`{"type":"lanes","lanes":[]}`} {
		if err := ask(body); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s: got %v", body, err)
		}
	}
	if e := s.waitEnded(s.enqueue()); e.Status != run.Completed { // it takes runs still
		t.Errorf("got %s", e.Status)
	}
}

// TestShutdownWhileDraining: a drain has no time limit, a shutdown has one.
func TestShutdownWhileDraining(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, untilCanceled)
	q := s.enqueue()
	natstest.Until(t, "claimed", func() bool { _, ok := s.claim(q); return ok })
	s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandDrain})
	natstest.Until(t, "it drains", func() bool { return w.Worker.shutdown.stopping.Load() })
	w.end(t)
	if e := s.waitEnded(q); code(e) != "runner_disconnected" {
		t.Errorf("got %s %s", e.Status, code(e))
	}
	s.with(func() {
		if len(s.farewells) != 2 || !s.farewells[0].Finishing || s.farewells[1].Finishing {
			t.Errorf("farewells: %+v", s.farewells)
		}
	})
}

// TestNoGoroutineLeft: a worker that has ended leaves no goroutine.
func TestNoGoroutineLeft(t *testing.T) {
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	do := func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		return completed("1")
	}
	once := func() {
		w := start(t, b, do)
		for range 20 {
			s.waitEnded(s.enqueue())
		}
		w.end(t)
	}
	once()
	before := runtime.NumGoroutine()
	for range 4 {
		once()
	}
	natstest.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+1 })
}
