package parts

import (
	"fmt"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// A worker's credential writes many records without the key of an attempt, of runs that there are and are not. It also
// writes such as have the key, in other partitions than the session's. They are purged, and nothing else is: a late
// record under the key of an attempt stays.
func TestForeignRecordsArePurged(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	r := runner("one", echo("a"))
	register(t, c, r)
	first := submit(t, c, `{"agent_name":"a"}`, "")
	part := subject.Partition(first.SessionID)
	forge := func(n int) {
		for i, kind := range []func(partition, run, key string) string{subject.Claimed, subject.Bound, subject.Offered,
			subject.Ended} {
			for _, id := range []string{first.RunID, run.NewID(), "x"} {
				subj := kind(part, id, fmt.Sprintf("forged-%d-%d", n, i))
				if _, err := c.bus.Append(t.Context(), bus.Entry{Subject: subj, Body: []byte("{")}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	misplace := func(n int) { // under the right key
		if other := fmt.Sprint(n % 64); other != part {
			put(t, c.bus, subject.Bound(other, first.RunID, c.keys.Of(first.RunID, 1)), run.Bound{V: run.Version,
				SessionID: first.SessionID, RunnerID: r.ID(), Attempt: 1, ExecutorSessionID: fmt.Sprint(n)})
		}
	}
	for n := range 20 {
		forge(n)
		misplace(n)
	}
	q := claim(t, c, first.RunID, r)
	misplace(20)
	finish(t, c, q)
	misplace(21)
	forge(100)
	put(t, c.bus, subject.Offered(part, first.RunID, c.keys.Of(first.RunID, 1)), run.Ended{V: run.Version,
		SessionID: first.SessionID, RunnerID: r.ID(), Attempt: 1, Status: run.Completed, At: time.Now()})
	var left []bus.Message
	natstest.Until(t, "they are purged", func() bool {
		if err := c.retained.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		left, err = c.bus.Records(t.Context(), subject.AllRuns, 0, 1000)
		return err == nil && len(left) == 4 && len(c.History.Ignored(1)) == 0
	})
	for i, want := range []subject.Kind{subject.QueuedKind, subject.ClaimedKind, subject.EndedKind,
		subject.OfferedKind} {
		if rec, err := subject.Parse(left[i].Subject); err != nil || rec.Kind != want || rec.Run != first.RunID {
			t.Errorf("left is %s, want a %s of run %s", left[i].Subject, want, first.RunID)
		}
	}
	for _, at := range []*Coordinator{c, start(t, c.bus, Config{})} {
		if l, err := at.Auditor.Ledger(t.Context()); err != nil || !l.OK || len(l.Damages) > 0 || l.Foreign != 0 {
			t.Errorf("the ledger says %+v, %v", l, err)
		}
	}
	finish(t, c, claim(t, c, submit(t, c, `{"agent_name":"a"}`, "").RunID, r))
}
