package dispatch

import (
	"context"
	"time"

	"ao/coordinator/projection/state"
)

// What the tests of the controller see of it, and do to its clock.

type Wait = waitState

func (w *waitState) Move(now time.Time) bool { return w.mayMove(now) }

func (c *Controller) Queue(ctx context.Context, due []state.Active) { c.queue(ctx, due) }

// Swept is when all that waits was looked at last.
func (c *Controller) Swept() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sweptAt
}

// Paused makes a run that was seen waiting have waited for so long, without a scan since then.
func (c *Controller) Paused(run string, d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waits[run]
	if w == nil || c.unmatched[w.queue].IsZero() {
		return false
	}
	long := time.Now().Add(-d)
	w.since, c.unmatched[w.queue], c.sweptAt = long, long, long
	return true
}
