package retention

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"ao/coordinator/projection/state"
	"ao/shared/runnerapi"
)

// Payloads removes what the object store need not keep. All of its fields are required.
type Payloads struct {
	Log    *slog.Logger
	Stream interface {
		DropPayloads(ctx context.Context, gone func(name string, size uint64, at time.Time) bool) error
		DropPayload(ctx context.Context, name string) error
	}
	History interface {
		Confirmed() bool
		Seq() uint64
		StatePointers() map[string]bool
		Active(id string) (state.Active, bool)
		Ended(id string) bool
		IsReserved(id string) bool
		NamesPayload(id, name string) bool
		ExcessInputs(short func(caller string, all, of int64) bool) []state.EndedInput
		ForgetInputs(seq uint64, kept func(name string) bool)
	}
	Room interface {
		Short() func(caller string, all, of int64) bool // a caller's payloads have to make room
		Refused() time.Time                             // when a payload was refused last
		Listed(sizes map[string]int64, began time.Time)
	}
}

// Sweep removes payloads that no run names: of truncated history, of abandoned attempts, of requests that failed
// half-way. Younger payloads may be about to be named. A projection that is being rebuilt knows nothing, so nothing is
// removed while it is not confirmed.
func (r *Payloads) Sweep(ctx context.Context, old time.Time) (listed bool) {
	bound := sync.OnceValue(r.History.StatePointers)
	seq, began, kept := r.History.Seq(), time.Now(), map[string]int64{}
	unused := func(name string, at time.Time) bool {
		if !at.Before(old) || !r.History.Confirmed() {
			return false
		}
		if pointer, ok := runnerapi.StatePointerOf(name); ok &&
			bound()[pointer] { // a session continues from it although its run is no longer kept
			return false
		}
		id := runnerapi.RunOfPayload(name)
		_, open := r.History.Active(id)
		return !open && !r.History.NamesPayload(id, name) && !r.History.IsReserved(id) && r.History.Confirmed()
	}
	err := r.Stream.DropPayloads(ctx, func(name string, size uint64, at time.Time) bool {
		if unused(name, at) {
			return true
		}
		kept[name] += int64(size)
		return false
	})
	if err != nil {
		r.Log.Warn("unused payloads not removed, retrying", "err", err)
		return false
	}
	if r.History.Confirmed() { // another coordinator may have removed inputs, or this one before its start
		r.History.ForgetInputs(seq, func(name string) bool {
			_, there := kept[name]
			return there
		})
		r.Room.Listed(kept, began)
	}
	return true
}

// dropInputs removes inputs of ended runs before their runs, where their callers' payloads have to make room. Several
// coordinators may do this at once.
func (r *Payloads) dropInputs(ctx context.Context) {
	inputs, bytes, gone := r.History.ExcessInputs(r.Room.Short()), int64(0), map[string]bool{}
	if len(inputs) == 0 {
		return
	}
	defer func() {
		r.History.ForgetInputs(math.MaxUint64, func(name string) bool { return !gone[name] })
	}()
	for i, in := range inputs {
		if !r.History.Confirmed() || !r.History.Ended(in.RunID) {
			return
		}
		if err := r.Stream.DropPayload(ctx, in.Name); err != nil {
			r.Log.Warn("inputs of ended runs not removed, retrying", "left", len(inputs)-i, "err", err)
			return
		}
		gone[in.Name] = true
		bytes += in.Size
	}
	r.Log.Info("parameters of ended runs were removed: payloads had to make room", "runs", len(inputs), "bytes", bytes)
}
