package queues

import (
	"context"
	"log/slog"
	"sync"

	"ao/shared/runnerapi"

	"golang.org/x/sync/errgroup"
)

// Announcer sends runners their queues, so that a new queue is served at once and not after the next heartbeat.
type Announcer struct {
	Log     *slog.Logger
	Runners interface {
		OnlineMatches(runnerapi.RoutingKey) []string    // online runners that meet it
		Runner(id string) (m runnerapi.Member, ok bool) // a registered one
		Command(ctx context.Context, runner string, cmd runnerapi.Command) (runnerapi.CommandReply, error)
	}
	Queues func(runnerapi.Runner) []string // that a runner takes from
	Wake   func()                          // has Reconcile called

	mu      sync.Mutex
	pending map[string]bool // runners to send them to
}

// Announce lets Reconcile send their queues to the runners that meet w.
func (a *Announcer) Announce(w runnerapi.RoutingKey) {
	takers := a.Runners.OnlineMatches(w)
	a.mu.Lock()
	if a.pending == nil {
		a.pending = map[string]bool{}
	}
	for _, id := range takers {
		a.pending[id] = true
	}
	a.mu.Unlock()
	a.Wake()
}

// maxConcurrent is to how many runners it sends at once.
const maxConcurrent = 16

// Reconcile sends runners their queues. The scheduler limits this to ten times a second.
func (a *Announcer) Reconcile(ctx context.Context) error {
	a.mu.Lock()
	pending := a.pending
	a.pending = nil
	a.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(maxConcurrent)
	for id := range pending {
		m, ok := a.Runners.Runner(id)
		if !ok {
			continue
		}
		g.Go(func() error {
			cmd := runnerapi.Command{Type: runnerapi.CommandTaskQueues, Instance: m.Instance,
				TaskQueues: a.Queues(m.Runner)}
			if _, err := a.Runners.Command(ctx, id, cmd); err != nil {
				a.Log.Debug("queues not sent to a runner; the next heartbeat does", "runner", id, "err", err)
			}
			return nil
		})
	}
	return g.Wait()
}
