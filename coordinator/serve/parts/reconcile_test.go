package parts

import (
	"context"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/shared/run"
)

// While the projection reads the history again it has no run: no body is deleted for that.
func TestEmptyProjectionDeletesNoBodies(t *testing.T) {
	b := natstest.Bus(t)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	blank := New(Config{Bus: b, Log: natstest.Log(t)})
	name := run.NewID() + ".hash.in"
	if _, err := blank.records.PutPayload(t.Context(), name, []byte("a body")); err != nil {
		t.Fatal(err)
	}
	blank.retained.Payloads.Sweep(t.Context(), time.Now().Add(time.Hour))
	if left := natstest.Payloads(t, b); len(left) != 1 {
		t.Errorf("got %d payloads, want 1", len(left))
	}
}

// takeUnclaimed takes a queued run, and what is before it, out of its queue without claiming it.
func takeUnclaimed(t *testing.T, c *Coordinator, a state.Active) {
	t.Helper()
	ctx, enough := context.WithCancel(t.Context())
	var taking sync.WaitGroup
	taker := c.bus.Poller(func() int { return 1 }, func(_ context.Context, d bus.Delivery) { d.Ack() })
	taking.Go(func() { _ = taker.Poll(ctx, a.Queue) })
	natstest.Until(t, "the delivery is settled", func() bool {
		s, err := c.bus.TaskQueueState(t.Context(), a.Queue)
		return err == nil && s.AckFloor >= a.QueuedSeq
	})
	enough()
	taking.Wait()
}
