package webhook

import (
	"context"
	"time"

	"ao/coordinator/projection/state"
)

// What the tests of the controller see of it, and do to its clock.

const HostTries = maxHostTries

type Taken = taken

func (c *Controller) Look(now time.Time) []state.Webhook             { return c.due(now) }
func (c *Controller) Try(ctx context.Context, d state.Webhook) error { return c.try(ctx, d) }
func (c *Controller) Rest(d state.Webhook, pause time.Duration)      { c.backOff(d, pause) }

// Rests reports whether no attempt is made or backs off.
func (c *Controller) Rests() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.Pool.Busy())+len(c.backoffs) == 0
}

// Theirs reports whether an attempt is left to another coordinator.
func (c *Controller) Theirs(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backoffs[id].rev != 0
}

// Age lets the time go by after which a try of another is overdue, once it was seen.
func (c *Controller) Age(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.backoffs[id]
	if ok && b.rev != 0 {
		b.since, b.until = b.since.Add(-takeoverAfter), b.until.Add(-takeoverAfter)
		c.backoffs[id] = b
	}
	return ok && b.rev != 0
}

// SeenLongAgo makes another coordinator's attempt overdue.
func (c *Controller) SeenLongAgo(id string, rev uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backoffs[id] = backoffState{rev: rev, since: time.Now().Add(-takeoverAfter)}
}

// Forget removes all backoffs.
func (c *Controller) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.backoffs)
}
