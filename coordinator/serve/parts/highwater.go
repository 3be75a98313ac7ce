package parts

import (
	"context"
	"time"

	"ao/coordinator/control/damage"
	"ao/coordinator/control/lease"
	"ao/coordinator/highwater"
	"ao/coordinator/record"
	"ao/nats/bus"
	"ao/nats/subject"
)

// wireHighwater wires the high-water mark of the history.
func wireHighwater(c *Coordinator) {
	c.Highwater = highwater.New(highwater.Config{Stream: c.bus, Bucket: c.bus.Bucket(subject.HighWater),
		History: c.History, Name: record.Nonce(), Dir: c.DataDir, Sync: c.Sync, Log: c.log})
	c.guarded = &guarded{c.bus, c.Highwater}
}

// guarded is the bus of those who remove records of RUNS, or make what lets runs start. The high-water mark is told of
// removals first. While it holds starts, no queue is made.
type guarded struct {
	*bus.Bus
	mark *highwater.Keeper
}

// Purge is the bus's.
func (g *guarded) Purge(ctx context.Context, stream, filter string, before uint64) error {
	purge := func() error { return g.Bus.Purge(ctx, stream, filter, before) }
	if stream != subject.Runs {
		return purge()
	}
	return g.mark.Removing(ctx, purge)
}

// Truncate is the bus's.
func (g *guarded) Truncate(ctx context.Context, before uint64) error {
	return g.mark.Removing(ctx, func() error { return g.Bus.Truncate(ctx, before) })
}

// EnsureTaskQueue is the bus's.
func (g *guarded) EnsureTaskQueue(ctx context.Context, queue string, start uint64) error {
	if err := g.mark.Held(); err != nil {
		return err
	}
	return g.Bus.EnsureTaskQueue(ctx, queue, start)
}

// newDamage makes the controller that fails the runs of a damaged history.
func newDamage(c *Coordinator) *damage.Controller {
	evidence := struct {
		*bus.Bus
		*lease.Heartbeats
		*record.EndWriter
	}{c.bus, c.Hearing, c.ends}
	return &damage.Controller{Log: c.log, Lease: c.Lease, Mark: c.Highwater, History: c.History, Evidence: evidence}
}

// keepHighwater keeps the high-water mark until ctx ends.
func (c *Coordinator) keepHighwater(ctx context.Context) error {
	tick := time.NewTicker(highwater.Every / 10)
	defer tick.Stop()
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if c.bus.Connected() {
			_ = c.Highwater.Close(last) // else the mark is a second older
		}
	}()
	for {
		if err := c.Highwater.Reconcile(ctx); err != nil && ctx.Err() == nil {
			c.log.Debug("the high-water mark was not kept, retrying", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
