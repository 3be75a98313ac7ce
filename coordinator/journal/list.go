package journal

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

func (j *Journal) wantsSession(q *Query, s *session) bool {
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, string(j.statusOf(s)))) &&
		(q.Agent == "" || q.Agent == s.agent) && (q.Parent == "" || q.Parent == s.parent) &&
		(q.CreatedAfter.IsZero() || s.firstRow.created > q.CreatedAfter.UnixNano()) &&
		(q.Session == "" || identOf(sessionPrefix, q.Session) == s.id)
}

// Runs lists runs, newest first. Parameters of more than 16 KiB are left out of a list, which says so; Get has them.
func (j *Journal) Runs(ctx context.Context, q Query) (Page, error) {
	below, err := cursor(runCursor, q.Cursor)
	if err = cmp.Or(refuse(q, run.Statuses), err); err == nil {
		err = j.whole(ctx)
	}
	if err != nil {
		return Page{}, err
	}
	limit := cmp.Or(q.Limit, defaultLimit)
	found := j.find(q, below, limit+1)
	p := Page{}
	if len(found) > limit {
		found = found[:limit]
		p.Next = cursorAt(runCursor, found[limit-1].first)
	}
	p.Runs, err = j.views(ctx, found)
	return p, err
}

// find finds at most n rows below a sequence, newest first, a stride at a time so that nobody waits long for the lock.
func (j *Journal) find(q Query, below uint64, n int) (found []sight) {
	if q.Session != "" {
		return j.ofSession(q, below, n)
	}
	for len(found) < n {
		j.mu.RLock()
		order := j.fold.order
		i := sort.Search(len(order), func(i int) bool { return order[i].first >= below })
		for looked := 0; i > 0 && looked < stride && len(found) < n; looked++ {
			i--
			if r := order[i]; !r.gone && q.wants(r) && (q.also == nil || q.also(j.fold, r)) {
				found = append(found, j.fold.see(r))
			}
		}
		if i > 0 {
			below = order[i].first
		}
		j.mu.RUnlock()
		if i == 0 {
			break
		}
	}
	return found
}

func (j *Journal) ofSession(q Query, below uint64, n int) (found []sight) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	s := j.fold.sessions[identOf(sessionPrefix, q.Session)]
	if s == nil {
		return nil
	}
	var all []*row
	for r := s.firstRow; r != nil && r.first < below; r = r.next {
		if q.wants(r) && (q.also == nil || q.also(j.fold, r)) {
			all = append(all, r)
		}
	}
	for i := len(all) - 1; i >= 0 && len(found) < n; i-- {
		found = append(found, j.fold.see(all[i]))
	}
	return found
}

// brief is the view of a run among others: without large parameters.
func (j *Journal) brief(ctx context.Context, s sight) (run.Run, error) {
	r, err := j.view(ctx, s, false)
	if len(r.Parameters) > listedParams {
		r.Parameters = nil
	}
	r.ParametersOmitted = r.Parameters == nil
	return r, err
}

// listed is brief for a list: where NATS is away it has what the index has.
func (j *Journal) listed(ctx context.Context, s sight) (run.Run, error) {
	r, err := j.brief(ctx, s)
	if fault.KindOf(err) == fault.Unavailable {
		r = s.bare()
		r.ParametersOmitted = true
		return r, nil
	}
	return r, err
}

// views makes the views of a list, reading a few records at once.
func (j *Journal) views(ctx context.Context, found []sight) ([]run.Run, error) {
	runs := make([]run.Run, len(found))
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	slots := make(chan struct{}, readers)
	for i, s := range found {
		if s.snap != nil { // nothing to be read
			runs[i], errs[i] = j.listed(ctx, s)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			runs[i], errs[i] = j.listed(ctx, s)
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
func (j *Journal) Session(ctx context.Context, id string) (run.Session, error) {
	if s, ok := j.session(id); ok && j.certain() {
		return s, nil
	}
	if err := run.CheckSessionID(id); err != nil {
		return run.Session{}, err
	}
	if err := j.catchUp(ctx); err != nil {
		return run.Session{}, err
	}
	if s, ok := j.session(id); ok {
		return s, nil
	}
	return run.Session{}, j.noSession(id)
}

func (j *Journal) session(id string) (run.Session, bool) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if s := j.fold.sessions[identOf(sessionPrefix, id)]; s != nil {
		return j.viewOf(s), true
	}
	return run.Session{}, false
}

// Sessions lists sessions, newest first.
func (j *Journal) Sessions(ctx context.Context, q Query) (SessionPage, error) {
	below, err := cursor(sessionCursor, q.Cursor)
	if err = cmp.Or(refuse(q, sessionStatuses), err); err == nil {
		err = j.whole(ctx)
	}
	if err != nil {
		return SessionPage{}, err
	}
	limit := cmp.Or(q.Limit, defaultLimit)
	p := SessionPage{Sessions: []run.Session{}}
	for i := 1; i > 0 && p.Next == "" && ctx.Err() == nil; {
		j.mu.RLock()
		order := j.fold.sorder
		i = sort.Search(len(order), func(i int) bool { return order[i].first >= below })
		for looked := 0; i > 0 && looked < stride; looked++ {
			i--
			s := order[i]
			if s.runs == 0 || !j.wantsSession(&q, s) {
				continue
			}
			if len(p.Sessions) == limit {
				p.Next = cursorAt(sessionCursor, below)
				break
			}
			p.Sessions = append(p.Sessions, j.viewOf(s))
			below = s.first
		}
		if i > 0 && p.Next == "" {
			below = order[i].first
		}
		j.mu.RUnlock()
	}
	return p, ctx.Err()
}

// SessionResult is the result of the session's run that ended last.
func (j *Journal) SessionResult(ctx context.Context, id string) (run.Result, run.Run, error) {
	if _, err := j.Session(ctx, id); err != nil {
		return run.Result{}, run.Run{}, err
	}
	j.mu.RLock()
	var at sight
	s := j.fold.sessions[identOf(sessionPrefix, id)]
	ended := s != nil && s.lastEnded != nil
	if ended {
		at = j.fold.see(s.lastEnded)
	}
	j.mu.RUnlock()
	if s == nil {
		return run.Result{}, run.Run{}, j.noSession(id)
	}
	if !ended {
		return run.Result{}, run.Run{}, fault.New(fault.Conflict, "run_not_ended", "No run of session "+id+" has ended yet").With("session_id", id)
	}
	return j.result(ctx, at)
}
