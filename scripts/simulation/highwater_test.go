package simulation

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"ao/coordinator/highwater"
	"ao/coordinator/ledger"
	"ao/nats/subject"
)

// guarded is the NATS of those who remove records, or make queues, as in serve/parts.
type guarded struct {
	*client
	mark *highwater.Keeper
}

// Purge is bus.Log's.
func (g guarded) Purge(ctx context.Context, name, filter string, before uint64) error {
	return g.mark.Removing(ctx, func() error { return g.client.Purge(ctx, name, filter, before) })
}

// Truncate is bus.Log's.
func (g guarded) Truncate(ctx context.Context, before uint64) error {
	if err := highwater.Truncatable(g.mark); err != nil {
		return err
	}
	return g.mark.Removing(ctx, func() error { return g.client.Truncate(ctx, before) })
}

// EnsureTaskQueue is bus.Queues'.
func (g guarded) EnsureTaskQueue(ctx context.Context, queue string, start uint64) error {
	if err := g.mark.Held(); err != nil {
		return err
	}
	return g.client.EnsureTaskQueue(ctx, queue, start)
}

// losses are what NATS lost, and what was known of it.
type losses struct {
	marked bool            // the high-water mark shows that records are missing
	any    bool            // records are missing
	claims map[string]bool // claims that were marked, by attempt key
	again  map[string]bool // runs that a queue delivers once more, for NATS lost what was acknowledged
	rotten bool            // records are unreadable
	beyond bool            // NATS was asked to remove one of these: what it does then is undefined
	hidden map[string]bool // sessions of records that were not marked: nobody reads the history anew for them
}

// marked returns the sequence of the stored mark, and whether records are being removed.
func (w *world) marked() (seq uint64, removing bool) {
	var m struct {
		Sequence uint64
		Removing map[string]any
	}
	_ = json.Unmarshal(w.values[subject.HighWater+"/runs"].body, &m)
	return m.Sequence, len(m.Removing) > 0
}

// misses notes records that NATS lost. Who has lost the end of its history lacks records up to the mark; a gap in it
// shows only where nobody removes others.
func (o *oracle) misses(all []message, gap bool) {
	seq, removing := o.marked()
	for _, m := range all {
		o.losses.any = true
		rec, err := subject.Parse(m.Subject)
		if m.Seq > seq || gap && removing {
			o.losses.hidden[sessionOf(m)] = true
			continue
		}
		o.losses.marked = true
		if err == nil && rec.Kind == subject.ClaimedKind {
			o.losses.claims[rec.Key] = true
		}
	}
	o.lost(all)
}

// forgets notes that a coordinator is killed. If a loss has not been dealt with, what it had read is evidence no more.
func (o *oracle) forgets() {
	var m struct {
		Damages []struct {
			Resolved *time.Time `json:"resolved_at"`
		}
	}
	_ = json.Unmarshal(o.values[subject.HighWater+"/runs"].body, &m)
	if n := len(m.Damages); n == 0 || m.Damages[n-1].Resolved == nil {
		clear(o.losses.claims)
	}
}

// damages checks at the end that coordinators know of a loss, and of no other.
func (o *oracle) damages(c *coordinator) {
	switch n := len(c.mark.Damages()); {
	case (o.losses.marked || o.losses.rotten) && n == 0:
		o.fail("NATS has lost records, and %s does not know it", c.name)
	case !o.losses.any && n > 0:
		o.fail("%s takes the history for damaged: %s", c.name, c.mark.Damages()[0].Message)
	}
}

// decays notes a record that NATS cannot read any more. Its claim still keeps an attempt from starting again.
func (o *oracle) decays(m message) {
	o.losses.any, o.losses.rotten = true, true
	if rec, err := subject.Parse(m.Subject); err == nil && rec.Kind == subject.ClaimedKind {
		o.losses.claims[rec.Key] = true
	}
	o.lost([]message{m})
}

// accept is an admin, who accepts what the history has lost once it is known which runs that affects.
func (w *world) accept() {
	for range 100 {
		pause(context.Background(), time.Second)
		removals := 0
		check := func() time.Duration { removals = w.runs.removals; return 0 }
		if w.loop.call(context.Background(), &act{key: "admin", do: check}) != nil {
			return
		}
		c := w.coordinators[0]
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		report, err := c.auditor.Ledger(ctx)
		if err == nil {
			count := func() time.Duration {
				if w.runs.removals == removals { // else the ledger may not have seen the same records twice
					w.oracle.counts(report)
				}
				return 0
			}
			_ = w.loop.call(ctx, &act{key: "admin counts", do: count})
		}
		open := slices.ContainsFunc(report.Damages, func(d highwater.Damage) bool { return d.ResolvedAt == nil })
		if err == nil && !open {
			_, err = c.auditor.AcceptDamage(ctx)
		}
		cancel()
		if err == nil && !open {
			return
		}
	}
}

// counts checks that the ledger reports records that a single server cannot read.
func (o *oracle) counts(report ledger.Report) {
	known := func(d highwater.Damage) bool { return d.Unreadable }
	if len(o.world.runs.rotten) > 0 && !o.world.runs.clustered && !slices.ContainsFunc(report.Damages, known) {
		o.fail("the ledger does not report %d records that NATS cannot read", len(o.world.runs.rotten))
	}
}

// inOrder checks that a damaged history is in order once its damages are accepted.
func (o *oracle) inOrder() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	report, err := o.coordinators[0].auditor.Ledger(ctx)
	if err != nil {
		o.fail("the ledger cannot be read: %v", err)
	}
	for _, x := range report.Wrong {
		if x.Kind == "history_damaged" || !o.excused(x) {
			o.fail("ledger, after the damage is accepted: %s of run %s at record %d: %s", x.Kind, x.RunID, x.Sequence,
				x.Message)
		}
	}
}
