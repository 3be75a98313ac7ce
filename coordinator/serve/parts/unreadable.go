package parts

import (
	"context"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"
)

// bucketCheckInterval is how long a start may take until it is looked why.
const bucketCheckInterval = 3 * time.Second

// explainStart reports keys of buckets that NATS counts and does not give, in the log and over GET /ready. Registries
// wait for them. It changes nothing, and returns once the coordinator has started.
func (c *Coordinator) explainStart(ctx context.Context) error {
	for clock.Sleep(ctx, bucketCheckInterval) && !c.started.Load() {
		err := c.checkBuckets(ctx)
		if err != nil && c.unreadable.Swap(err) == nil {
			c.log.Error("the coordinator cannot start", "err", err)
		}
	}
	return nil
}

// checkBuckets returns an error if a bucket that is read at the start has an unreadable key; nil: none is known to.
func (c *Coordinator) checkBuckets(ctx context.Context) *fault.Fault {
	for _, b := range []struct{ name, helps string }{
		{subject.Agents, "Restore a backup with 'ao restore'"},
		{subject.Runners, "Empty it with 'nats stream purge KV_runners': runners register again"},
		{subject.TaskQueues, "Empty it with 'nats stream purge KV_lanes': runs make their queues again"},
	} {
		keys, err := c.bus.Bucket(b.name).Unreadable(ctx)
		if err == nil && len(keys) > 0 {
			return fault.Newf(fault.Unavailable, "starting: NATS cannot read what it has of the bucket %s (key %s); "+
				"its disk may be damaged. %s", b.name, strings.Join(keys, ", "), b.helps).After(10 * time.Second)
		}
	}
	return nil
}

// starting says that the coordinator is starting, or why it cannot.
func (c *Coordinator) starting() error {
	if why := c.unreadable.Load(); why != nil {
		return why
	}
	return errStarting
}
