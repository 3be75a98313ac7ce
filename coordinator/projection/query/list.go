package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ao/coordinator/budget"
	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/fault"
	"ao/shared/run"
)

// Page is a page of runs.
type Page struct {
	Runs []run.Run `json:"runs"`
	Next string    `json:"next_cursor,omitempty"` // empty: this is the last page

	Partial bool `json:"partial,omitempty"` // the search ran out of time before the page was full; Next continues it
}

// SessionPage is a page of sessions.
type SessionPage struct {
	Sessions []run.Session `json:"sessions"`
	Next     string        `json:"next_cursor,omitempty"`
}

// The limits of lists.
const (
	defaultLimit = 50
	maxLimit     = 1000
	unbudgeted   = 1 << 20 // bytes of parameters that a list may read before it reserves memory
	// bytes of parameters shown in lists and live streams; larger ones are left out, and marked so
	listedParams = 16 << 10
	stride       = 4096 // rows scanned under one lock
	textStride   = 512  // the same for text searches
	searchTime   = 150 * time.Millisecond
	readers      = 8 // records read at once
)

// Lists returns pages of runs, sessions and callbacks, newest first.
type Lists struct {
	p          *projection.Projection
	fresh      Freshness
	reader     *Reader
	stride     int           // rows scanned under one lock
	searchTime time.Duration // how long a text search may take
}

// Runs lists runs, newest first. Parameters of more than 16 KiB are left out, and marked so; Get returns them.
func (x *Lists) Runs(ctx context.Context, q Query) (Page, error) {
	below, limit, err := beginPage(ctx, x, q, runCursor, run.Statuses)
	if err != nil {
		return Page{}, err
	}
	found, rest := x.find(ctx, q.searching(), below, limit+1)
	p := Page{}
	switch {
	case len(found) > limit:
		found = found[:limit]
		p.Next = cursorAt(runCursor, found[limit-1].First)
	case rest > 0:
		p.Partial, p.Next = true, cursorAt(runCursor, rest)
	}
	p.Runs, err = x.views(ctx, found)
	return p, err
}

// beginPage checks a list's query and waits until history is loaded. It returns where the page begins, and its limit.
func beginPage[S ~string](ctx context.Context, x *Lists, q Query, kind string, known []S) (uint64, int, error) {
	below, err := cursor(kind, q.Cursor)
	err = cmp.Or(checkQuery(q, known), err)
	if err == nil {
		err = waitLoaded(ctx, x.fresh)
	}
	return below, cmp.Or(q.Limit, defaultLimit), err
}

// Find returns at most n rows below a sequence, newest first. rest is where to continue, 0 at the end.
func (x *Lists) find(ctx context.Context, q Query, below uint64, n int) (found []state.View, rest uint64) {
	rest = x.scan(ctx, &q, below, func(f *state.State, r *state.Row) bool {
		found = append(found, q.runViewOf(f, r))
		return len(found) < n
	})
	return found, rest
}

// scan calls take with the matching rows below a sequence, newest first, until take has enough or time is up. rest is
// the sequence to continue below, 0 at the end. It holds the lock for one stride at a time.
func (x *Lists) scan(ctx context.Context, q *Query, below uint64,
	take func(*state.State, *state.Row) (more bool),
) (rest uint64) {
	if q.Session != "" {
		return x.scanSession(q, below, take)
	}
	most, until := x.stride, time.Time{}
	if q.Text != "" {
		most, until = min(x.stride, textStride), time.Now().Add(x.searchTime)
	}
	for ctx.Err() == nil {
		more := true
		x.p.Reading(func(f *state.State) {
			rows := state.RunsBelow(f, below)
			i := len(rows)
			for looked := 0; i > 0 && looked < most && more; looked++ {
				i--
				if r := rows[i]; !r.Evicted && q.wants(f, r) {
					more = take(f, r)
				}
			}
			below = 0
			if i > 0 {
				below = rows[i].First
			}
		})
		if below == 0 || !more || !until.IsZero() && time.Now().After(until) {
			break
		}
	}
	return below
}

// scanSession is scan for one session.
func (x *Lists) scanSession(q *Query, below uint64, take func(*state.State, *state.Row) (more bool)) (rest uint64) {
	return projection.Read(x.p, func(f *state.State) uint64 {
		s := f.Session(q.Session)
		if s == nil {
			return 0
		}
		var rows []*state.Row
		for r := range s.Rows() {
			if r.First >= below {
				break
			}
			if q.wants(f, r) {
				rows = append(rows, r)
			}
		}
		for _, r := range slices.Backward(rows) {
			if !take(f, r) {
				return r.First
			}
		}
		return 0
	})
}

// brief returns a run for a list: without large parameters.
func (x *Reader) brief(ctx context.Context, s state.View) (run.Run, error) {
	r, err := x.view(ctx, s, false)
	if len(r.Parameters) > listedParams {
		r.Parameters = nil
	}
	r.ParametersOmitted = r.Parameters == nil
	return r, err
}

// listed is brief that falls back to the index while NATS is away.
func (x *Lists) listed(ctx context.Context, s state.View) (run.Run, error) {
	r, err := x.reader.brief(ctx, s)
	if fault.KindOf(err) == fault.Unavailable {
		r = s.Run()
		r.ParametersOmitted = true
		return r, nil
	}
	return r, err
}

// views reads the runs of a list. If they are large together, it drops them until it has reserved memory for all.
func (x *Lists) views(ctx context.Context, found []state.View) ([]run.Run, error) {
	most := int64(len(found) * listedParams)
	bytes := &atomic.Int64{}
	runs, err := x.read(ctx, found, bytes)
	switch n := bytes.Load(); {
	case err != nil || n <= budget.Small:
		return runs, err
	case n <= unbudgeted:
		return runs, budget.Hold(ctx, n)
	}
	if err := budget.Hold(ctx, most); err != nil {
		return nil, err
	}
	return x.read(ctx, found, nil)
}

// read reads several records at once. It counts the bytes of their parameters, and stops at unbudgeted; nil: reads all.
func (x *Lists) read(ctx context.Context, found []state.View, bytes *atomic.Int64) ([]run.Run, error) {
	runs := make([]run.Run, len(found))
	errs := make([]error, len(found))
	read := func(i int, s state.View) {
		runs[i], errs[i] = x.listed(ctx, s)
		if bytes != nil {
			bytes.Add(int64(len(runs[i].Parameters)))
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, readers)
	for i, s := range found {
		if bytes != nil && bytes.Load() > unbudgeted {
			break
		}
		if s.Active != nil { // no read needed
			read(i, s)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			read(i, s)
		})
	}
	wg.Wait()
	kept := runs[:0]
	for i, r := range runs {
		switch {
		case errs[i] == nil:
			kept = append(kept, r)
		case fault.KindOf(errs[i]) != fault.NotFound: // truncated just now
			return nil, fmt.Errorf("run %s: %w", found[i].ID, errs[i])
		}
	}
	return kept, nil
}

// Session returns a session as readers see it. An unknown id is NotFound.
func (x *Lists) Session(ctx context.Context, id string) (run.Session, error) {
	if s, ok := sessionBy(x.p, id); ok && x.fresh.Complete() {
		return s, nil
	}
	if err := run.CheckSessionID(id); err != nil {
		return run.Session{}, err
	}
	if err := x.fresh.CatchUp(ctx); err != nil {
		return run.Session{}, err
	}
	if s, ok := sessionBy(x.p, id); ok {
		return s, nil
	}
	return run.Session{}, x.reader.noSession(id)
}

// Sessions lists sessions, newest first.
func (x *Lists) Sessions(ctx context.Context, q Query) (SessionPage, error) {
	below, limit, err := beginPage(ctx, x, q, sessionCursor, sessionStatuses)
	if err != nil {
		return SessionPage{}, err
	}
	p := SessionPage{Sessions: []run.Session{}}
	for i := 1; i > 0 && p.Next == "" && ctx.Err() == nil; {
		x.p.Reading(func(f *state.State) {
			sessions := state.SessionsBelow(f, below)
			i = len(sessions)
			for looked := 0; i > 0 && looked < stride; looked++ {
				i--
				s := sessions[i]
				if s.Runs() == 0 || !q.wantsSession(s, x.p.StatusOf(s)) {
					continue
				}
				if len(p.Sessions) == limit {
					p.Next = cursorAt(sessionCursor, below)
					break
				}
				p.Sessions = append(p.Sessions, viewOf(x.p, f, s))
				below = s.First
			}
			if i > 0 && p.Next == "" {
				below = sessions[i].First
			}
		})
	}
	return p, ctx.Err()
}

// SessionResult returns the result of the session's run that ended last.
func (x *Lists) SessionResult(ctx context.Context, id string) (run.Result, run.Run, error) {
	if _, err := x.Session(ctx, id); err != nil {
		return run.Result{}, run.Run{}, err
	}
	var at state.View
	known, ended := projection.Read2(x.p, func(f *state.State) (known, ended bool) {
		s := f.Session(id)
		if s != nil && s.LastEnded() != nil {
			at, ended = state.ViewOf(f, s.LastEnded()), true
		}
		return s != nil, ended
	})
	if !known {
		return run.Result{}, run.Run{}, x.reader.noSession(id)
	}
	if !ended {
		return run.Result{}, run.Run{}, fault.New(fault.Conflict, "run_not_ended", "No run of session "+id+
			" has ended yet").With("session_id", id)
	}
	return x.reader.result(ctx, at)
}

// Callbacks lists the runs that call back a parent session or a URL, newest first. Query.Statuses are those
// of callbacks.
func (x *Lists) Callbacks(ctx context.Context, q Query) (CallbackPage, error) {
	wanted := q.Statuses
	has := func(c *run.CallbackState) bool { return c != nil && slices.Contains(wanted, c.Status) }
	below, limit, err := beginPage(ctx, x, q, runCursor, run.CallbackStatuses)
	if err != nil {
		return CallbackPage{}, err
	}
	q.Statuses = nil
	q.also = func(f *state.State, r *state.Row) bool {
		if !r.Callback && r.Webhook == state.WebhookNone {
			return false
		}
		c := state.CallsOf(f, r)
		return len(wanted) == 0 || has(c.Parent) || has(c.HTTP)
	}
	found, _ := x.find(ctx, q, below, limit+1)
	p := CallbackPage{}
	if len(found) > limit {
		found = found[:limit]
		p.Next = cursorAt(runCursor, found[limit-1].First)
	}
	p.Runs, err = x.views(ctx, found)
	return p, err
}

// CallbackPage is a page of runs that call back.
type CallbackPage struct {
	Runs []run.Run `json:"callbacks"`
	Next string    `json:"next_cursor,omitempty"` // empty: this is the last page
}

// Count is how many runs match a query.
type Count struct {
	N     int  `json:"count"`
	Exact bool `json:"exact"` // false: at least so many
}

// Count counts the runs that match a query. Its limit and cursor are ignored.
func (x *Lists) Count(ctx context.Context, q Query) (c Count, err error) {
	q.Limit, q.Cursor = 0, ""
	if err := cmp.Or(checkQuery(q, run.Statuses), waitLoaded(ctx, x.fresh)); err != nil {
		return c, err
	}
	if q.unfiltered() {
		return Count{projection.Read(x.p, func(f *state.State) int { n, _ := state.Kept(f); return n }), true}, nil
	}
	q = q.searching()
	c.Exact = x.scan(ctx, &q, 1<<64-1, func(*state.State, *state.Row) bool { c.N++; return true }) == 0
	return c, ctx.Err()
}
