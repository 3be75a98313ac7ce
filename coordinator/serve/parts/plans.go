package parts

import (
	"context"
	"time"

	"ao/coordinator/control"
	"ao/coordinator/control/completion"
	"ao/coordinator/control/damage"
	"ao/coordinator/control/lease"
	"ao/coordinator/control/queues"
	"ao/coordinator/control/retention"
)

// plans lists the controllers and what wakes them. Those marked sure do nothing while the history is being read or NATS
// has not confirmed it.
func (c *Coordinator) plans() []control.Plan {
	sure := func() bool { return c.History.Confirmed() && c.Highwater.Held() == nil }
	return []control.Plan{
		{Name: "leases", Do: c.Leases, Every: lease.Every}, // also where nothing is sure: it begins to listen anew then
		{Name: "dispatch", Do: c.Dispatch, Wakes: turnDue | registered | certain, Every: time.Second, Allowed: sure},
		{Name: "result check", Do: c.Checking, Wakes: offered | certain, Every: time.Second, Allowed: sure},
		{Name: "callbacks", Do: c.Telling, Wakes: callbackDue | certain, Every: time.Second, Allowed: sure},
		{Name: "webhooks", Do: c.Posting, Wakes: webhookDue | certain, Every: c.Posting.Pace(), Allowed: sure},
		{Name: "stopping", Do: newStopping(c), Wakes: halted | certain, Every: time.Second, Allowed: sure},
		{Name: "completion", Do: newCompletion(c), Every: completion.Every, Allowed: sure},
		{Name: "expiry", Do: c.Expiry, Every: time.Second},
		{Name: "queues", Do: c.QueueController, Every: 250 * time.Millisecond, Allowed: sure},
		{Name: "closing", Do: control.Func(c.Queues.CloseDue), Every: queues.ClosingEvery},
		{Name: "announcing", Do: c.news, Wakes: requeued, Every: time.Minute, Rest: 100 * time.Millisecond},
		{Name: "damage", Do: newDamage(c), Every: damage.Every},
		{Name: "retention", Do: c.retained, Wakes: payloadsShort, Every: retention.Every, Rest: time.Second,
			Allowed: sure},
		{Name: "payloads", Do: c.payloads, Every: min(c.heartbeatInterval(), 5*time.Second)},
		{Name: "room", Do: c.room, Every: min(c.heartbeatInterval(), 5*time.Second)},
		{Name: "versions", Do: c.versions, Every: c.versions.Pace()},
	}
}

// reconcile runs the controllers until ctx ends and their work is done.
func (c *Coordinator) reconcile(ctx context.Context) error {
	c.QueueController.Begin()
	c.Hearing.Restart("start", time.Now())
	c.scheduler.Run(ctx)
	for _, p := range []interface{ Wait() }{c.Checking.Pool, c.Telling.Pool, c.Posting, c.Leases} {
		p.Wait()
	}
	return nil
}

// Metadata returns what the coordinator's NATS service tells other coordinators.
func (c *Coordinator) Metadata() map[string]string { return c.versions.Metadata() }
