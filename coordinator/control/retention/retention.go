// Package retention removes old history and unused payloads, and refuses new runs when the history is nearly full.
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

// Every is how often history is truncated.
const Every = 30 * time.Second

// Controller removes what is too old. All of its fields are required.
type Controller struct {
	Log      *slog.Logger
	Keep     int                      // ended runs kept at most
	Old      time.Duration            // how long history is kept at least
	Reported time.Duration            // how long callback records are kept at least
	RunOf    func(name string) string // the run a payload belongs to
	Stream   interface {
		State(context.Context) (bus.State, error)
		Truncate(ctx context.Context, before uint64) error
		Purge(ctx context.Context, stream, filter string, before uint64) error
		DropPayloads(ctx context.Context, gone func(name string, at time.Time) bool) error
		DropPayload(ctx context.Context, name string) error
	}
	History interface {
		Confirmed() bool
		Prunable(keep int, old, called time.Time) uint64
		Forget(first uint64)
		LateRecords() []projection.LateRecord
		ForgetLate(projection.LateRecord)
		StatePointers() map[string]bool
		Active(id string) (projection.Active, bool)
		Ended(id string) bool
		IsReserved(id string) bool
		Seq() uint64
		NamesPayload(id, name string) bool
		ExcessInputs(short func(all, caller int64) bool) []projection.EndedInput
		ForgetInput(id string)
		ForgetInputs(seq uint64, kept func(name string) bool)
	}
	Short func(all, caller int64) bool // a caller's payloads have to make room

	sweptAt time.Time // time of the last Sweep
}

// Reconcile truncates history. Once an hour it also lists all payloads and removes unused ones.
func (r *Controller) Reconcile(ctx context.Context) error {
	r.Truncate(ctx, Step)
	r.dropInputs(ctx)
	if time.Since(r.sweptAt) > time.Hour {
		r.sweptAt = time.Now()
		r.Sweep(ctx, r.sweptAt.Add(-time.Hour))
	}
	return nil
}

// Step is how many records are truncated at once, so that nothing waits long for the stream.
const Step = 10_000

// Truncate removes ended runs beyond RUN_KEEP and those older than RUN_RETENTION, step records at a time. It never
// removes an open run or one with a pending callback. Several coordinators may do this at once.
func (r *Controller) Truncate(ctx context.Context, step uint64) {
	if err := r.dropLate(ctx); err != nil {
		r.Log.Warn("late records not purged, retrying", "err", err)
	}
	before := r.History.Prunable(r.Keep, time.Now().Add(-r.Old), time.Now().Add(-r.Reported))
	state, err := r.Stream.State(ctx)
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
// would start the attempt again.
func (r *Controller) dropLate(ctx context.Context) error {
	for _, late := range r.History.LateRecords() {
		if !r.History.Confirmed() { // in another history that subject may belong to a waiting run
			return nil
		}
		if err := r.Stream.Purge(ctx, subject.Runs, late.Subject, late.Seq+1); err != nil {
			return err
		}
		r.History.ForgetLate(late)
	}
	return nil
}

// Sweep removes payloads that no run names: of truncated history, of abandoned attempts, of requests that failed
// half-way. Younger payloads may be about to be named. A projection that is being rebuilt knows nothing, so nothing is
// removed while it is not confirmed.
func (r *Controller) Sweep(ctx context.Context, old time.Time) {
	bound := sync.OnceValue(r.History.StatePointers)
	seq, kept := r.History.Seq(), map[string]bool{}
	err := r.Stream.DropPayloads(ctx, func(name string, at time.Time) bool {
		kept[name] = true
		if !at.Before(old) || !r.History.Confirmed() {
			return false
		}
		if pointer, ok := runnerapi.StatePointerOf(name); ok &&
			bound()[pointer] { // a session continues from it although its run is no longer kept
			return false
		}
		id := r.RunOf(name)
		_, open := r.History.Active(id)
		named := r.History.Ended(id) && r.History.NamesPayload(id, name)
		return !open && !named && !r.History.IsReserved(id) && r.History.Confirmed()
	})
	if err != nil {
		r.Log.Warn("unused payloads not removed, retrying", "err", err)
		return
	}
	if r.History.Confirmed() { // another coordinator may have removed inputs, or this one before its start
		r.History.ForgetInputs(seq, func(name string) bool { return kept[name] })
	}
}

// dropInputs removes inputs of ended runs before their runs, where their callers' payloads have to make room. Several
// coordinators may do this at once.
func (r *Controller) dropInputs(ctx context.Context) {
	inputs, bytes := r.History.ExcessInputs(r.Short), int64(0)
	for i, in := range inputs {
		if !r.History.Confirmed() || !r.History.Ended(in.RunID) {
			return
		}
		if err := r.Stream.DropPayload(ctx, in.Name); err != nil {
			r.Log.Warn("inputs of ended runs not removed, retrying", "left", len(inputs)-i, "err", err)
			return
		}
		r.History.ForgetInput(in.RunID)
		bytes += in.Size
	}
	if len(inputs) > 0 {
		r.Log.Info("parameters of ended runs were removed: payloads had to make room", "runs", len(inputs),
			"bytes", bytes)
	}
}
