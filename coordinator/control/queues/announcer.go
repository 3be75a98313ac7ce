package queues

import (
	"context"
	"log/slog"
	"sync"

	"ao/shared/fleet"

	"golang.org/x/sync/errgroup"
)

// Announcer tells runners of their queues, so that a new one is served at once and not at the next heartbeat.
type Announcer struct {
	Log     *slog.Logger
	Takers  func(fleet.Want) []string                 // the online runners that satisfy it
	Runner  func(id string) (r fleet.Runner, ok bool) // a registered one
	Queues  func(fleet.Runner) []string               // that a runner takes from
	Command func(ctx context.Context, runner string, cmd fleet.Command) (fleet.CommandReply, error)
	Wake    func() // has Reconcile called

	mu   sync.Mutex
	news map[string]bool // runners that are to be told
}

// Announce has the runners that satisfy w told of their queues.
func (a *Announcer) Announce(w fleet.Want) {
	takers := a.Takers(w)
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
		r, ok := a.Runner(id)
		if !ok {
			continue
		}
		g.Go(func() error {
			cmd := fleet.Command{Type: fleet.CommandLanes, Instance: r.Instance, Lanes: a.Queues(r)}
			if _, err := a.Command(ctx, id, cmd); err != nil {
				a.Log.Debug("queues not told; the next beat does", "runner", id, "err", err)
			}
			return nil
		})
	}
	return g.Wait()
}
