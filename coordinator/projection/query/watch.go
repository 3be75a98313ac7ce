package query

import (
	"context"
	"slices"
	"strconv"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/run"
)

// The names of the items of a watched list, besides init and gap.
const (
	ItemRuns = "runs"
	ItemMore = "more"
)

// How often a watched list emits, and how many rows at once.
const (
	watchPause = 250 * time.Millisecond
	watchRows  = 200
	maxSkipped = state.MaxNoted / 4 // irrelevant changes after which the position is emitted all the same
)

// RunsChanged is the data of runs: the newest state of each run that changed.
type RunsChanged struct {
	Runs     []run.Run `json:"runs"`
	Deleted  []string  `json:"deleted,omitempty"` // ids of runs whose session was deleted
	Position string    `json:"position"`
}

// MoreChanged is the data of more: too many runs changed for one item. Read the list.
type MoreChanged struct {
	More     int    `json:"more"`
	Position string `json:"position"`
}

// watch is one reader of a watched list.
type watch struct {
	x       *Feed
	q       Query
	emit    func(Item) error
	state   *state.State // whose changes are counted
	seen    uint64       // number of changes seen
	at      uint64       // the last emitted position
	skipped uint64       // changes since then
}

// WatchRuns passes to emit the newest state of each matching run whenever it changed, until ctx ends or emit fails. It
// emits at most 4 items a second. An empty position begins with init, and with what changes from now on. Any other
// continues after it or, if that is no longer known, emits a gap and then init. A run that may just have left the
// query's statuses is included.
func (x *Feed) WatchRuns(ctx context.Context, q Query, after string, emit func(Item) error) error {
	if err := checkQuery(q, run.Statuses); err != nil {
		return err
	}
	w := &watch{x: x, q: q.searching(), emit: emit}
	if err := w.begin(ctx, after); err != nil {
		return err
	}
	for {
		if err := w.emitChanges(ctx); err != nil {
			return err
		}
		clock.Sleep(ctx, watchPause)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// begin finds where the reader is.
func (w *watch) begin(ctx context.Context, after string) error {
	if after == "" {
		return w.restart(ctx)
	}
	seq, err := ParsePosition(after)
	if err != nil {
		return err
	}
	held, err := w.x.records.State(ctx)
	if err != nil {
		return err
	}
	if seq > held.Last {
		return w.gap(ctx, after)
	}
	if err := w.x.fresh.Await(ctx, seq); err != nil {
		return err
	}
	if err := waitLoaded(ctx, w.x.fresh); err != nil {
		return err
	}
	known := projection.Read(w.x.p, func(f *state.State) (ok bool) {
		w.state = f
		w.seen, ok = f.Changes.Since(seq)
		return ok
	})
	if !known {
		return w.gap(ctx, after)
	}
	w.at = seq
	return nil
}

// gap says that what followed a position is no longer known, and starts over.
func (w *watch) gap(ctx context.Context, after string) error {
	gap := Gap{after, "what followed this position is no longer known here; read the list again"}
	if err := w.emit(Item{ID: after, Event: ItemGap, Data: gap}); err != nil {
		return err
	}
	return w.restart(ctx)
}

// restart begins with init.
func (w *watch) restart(ctx context.Context) error {
	if err := waitLoaded(ctx, w.x.fresh); err != nil {
		return err
	}
	w.x.p.Reading(func(f *state.State) { w.state, w.seen, w.at = f, f.Changes.Count(), w.x.p.SeqOf(f) })
	return w.emit(Item{ID: idOf(w.at), Event: ItemInit, Data: struct{}{}})
}

func idOf(seq uint64) string { return strconv.FormatUint(seq, 10) }

// emitChanges emits what changed since the last call.
func (w *watch) emitChanges(ctx context.Context) error {
	var found []state.View
	var gone []string
	more, replaced, at := 0, false, uint64(0)
	w.x.p.Reading(func(f *state.State) {
		replaced = f != w.state
		if !replaced {
			found, gone, more = w.changed(f)
			at = w.x.p.SeqOf(f)
		}
	})
	switch {
	case replaced:
		return w.gap(ctx, idOf(w.at))
	case more > 0:
		w.at, w.skipped = at, 0
		return w.emit(Item{ID: idOf(at), Event: ItemMore, Data: MoreChanged{more, idOf(at)}})
	case len(found) == 0 && len(gone) == 0 && w.skipped < maxSkipped:
		return nil
	}
	rows, err := w.x.lists.views(ctx, found)
	if fault.KindOf(err) == fault.Unavailable && err != nil { // there is no memory for so many
		return w.emit(Item{ID: idOf(at), Event: ItemMore, Data: MoreChanged{len(found) + len(gone), idOf(at)}})
	}
	if err != nil {
		return err
	}
	w.at, w.skipped = at, 0
	return w.emit(Item{ID: idOf(at), Event: ItemRuns, Data: RunsChanged{rows, gone, idOf(at)}})
}

// changed returns the rows that changed and match, newest change first. If there are too many, it counts them.
func (w *watch) changed(f *state.State) (found []state.View, gone []string, more int) {
	c := &f.Changes
	from := max(w.seen, c.Oldest())
	lost := w.seen < c.Oldest()
	w.skipped += c.Count() - w.seen
	w.seen = c.Count()
	if from == c.Count() {
		return nil, nil, 0
	}
	seen := make(map[*state.Row]bool, min(c.Count()-from, 1024))
	var rows []*state.Row
	for n := c.Count(); n > from; n-- {
		r := c.Row(n - 1)
		if seen[r] {
			continue
		}
		seen[r] = true
		if w.concerns(f, r) {
			rows = append(rows, r)
		}
	}
	if len(rows) > watchRows || lost && len(rows) > 0 {
		return nil, nil, len(rows)
	}
	for _, r := range rows {
		if r.Evicted {
			gone = append(gone, r.ID())
			continue
		}
		found = append(found, w.q.runViewOf(f, r))
	}
	return found, gone, 0
}

// concerns reports whether a changed row matches, or may have matched before.
func (w *watch) concerns(f *state.State, r *state.Row) bool {
	q := w.q
	if q.Runner != "" && r.Runner == "" && r.Attempt > 1 { // it has left its runner: another attempt is to come
		q.Runner = ""
	}
	return q.fits(f, r) && (len(q.Statuses) == 0 || q.mayHaveBeen(r))
}

// mayHaveBeen reports whether a row has one of the statuses, or may have had it before its last change.
func (q *Query) mayHaveBeen(r *state.Row) bool {
	return slices.ContainsFunc(q.Statuses,
		func(s string) bool { return s == string(r.Status()) || !run.Status(s).Final() })
}
