package query

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/projection/scan"
	"ao/coordinator/projection/state"
	"ao/coordinator/projection/text"
	"ao/shared/fault"
	"ao/shared/run"
)

// Query selects runs or sessions. Zero fields select everything.
type Query struct {
	Statuses []string // any of these
	Agent    string
	Session  string
	Parent   string
	Runner   string // runs: the runner that has or had the current attempt
	// runs: only of sessions without an existing parent; each with the number of its children's runs
	Roots        bool
	RetryOf      string // runs: those that repeat this one
	AgentHash    string `json:",omitempty"` // runs: that carry the definition with this hash
	Text         string // runs: a prefix of their id or session, or a part of their agent, error, prompt or parameters
	CreatedAfter time.Time
	Limit        int    // default 50, at most 1000
	Cursor       string // Next of the page before

	also func(*state.State, *state.Row) bool // nil: no further condition
}

// sessionStatuses are the ones that can be asked for.
var sessionStatuses = []run.SessionStatus{
	run.SessionPending, run.SessionRunning, run.SessionIdle, run.SessionStopping, run.SessionFinished,
	run.SessionStopped, run.SessionFailed,
}

func checkQuery[S ~string](q Query, known []S) error {
	for _, s := range q.Statuses {
		if !slices.Contains(known, S(s)) {
			return fault.Newf(fault.Invalid, "status %.40q is none of %v", s, known).With("field", "status")
		}
	}
	if q.Limit < 0 || q.Limit > maxLimit {
		return fault.Newf(fault.Invalid, "limit %d: use 1 to %d", q.Limit, maxLimit).With("field", "limit")
	}
	if len(q.Text) > text.MaxBytes {
		return fault.Newf(fault.Invalid, "q has %d bytes; use at most %d", len(q.Text), text.MaxBytes).
			With("field", "q")
	}
	return nil
}

// cursor reads a cursor: the sequence below which the next page begins.
func cursor(kind, c string) (uint64, error) {
	if c == "" {
		return 1<<64 - 1, nil
	}
	bad := fault.New(fault.Invalid, "", "cursor is not one of this list; use next_cursor of the page before").
		With("field", "cursor")
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

// wants reports whether a row matches the query as it is now.
func (q *Query) wants(f *state.State, r *state.Row) bool {
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, string(r.Status()))) && q.fits(f, r)
}

// fits reports whether a row matches the query, whatever its status.
func (q *Query) fits(f *state.State, r *state.Row) bool {
	return (q.Agent == "" || q.Agent == r.Agent) && (q.Parent == "" || q.Parent == r.Parent) &&
		(q.Runner == "" || q.Runner == r.Runner) &&
		q.after(r.Created) &&
		(q.Session == "" || state.IdentOf(state.SessionPrefix, q.Session) == r.Session().Ident) &&
		(!q.Roots || !state.HasParent(f, r.Session())) &&
		(q.RetryOf == "" || state.IsRetryOf(f, r, q.RetryOf)) &&
		(q.AgentHash == "" || r.AgentHash != 0 && r.AgentHash == scan.HashNumber(q.AgentHash)) &&
		(q.also == nil || q.also(f, r))
}

// after reports whether a creation time in nanoseconds is late enough. Nanoseconds cover the years 1678 to
// 2261.
func (q *Query) after(created int64) bool {
	switch year := q.CreatedAfter.Year(); {
	case year < 1678:
		return true
	case year > 2261:
		return false
	}
	return created > q.CreatedAfter.UnixNano()
}

// unfiltered reports whether the query asks for all runs.
func (q *Query) unfiltered() bool {
	return len(q.Statuses) == 0 && q.Agent == "" && q.Session == "" && q.Parent == "" && q.Runner == "" && !q.Roots &&
		q.RetryOf == "" && q.AgentHash == "" &&
		q.Text == "" &&
		q.CreatedAfter.IsZero() &&
		q.also == nil
}

// runViewOf returns the view of a matching row.
func (q *Query) runViewOf(f *state.State, r *state.Row) state.View {
	s := state.ViewOf(f, r)
	if q.Roots {
		s.Children = f.Trees.Children.Runs(r.Session())
	}
	return s
}

func (q *Query) wantsSession(s *state.Session, status run.SessionStatus) bool {
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, string(status))) &&
		(q.Agent == "" || q.Agent == s.Agent) && (q.Parent == "" || q.Parent == s.Parent) &&
		q.after(s.CreatedAt()) &&
		(q.Session == "" || state.IdentOf(state.SessionPrefix, q.Session) == s.Ident)
}
