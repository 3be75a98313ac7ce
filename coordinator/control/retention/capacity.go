package retention

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/share"
)

// CapacityGuard knows whether the history has room for new runs.
type CapacityGuard struct {
	Log    *slog.Logger
	Stream interface {
		CheckStorage(context.Context) error
		State(context.Context) (bus.State, error)
	}
	History interface {
		Confirmed() bool
		Used(caller, session string) (all, mine, tree state.Used)
	}

	full atomic.Bool          // as logged
	last atomic.Pointer[look] // nil: none yet
}

// look is how full the stream was at a time, and how much of that the runs of the projection took.
type look struct {
	bus.State
	runs state.Used
}

// Reconcile checks how full the history is. New runs are refused from nine tenths on, so that claims and end records
// always fit: a full stream takes neither.
func (r *CapacityGuard) Reconcile(ctx context.Context) error {
	_ = r.Stream.CheckStorage(ctx) // reported by Ready, and to whoever writes
	s, err := r.Stream.State(ctx)
	if err != nil {
		return nil // whoever writes gets the error
	}
	if !r.History.Confirmed() { // it is read again, and would count twice
		return nil
	}
	runs, _, _ := r.History.Used("", "")
	r.last.Store(&look{s, runs})
	full := slices.ContainsFunc(r.uses("", ""), use.full)
	switch {
	case r.full.Swap(full) == full:
	case full:
		r.Log.Error("the history is nine tenths full: new runs are refused until there is room", "stream", "RUNS",
			"bytes", s.Bytes, "max_bytes", s.MaxBytes, "messages", s.Msgs, "max_messages", s.MaxMsgs)
	default:
		r.Log.Info("the history has room again", "bytes", s.Bytes, "max_bytes", s.MaxBytes)
	}
	return nil
}

// Admit returns an error if the history has no room for a new run. It also does if the caller, or the tree of this
// session, has its share.
func (r *CapacityGuard) Admit(caller, session string) error {
	for _, u := range r.uses(caller, session) {
		if u.full() {
			return errFull()
		}
		if whose := u.spent(); whose != "" {
			return fault.New(fault.Busy, run.CodeHistoryShare, fmt.Sprintf("the runs of this %s take %d%% of the "+
				"history, which is %d%% full, and the rest is for others; wait until ended runs are no longer kept "+
				"(RUN_KEEP, RUN_RETENTION), or have an admin delete sessions or raise max_bytes of "+
				"the stream RUNS", whose, 100*u.held(whose)/u.limit, 100*u.all/u.limit)).
				With("share", string(whose)).After(30 * time.Second)
		}
	}
	return nil
}

// Full returns an error if no caller's new runs are accepted.
func (r *CapacityGuard) Full() error {
	if slices.ContainsFunc(r.uses("", ""), use.full) {
		return errFull()
	}
	return nil
}

func errFull() error {
	return fault.New(fault.Unavailable, "", "the history is nine tenths full, and open runs need the rest; keep "+
		"fewer runs (RUN_KEEP, RUN_RETENTION), or raise the limit of the stream RUNS: its max_bytes, or its number of "+
		"records (AO_NATS_MEMORY)").After(30 * time.Second)
}

// uses returns what is used of the stream's bytes and of its records; nothing before the first look.
func (r *CapacityGuard) uses(caller, session string) []use {
	s := r.last.Load()
	if s == nil {
		return nil
	}
	all, mine, tree := r.History.Used(caller, session)
	return []use{
		{s.MaxBytes, int64(s.Bytes) + max(0, all.Bytes-s.runs.Bytes), mine.Bytes, tree.Bytes},
		{s.MaxMsgs, int64(s.Msgs) + max(0, all.Records-s.runs.Records), mine.Records, tree.Records},
	}
}

// use is how much of the stream's limit is used: in all, by the runs of a caller, and by those of a session's tree.
type use struct{ limit, all, caller, tree int64 }

// room is what new runs may use. Claims and end records of accepted ones need the rest.
func (u use) room() int64 { return u.limit / 10 * 9 }

func (u use) full() bool { return u.limit > 0 && u.all >= u.room() }

// spent returns whose share refuses another run; empty: nobody's. The last quarter of the room is for
// callers that have less than an eighth of it. The last third is for trees that have less than a sixteenth.
func (u use) spent() share.Owner {
	room := u.room()
	switch {
	case room <= 0:
		return ""
	case u.all > room/3*2 && u.tree > room/16:
		return share.Tree
	case u.all > room/4*3 && u.caller > room/8:
		return share.Token
	}
	return ""
}

func (u use) held(whose share.Owner) int64 {
	if whose == share.Tree {
		return u.tree
	}
	return u.caller
}
