package dispatch

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Fleet knows which runners take runs, and from which queues.
type Fleet interface {
	Matches(w runnerapi.RoutingKey) bool
	QueueMatches(queue string, w runnerapi.RoutingKey) bool
	OnlineMatches(w runnerapi.RoutingKey) []string // ids of runners, which perhaps take no runs now
	Changes() uint64                               // counts changes of registrations
	Ensure(ctx context.Context, queue string, w runnerapi.RoutingKey, caller string, again bool) (string, error)
	IsMade(queue string) bool
	Find(agent string) (*agents.Resolved, bool)                            // as defined now
	Renewed(context.Context, run.Spec, *agents.Resolved) (run.Spec, error) // a run with another definition of its agent
}

// Controller acts on the projection, not on messages, so no wake-up can be lost. When several coordinators act at once,
// compare-and-set decides.
type Controller struct {
	History interface {
		Active(id string) (state.Active, bool)
		Eligible() []state.Active // whose turn has come since the last call
		Pending() iter.Seq[state.Active]
		Confirmed() bool
		WasDeleted(session string) bool
		CannotStart(run string) bool
		Affinity(session string) run.Demands
		ExecutorSessionID(session string) string
		LastClaimed(session, before string) string
	}
	Records interface {
		Queued(part, queue string, s run.Spec, attempt int, returnable bool) (bus.Entry, error)
		Append(ctx context.Context, e bus.Entry) error
		Passed(ctx context.Context, subj string) (passed, unreadable bool, err error)
		FailDamaged(ctx context.Context, a state.Active, evidence string) error
		Affects(seq uint64) bool // records after that one may have been lost
		AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error)
		EndWaiting(ctx context.Context, a state.Active, status run.Status, f *fault.Fault) error
	}
	Fleet   Fleet
	NoMatch time.Duration // how long a run waits for a runner at most
	Log     *slog.Logger

	mu          sync.Mutex
	waits       map[string]*waitState // by run; nil before the first sweep
	unmatched   map[string]time.Time  // by queue: since when no online runner matches
	sweptAt     time.Time             // time of the last sweep
	seenChanges uint64                // Changes at the last sweep
}

// waitState is a run that waits for a runner.
type waitState struct {
	want  runnerapi.RoutingKey
	queue string
	since time.Time // since its turn came or it was queued
	// of moving it into that queue; it may have been there before, and is then not queued there again
	moveBackoff backoffState
}

// backoffState counts failures in a row, and says when to try again.
type backoffState struct {
	times int
	until time.Time
}

// demands returns the run's demands. A resumed run also demands its session's affinity, which is final only once its
// turn has come.
func (c *Controller) demands(s *run.Spec) run.Demands {
	if s.Type != run.Resume {
		return s.Demands
	}
	return run.Merge(c.History.Affinity(s.SessionID), s.Demands)
}
