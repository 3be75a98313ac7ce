package parts

import (
	"context"
	"encoding/json"

	"ao/coordinator/insight/doctor"
	"ao/coordinator/insight/explain"
	"ao/coordinator/insight/metrics"
	"ao/coordinator/insight/status"
	"ao/coordinator/ledger"
	"ao/coordinator/preview"
	"ao/coordinator/projection"
	"ao/nats/subject"
)

// insight wires what tells how things stand, and why. Nothing of it writes.
func (c *Coordinator) insight() {
	members := c.Registry.Members
	c.Explainer = &explain.Explainer{
		Source:  explain.Source{Records: c.bus, Key: c.keys.Of, Told: c.History.VisibleEvents},
		History: c.History, Past: c.reads, Runners: c.Registry, Queues: c.Queues, Waits: c.Dispatch, Heard: c.Hearing,
		Members: members, Parting: c.announced.Departure, Ready: c.Ready, NoMatch: c.NoMatch, Most: c.MaxQueues,
	}
	c.Preview = &preview.Previewer{
		WholeOnly: c.WholeOnly, Runners: c.Explainer.Candidates,
		Named: func(ctx context.Context, name string) (json.RawMessage, error) {
			s, err := c.Schemas.Schema(ctx, name)
			return s.Schema, err
		},
		Agent: c.Agents.Get,
	}
	c.Overview = &status.Overview{History: c.History, Past: c.reads, Runners: c.Registry, Members: members,
		Queues: c.Queues, Began: c.Registry.Departed.StartedAt, Most: c.MaxPending}
	c.Doctor = &doctor.Doctor{
		NATS: c.bus, History: c.History, Past: c.reads, Members: members, Agents: c.Agents, Waits: c.Dispatch,
		Ready: c.Ready, NoMatch: c.NoMatch, Most: c.MaxPending,
	}
	c.Auditor = &ledger.Auditor{Stream: c.bus, Rules: ledger.Rules{Key: c.keys.Of, Checked: c.keys.ValidChecked,
		Version: c.RecordVersion}}
	c.scrapes = &metrics.Scrapes{
		Metrics: c.Metrics, Stream: c.bus, Backups: c.bus.Bucket(subject.Secrets), History: c.History,
		Status:  c.Overview.Status,
		Members: members, Views: c.Runners, Agents: c.Agents, ProfileOf: c.Agents.ProfileOf,
		Ready: c.Ready, Lanes: c.Queues, Pending: c.MaxPending, Most: c.MaxQueues, Tally: c.meters,
	}
}

// metered makes the meters where somebody wants them, and gives what the projection tells its steps.
func (c *Coordinator) metered() func(projection.Step) {
	if c.Metrics == nil {
		return nil
	}
	c.meters = metrics.New(c.Metrics, func(runner string) string { // its profile; empty: it is not registered
		m, _ := c.Registry.Runner(runner)
		return m.ExecutorProfile
	})
	return c.meters.Step
}
