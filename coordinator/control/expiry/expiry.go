// Package expiry removes runners without heartbeats, and what is left of runners that deregistered.
package expiry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/projection/state"
	"ao/shared/runnerapi"
)

// Config is what a Controller works with. All of it is required.
type Config struct {
	Log         *slog.Logger
	RemoveAfter time.Duration // without a heartbeat: then a runner is removed
	Lease       time.Duration
	Connection  interface{ Connected() bool }
	Runners     Runners
	Attempts    interface {
		ClaimedBy(runner string) []state.Active // except those whose worker has done its part
		// fails one unless its runner has it, however long its lease
		RecheckNow(ctx context.Context, a state.Active, why string)
	}
}

// Runners are the registered ones.
type Runners interface {
	Expired() []runnerapi.Runner // without a heartbeat for longer than a runner is kept
	Departed(
		lease time.Duration,
		// told to end and without heartbeat for a lease; deregistered, and the grace is over
	) (ended, over []runnerapi.Runner)
	ProcessGone(ctx context.Context, r runnerapi.Runner) error    // notes that the process has ended
	RemoveProcess(ctx context.Context, r runnerapi.Runner) error  // if it is still that process
	RemoveDeparted(ctx context.Context, r runnerapi.Runner) error // if it has not come back
	Removed(runner string)                                        // notes the removal
}

// Controller removes expired runners. It has its own loop, so that slow writes elsewhere make nobody look expired.
type Controller struct {
	Config

	mu        sync.Mutex
	checkedAt time.Time // time of the last check
	since     time.Time // listening without interruption
}

// New returns a Controller that has not listened yet.
func New(cfg Config) *Controller { return &Controller{Config: cfg} }

// maxGap is the longest pause between checks that still counts as uninterrupted listening.
const maxGap = 5 * time.Second

// Reconcile removes expired runners. It is called once a second.
func (e *Controller) Reconcile(ctx context.Context) error {
	heard := e.listening()
	var gone []runnerapi.Runner
	if heard >= e.RemoveAfter {
		gone = e.Runners.Expired()
	}
	if heard >= e.Lease {
		e.removeDeparted(ctx)
	}
	for _, r := range gone {
		e.remove(ctx, r)
	}
	return nil
}

// listening returns for how long heartbeats were heard without interruption.
func (e *Controller) listening() time.Duration {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.checkedAt) > maxGap || !e.Connection.Connected() {
		e.since = now
	}
	e.checkedAt = now
	return now.Sub(e.since)
}

// remove removes an expired runner, and rechecks the attempts of its process.
func (e *Controller) remove(ctx context.Context, r runnerapi.Runner) {
	id := r.ID()
	e.Log.Warn("runner removed: no heartbeat", "runner", id, "after", e.RemoveAfter)
	if err := e.Runners.RemoveProcess(ctx, r); err != nil {
		e.Log.Warn("runner not removed, retrying", "runner", id, "err", err)
		return
	}
	e.Runners.Removed(id)
	for _, a := range e.Attempts.ClaimedBy(id) { // where a lease is longer than RUNNER_REMOVE_THRESHOLD
		if a.Claim.Instance == r.Instance {
			go e.Attempts.RecheckNow(ctx, a, "no heartbeat until its runner was removed")
		}
	}
}

// removeDeparted records the end of departed runners. Failed writes are retried a second later.
func (e *Controller) removeDeparted(ctx context.Context) {
	ended, over := e.Runners.Departed(e.Lease)
	for _, r := range ended {
		if err := e.Runners.ProcessGone(ctx, r); err != nil {
			e.Log.Warn("end of a runner's process not recorded, retrying", "runner", r.ID(), "err", err)
		}
	}
	for _, r := range over {
		if err := e.Runners.RemoveDeparted(ctx, r); err != nil {
			e.Log.Warn("deregistered runner not removed, retrying", "runner", r.ID(), "err", err)
			continue
		}
		e.Log.Info("grace of a deregistered runner is over", "runner", r.ID(), "agents", runnerapi.Names(r.AgentHashes))
	}
}
