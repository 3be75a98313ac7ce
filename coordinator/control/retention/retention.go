// Package retention removes old history and unused payloads, and refuses new runs when the history is nearly full.
package retention

import (
	"context"
	"log/slog"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
)

// Every is how often history is truncated.
const Every = 30 * time.Second

// Controller removes what is too old. All of its fields are required.
type Controller struct {
	Log      *slog.Logger
	Keep     int           // ended runs kept at most
	Old      time.Duration // how long history is kept at least
	Reported time.Duration // how long callback records are kept at least
	Payloads *Payloads
	Stream   interface {
		State(context.Context) (bus.State, error)
		Truncate(ctx context.Context, before uint64) error
		Purge(ctx context.Context, stream, filter string, before uint64) error
		Get(ctx context.Context, seq uint64) (bus.Message, error)
	}
	History interface {
		Confirmed() bool
		Prunable(keep int, old, called time.Time) uint64
		Forget(first uint64)
		LateRecords() []state.LateRecord
		ForgetLate(state.LateRecord)
		Ignored(n int) []uint64
		ForgetIgnored(last uint64)
		Misplaced(subject.Record) bool
	}
	Valid func(run, key string) bool // reports whether an attempt of the run may have that key

	sweptAt time.Time // time of the last sweep of payloads
}

// relist is how soon payloads are listed again after one was refused: what was counted may have gone since.
const relist = 5 * time.Minute

// Reconcile truncates history. Once an hour it also lists all payloads and removes unused ones.
func (r *Controller) Reconcile(ctx context.Context) error {
	r.Truncate(ctx, Step)
	r.Payloads.dropInputs(ctx)
	r.dropForeign(ctx)
	refused := r.Payloads.Room.Refused().After(r.sweptAt) && time.Since(r.sweptAt) > relist
	if (refused || time.Since(r.sweptAt) > time.Hour) && r.History.Confirmed() {
		r.sweptAt = time.Now()
		if !r.Payloads.Sweep(ctx, r.sweptAt.Add(-time.Hour)) {
			r.sweptAt = r.sweptAt.Add(relist - time.Hour)
		}
	}
	return nil
}

// Step is how many records are truncated at once, so that nothing waits long for the stream.
const Step = 10_000

// Truncate removes ended runs beyond RUN_KEEP and those older than RUN_RETENTION, step records at a time. It never
// removes an open run or one with a pending callback. Several coordinators may do this at once.
func (r *Controller) Truncate(ctx context.Context, step uint64) {
	state, err := r.Stream.State(ctx)
	if err == nil {
		err = r.dropLate(ctx, state.First)
	}
	if err != nil {
		r.Log.Warn("late records not purged, retrying", "err", err)
		return
	}
	before := r.History.Prunable(r.Keep, time.Now().Add(-r.Old), time.Now().Add(-r.Reported))
	for at := state.First; err == nil && at < before; {
		at = min(at+step, before)
		err = r.Stream.Truncate(ctx, at)
	}
	if err != nil {
		r.Log.Warn("history not truncated, retrying", "before", before, "err", err)
		return
	}
	r.History.Forget(before)                    // another coordinator may have done the rest
	if state.First < before && state.Msgs > 0 { // an empty stream begins at 0
		r.Log.Info("history truncated", "before", before)
	}
}

// dropLate purges queued records of attempts that are claimed or over. Without the claim, once truncated, a worker
// would start the attempt again. first is where the stream begins.
func (r *Controller) dropLate(ctx context.Context, first uint64) error {
	for _, late := range r.History.LateRecords() {
		if !r.History.Confirmed() { // in another history that subject may belong to a waiting run
			return nil
		}
		if late.First < first { // the run is forgotten, and its key may have made another one
			continue
		}
		if err := r.Stream.Purge(ctx, subject.Runs, late.Subject, late.Seq+1); err != nil {
			return err
		}
		r.History.ForgetLate(late)
	}
	return nil
}
