package coordinator

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
)

// A runner with many tags satisfies more different demands than there may be lanes: those that nobody uses make room.
func TestLanesThatNobodyUsesMakeRoom(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{MaxLanes: 4})
	r := runner("one", echo("a"))
	r.Tags = []string{"0", "1", "2", "3", "4"}
	register(t, c, r)
	ask := func(tag int) (Accepted, error) {
		return c.Submit(t.Context(), fmt.Appendf(nil, `{"agent_name":"a","additional_demands":{"tags":["%d"]}}`, tag), "test", "")
	}
	var waits Accepted
	for tag := range 3 {
		a, err := ask(tag)
		if err != nil {
			t.Fatal(err)
		}
		if waits = a; tag < 2 {
			finish(t, c, claim(t, c, a.RunID, r))
		}
	}
	if _, err := ask(3); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("more lanes than there may be: %v", err)
	}
	idle := map[string]idleness{}
	c.prune(t.Context(), idle)
	finish(t, c, claim(t, c, submit(t, c, `{"agent_name":"a","additional_demands":{"tags":["1"]}}`, "").RunID, r)) // used since
	for lane, at := range idle {
		at.since = at.since.Add(-2 * spare)
		idle[lane] = at
	}
	c.prune(t.Context(), idle)
	c.fleet.mu.RLock()
	lanes := len(c.fleet.lanes)
	c.fleet.mu.RUnlock()
	if lanes != 3 {
		t.Errorf("%d lanes are left: the runner's own, the one where a run waits, and the one in use are needed", lanes)
	}
	if a, err := ask(3); err != nil {
		t.Error(err)
	} else {
		finish(t, c, claim(t, c, a.RunID, r))
	}
	finish(t, c, claim(t, c, waits.RunID, r))
}

// While the fold reads the history anew it knows of no run: no body is dropped for that.
func TestAFoldThatKnowsNothingDropsNoBodies(t *testing.T) {
	b := natstest.Bus(t)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	blank := New(Config{Bus: b, Log: natstest.Log(t)})
	name := run.NewID() + ".hash.in"
	if _, err := blank.putPayload(t.Context(), name, []byte("a body")); err != nil {
		t.Fatal(err)
	}
	blank.sweepPayloads(t.Context(), time.Now().Add(time.Hour))
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
		if _, err := c.mend(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if again := !made(a.Lane).Equal(before); again == tt.begun {
			t.Errorf("%s: its lane is made again: %t", tt.what, again)
		}
	}
}
