package worker

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/worker/process"
)

// attemptOf makes a queued run the n-th of most attempts.
func attemptOf(n, most int) func(*run.Queued) {
	return func(q *run.Queued) { q.Attempt, q.Attempts = n, most }
}

// lostTime returns for how long an overloaded machine did not run this process, from now on.
func lostTime(t *testing.T) func() time.Duration {
	const every, little = 10 * time.Millisecond, 50 * time.Millisecond
	var lost atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for last := time.Now(); clock.Sleep(ctx, every); {
			now := time.Now()
			if late := now.Sub(last) - every; late > little {
				lost.Add(int64(late))
			}
			last = now
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
	return func() time.Duration { return time.Duration(lost.Load()) }
}

// TestFence: while no coordinator answers its heartbeats, a worker kills attempts that may be repeated before their
// lease ends. It does so whatever they do about SIGTERM, also during their grace period, and appends no end record.
// Last attempts continue.
func TestFence(t *testing.T) {
	t.Parallel()
	const lease = 8 * time.Second
	lost := lostTime(t)
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	s.lease = lease
	goOn, running := make(chan struct{}), make(chan string, 4)
	var killed atomic.Int64 // when the last of them was gone
	w := start(t, b, func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
		if v.AgentName == "last" {
			running <- v.RunID
			<-goOn
			if ctx.Err() != nil {
				return run.Outcome{Status: run.Stopped}
			}
			return completed("1")
		}
		_, err := process.Run(ctx, process.Spec{Path: "/bin/sh", Args: []string{"-c",
			`trap "" TERM; echo; while :; do sleep 1; done`}, Env: []string{"PATH=" + os.Getenv("PATH")},
			OnStdout: func([]byte) { running <- v.RunID }, Grace: time.Minute, Kill: host.Kill})
		if err == nil {
			t.Error("it ended by itself")
		}
		killed.Store(time.Now().UnixNano())
		return run.Outcome{Status: run.Stopped, Result: completed(`"evidence"`).Result}
	})
	again := s.enqueue(attemptOf(2, 3))
	late := s.enqueue(attemptOf(1, 2), func(q *run.Queued) { q.Timeout = 3 }) // it will be in its minute of grace
	single := s.enqueue(func(q *run.Queued) { q.Agent = "last" })
	last := s.enqueue(attemptOf(3, 3), func(q *run.Queued) { q.Agent = "last" })
	for range 4 {
		<-running
	}
	natstest.Until(t, "all are reported", func() (ok bool) {
		s.with(func() { ok = len(s.heartbeats) > 0 && len(s.heartbeats[len(s.heartbeats)-1].Attempts) == 4 })
		return ok
	})
	s.silence()
	silentSince := time.Now()
	natstest.Until(t, "both are fenced off and gone", func() bool {
		return !w.attempts.has(again.Key) && !w.attempts.has(late.Key)
	})
	if took := time.Unix(0, killed.Load()).Sub(silentSince); took >= lease+lost() || took < lease/2-lost() {
		t.Errorf("killed after %s with a lease of %s; the machine stood still for %s", took, lease, lost())
	}
	if !w.attempts.has(single.Key) || !w.attempts.has(last.Key) {
		t.Error("what is in its last attempt is gone, too")
	}
	close(goOn)
	for _, q := range []run.Queued{single, last} {
		if e := s.waitEnded(q); e.Status != run.Completed {
			t.Errorf("got %s %s", e.Status, code(e))
		}
	}
	for _, q := range []run.Queued{again, late} {
		var e run.Ended
		if s.record(subject.Ended(subject.Partition(q.SessionID), q.ID, q.Key), &e) {
			t.Errorf("an end record exists: %+v", e)
		}
	}
	natstest.Until(t, "both end records are counted", func() bool { return w.counts.ended.Load() == 2 })
	if c := &w.counts; c.fenced.Load() != 2 || c.ended.Load() != 2 || c.abandoned.Load() != 0 {
		t.Errorf("got %+v", c)
	}
}

// TestKilledWithoutGrace: an attempt that is abandoned or superseded, and may be repeated, has no grace period: the
// next attempt may have started.
func TestKilledWithoutGrace(t *testing.T) {
	t.Parallel()
	for _, why := range []string{"given up", "superseded"} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			running := make(chan struct{})
			w := start(t, b, func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
				process.Run(ctx, process.Spec{Path: "/bin/sh", Args: []string{"-c",
					`trap "" TERM; echo; while :; do sleep 1; done`}, Env: []string{"PATH=" + os.Getenv("PATH")},
					OnStdout: func([]byte) { close(running) }, Grace: time.Minute, Kill: host.Kill})
				return run.Outcome{Status: run.Stopped}
			})
			q := s.enqueue(attemptOf(1, 2))
			<-running
			s.with(func() {
				s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
					if why == "superseded" {
						return runnerapi.HeartbeatReply{Superseded: true}
					}
					return runnerapi.HeartbeatReply{Known: true, TaskQueues: []string{queue},
						Abandoned: []string{q.Key}}
				}
			})
			natstest.Until(t, "its executor is gone", func() bool { return !w.attempts.has(q.Key) })
		})
	}
}

// TestFenceSparesFinished: an attempt whose end record waits for NATS is not fenced. Its executor has ended, and the
// stream refuses a late end record.
func TestFenceSparesFinished(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	s := newFakeCoordinator(t, p.Bus(t))
	s.lease = 8 * time.Second
	started, goOn := make(chan struct{}, 2), make(chan struct{})
	w := start(t, p.Bus(t), func(ctx context.Context, v executor.Invocation, _ executor.Host) run.Outcome {
		started <- struct{}{}
		if v.AgentName == "ends" {
			<-goOn
			return completed("1")
		}
		<-ctx.Done()
		return run.Outcome{Status: run.Stopped}
	})
	ends, hangs := s.enqueue(attemptOf(1, 2), func(q *run.Queued) { q.Agent = "ends" }), s.enqueue(attemptOf(1, 2))
	<-started
	<-started
	p.Kill()
	close(goOn)
	natstest.Until(t, "the one that hangs is fenced off", func() bool { return !w.attempts.has(hangs.Key) })
	p.Start()
	if e := s.waitEnded(ends); e.Status != run.Completed {
		t.Errorf("got %s %s", e.Status, code(e))
	}
	if c := &w.counts; c.fenced.Load() != 1 {
		t.Errorf("got %+v", c)
	}
}
