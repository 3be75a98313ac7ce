// Package retention lets go of history, and of bodies, that are too old, and says when the history has no room for new runs.
package retention

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/runnerapi"
)

// Every is how often history is let go of.
const Every = 30 * time.Second

// Controller lets go of what is too old. All of its fields are required.
type Controller struct {
	Log      *slog.Logger
	Keep     int                      // ended runs kept at most
	Old      time.Duration            // how long history is kept at least
	Reported time.Duration            // how long callback records are kept at least
	RunOf    func(name string) string // whose body that is
	Stream   interface {
		State(context.Context) (bus.State, error)
		Truncate(ctx context.Context, before uint64) error
		Purge(ctx context.Context, stream, filter string, before uint64) error
		DropPayloads(ctx context.Context, gone func(name string, at time.Time) bool) error
	}
	History interface {
		Confirmed() bool
		Prunable(keep int, old, told time.Time) uint64
		Forget(first uint64)
		LateRecords() []projection.LateRecord
		ForgetLate(projection.LateRecord)
		StatePointers() map[string]bool
		Active(id string) (projection.Active, bool)
		Ended(id string) bool
		IsReserved(id string) bool
	}

	swept time.Time // bodies, last
}

// Reconcile truncates history, and looks for bodies once an hour: that lists them all.
func (r *Controller) Reconcile(ctx context.Context) error {
	r.Truncate(ctx, Step)
	if time.Since(r.swept) > time.Hour {
		r.swept = time.Now()
		r.Sweep(ctx, r.swept.Add(-time.Hour))
	}
	return nil
}

// Step is how many records of history go at once, so that nothing waits long for the stream.
const Step = 10_000

// Truncate lets go of history, in steps of so many records: ended runs beyond RUN_KEEP and those older than RUN_RETENTION, never past an open one or one that
// somebody is yet to be told of. What several coordinators do at once is the same.
func (r *Controller) Truncate(ctx context.Context, step uint64) {
	if err := r.dropLate(ctx); err != nil {
		r.Log.Warn("runs queued too late not purged; trying again", "err", err)
	}
	before := r.History.Prunable(r.Keep, time.Now().Add(-r.Old), time.Now().Add(-r.Reported))
	state, err := r.Stream.State(ctx)
	for at := state.First; err == nil && at < before; {
		at = min(at+step, before)
		err = r.Stream.Truncate(ctx, at)
	}
	if err != nil {
		r.Log.Warn("history not truncated; trying again", "before", before, "err", err)
		return
	}
	r.History.Forget(before)                    // another coordinator may have done the rest
	if state.First < before && state.Msgs > 0 { // an empty stream begins at 0
		r.Log.Info("history truncated", "before", before)
	}
}

// dropLate purges the records that queue what is begun or over: behind a truncated claim, a worker would begin it again.
func (r *Controller) dropLate(ctx context.Context) error {
	for _, late := range r.History.LateRecords() {
		if !r.History.Confirmed() { // another history may have that subject for a run that waits
			return nil
		}
		if err := r.Stream.Purge(ctx, subject.Runs, late.Subject, late.Seq+1); err != nil {
			return err
		}
		r.History.ForgetLate(late)
	}
	return nil
}

// Sweep drops bodies that no run names any more: of history that was truncated, of attempts that were given up while
// they stored theirs, of creations that failed half-way. What is younger than a moment may be about to be named. A fold that begins
// anew at any moment knows of nothing: that is no reason.
func (r *Controller) Sweep(ctx context.Context, old time.Time) {
	bound := sync.OnceValue(r.History.StatePointers)
	err := r.Stream.DropPayloads(ctx, func(name string, at time.Time) bool {
		if !at.Before(old) || !r.History.Confirmed() {
			return false
		}
		if pointer, ok := runnerapi.StatePointerOf(name); ok && bound()[pointer] { // a session goes on with it, whose run is no longer kept
			return false
		}
		id := r.RunOf(name)
		_, open := r.History.Active(id)
		return !open && !r.History.Ended(id) && !r.History.IsReserved(id) && r.History.Confirmed()
	})
	if err != nil {
		r.Log.Warn("payloads of no run not removed; trying again", "err", err)
	}
}
