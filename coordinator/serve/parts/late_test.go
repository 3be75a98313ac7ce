package parts

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"ao/coordinator/control/retention"
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// A coordinator's dispatch is delayed until its run has ended elsewhere, and no worker serves that queue yet.
// Truncation then removes the claim that would refuse the run. The queue no longer delivers it, and nobody takes it for
// a run that waits.
func TestARunThatIsQueuedTooLateIsNotClaimedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, start(t, natstest.Bus(t), Config{Keep: 1, Reports: time.Nanosecond}))
	other := start(t, f.c.bus, Config{Keep: 1, Reports: time.Nanosecond}) // it truncates nothing by itself within 30 s
	elsewhere := runnerapi.RoutingKey{Type: run.Autonomous, Profile: "elsewhere"}.TaskQueue()
	if err := f.c.bus.EnsureTaskQueue(t.Context(), elsewhere, 1); err != nil {
		t.Fatal(err)
	}
	queue := func(a state.Active) string {
		t.Helper()
		e, err := f.c.records.Queued(subject.Partition(a.Spec.SessionID), elsewhere, *a.Spec, a.Attempt, true)
		if err == nil {
			_, err = f.c.bus.Append(t.Context(), e)
		}
		if err != nil {
			t.Fatal(err)
		}
		return e.Subject
	}
	started := f.start("")
	over := f.claim(started.RunID)
	f.end(over, results("done"))
	for range 3 {
		f.ends(f.start("").RunID, results("done"))
	}
	late := queue(over)
	waits := f.start("")
	on := active(t, f.c, waits.RunID, "is queued", isQueued)
	queue(on)

	for _, c := range []*Coordinator{f.c, other} {
		natstest.Until(t, "it knows of no run any more that has ended long ago", func() bool {
			c.retained.Truncate(t.Context(), retention.Step)
			_, _, ended := c.History.Counts()
			return ended == 1 && len(c.History.LateRecords()) == 0
		})
	}
	if state, err := f.c.bus.State(t.Context()); err != nil || state.First <= over.ClaimSeq {
		t.Fatalf("the claim exists: history begins with record %d, %v", state.First, err)
	}
	if m, err := f.c.bus.Last(t.Context(), late); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("the late record exists as record %d, %v", m.Seq, err)
	}
	want := seen(t, f.c.History.Lists)
	for reader, j := range map[string]*query.Lists{"the other coordinator": other.History.Lists,
		"who reads anew": anew(t, f.c)} {
		if got := seen(t, j); got != want {
			t.Errorf("%s sees\n%s\nwant\n%s", reader, got, want)
		}
	}
	if got := firstOf(t, f.c.bus, elsewhere); got != waits.RunID {
		t.Errorf("a worker is handed run %s, which has ended; want %s", got, waits.RunID)
	}
}

// firstOf is the run that a worker gets first if it starts to take from a queue.
func firstOf(t *testing.T, b *bus.Bus, queue string) string {
	t.Helper()
	ctx, enough := context.WithCancel(t.Context())
	handed := make(chan string, 100)
	taker := b.Poller(func() int { return 1 }, func(_ context.Context, d bus.Delivery) {
		var q run.Queued
		if err := json.Unmarshal(d.Body, &q); err != nil {
			t.Error(err)
		}
		d.Ack()
		handed <- q.ID
	})
	var taking sync.WaitGroup
	defer taking.Wait()
	defer enough()
	taking.Go(func() { _ = taker.Poll(ctx, queue) })
	select {
	case id := <-handed:
		return id
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is handed out")
		return ""
	}
}
