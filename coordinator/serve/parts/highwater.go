package parts

import (
	"context"
	"errors"

	"ao/coordinator/control/damage"
	"ao/coordinator/control/lease"
	"ao/coordinator/highwater"
	"ao/coordinator/record"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
)

// wireHighwater wires the high-water mark of the history.
func wireHighwater(c *Coordinator) {
	c.Highwater = highwater.New(highwater.Config{Stream: c.bus, Bucket: c.bus.Bucket(subject.HighWater),
		History: c.History, Name: record.Nonce(), Dir: c.DataDir, Sync: c.Sync, Log: c.log})
	c.guarded = &guarded{c.bus, c.Highwater}
}

// newSkipped makes the watch for records that NATS counts and does not give.
func newSkipped(c *Coordinator) *highwater.Skipped {
	return &highwater.Skipped{Stream: c.bus, History: c.History, Log: c.log, Audit: func(ctx context.Context) error {
		_, err := c.Auditor.Ledger(ctx)
		return err
	}}
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
	if err := highwater.Truncatable(g.mark); err != nil {
		return err
	}
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

// checkSecret refuses to start where the deployment's secret is lost: with another one no attempt of the history would
// count.
func (c *Coordinator) checkSecret(ctx context.Context) error {
	_, _, err := c.bus.Bucket(subject.Secrets).Get(ctx, record.SecretKey)
	if !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	s, err := c.bus.State(ctx)
	if err == nil && s.Msgs > 0 {
		err = fault.New(fault.Internal, "", "NATS has a history but has lost the deployment's secret (bucket "+
			"secrets), which is needed to read it; restore a backup with 'ao restore'")
	}
	return err
}
