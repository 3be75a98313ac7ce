package parts

import (
	"context"
	"encoding/json"

	"ao/coordinator/highwater"
	"ao/coordinator/insight/doctor"
	"ao/coordinator/insight/explain"
	"ao/coordinator/insight/metrics"
	"ao/coordinator/insight/status"
	"ao/coordinator/ledger"
	"ao/coordinator/preview"
	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/subject"
)

// wireInsight wires what explains the state. It writes nothing.
func (c *Coordinator) wireInsight() {
	members := c.Registry.Members
	c.Explainer = &explain.Explainer{
		Source:  explain.Source{Records: c.bus, Key: c.keys.Of, Events: c.History.VisibleEvents},
		History: c.History, Past: c.reads, Runners: c.Registry, Queues: c.Queues, Waits: c.Dispatch, Heard: c.Hearing,
		Members: members, Parting: c.runnerAgents.Departure,
		StoppedWith: runs.TreeStops{History: c.History, Stream: c.bus}.StoppedWith,
		Ready:       c.Ready, NoMatch: c.NoMatch, Most: c.MaxQueues,
	}
	c.Preview = &preview.Previewer{
		WholeOnly: c.WholeOnly, Runners: c.Explainer.Candidates,
		NamedSchema: func(ctx context.Context, name string) (json.RawMessage, error) {
			s, err := c.Schemas.Schema(ctx, name)
			return s.Schema, err
		},
		Embed: c.Schemas.Embed, Agent: c.Agents.Get,
	}
	c.Overview = &status.Overview{History: c.History, Past: c.reads, Runners: c.Registry, Members: members,
		Queues: c.Queues, Began: c.Registry.Departed.StartedAt, MaxPending: c.MaxPending}
	c.Doctor = &doctor.Doctor{
		NATS: c.bus, History: c.History, Past: c.reads, Members: members, Agents: c.Agents, Waits: c.Dispatch,
		BrokenSchemas: c.Schemas.BrokenFiles,
		Ready:         c.Ready, NoMatch: c.NoMatch, MaxPending: c.MaxPending, Damages: c.Highwater.Damages,
	}
	c.Auditor = &ledger.Auditor{Stream: c.bus, Rules: ledger.Rules{Key: c.keys.Of, Checked: c.keys.ValidChecked,
		Version: c.RecordVersion}, Mark: c.Highwater}
	c.scrapes = &metrics.Scrapes{
		Metrics: c.Metrics, Stream: c.bus, Backups: c.bus.Bucket(subject.Secrets), History: c.History,
		Status:  c.Overview.Status,
		Members: members, Views: c.Runners, Agents: c.Agents, ProfileOf: c.Agents.ProfileOf,
		Ready: c.Ready, Missing: func() uint64 { return highwater.Missing(c.Highwater.Damages()) }, Queues: c.Queues,
		MaxPending: c.MaxPending, MaxQueues: c.MaxQueues, Tally: c.meters, MaxStore: c.MaxStore,
	}
}

// newMeters makes the meters if metrics are wanted. It returns the function that gets the steps of the projection.
func (c *Coordinator) newMeters() func(state.Step) {
	if c.Metrics == nil {
		return nil
	}
	c.meters = metrics.New(c.Metrics, func(runner string) string { // the runner's profile; empty: it is not registered
		m, _ := c.Registry.Runner(runner)
		return m.ExecutorProfile
	})
	return c.meters.Step
}
