package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Fleet is who takes runs, and from which queues.
type Fleet interface {
	Matches(w runnerapi.RoutingKey) bool
	QueueMatches(lane string, w runnerapi.RoutingKey) bool
	Changes() uint64 // how often registrations have changed
	Ensure(ctx context.Context, lane string, w runnerapi.RoutingKey, caller string, again bool) (string, error)
	IsMade(lane string) bool
	Find(agent string) (*agents.Resolved, bool)                            // as it is now
	Renewed(context.Context, run.Spec, *agents.Resolved) (run.Spec, error) // a run with another definition of its agent
}

// Controller acts on what the fold says, not on messages: no wake-up can be lost, and what several coordinators do at once,
// compare-and-set decides.
type Controller struct {
	History interface {
		Active(id string) (projection.Active, bool)
		Eligible() []projection.Active // whose turn has come since the last call
		Pending(func(projection.Active) bool)
		Confirmed() bool
		WasDeleted(session string) bool
		CannotStart(run string) bool
		Affinity(session string) run.Demands
		ExecutorSessionID(session string) string
		LastClaimed(session, before string) string
	}
	Records interface {
		Queued(part, lane string, s run.Spec, attempt int) (bus.Entry, error)
		Put(ctx context.Context, e bus.Entry) error
		AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error)
		EndWaiting(ctx context.Context, a projection.Active, status run.Status, f *fault.Fault) error
	}
	Fleet   Fleet
	NoMatch time.Duration // how long a run waits for a runner at most
	Log     *slog.Logger

	mu      sync.Mutex
	waits   map[string]*wait     // by run; nil: nobody has looked
	unmatch map[string]time.Time // by lane: since when no online runner matches
	swept   time.Time            // the last look at everything
	seen    uint64               // how often registrations had changed then
}

// wait is a run that waits for a runner.
type wait struct {
	want  runnerapi.RoutingKey
	lane  string
	since time.Time // its turn has come, or it is queued
	moves trouble   // into that lane from another one: it may have been there before, and is not queued there again
}

// trouble is what came to nothing: how often in a row, and when to try again.
type trouble struct {
	times int
	until time.Time
}

// demands are the run's; one that resumes goes where its session is, which is sure only when its turn has come.
func (c *Controller) demands(s *run.Spec) run.Demands {
	if s.Type != run.Resume {
		return s.Demands
	}
	return run.Merge(c.History.Affinity(s.SessionID), s.Demands)
}
