package coordinator

import (
	"context"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/coordinator/journal"
	"ao/coordinator/schemas"
	"ao/nats/subject"
	"ao/shared/fleet"
)

// wireRoster makes who is registered.
func wireRoster(c *Coordinator) {
	bucket := c.bus.Bucket(subject.Runners)
	c.fleet = &roster{
		log: c.log, lease: c.Lease, noMatch: c.NoMatch, patience: c.Patience, bucket: bucket, insist: c.insist,
		changed:  func() { c.scheduler.Wake(registered) },
		departed: &departures{within: c.NoMatch, began: time.Now(), left: map[[2]string]time.Time{}, gone: map[string]time.Time{}},
		members:  map[string]*member{}, matched: map[string]bool{},
	}
	c.registered = &registrations{bucket: bucket, note: c.fleet.put}
	c.names = &names{
		bucket: bucket, runners: c.fleet, registered: c.registered,
		taken: func(name string) bool { return c.Agents.Has(name) },
	}
	c.announced = &announced{runners: c.fleet, names: c.names}
}

// defining makes who knows the definitions of agents and output schemas.
func (c *Coordinator) defining() {
	c.Schemas = &schemas.Store{Log: c.log, Bucket: c.bus.Bucket(subject.Schemas), Naming: func(ctx context.Context, schema string) ([]string, error) {
		return c.Agents.Naming(ctx, schema)
	}}
	c.Agents = agents.New(agents.Config{
		Log: c.log, Dirs: c.AgentsDirs, Bucket: c.bus.Bucket(subject.Agents), Insist: c.insist, Runners: c.announced, Ready: c.Registries,
		Schema: func(ctx context.Context, name string) error {
			_, err := c.Schemas.Schema(ctx, name)
			return err
		},
	})
}

// wireRunners makes how runners come and go.
func wireRunners(c *Coordinator) {
	attempts := func(runner string) []journal.Active { return begunBy(c.Journal, runner) }
	c.leaving = &leaving{log: c.log, runners: c.fleet, registered: c.registered, names: c.names, commands: c.commands}
	c.registrar = &registrar{
		log: c.log, lease: c.Lease, heartbeat: c.Heartbeat, beatEvery: c.beatEvery(), most: c.MaxRunners, apiURL: c.PublicURL,
		runners: c.fleet, registered: c.registered, names: c.names, commands: c.commands, queues: c.queues,
		versions: func() (records, events int) { return c.versions.Told(), c.versions.EventsTold() },
		attempts: attempts, running: func() map[string]int { return begunCounts(c.Journal) }, abandon: c.leases.giveUp,
	}
	c.expiry = &expiry{
		log: c.log, patience: c.Patience.Remove, lease: c.Lease, connection: c.bus, runners: c.fleet, leaving: c.leaving,
		attempts: attempts, abandon: c.leases.outright,
		removed: func(runner string) {
			c.Audit.Note(audit.Entry{Door: audit.Clock, Actor: &audit.Actor{Kind: audit.Coordinator}, Action: audit.Removed, Targets: audit.Targets{Runner: runner}})
		},
	}
}

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
		silent: c.hearing.Silent, judge: c.leases.judge,
		idle: map[string]idleness{}, orphans: map[string]time.Time{},
	}
}
