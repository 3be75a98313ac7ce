// Package expiry removes runners that were silent for too long, and what is held of those that left and is over.
package expiry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/projection"
	"ao/shared/runnerapi"
)

// Config is what a Controller is made of; all of it is required.
type Config struct {
	Log        *slog.Logger
	Patience   time.Duration // the silence after which a runner is removed
	Lease      time.Duration
	Connection interface{ Connected() bool }
	Runners    Runners
	Attempts   interface {
		ClaimedBy(runner string) []projection.Active                     // and whose worker has not done its part
		RecheckNow(ctx context.Context, a projection.Active, why string) // gives one up, however long its lease
	}
}

// Runners are those that are registered.
type Runners interface {
	Expired() []runnerapi.Runner                                   // for longer than a runner is kept
	Departed(lease time.Duration) (ended, over []runnerapi.Runner) // told to end and silent for a lease; left, and its grace is over
	ProcessGone(ctx context.Context, r runnerapi.Runner) error     // notes that its process is gone
	RemoveProcess(ctx context.Context, r runnerapi.Runner) error   // where it is that process still
	RemoveDeparted(ctx context.Context, r runnerapi.Runner) error  // where it has not been back
	Removed(runner string)                                         // notes who was
}

// Controller looks for silence. It has a loop of its own: where others write for long, nobody is taken for silent.
type Controller struct {
	Config

	mu     sync.Mutex
	looked time.Time // the last look for silence
	since  time.Time // listening without interruption
}

// New makes a controller that has not listened yet.
func New(cfg Config) *Controller { return &Controller{Config: cfg} }

// deaf is how long nobody may have listened before silence proves nothing any more.
const deaf = 5 * time.Second

// Reconcile looks for silence. It is called once a second.
func (e *Controller) Reconcile(ctx context.Context) error {
	heard := e.listening()
	var gone []runnerapi.Runner
	if heard >= e.Patience {
		gone = e.Runners.Expired()
	}
	if heard >= e.Lease {
		e.part(ctx)
	}
	for _, r := range gone {
		e.remove(ctx, r)
	}
	return nil
}

// listening is for how long everything was heard.
func (e *Controller) listening() time.Duration {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.looked) > deaf || !e.Connection.Connected() {
		e.since = now
	}
	e.looked = now
	return now.Sub(e.since)
}

// remove removes a silent runner, and gives up what its process had.
func (e *Controller) remove(ctx context.Context, r runnerapi.Runner) {
	id := r.ID()
	e.Log.Warn("runner removed: no heartbeat", "runner", id, "after", e.Patience)
	if err := e.Runners.RemoveProcess(ctx, r); err != nil {
		e.Log.Warn("runner could not be removed; trying again", "runner", id, "err", err)
		return
	}
	e.Runners.Removed(id)
	for _, a := range e.Attempts.ClaimedBy(id) { // where a lease is longer than that
		if a.Claim.Instance == r.Instance {
			go e.Attempts.RecheckNow(ctx, a, "no heartbeat until its runner was removed")
		}
	}
}

// part notes the ends of runners that have parted. What NATS does not take is tried again a second later.
func (e *Controller) part(ctx context.Context) {
	ended, over := e.Runners.Departed(e.Lease)
	for _, r := range ended {
		if err := e.Runners.ProcessGone(ctx, r); err != nil {
			e.Log.Warn("a runner's end is not noted; trying again", "runner", r.ID(), "err", err)
		}
	}
	for _, r := range over {
		if err := e.Runners.RemoveDeparted(ctx, r); err != nil {
			e.Log.Warn("a runner that left is not removed; trying again", "runner", r.ID(), "err", err)
			continue
		}
		e.Log.Info("the grace of a runner that left is over", "runner", r.ID(), "agents", runnerapi.Names(r.AgentHashes))
	}
}
