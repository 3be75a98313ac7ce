package explain

import (
	"context"
	"iter"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Explainer explains why runs wait, and why they ended as they did.
type Explainer struct {
	Source
	History History
	Past    interface{ WaitCurrent(ctx context.Context) }
	Runners interface {
		Matches(w runnerapi.RoutingKey) bool
	}
	Queues interface {
		HasRoom(w runnerapi.RoutingKey, caller string) bool
	}
	Waits interface {
		Want(a state.Active) runnerapi.RoutingKey
		UnmatchedSince(id, queue string) (time.Time, bool)
	}
	Heard interface {
		Of(key string) (heard, ends time.Time, ok bool)
	}
	// the session whose tree was stopped, and a stopped run with it; empty: none
	StoppedWith func(ctx context.Context, r run.Run) string

	Members func() []runnerapi.Member
	Parting func(agent string) (left, until time.Time, ok bool) // the last runner that had an agent
	Ready   func() error
	NoMatch time.Duration // after so long a run fails that no online runner matches
	Most    int           // queues of demands
}

// History is the fold, as far as explanations go.
type History interface {
	Seq() uint64
	Trace(ctx context.Context, id string) (query.Trace, error)
	Active(id string) (state.Active, bool)
	Open(session string) []state.Active
	Affinity(session string) run.Demands
	Ahead(id string) (n int, since time.Time, ok bool)
	Claimed() iter.Seq[state.Active]
}

// span returns a duration as a person reads it: three digits or so.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
