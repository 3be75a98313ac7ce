package queues

import (
	"context"
	"log/slog"
	"sync"

	"ao/shared/runnerapi"

	"golang.org/x/sync/errgroup"
)

// Announcer tells runners of their queues, so that a new one is served at once and not at the next heartbeat.
type Announcer struct {
	Log     *slog.Logger
	Runners interface {
		OnlineMatches(runnerapi.RoutingKey) []string    // the online ones that satisfy it
		Runner(id string) (r runnerapi.Runner, ok bool) // a registered one
		Queues(runnerapi.Runner) []string               // that one takes from
		Command(ctx context.Context, runner string, cmd runnerapi.Command) (runnerapi.CommandReply, error)
	}
	Wake func() // has Reconcile called

	mu   sync.Mutex
	news map[string]bool // runners that are to be told
}

// Announce has the runners that satisfy w told of their queues.
func (a *Announcer) Announce(w runnerapi.RoutingKey) {
	takers := a.Runners.OnlineMatches(w)
	a.mu.Lock()
	if a.news == nil {
		a.news = map[string]bool{}
	}
	for _, id := range takers {
		a.news[id] = true
	}
	a.mu.Unlock()
	a.Wake()
}

// announcing is how many runners are told of their queues at once.
const announcing = 16

// Reconcile tells runners of their queues. However many queues are made, a runner is told ten times a second at most.
func (a *Announcer) Reconcile(ctx context.Context) error {
	a.mu.Lock()
	news := a.news
	a.news = nil
	a.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(announcing)
	for id := range news {
		r, ok := a.Runners.Runner(id)
		if !ok {
			continue
		}
		g.Go(func() error {
			cmd := runnerapi.Command{Type: runnerapi.CommandTaskQueues, Instance: r.Instance, TaskQueues: a.Runners.Queues(r)}
			if _, err := a.Runners.Command(ctx, id, cmd); err != nil {
				a.Log.Debug("queues not told; the next beat does", "runner", id, "err", err)
			}
			return nil
		})
	}
	return g.Wait()
}
