// Package stopping carries out the stop of a session's tree.
package stopping

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// Controller ends waiting runs, sends stop commands for claimed ones, and records suppressed callbacks. It acts on the
// projection, so records of other coordinators or a restart do no harm.
type Controller struct {
	History interface {
		Confirmed() bool
		StoppingTrees() iter.Seq[state.Active]
		SuppressedCallbacks() []state.PendingCallback
	}
	Ends interface {
		EndWaiting(ctx context.Context, a state.Active, status run.Status, f *fault.Fault) error
		Stop(ctx context.Context, a state.Active) error
	}
	Records interface {
		Suppress(ctx context.Context, o state.PendingCallback) error
		Passed(ctx context.Context, subj string) (passed, unreadable bool, err error)
	}
	Log *slog.Logger

	mu   sync.Mutex
	sent map[string]bool // by key: attempts with a stop record of their own; the lease controller repeats the command
}

// The most runs one pass stops, and how many of them at once. Others' writes come between passes.
const (
	stopsAtOnce  = 4
	stopsPerPass = 256
)

// Reconcile stops what is to be stopped.
func (c *Controller) Reconcile(ctx context.Context) error {
	for c.pass(ctx) {
	}
	return nil
}

// pass stops runs, and reports whether some are left for another pass.
func (c *Controller) pass(ctx context.Context) (more bool) {
	if !c.History.Confirmed() || ctx.Err() != nil {
		return false
	}
	var g errgroup.Group
	g.SetLimit(stopsAtOnce)
	due := c.due()
	var stopped atomic.Int32
	for _, a := range due[:min(len(due), stopsPerPass)] {
		g.Go(func() error {
			switch err := c.stop(ctx, a); {
			case err == nil:
				stopped.Add(1)
			case ctx.Err() == nil && !errors.Is(err, bus.ErrTaken): // otherwise it has changed, and is looked at again
				c.Log.Info("run not stopped with its tree yet, retrying", "run", a.Spec.ID, "err", err)
			}
			return nil
		})
	}
	for _, o := range c.History.SuppressedCallbacks() {
		g.Go(func() error {
			if err := c.suppress(ctx, o); err != nil && ctx.Err() == nil {
				c.Log.Warn("callbacks not suppressed yet, retrying", "session", o.Session, "err", err)
			}
			return nil
		})
	}
	g.Wait()
	return len(due) > stopsPerPass && stopped.Load() > 0 // if none could be stopped, a second later is soon enough
}

// suppress records that a parent is not called back. After a loss of records a record may be there that does not count:
// it cannot be read, or precedes the child's end. Then the next number is taken.
func (c *Controller) suppress(ctx context.Context, o state.PendingCallback) error {
	for next := o; ; next.Deliveries++ {
		err := c.Records.Suppress(ctx, next)
		if !errors.Is(err, bus.ErrTaken) {
			return err
		}
		if passed, _, err := c.Records.Passed(ctx, next.Subject()); err != nil || !passed || !c.suppressed(o) {
			return err
		}
	}
}

// suppressed reports whether the projection still wants that record.
func (c *Controller) suppressed(o state.PendingCallback) bool {
	return c.History.Confirmed() && slices.ContainsFunc(c.History.SuppressedCallbacks(),
		func(now state.PendingCallback) bool { return now.Subject() == o.Subject() }) && c.History.Confirmed()
}

// due returns the runs to stop that this process has not acted on: running ones first, then queued ones, then the rest.
func (c *Controller) due() []state.Active {
	var classes [3][]state.Active
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := make(map[string]bool, len(c.sent))
	for a := range c.History.StoppingTrees() {
		switch {
		case a.Claim == nil && a.QueuedSeq == 0:
			classes[2] = append(classes[2], a)
		case a.Claim == nil:
			classes[1] = append(classes[1], a)
		case c.sent[a.Key]:
			sent[a.Key] = true
		case a.Claim.RunnerID != "" && a.UnverifiedSeq == 0 && a.CarriedEndSeq == 0:
			// otherwise a coordinator is ending it
			classes[0] = append(classes[0], a)
		}
	}
	c.sent = sent
	return slices.Concat(classes[0], classes[1], classes[2])
}

// stop ends a waiting run, or has the runner of a claimed one stop it.
func (c *Controller) stop(ctx context.Context, a state.Active) error {
	if a.Claim == nil {
		return c.Ends.EndWaiting(ctx, a, run.Stopped, a.StoppedError())
	}
	if err := c.Ends.Stop(ctx, a); err != nil {
		return err
	}
	c.mu.Lock()
	c.sent[a.Key] = true
	c.mu.Unlock()
	return nil
}
