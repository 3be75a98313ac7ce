// Package stopping does what follows from the stop of a tree.
package stopping

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// Controller ends what waits, tells the runners of what they have, and notes of whom no parent
// is told. It acts on what the fold says, so a record of a racing coordinator, or a restart, changes nothing.
type Controller struct {
	History interface {
		Confirmed() bool
		StoppingTrees(func(projection.Active) bool)
		SuppressedCallbacks() []projection.PendingCallback
	}
	Ends interface {
		EndWaiting(ctx context.Context, a projection.Active, status run.Status, f *fault.Fault) error
		Stop(ctx context.Context, a projection.Active) error
	}
	Records interface {
		Suppress(ctx context.Context, o projection.PendingCallback) error
	}
	Log *slog.Logger

	mu   sync.Mutex
	told map[string]bool // by key: attempts whose stop is a record of its own; the leases repeat that to the runner
}

// A look stops so many runs, so many of them at once: others' writes come between them.
const (
	stopsAtOnce = 4
	stopsALook  = 256
)

// Reconcile stops what is to be stopped.
func (c *Controller) Reconcile(ctx context.Context) error {
	for c.look(ctx) {
	}
	return nil
}

// look stops runs, and reports whether it left some for the next look.
func (c *Controller) look(ctx context.Context) (more bool) {
	if !c.History.Confirmed() || ctx.Err() != nil {
		return false
	}
	var g errgroup.Group
	g.SetLimit(stopsAtOnce)
	due := c.due()
	var stopped atomic.Int32
	for _, a := range due[:min(len(due), stopsALook)] {
		g.Go(func() error {
			switch err := c.stop(ctx, a); {
			case err == nil:
				stopped.Add(1)
			case ctx.Err() == nil && !errors.Is(err, bus.ErrTaken): // else it has changed, and is looked at again
				c.Log.Info("run not stopped with its tree yet; trying again", "run", a.Spec.ID, "err", err)
			}
			return nil
		})
	}
	for _, o := range c.History.SuppressedCallbacks() {
		g.Go(func() error {
			if err := c.Records.Suppress(ctx, o); err != nil && ctx.Err() == nil {
				c.Log.Warn("callbacks not suppressed yet; trying again", "session", o.Session, "err", err)
			}
			return nil
		})
	}
	g.Wait()
	return len(due) > stopsALook && stopped.Load() > 0 // where none can be, the next second will do
}

// due are the runs to be stopped that nobody here has acted on: first those that run, then those that a worker could take, then the others.
func (c *Controller) due() []projection.Active {
	var classes [3][]projection.Active
	c.mu.Lock()
	defer c.mu.Unlock()
	told := make(map[string]bool, len(c.told))
	c.History.StoppingTrees(func(a projection.Active) bool {
		switch {
		case a.Claim == nil && a.QueuedSeq == 0:
			classes[2] = append(classes[2], a)
		case a.Claim == nil:
			classes[1] = append(classes[1], a)
		case c.told[a.Key]:
			told[a.Key] = true
		case a.Claim.RunnerID != "" && a.UnverifiedSeq == 0 && a.CarriedEndSeq == 0: // else a coordinator ends it
			classes[0] = append(classes[0], a)
		}
		return true
	})
	c.told = told
	return slices.Concat(classes[0], classes[1], classes[2])
}

// stop ends a run that waits, and has the runner of one that was begun stop it.
func (c *Controller) stop(ctx context.Context, a projection.Active) error {
	if a.Claim == nil {
		return c.Ends.EndWaiting(ctx, a, run.Stopped, a.StoppedError())
	}
	if err := c.Ends.Stop(ctx, a); err != nil {
		return err
	}
	c.mu.Lock()
	c.told[a.Key] = true
	c.mu.Unlock()
	return nil
}
