package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
)

// A runner with many tags satisfies more different demands than there may be queues: those that nobody uses make room at once, and those
// in which runs wait do not.
func TestQueuesThatNobodyUsesMakeRoom(t *testing.T) {
	t.Parallel()
	c := begin(t, natstest.Bus(t), Config{MaxQueues: 4})
	r := runner("one", echo("a"))
	r.Tags = []string{"0", "1", "2", "3", "4"}
	register(t, c, r)
	ask := func(tag int, caller string) (Accepted, error) {
		return c.Submit(t.Context(), fmt.Appendf(nil, `{"agent_name":"a","additional_demands":{"tags":["%d"]}}`, tag), caller, "")
	}
	var all []Accepted
	for tag := range 2 {
		a, err := ask(tag, "x")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if _, err := ask(2, "x"); fault.KindOf(err) != fault.Busy || fault.Of(err).Code != "too_many_queues" || fault.Of(err).RetryAfter == 0 {
		t.Errorf("a caller with half of all queues gets another: %v", err)
	}
	other, err := ask(2, "y")
	if err != nil {
		t.Fatalf("another caller: %v", err)
	}
	lane := func(a Accepted) string { return active(t, c, a.RunID, "is queued", isQueued).Lane }
	idle, waiting := lane(all[0]), []string{lane(all[1]), lane(other)}
	finish(t, c, claim(t, c, all[0].RunID, r))
	asked := func(at time.Time) { // when the queues were asked for last
		c.queues.mu.Lock()
		defer c.queues.mu.Unlock()
		for lane := range c.queues.all {
			if used := c.queues.made[lane]; used != nil {
				used.Store(at.UnixNano())
			}
		}
	}
	asked(time.Now().Add(time.Hour))
	if _, err := ask(3, "x"); fault.KindOf(err) != fault.Busy {
		t.Errorf("a queue goes that was asked for a moment ago: %v", err)
	}
	asked(time.Now().Add(-time.Minute))
	c.queues.mu.Lock()
	c.queues.made[idle].Store(time.Now().Add(-30 * time.Second).UnixNano()) // those in which runs wait are older
	c.queues.mu.Unlock()
	if all[0], err = ask(3, "x"); err != nil {
		t.Fatalf("the queue that nobody uses makes no room: %v", err)
	}
	asked(time.Now().Add(-time.Minute))
	if _, err := ask(4, "x"); fault.KindOf(err) != fault.Busy {
		t.Errorf("a queue goes in which runs wait: %v", err)
	}
	for _, lane := range waiting {
		if gone, err := c.queues.retire(t.Context(), lane); gone || err != nil {
			t.Errorf("a queue goes in which a run waits: %v", err)
		}
	}
	natstest.Until(t, "the consumer of the queue that made room is gone", func() bool {
		_, err := c.bus.LaneState(t.Context(), idle)
		return errors.Is(err, bus.ErrNone)
	})
	for _, a := range append(all, other) {
		finish(t, c, claim(t, c, a.RunID, r))
	}
}

// A coordinator that ends between removing a queue's entry and its consumer leaves that behind; any other removes it, but no consumer of
// a queue that has an entry, or in which a run waits, or that needs no entry.
func TestConsumersOfNoQueueGo(t *testing.T) {
	t.Parallel()
	c := begin(t, natstest.Bus(t), Config{})
	r := runner("one", echo("a"))
	r.Tags = []string{"gpu", "eu"}
	register(t, c, r)
	lane := func(tag string) string {
		a := submit(t, c, `{"agent_name":"a","additional_demands":{"tags":["`+tag+`"]}}`, "")
		return active(t, c, a.RunID, "is queued", isQueued).Lane
	}
	kept, waits := lane("gpu"), lane("eu")
	if err := c.bus.Bucket(subject.Lanes).Delete(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "its entry is gone", func() bool { _, ok := c.queues.want(waits); return !ok })
	orphan, base := fleet.Want{Type: run.Procedural, Tags: []string{"old"}}.Lane(), r.BaseLanes()[0]
	if err := c.bus.EnsureLane(t.Context(), orphan, 1); err != nil {
		t.Fatal(err)
	}
	lanes := newTender(c)
	orphans := lanes.orphans
	lanes.sweep(t.Context())
	all, err := c.bus.Lanes(t.Context())
	if err != nil || !slices.Contains(all, orphan) || orphans[orphan].IsZero() {
		t.Fatalf("the first look left %q, %v, and notes %v", all, err, orphans)
	}
	if !orphans[kept].IsZero() || !orphans[base].IsZero() {
		t.Errorf("it notes %v", orphans)
	}
	for lane := range orphans {
		orphans[lane] = time.Now().Add(-time.Hour)
	}
	lanes.sweep(t.Context())
	if all, err = c.bus.Lanes(t.Context()); err != nil || slices.Contains(all, orphan) {
		t.Errorf("it stays: %q %v", all, err)
	}
	for _, lane := range []string{kept, waits, base} {
		if !slices.Contains(all, lane) {
			t.Errorf("%s has no consumer any more", lane)
		}
	}
	if len(orphans) != 0 {
		t.Errorf("still noted: %v", orphans)
	}
}

// While the fold reads the history anew it knows of no run: no body is dropped for that.
func TestAFoldThatKnowsNothingDropsNoBodies(t *testing.T) {
	b := natstest.Bus(t)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	blank := New(Config{Bus: b, Log: natstest.Log(t)})
	name := run.NewID() + ".hash.in"
	if _, err := blank.records.PutPayload(t.Context(), name, []byte("a body")); err != nil {
		t.Fatal(err)
	}
	blank.retained.Sweep(t.Context(), time.Now().Add(time.Hour))
	if left, err := b.ListPayloads(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("%d bodies are left: %v", len(left), err)
	}
}

// passLane takes a queued run, and what is before it, out of its lane without beginning it.
func passLane(t *testing.T, c *Coordinator, a journal.Active) {
	t.Helper()
	ctx, enough := context.WithCancel(t.Context())
	var taking sync.WaitGroup
	taker := c.bus.Taker(func() int { return 1 }, func(_ context.Context, d bus.Delivery) { d.Done() })
	taking.Go(func() { _ = taker.Take(ctx, a.Lane) })
	natstest.Until(t, "the delivery is settled", func() bool {
		s, err := c.bus.LaneState(t.Context(), a.Lane)
		return err == nil && s.AckFloor >= a.QueuedSeq
	})
	enough()
	taking.Wait()
}

// A lane is made again where it is past a run that nobody has, and not where a worker has begun the run since somebody looked.
func TestOnlyALaneThatLostARunIsMadeAgain(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{Lease: time.Hour})
	r := runner("one", echo("a"))
	register(t, c, r)
	made := func(lane string) time.Time {
		t.Helper()
		s, err := c.bus.LaneState(t.Context(), lane)
		if err != nil {
			t.Fatal(err)
		}
		return s.Created
	}
	for _, tt := range []struct {
		begun bool
		what  string
	}{{true, "a run was begun"}, {false, "a run was lost"}} {
		id := submit(t, c, `{"agent_name":"a"}`, "").RunID
		a := active(t, c, id, "is queued", isQueued)
		passLane(t, c, a)
		if tt.begun {
			claim(t, c, id, r)
		}
		before := made(a.Lane)
		if _, err := c.lanes.mend(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if again := !made(a.Lane).Equal(before); again == tt.begun {
			t.Errorf("%s: its lane is made again: %t", tt.what, again)
		}
	}
}

// The queue of a profile whose last runner is gone for good loses its consumer, too; one that comes back has it made again.
func TestConsumersOfProfilesThatAreGoneGo(t *testing.T) {
	t.Parallel()
	c := begin(t, natstest.Bus(t), Config{})
	r := runner("one", echo("a"))
	register(t, c, r)
	a := submit(t, c, `{"agent_name":"a","additional_demands":{"executor_profile":"`+r.ExecutorProfile+`"}}`, "")
	finish(t, c, claim(t, c, a.RunID, r))
	natstest.Until(t, "its run has ended", func() bool { return c.Journal.Ended(a.RunID) })
	own, gone := r.BaseLanes(), fleet.Want{Type: run.Procedural, Profile: "gone"}.Lane()
	for _, lane := range append(own, gone) {
		if _, err := c.queues.Ensure(t.Context(), lane, fleet.Want{Type: run.Procedural}, "", false); err != nil {
			t.Fatal(err)
		}
	}
	lanes := newTender(c)
	orphans := lanes.orphans
	lanes.sweep(t.Context())
	if len(orphans) != 1 || orphans[gone].IsZero() {
		t.Fatalf("it notes %v", orphans)
	}
	orphans[gone] = time.Now().Add(-time.Hour)
	lanes.sweep(t.Context())
	has := func() []string {
		all, err := c.bus.Lanes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := has(); slices.Contains(all, gone) || !slices.Contains(all, own[0]) || !slices.Contains(all, own[1]) {
		t.Errorf("there are %q", all)
	}
	if _, err := c.queues.Ensure(t.Context(), gone, fleet.Want{Type: run.Procedural, Profile: "gone"}, "", false); err != nil || !slices.Contains(has(), gone) {
		t.Errorf("it is not made again: %q, %v", has(), err)
	}
}
