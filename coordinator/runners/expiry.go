package runners

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/journal"
	"ao/shared/fleet"
)

// Expiry removes runners that were silent for too long, and what is held of those that left and is over.
type Expiry struct {
	Log        *slog.Logger
	Patience   time.Duration // the silence after which a runner is removed
	Lease      time.Duration
	Connection interface{ Connected() bool }
	Runners    *Registry
	Leaving    *Leaving
	Attempts   func(runner string) []journal.Active                    // that it has begun, and not done its part of
	Abandon    func(ctx context.Context, a journal.Active, why string) // gives one up, however long its lease
	Removed    func(runner string)                                     // notes who was

	mu     sync.Mutex
	looked time.Time // the last look for silence
	since  time.Time // listening without interruption
}

// deaf is how long nobody may have listened before silence proves nothing any more.
const deaf = 5 * time.Second

// Reconcile looks for silence. It is called once a second.
func (e *Expiry) Reconcile(ctx context.Context) error {
	heard := e.listening()
	gone := e.Runners.list(func(m *member) bool {
		return heard >= e.Patience && m.status(e.Runners) == fleet.Removed
	})
	ended, over := e.parted(heard)
	e.part(ctx, ended, over)
	for _, m := range gone {
		e.remove(ctx, m.ID, m.Instance)
	}
	return nil
}

// listening is for how long everything was heard.
func (e *Expiry) listening() time.Duration {
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
func (e *Expiry) remove(ctx context.Context, id, instance string) {
	e.Log.Warn("runner removed: no heartbeat", "runner", id, "after", e.Patience)
	if err := e.Leaving.remove(ctx, id, is(instance)); err != nil {
		e.Log.Warn("runner could not be removed; trying again", "runner", id, "err", err)
		return
	}
	e.Removed(id)
	for _, a := range e.Attempts(id) { // where a lease is longer than that
		if a.Claim.Instance == instance {
			go e.Abandon(ctx, a, "no heartbeat until its runner was removed")
		}
	}
}

// parted are those runners whose end somebody is to note: those that were told to end and are silent for a lease, and those whose grace
// is over. heard is how long everything was heard.
func (e *Expiry) parted(heard time.Duration) (ended, over []fleet.Runner) {
	if heard < e.Lease {
		return nil, nil
	}
	for _, m := range e.Runners.list(func(m *member) bool { return m.Leaving || !m.LeftAt.IsZero() }) {
		switch {
		case m.over():
			over = append(over, m.Runner)
		case m.Leaving && m.LeftAt.IsZero() && time.Since(m.Heard) >= e.Lease:
			ended = append(ended, m.Runner)
		}
	}
	return ended, over
}

// part notes what parted found. What NATS does not take is tried again a second later.
func (e *Expiry) part(ctx context.Context, ended, over []fleet.Runner) {
	for _, m := range ended {
		if err := e.Leaving.leave(ctx, fleet.Farewell{RunnerID: m.ID(), Instance: m.Instance}, nobodyAsks); err != nil {
			e.Log.Warn("a runner's end is not noted; trying again", "runner", m.ID(), "err", err)
		}
	}
	for _, m := range over {
		same := func(now fleet.Runner) bool { return now.Instance == m.Instance && now.LeftAt.Equal(m.LeftAt) }
		if err := e.Leaving.remove(ctx, m.ID(), same); err != nil {
			e.Log.Warn("a runner that left is not removed; trying again", "runner", m.ID(), "err", err)
			continue
		}
		e.Log.Info("the grace of a runner that left is over", "runner", m.ID(), "agents", fleet.Names(m.Set))
	}
}
