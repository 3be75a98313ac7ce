package coordinator

import (
	"context"
	"errors"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fleet"
)

// tend looks after the lanes every 30 s: a consumer that is missing, or past a run that nobody has, is made again; a lane
// that nobody serves and nobody needs goes. History and bodies that are too old go with it.
func (c *Coordinator) tend(ctx context.Context) error {
	idle := map[string]time.Time{}
	var swept time.Time
	return every(ctx, 30*time.Second, func(ctx context.Context) {
		if c.Journal.Ready() != nil || !c.bus.Connected() {
			return
		}
		c.heal(ctx)
		c.prune(ctx, idle)
		c.truncate(ctx)
		if time.Since(swept) > time.Hour { // it lists them all
			swept = time.Now()
			c.sweepPayloads(ctx, swept.Add(-time.Hour))
		}
	})
}

// truncate lets go of history: ended runs beyond RUN_KEEP, none younger than RUN_RETENTION, never past an open one. What
// several coordinators do at once is the same.
func (c *Coordinator) truncate(ctx context.Context) {
	before := c.Journal.Prunable(c.Keep, time.Now().Add(-c.Retention))
	if before == 0 {
		return
	}
	if err := c.bus.Truncate(ctx, before); err != nil {
		c.log.Warn("history not truncated; trying again", "before", before, "err", err)
		return
	}
	c.Journal.Forget(before)
	c.log.Info("history truncated", "before", before)
}

// heal makes sure that every queued run can still be delivered. Over-delivery is harmless: the claim decides.
func (c *Coordinator) heal(ctx context.Context) {
	oldest := map[string]uint64{} // by lane: its oldest queued run
	settled := time.Now().Add(-30 * time.Second)
	c.Journal.Pending(func(a journal.Active) bool {
		if at, ok := oldest[a.Lane]; a.Lane != "" && (!ok || a.QueuedSeq < at) && a.Spec.CreatedAt.Before(settled) {
			oldest[a.Lane] = a.QueuedSeq
		}
		return true
	})
	for lane, seq := range oldest {
		s, err := c.bus.LaneState(ctx, lane)
		switch {
		case errors.Is(err, bus.ErrNone):
		case err != nil:
			c.log.Warn("lane not looked at; trying again", "lane", lane, "err", err)
			continue
		case s.AckFloor >= seq, s.Delivered >= seq && s.AckPending == 0:
			c.log.Warn("a lane is past a run that nobody has; its consumer is made again", "lane", lane, "sequence", seq)
			if err := c.bus.DropLane(ctx, lane); err != nil {
				c.log.Warn("lane not mended; trying again", "lane", lane, "err", err)
				continue
			}
		default:
			continue
		}
		if err := c.bus.EnsureLane(ctx, lane, seq); err != nil {
			c.log.Warn("lane not mended; trying again", "lane", lane, "err", err)
		}
	}
}

// spare is how long a lane is kept that nobody serves and nobody needs.
const spare = 10 * time.Minute

// prune removes match lanes that are idle for long. A run that is queued there at this moment is found by heal.
func (c *Coordinator) prune(ctx context.Context, idle map[string]time.Time) {
	needed := map[string]bool{}
	c.Journal.Pending(func(a journal.Active) bool {
		needed[a.Lane] = true
		return true
	})
	now := time.Now()
	for lane, w := range c.fleet.unserved() {
		since, ok := idle[lane]
		switch {
		case needed[lane] || w.Base():
			delete(idle, lane)
		case !ok:
			idle[lane] = now
		case now.Sub(since) > spare:
			delete(idle, lane)
			if err := c.bus.Bucket(subject.Lanes).Delete(ctx, lane); err != nil && !errors.Is(err, bus.ErrNone) {
				continue
			}
			c.fleet.putLane(lane, nil)
			if err := c.bus.DropLane(ctx, lane); err != nil {
				c.log.Warn("idle lane not removed", "lane", lane, "err", err)
			}
		}
	}
}

// unserved are the lanes that no registered runner satisfies.
func (r *roster) unserved() map[string]fleet.Want {
	r.mu.RLock()
	defer r.mu.RUnlock()
	none := map[string]fleet.Want{}
lanes:
	for lane, w := range r.lanes {
		for _, m := range r.members {
			if m.Satisfies(w) {
				continue lanes
			}
		}
		none[lane] = w
	}
	return none
}

// sweepPayloads drops bodies that no run names any more: of history that was truncated, of attempts that were given up while
// they stored theirs, of creations that failed half-way. What is younger than a moment may be about to be named.
func (c *Coordinator) sweepPayloads(ctx context.Context, old time.Time) {
	err := c.bus.DropPayloads(ctx, func(name string, at time.Time) bool {
		id := runOf(name)
		_, open := c.Journal.Active(id)
		return at.Before(old) && !open && !c.Journal.Ended(id)
	})
	if err != nil {
		c.log.Warn("payloads of no run not removed; trying again", "err", err)
	}
}
