package coordinator

import (
	"ao/coordinator/journal"
	"ao/coordinator/ledger"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// insight wires what tells how things stand, and why. Nothing of it writes.
func (c *Coordinator) insight() {
	members := c.Registry.Members
	c.explainer = &explainer{
		source:  source{records: c.bus, key: c.keys.Of, told: func(m bus.Message) []run.Event { return c.Journal.Told(journal.Record(m)) }},
		history: c.Journal, past: c.reads, runners: c.Registry, queues: c.Queues, waits: c.Dispatch, heard: c.Hearing,
		members: members, parting: c.announced.Parting, ready: c.Ready, noMatch: c.NoMatch, most: c.MaxQueues,
	}
	c.overview = &overview{history: c.Journal, past: c.reads, runners: c.Registry, members: members, queues: c.Queues, began: c.Registry.Departed.Began, most: c.MaxPending}
	c.doctor = &doctor{
		nats: c.bus, history: c.Journal, past: c.reads, members: members, agents: c.Agents, waits: c.Dispatch,
		ready: c.Ready, noMatch: c.NoMatch, most: c.MaxPending,
	}
	c.auditor = &auditor{stream: c.bus, rules: ledger.Rules{Key: c.keys.Of, Checked: c.keys.Marked, Version: c.RecordVersion}}
	c.scrapes = &scrapes{
		metrics: c.Metrics, stream: c.bus, backups: c.bus.Bucket(subject.Secrets), history: c.Journal, status: c.overview.Status,
		members: members, views: c.Runners, agents: c.Agents, profileOf: c.Agents.ProfileOf,
		ready: c.Ready, lanes: c.Queues, pending: c.MaxPending, most: c.MaxQueues, tally: c.meters.tally,
	}
}

// metered makes the meters where somebody wants them, and gives what the journal tells its steps.
func (c *Coordinator) metered() func(journal.Step) {
	if c.Metrics == nil {
		return nil
	}
	c.meters = newMeters(c.Metrics, func(runner string) string { // its profile; empty: it is not registered
		m, _ := c.Registry.Of(runner)
		return m.ExecutorProfile
	})
	return c.meters.step
}
