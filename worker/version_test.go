package worker

import (
	"context"
	"testing"

	"ao/nats/natstest"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestRecordVersion: a worker writes the newest record version that it, all coordinators and the attempt support.
func TestRecordVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ own, announced, beat, attempt, want int }{
		{1, 0, 0, 0, 1}, // today
		{2, 0, 0, 0, 1}, // coordinators of before
		{2, 0, 0, 2, 1}, // an older one came since the run was queued
		{2, 2, 2, 0, 1}, // … queued it
		{2, 2, 2, 2, 2},
		{2, 3, 3, 3, 2}, // newer coordinators
		{1, 2, 2, 2, 1}, // a worker of before
	} {
		b := natstest.Bus(t)
		s := newFakeCoordinator(t, b)
		s.with(func() {
			s.recordVersion = tt.announced
			s.answer = func(beat runnerapi.Heartbeat) runnerapi.HeartbeatReply {
				r := knownReply(beat)
				r.RecordVersion = tt.beat
				return r
			}
		})
		w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
			return completed("1")
		}, func(c *Config) { c.RecordVersion = tt.own })
		q := s.enqueue(func(q *run.Queued) { q.RecordVersion = tt.attempt })
		e := s.waitEnded(q)
		if c, ok := s.claim(q); !ok || c.V != tt.want || e.V != tt.want || e.Status != run.Completed {
			t.Errorf("%+v: claimed in version %d, ended in %d as %s", tt, c.V, e.V, e.Status)
		}
		w.end(t)
	}
}

// TestNewerQueuedRunIsRedelivered: a queued run that only a newer worker can read is left to one.
func TestNewerQueuedRunIsRedelivered(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	does := func(context.Context, executor.Invocation, executor.Host) run.Outcome { return completed("1") }
	start(t, b, does)
	newer := s.enqueue(func(q *run.Queued) { q.V = run.Version + 1 })
	if e := s.waitEnded(s.enqueue()); e.Status != run.Completed {
		t.Errorf("the next one: %s", e.Status)
	}
	if st, err := b.StreamState(t.Context(), "REJECTED"); err != nil || st.Msgs != 0 {
		t.Errorf("%d are put aside, %v", st.Msgs, err)
	}
	start(t, b, does, func(c *Config) { c.RecordVersion, c.ProjectDir = run.Version+1, t.TempDir() })
	if e := s.waitEnded(newer); e.Status != run.Completed {
		t.Errorf("got %s", e.Status)
	}
}
