package coordinator

import (
	"context"
	"log/slog"
	"sync"

	"ao/coordinator/runners"
	"ao/shared/fleet"

	"golang.org/x/sync/errgroup"
)

// announcer tells runners of their queues, so that a new one is served at once and not at the next heartbeat.
type announcer struct {
	log     *slog.Logger
	runners interface {
		Of(id string) (runners.Member, bool)
		Takers(fleet.Want) []string // online ones
	}
	queues  func(fleet.Runner) []string // that a runner takes from
	command func(ctx context.Context, runner string, cmd fleet.Command) (fleet.CommandReply, error)
	wake    func() // has Reconcile called

	mu   sync.Mutex
	news map[string]bool // runners that are to be told
}

// announce has the runners that satisfy w told of their queues.
func (a *announcer) announce(w fleet.Want) {
	takers := a.runners.Takers(w)
	a.mu.Lock()
	if a.news == nil {
		a.news = map[string]bool{}
	}
	for _, id := range takers {
		a.news[id] = true
	}
	a.mu.Unlock()
	a.wake()
}

// announcing is how many runners are told of their queues at once.
const announcing = 16

// Reconcile tells runners of their queues. However many queues are made, a runner is told ten times a second at most.
func (a *announcer) Reconcile(ctx context.Context) error {
	a.mu.Lock()
	news := a.news
	a.news = nil
	a.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(announcing)
	for id := range news {
		m, ok := a.runners.Of(id)
		if !ok {
			continue
		}
		g.Go(func() error {
			cmd := fleet.Command{Type: fleet.CommandLanes, Instance: m.Instance, Lanes: a.queues(m.Runner)}
			if _, err := a.command(ctx, id, cmd); err != nil {
				a.log.Debug("lanes not told; the next beat does", "runner", id, "err", err)
			}
			return nil
		})
	}
	return g.Wait()
}
