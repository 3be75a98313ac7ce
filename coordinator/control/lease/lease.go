// Package lease gives up the attempts that are silent for a lease, and knows of whom something was heard.
package lease

import (
	"context"
	"sync"
	"time"

	"ao/coordinator/control/pool"
	"ao/coordinator/projection"
	"ao/shared/runnerapi"
)

// Controller judges only after one uninterrupted lease of listening.
type Controller struct {
	Config

	told map[string]time.Time // stop commands sent, by key: Reconcile's alone
	pool *pool.Pool           // of judges, by key: however many attempts a runner had, none waits for another

	mu   sync.Mutex
	life context.Context // of what Abandon began
	die  context.CancelFunc
	wg   sync.WaitGroup
}

// Config is what a Controller works with.
type Config struct {
	History interface {
		Active(id string) (projection.Active, bool)
		Claimed(func(projection.Active) bool)
		ExpireIdle(lease time.Duration)
		Confirmed() bool
	}
	Ends interface {
		FailLost(ctx context.Context, a projection.Active, why string) error
		IsCurrent(a projection.Active) bool
	}
	Commands interface {
		Command(ctx context.Context, runner string, cmd runnerapi.Command) (runnerapi.CommandReply, error)
		SendStop(ctx context.Context, a projection.Active)
		Proven(runner string, reply runnerapi.CommandReply) bool // the answer is of the process that registered
	}
	Heartbeats *Heartbeats
}

// New makes a Controller.
func New(cfg Config) *Controller {
	c := &Controller{Config: cfg, told: map[string]time.Time{}, pool: pool.New(pool.Config{})}
	c.life, c.die = context.WithCancel(context.Background())
	return c
}

// Wait waits until the judges that Reconcile called are done. Who calls it has ended before.
func (c *Controller) Wait() { c.pool.Wait() }

// Abandoned waits until what Abandon began is over.
func (c *Controller) WaitAll() { c.wg.Wait() }

// Reconcile gives up what was silent for a lease, and repeats to runners what they are to stop. It waits for nothing: a look that comes
// late counts as an interruption.
func (c *Controller) Reconcile(ctx context.Context) error {
	why := c.Heartbeats.interrupted()
	if why == "" && !c.History.Confirmed() {
		why = "not connected, or the fold lags"
	}
	if why != "" {
		c.Heartbeats.Restart(why, time.Now())
	}
	c.History.ExpireIdle(c.Heartbeats.lease)
	var underway []projection.Active
	c.History.Claimed(func(a projection.Active) bool {
		if a.UnverifiedSeq == 0 && a.CarriedEndSeq == 0 { // else its worker has done its part, or has none any more
			underway = append(underway, a)
		}
		return true
	})
	lost := c.Heartbeats.lost(underway)
	for _, a := range c.stopping(underway) {
		go c.Commands.SendStop(ctx, a)
	}
	for _, a := range lost {
		c.pool.Go(ctx, a.Key, "", func(ctx context.Context) error { return c.Recheck(ctx, a, "no heartbeat within the lease") })
	}
	return nil
}

// stopping are those of the attempts under way whose runner is to be told again that they are to be stopped.
func (c *Controller) stopping(underway []projection.Active) (all []projection.Active) {
	told := map[string]time.Time{}
	for _, a := range underway {
		if !a.Stopping {
			continue
		}
		if told[a.Key] = c.told[a.Key]; time.Since(told[a.Key]) > 2*time.Second {
			told[a.Key] = time.Now()
			all = append(all, a)
		}
	}
	c.told = told
	return all
}

// Judge asks the runner once more, and gives the attempt up where it does not have it. An error: NATS did not take that.
func (c *Controller) Recheck(ctx context.Context, a projection.Active, why string) error {
	c.Heartbeats.Heard(a.Key, time.Now().Add(2*time.Second-c.Heartbeats.lease), false) // not twice at once; again soon if this fails
	reply, err := c.Commands.Command(ctx, a.Claim.RunnerID, runnerapi.Command{Type: runnerapi.CommandProbe, RunID: a.Spec.ID, Key: a.Key})
	if ctx.Err() != nil { // who asks is ending
		return ctx.Err()
	}
	if err == nil && reply.Has && reply.Instance == a.Claim.Instance && c.Commands.Proven(a.Claim.RunnerID, reply) {
		c.Heartbeats.Heard(a.Key, time.Now(), false)
		return nil
	}
	return c.Ends.FailLost(ctx, a, why)
}

// Outright judges an attempt whose lease may go on for long. What NATS does not take, because a cluster has no leader, it says again.
func (c *Controller) RecheckNow(ctx context.Context, a projection.Active, why string) {
	for c.Recheck(ctx, a, why) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if !c.Ends.IsCurrent(a) {
			return
		}
	}
}

// Abandon judges attempts outright, one after the other, beside who asks for it.
func (c *Controller) RecheckAll(all []projection.Active, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return
	}
	c.wg.Go(func() {
		for _, a := range all {
			c.RecheckNow(c.life, a, why)
		}
	})
}

// End ends what Abandon began.
func (c *Controller) Close() {
	c.mu.Lock()
	c.die()
	c.mu.Unlock()
	c.wg.Wait()
}
