// Package lease fails attempts without a heartbeat for a lease, and knows which attempts had one.
package lease

import (
	"context"
	"iter"
	"sync"
	"time"

	"ao/coordinator/control/pool"
	"ao/coordinator/projection/state"
	"ao/shared/clock"
	"ao/shared/runnerapi"
)

// Controller fails an attempt only after a whole lease of uninterrupted listening.
type Controller struct {
	Config

	sent map[string]time.Time // stop commands sent, by key; Reconcile's alone
	pool *pool.Pool           // of rechecks, by key, so that no attempt of a runner waits for another

	mu     sync.Mutex
	ctx    context.Context // of RecheckAll
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Config is what a Controller works with.
type Config struct {
	History interface {
		Active(id string) (state.Active, bool)
		Claimed() iter.Seq[state.Active]
		ExpireIdle(lease time.Duration)
		Confirmed() bool
	}
	Ends interface {
		FailLost(ctx context.Context, a state.Active, why string) error
		IsCurrent(a state.Active) bool
	}
	Commands interface {
		Command(ctx context.Context, runner string, cmd runnerapi.Command) (runnerapi.CommandReply, error)
		SendStop(ctx context.Context, a state.Active)
		Proven(runner string, reply runnerapi.CommandReply) bool // the answer comes from the process that registered
	}
	Heartbeats *Heartbeats
}

// New returns a Controller.
func New(cfg Config) *Controller {
	c := &Controller{Config: cfg, sent: map[string]time.Time{}, pool: pool.New(pool.Config{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Wait returns when the rechecks that Reconcile started are done. Call it after the last Reconcile.
func (c *Controller) Wait() { c.pool.Wait() }

// WaitAll returns when the rechecks that RecheckAll started are done.
func (c *Controller) WaitAll() { c.wg.Wait() }

// Reconcile rechecks attempts whose lease has expired, and repeats stop commands. It does not wait: a late check counts
// as an interruption.
func (c *Controller) Reconcile(ctx context.Context) error {
	why := c.Heartbeats.interrupted()
	if why == "" && !c.History.Confirmed() {
		why = "not connected, or the projection lags"
	}
	if why != "" {
		c.Heartbeats.Restart(why, time.Now())
	}
	c.History.ExpireIdle(c.Heartbeats.lease)
	var underway []state.Active
	for a := range c.History.Claimed() {
		if a.UnverifiedSeq == 0 && a.CarriedEndSeq == 0 { // else its worker is done, or it has none any more
			underway = append(underway, a)
		}
	}
	expired := c.Heartbeats.expired(underway)
	for _, a := range c.stopping(underway) {
		go c.Commands.SendStop(ctx, a)
	}
	for _, a := range expired {
		c.pool.Go(ctx, a.Key, "",
			func(ctx context.Context) error { return c.Recheck(ctx, a, "no heartbeat within the lease") })
	}
	return nil
}

// stopping returns the attempts whose runner is to get the stop command again.
func (c *Controller) stopping(underway []state.Active) (all []state.Active) {
	sent := map[string]time.Time{}
	for _, a := range underway {
		if !a.Stopping {
			continue
		}
		sent[a.Key] = c.sent[a.Key]
		if time.Since(sent[a.Key]) > 2*time.Second {
			sent[a.Key] = time.Now()
			all = append(all, a)
		}
	}
	c.sent = sent
	return all
}

// Recheck asks the runner once more, and fails the attempt if the runner does not have it. An error means that NATS did
// not take the end record.
func (c *Controller) Recheck(ctx context.Context, a state.Active, why string) error {
	asked := time.Now().Add(2*time.Second - c.Heartbeats.lease)
	c.Heartbeats.Heard(a.Key, asked, false) // not twice at once; again soon if this fails
	reply, err := c.Commands.Command(ctx, a.Claim.RunnerID,
		runnerapi.Command{Type: runnerapi.CommandProbe, RunID: a.Spec.ID, Key: a.Key})
	if ctx.Err() != nil { // the caller is ending
		return ctx.Err()
	}
	if err == nil && reply.Has && reply.Instance == a.Claim.Instance && c.Commands.Proven(a.Claim.RunnerID, reply) {
		c.Heartbeats.Heard(a.Key, time.Now(), false)
		return nil
	}
	if heard, _, _ := c.Heartbeats.Of(a.Key); heard.After(asked) { // the runner was reached otherwise
		return nil
	}
	return c.Ends.FailLost(ctx, a, why)
}

// RecheckNow rechecks an attempt however long its lease. It retries until the attempt is decided, even while a cluster
// has no leader.
func (c *Controller) RecheckNow(ctx context.Context, a state.Active, why string) {
	for c.Recheck(ctx, a, why) != nil && clock.Sleep(ctx, time.Second) && c.Ends.IsCurrent(a) {
	}
}

// RecheckAll starts RecheckNow for each attempt, one after the other, and returns at once.
func (c *Controller) RecheckAll(all []state.Active, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	c.wg.Go(func() {
		for _, a := range all {
			c.RecheckNow(c.ctx, a, why)
		}
	})
}

// Close stops the rechecks that RecheckAll started, and waits for them.
func (c *Controller) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.wg.Wait()
}
