package parts

import (
	"context"
	"errors"
	"time"

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

// skipped finds records that NATS counts, and skips since it cannot read them.
type skipped struct {
	n     uint64 // that the last check found
	times int    // that it found as many
	reads int    // of the history, for that reason
	known uint64 // that are a damage, or none
}

const (
	skippedEvery   = 2 * time.Second
	skippedTimes   = 3 // a record may be on its way
	skippedRereads = 5 // in a cluster most servers can read what one cannot
)

// watchSkipped looks for skipped records until ctx ends.
func (c *Coordinator) watchSkipped(ctx context.Context) error {
	tick := time.NewTicker(skippedEvery)
	defer tick.Stop()
	var k skipped
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			k.reconcile(ctx, c)
		}
	}
}

// reconcile reads the history again in a cluster, where another server has the records. Else it asks the ledger, which
// notes a damage.
func (k *skipped) reconcile(ctx context.Context, c *Coordinator) {
	if !c.History.Confirmed() {
		return
	}
	n := c.bus.Left()
	s, err := c.bus.State(ctx)
	if err != nil || s.Last != c.History.Seq() || c.bus.Left() != n || n <= k.known {
		if err == nil && n == 0 {
			k.times, k.reads, k.known = 0, 0, 0
		}
		return
	}
	if k.n != n {
		k.n, k.times = n, 0
	}
	k.times++
	if k.times < skippedTimes {
		return
	}
	k.times = 0
	c.log.Error("NATS counts records of the history that it does not give", "records", n)
	if c.bus.Clustered() && k.reads < skippedRereads {
		k.reads++
		c.History.Reread()
		return
	}
	if _, err := c.Auditor.Ledger(ctx); err == nil {
		k.known = n
	}
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
		err = fault.New(fault.Internal, "", "NATS has a history, and has lost the deployment's secret (bucket "+
			"secrets, key "+record.SecretKey+"), which makes it readable; restore a backup with 'ao restore'")
	}
	return err
}

// mendBuckets removes unreadable keys from buckets that nobody lists: NATS stops writing to a bucket once such a key is
// written again. The registries list the others. A lost secret is for checkSecret.
func (c *Coordinator) mendBuckets(ctx context.Context, names ...string) {
	for _, name := range names {
		if err := c.bus.Bucket(name).Mend(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("a bucket was not searched for unreadable keys", "bucket", name, "err", err)
		}
	}
}
