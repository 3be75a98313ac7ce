package coordinator

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fleet"
)

// retention lets go of history, and of bodies, that are too old.
type retention struct {
	log      *slog.Logger
	keep     int           // ended runs kept at most
	old      time.Duration // how long history is kept at least
	reported time.Duration // how long callback records are kept at least
	stream   interface {
		State(context.Context) (bus.State, error)
		Truncate(ctx context.Context, before uint64) error
		Purge(ctx context.Context, stream, filter string, before uint64) error
		DropPayloads(ctx context.Context, gone func(name string, at time.Time) bool) error
	}
	history interface {
		Sure() bool
		Prunable(keep int, old, told time.Time) uint64
		Forget(first uint64)
		Late() []journal.Late
		Purged(journal.Late)
		States() map[string]bool
		Active(id string) (journal.Active, bool)
		Ended(id string) bool
		IsPromised(id string) bool
	}

	swept time.Time // bodies, last
}

// Reconcile truncates history, and looks for bodies once an hour: that lists them all.
func (r *retention) Reconcile(ctx context.Context) error {
	r.truncate(ctx)
	if time.Since(r.swept) > time.Hour {
		r.swept = time.Now()
		r.sweepPayloads(ctx, r.swept.Add(-time.Hour))
	}
	return nil
}

// History goes in steps of so many records, so that nothing waits long for the stream.
const truncateStep = 10_000

// truncate lets go of history: ended runs beyond RUN_KEEP and those older than RUN_RETENTION, never past an open one or one that
// somebody is yet to be told of. What several coordinators do at once is the same.
func (r *retention) truncate(ctx context.Context) { r.truncateBy(ctx, truncateStep) }

func (r *retention) truncateBy(ctx context.Context, step uint64) {
	if err := r.dropLate(ctx); err != nil {
		r.log.Warn("runs queued too late not purged; trying again", "err", err)
	}
	before := r.history.Prunable(r.keep, time.Now().Add(-r.old), time.Now().Add(-r.reported))
	state, err := r.stream.State(ctx)
	for at := state.First; err == nil && at < before; {
		at = min(at+step, before)
		err = r.stream.Truncate(ctx, at)
	}
	if err != nil {
		r.log.Warn("history not truncated; trying again", "before", before, "err", err)
		return
	}
	r.history.Forget(before)                    // another coordinator may have done the rest
	if state.First < before && state.Msgs > 0 { // an empty stream begins at 0
		r.log.Info("history truncated", "before", before)
	}
}

// dropLate purges the records that queue what is begun or over: behind a truncated claim, a worker would begin it again.
func (r *retention) dropLate(ctx context.Context) error {
	for _, late := range r.history.Late() {
		if !r.history.Sure() { // another history may have that subject for a run that waits
			return nil
		}
		if err := r.stream.Purge(ctx, subject.Runs, late.Subject, late.Seq+1); err != nil {
			return err
		}
		r.history.Purged(late)
	}
	return nil
}

// sweepPayloads drops bodies that no run names any more: of history that was truncated, of attempts that were given up while
// they stored theirs, of creations that failed half-way. What is younger than a moment may be about to be named. A fold that begins
// anew at any moment knows of nothing: that is no reason.
func (r *retention) sweepPayloads(ctx context.Context, old time.Time) {
	bound := sync.OnceValue(r.history.States)
	err := r.stream.DropPayloads(ctx, func(name string, at time.Time) bool {
		if !at.Before(old) || !r.history.Sure() {
			return false
		}
		if pointer, ok := fleet.StateOf(name); ok && bound()[pointer] { // a session goes on with it, whose run is no longer kept
			return false
		}
		id := runOf(name)
		_, open := r.history.Active(id)
		return !open && !r.history.Ended(id) && !r.history.IsPromised(id) && r.history.Sure()
	})
	if err != nil {
		r.log.Warn("payloads of no run not removed; trying again", "err", err)
	}
}
