package coordinator

import (
	"time"

	"ao/nats/subject"
	"ao/shared/fleet"
)

// wireQueues makes the table of queues, and who looks after queues and history.
func wireQueues(c *Coordinator) {
	c.news = &announcer{
		log: c.log, runners: c.fleet, command: c.commands.Command, wake: func() { c.scheduler.Wake(requeued) },
		queues: func(r fleet.Runner) []string { return c.queues.of(r) },
	}
	c.queues = (&queues{
		log: c.log, most: c.MaxQueues, entries: c.bus.Bucket(subject.Lanes), consumers: c.bus, history: c.Journal,
		caughtUp: c.reads.CaughtUp, own: c.fleet.own, announce: c.news.announce, insist: c.insist,
	}).begin()
	c.lanes = newTender(c)
	c.retained = &retention{log: c.log, keep: c.Keep, old: c.Retention, reported: c.Reports, stream: c.bus, history: c.Journal}
}

func newTender(c *Coordinator) *tender {
	return &tender{
		log: c.log, queues: c.queues, consumers: c.bus, history: c.Journal, runners: c.fleet, caughtUp: c.reads.CaughtUp,
		past:   func() [2]uint64 { return [2]uint64{c.bus.Generation(), c.Journal.Anew()} },
		silent: c.leases.hearing.Silent, judge: c.leases.judge,
		idle: map[string]idleness{}, orphans: map[string]time.Time{},
	}
}
