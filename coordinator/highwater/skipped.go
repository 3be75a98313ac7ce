package highwater

import (
	"context"
	"log/slog"
	"time"

	"ao/nats/stream"
	"ao/shared/clock"
)

// Skipped finds records that NATS counts, and skips since it cannot read them. Its exported fields are required.
type Skipped struct {
	Stream interface {
		State(ctx context.Context) (stream.State, error)
		Left() uint64 // how many records follow the last one that was read, as NATS counts
		Clustered() bool
	}
	History interface {
		Confirmed() bool
		Seq() uint64
		Reread()
	}
	Audit func(ctx context.Context) error // has the ledger read RUNS, which notes a damage
	Log   *slog.Logger

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

// Run looks for skipped records until ctx ends.
func (k *Skipped) Run(ctx context.Context) error {
	for clock.Sleep(ctx, skippedEvery) {
		k.reconcile(ctx)
	}
	return nil
}

// reconcile reads the history again in a cluster, where another server has the records. Else it asks the ledger.
func (k *Skipped) reconcile(ctx context.Context) {
	if !k.History.Confirmed() {
		return
	}
	n := k.Stream.Left()
	s, err := k.Stream.State(ctx)
	if err != nil || s.Last != k.History.Seq() || k.Stream.Left() != n || n <= k.known {
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
	k.Log.Error("NATS counts records of the history that it does not give", "records", n)
	if k.Stream.Clustered() && k.reads < skippedRereads {
		k.reads++
		k.History.Reread()
		return
	}
	if k.Audit(ctx) == nil {
		k.known = n
	}
}
