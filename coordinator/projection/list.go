package projection

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/shared/fault"
	"ao/shared/run"
)

// Query says which runs or sessions are wanted. Empty members ask nothing.
type Query struct {
	Statuses     []string // any of these
	Agent        string
	Session      string
	Parent       string
	CreatedAfter time.Time
	Limit        int    // default 50, at most 1000
	Cursor       string // Next of the page before

	also func(*fold, *row) bool // nil: no further condition
}

// Page is a part of a list of runs.
type Page struct {
	Runs []run.Run `json:"runs"`
	Next string    `json:"next_cursor,omitempty"` // empty: that was the last one
}

// SessionPage is a part of a list of sessions.
type SessionPage struct {
	Sessions []run.Session `json:"sessions"`
	Next     string        `json:"next_cursor,omitempty"`
}

// The limits of lists.
const (
	defaultLimit = 50
	maxLimit     = 1000
	listedParams = 16 << 10 // bytes of parameters that lists and live streams show; larger ones are left out, which they say
	stride       = 4096     // rows looked at under one lock
	readers      = 8        // records read at once
)

// sessionStatuses are those that can be asked for.
var sessionStatuses = []run.SessionStatus{
	run.SessionPending, run.SessionRunning, run.SessionIdle, run.SessionStopping, run.SessionFinished, run.SessionStopped, run.SessionFailed,
}

func refuse[S ~string](q Query, known []S) error {
	for _, s := range q.Statuses {
		if !slices.Contains(known, S(s)) {
			return fault.Newf(fault.Invalid, "status %.40q is none of %v", s, known).With("field", "status")
		}
	}
	if q.Limit < 0 || q.Limit > maxLimit {
		return fault.Newf(fault.Invalid, "limit %d: use 1 to %d", q.Limit, maxLimit).With("field", "limit")
	}
	return nil
}

// cursor reads a cursor: the sequence below which the next page begins.
func cursor(kind, c string) (uint64, error) {
	if c == "" {
		return 1<<64 - 1, nil
	}
	bad := fault.New(fault.Invalid, "", "cursor is not one of this list; use next_cursor of the page before").With("field", "cursor")
	if len(c) > 64 {
		return 0, bad
	}
	raw, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return 0, bad
	}
	digits, ok := strings.CutPrefix(string(raw), kind)
	seq, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || cursorAt(kind, seq) != c { // one page has one cursor
		return 0, bad
	}
	return seq, nil
}

func cursorAt(kind string, seq uint64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + strconv.FormatUint(seq, 10)))
}

const (
	runCursor     = "r1:"
	sessionCursor = "s1:"
)

func (q *Query) wants(r *row) bool {
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, string(r.shown()))) &&
		(q.Agent == "" || q.Agent == r.agent) && (q.Parent == "" || q.Parent == r.parent) &&
		(q.CreatedAfter.IsZero() || r.created > q.CreatedAfter.UnixNano()) &&
		(q.Session == "" || identOf(sessionPrefix, q.Session) == r.session.id)
}

func (q *Query) wantsSession(s *session, status run.SessionStatus) bool {
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, string(status))) &&
		(q.Agent == "" || q.Agent == s.agent) && (q.Parent == "" || q.Parent == s.parent) &&
		(q.CreatedAfter.IsZero() || s.firstRow.created > q.CreatedAfter.UnixNano()) &&
		(q.Session == "" || identOf(sessionPrefix, q.Session) == s.id)
}

// Lists are pages of runs, sessions and callbacks, newest first.
type Lists struct {
	p      *Projection
	fresh  freshness
	reader *Reader
}

// Runs lists runs, newest first. Parameters of more than 16 KiB are left out of a list, which says so; Get has them.
func (x *Lists) Runs(ctx context.Context, q Query) (Page, error) {
	below, err := cursor(runCursor, q.Cursor)
	if err = cmp.Or(refuse(q, run.Statuses), err); err == nil {
		err = x.fresh.whole(ctx)
	}
	if err != nil {
		return Page{}, err
	}
	limit := cmp.Or(q.Limit, defaultLimit)
	found := x.find(q, below, limit+1)
	p := Page{}
	if len(found) > limit {
		found = found[:limit]
		p.Next = cursorAt(runCursor, found[limit-1].first)
	}
	p.Runs, err = x.views(ctx, found)
	return p, err
}

// find finds at most n rows below a sequence, newest first, a stride at a time so that nobody waits long for the lock.
func (x *Lists) find(q Query, below uint64, n int) (found []sight) {
	if q.Session != "" {
		return x.ofSession(q, below, n)
	}
	for len(found) < n {
		i := 0
		x.p.reading(func(f *fold) {
			i = sort.Search(len(f.order), func(i int) bool { return f.order[i].first >= below })
			for looked := 0; i > 0 && looked < stride && len(found) < n; looked++ {
				i--
				if r := f.order[i]; !r.gone && q.wants(r) && (q.also == nil || q.also(f, r)) {
					found = append(found, sightOf(f, r))
				}
			}
			if i > 0 {
				below = f.order[i].first
			}
		})
		if i == 0 {
			break
		}
	}
	return found
}

func (x *Lists) ofSession(q Query, below uint64, n int) []sight {
	return read(x.p, func(f *fold) (found []sight) {
		s := f.sessions[identOf(sessionPrefix, q.Session)]
		if s == nil {
			return nil
		}
		var all []*row
		for r := s.firstRow; r != nil && r.first < below; r = r.next {
			if q.wants(r) && (q.also == nil || q.also(f, r)) {
				all = append(all, r)
			}
		}
		for i := len(all) - 1; i >= 0 && len(found) < n; i-- {
			found = append(found, sightOf(f, all[i]))
		}
		return found
	})
}

// brief is the view of a run among others: without large parameters.
func (x *Reader) brief(ctx context.Context, s sight) (run.Run, error) {
	r, err := x.view(ctx, s, false)
	if len(r.Parameters) > listedParams {
		r.Parameters = nil
	}
	r.ParametersOmitted = r.Parameters == nil
	return r, err
}

// listed is brief for a list: where NATS is away it has what the index has.
func (x *Lists) listed(ctx context.Context, s sight) (run.Run, error) {
	r, err := x.reader.brief(ctx, s)
	if fault.KindOf(err) == fault.Unavailable {
		r = s.bare()
		r.ParametersOmitted = true
		return r, nil
	}
	return r, err
}

// views makes the views of a list, reading a few records at once.
func (x *Lists) views(ctx context.Context, found []sight) ([]run.Run, error) {
	runs := make([]run.Run, len(found))
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	slots := make(chan struct{}, readers)
	for i, s := range found {
		if s.snap != nil { // nothing to be read
			runs[i], errs[i] = x.listed(ctx, s)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			runs[i], errs[i] = x.listed(ctx, s)
		})
	}
	wg.Wait()
	kept := runs[:0]
	for i, r := range runs {
		switch {
		case errs[i] == nil:
			kept = append(kept, r)
		case fault.KindOf(errs[i]) != fault.NotFound: // truncated at this moment
			return nil, fmt.Errorf("run %s: %w", found[i].id, errs[i])
		}
	}
	return kept, nil
}

// Session is a session as readers see it. An unknown id is NotFound.
func (x *Lists) Session(ctx context.Context, id string) (run.Session, error) {
	if s, ok := x.p.session(id); ok && x.fresh.certain() {
		return s, nil
	}
	if err := run.CheckSessionID(id); err != nil {
		return run.Session{}, err
	}
	if err := x.fresh.catchUp(ctx); err != nil {
		return run.Session{}, err
	}
	if s, ok := x.p.session(id); ok {
		return s, nil
	}
	return run.Session{}, x.reader.noSession(id)
}

// Sessions lists sessions, newest first.
func (x *Lists) Sessions(ctx context.Context, q Query) (SessionPage, error) {
	below, err := cursor(sessionCursor, q.Cursor)
	if err = cmp.Or(refuse(q, sessionStatuses), err); err == nil {
		err = x.fresh.whole(ctx)
	}
	if err != nil {
		return SessionPage{}, err
	}
	limit := cmp.Or(q.Limit, defaultLimit)
	p := SessionPage{Sessions: []run.Session{}}
	for i := 1; i > 0 && p.Next == "" && ctx.Err() == nil; {
		x.p.reading(func(f *fold) {
			i = sort.Search(len(f.sorder), func(i int) bool { return f.sorder[i].first >= below })
			for looked := 0; i > 0 && looked < stride; looked++ {
				i--
				s := f.sorder[i]
				if s.runs == 0 || !q.wantsSession(s, x.p.statusOf(s)) {
					continue
				}
				if len(p.Sessions) == limit {
					p.Next = cursorAt(sessionCursor, below)
					break
				}
				p.Sessions = append(p.Sessions, x.p.viewOf(s))
				below = s.first
			}
			if i > 0 && p.Next == "" {
				below = f.sorder[i].first
			}
		})
	}
	return p, ctx.Err()
}

// SessionResult is the result of the session's run that ended last.
func (x *Lists) SessionResult(ctx context.Context, id string) (run.Result, run.Run, error) {
	if _, err := x.Session(ctx, id); err != nil {
		return run.Result{}, run.Run{}, err
	}
	var at sight
	known, ended := read2(x.p, func(f *fold) (known, ended bool) {
		s := f.sessions[identOf(sessionPrefix, id)]
		if s != nil && s.lastEnded != nil {
			at, ended = sightOf(f, s.lastEnded), true
		}
		return s != nil, ended
	})
	if !known {
		return run.Result{}, run.Run{}, x.reader.noSession(id)
	}
	if !ended {
		return run.Result{}, run.Run{}, fault.New(fault.Conflict, "run_not_ended", "No run of session "+id+" has ended yet").With("session_id", id)
	}
	return x.reader.result(ctx, at)
}

// Callbacks lists the runs that call back, a parent session or a URL, newest first. Query's Statuses are those of callbacks.
func (x *Lists) Callbacks(ctx context.Context, q Query) (CallbackPage, error) {
	wanted := map[string]bool{}
	for _, s := range q.Statuses {
		wanted[s] = true
	}
	below, err := cursor(runCursor, q.Cursor)
	if err = cmp.Or(refuse(q, run.CallStatuses), err); err == nil {
		err = x.fresh.whole(ctx)
	}
	if err != nil {
		return CallbackPage{}, err
	}
	q.Statuses = nil
	q.also = func(f *fold, r *row) bool {
		if !r.callback && r.hook == hookNone {
			return false
		}
		c := callsOf(f, r)
		return len(wanted) == 0 || c.parent != nil && wanted[c.parent.Status] || c.http != nil && wanted[c.http.Status]
	}
	limit := cmp.Or(q.Limit, defaultLimit)
	found := x.find(q, below, limit+1)
	p := CallbackPage{}
	if len(found) > limit {
		found = found[:limit]
		p.Next = cursorAt(runCursor, found[limit-1].first)
	}
	p.Runs, err = x.views(ctx, found)
	return p, err
}

// CallbackPage is a part of a list of runs that call back.
type CallbackPage struct {
	Runs []run.Run `json:"callbacks"`
	Next string    `json:"next_cursor,omitempty"` // empty: that was the last one
}
