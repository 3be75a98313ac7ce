package projection

import (
	"context"
	"strconv"
	"time"

	"ao/shared/fault"
	"ao/shared/run"
)

// The names of the items of a watched list, beside init and gap.
const (
	ItemRuns = "runs"
	ItemMore = "more"
)

// A watched list tells at most so often, and so many rows at once.
const (
	watchPause = 250 * time.Millisecond
	watchRows  = 200
	watchQuiet = maxNoted / 4 // changes of no concern after which the position is told all the same
)

// RunsChanged is the data of runs: the newest state of each run that changed.
type RunsChanged struct {
	Runs     []run.Run `json:"runs"`
	Deleted  []string  `json:"deleted,omitempty"` // ids of runs whose session was deleted
	Position string    `json:"position"`
}

// MoreChanged is the data of more: more runs changed than one item tells of. Read the list.
type MoreChanged struct {
	More     int    `json:"more"`
	Position string `json:"position"`
}

// watch is one reader of a watched list.
type watch struct {
	x     *Feed
	q     Query
	emit  func(Item) error
	fold  *fold  // whose changes are counted
	heard uint64 // of its changes
	at    uint64 // the position told last
	quiet uint64 // changes since then
}

// WatchRuns gives emit the newest state of each run that matches q whenever it changed, conflated: at most 4 items a
// second, until ctx ends or emit errs. An empty position begins with init, with what changes from now on; any other
// goes on behind it, or, where that is no longer known, tells the gap and begins with init. A run that may have left
// what is asked for by its status is given, too.
func (x *Feed) WatchRuns(ctx context.Context, q Query, after string, emit func(Item) error) error {
	if err := refuse(q, run.Statuses); err != nil {
		return err
	}
	w := &watch{x: x, q: q.searching(), emit: emit}
	if err := w.begin(ctx, after); err != nil {
		return err
	}
	for {
		if err := w.tell(ctx); err != nil {
			return err
		}
		pause(ctx, watchPause)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// begin finds where the reader stands.
func (w *watch) begin(ctx context.Context, after string) error {
	if after == "" {
		return w.anew(ctx)
	}
	seq, err := ParsePosition(after)
	if err != nil {
		return err
	}
	state, err := w.x.records.State(ctx)
	if err != nil {
		return err
	}
	if seq > state.Last {
		return w.gap(ctx, after)
	}
	if err := w.x.fresh.Await(ctx, seq); err != nil {
		return err
	}
	if err := w.x.fresh.waitLoaded(ctx); err != nil {
		return err
	}
	known := read(w.x.p, func(f *fold) (ok bool) {
		w.fold = f
		w.heard, ok = f.changes.since(seq)
		return ok
	})
	if !known {
		return w.gap(ctx, after)
	}
	w.at = seq
	return nil
}

// gap says that what followed a position is no longer known, and begins anew.
func (w *watch) gap(ctx context.Context, after string) error {
	gap := Gap{after, "what followed this position is no longer known here; read the list anew"}
	if err := w.emit(Item{ID: after, Event: ItemGap, Data: gap}); err != nil {
		return err
	}
	return w.anew(ctx)
}

// anew begins with init.
func (w *watch) anew(ctx context.Context) error {
	if err := w.x.fresh.waitLoaded(ctx); err != nil {
		return err
	}
	w.x.p.reading(func(f *fold) { w.fold, w.heard, w.at = f, f.changes.count, max(f.seq, w.x.p.empty) })
	return w.emit(Item{ID: idOf(w.at), Event: ItemInit, Data: struct{}{}})
}

func idOf(seq uint64) string { return strconv.FormatUint(seq, 10) }

// tell tells what changed since it was told last.
func (w *watch) tell(ctx context.Context) error {
	var found []sight
	var gone []string
	more, replaced, at := 0, false, uint64(0)
	w.x.p.reading(func(f *fold) {
		replaced = f != w.fold
		if !replaced {
			found, gone, more = w.look(f)
			at = max(f.seq, w.x.p.empty)
		}
	})
	switch {
	case replaced:
		return w.gap(ctx, idOf(w.at))
	case more > 0:
		w.at, w.quiet = at, 0
		return w.emit(Item{ID: idOf(at), Event: ItemMore, Data: MoreChanged{more, idOf(at)}})
	case len(found) == 0 && len(gone) == 0 && w.quiet < watchQuiet:
		return nil
	}
	rows, err := w.x.lists.views(ctx, found)
	if fault.KindOf(err) == fault.Unavailable && err != nil { // there is no room for so many
		return w.emit(Item{ID: idOf(at), Event: ItemMore, Data: MoreChanged{len(found) + len(gone), idOf(at)}})
	}
	if err != nil {
		return err
	}
	w.at, w.quiet = at, 0
	return w.emit(Item{ID: idOf(at), Event: ItemRuns, Data: RunsChanged{rows, gone, idOf(at)}})
}

// look finds the rows that changed and match, the newest change first. Where there are too many, it counts them.
func (w *watch) look(f *fold) (found []sight, gone []string, more int) {
	c := &f.changes
	from := max(w.heard, c.oldest())
	lost := w.heard < c.oldest()
	w.quiet += c.count - w.heard
	w.heard = c.count
	if from == c.count {
		return nil, nil, 0
	}
	seen := make(map[*row]bool, min(c.count-from, 1024))
	var rows []*row
	for n := c.count; n > from; n-- {
		r := c.at(n - 1).row
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
		if r.gone {
			gone = append(gone, r.runID())
			continue
		}
		found = append(found, w.q.sightOf(f, r))
	}
	return found, gone, 0
}

// concerns reports whether a row that changed matches, or may have matched before.
func (w *watch) concerns(f *fold, r *row) bool {
	q := w.q
	if q.Runner != "" && r.runner == "" && r.attempt > 1 { // another attempt is to come: it has left its runner
		q.Runner = ""
	}
	return q.fits(f, r) && (len(q.Statuses) == 0 || q.mayHaveBeen(r))
}

// mayHaveBeen reports whether a row has one of the statuses, or may have had it before it changed last.
func (q *Query) mayHaveBeen(r *row) bool {
	for _, s := range q.Statuses {
		if s == string(r.shown()) || !run.Status(s).Final() {
			return true
		}
	}
	return false
}
