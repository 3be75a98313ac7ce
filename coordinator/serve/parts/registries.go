package parts

import (
	"context"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/coordinator/control/expiry"
	"ao/coordinator/control/lease"
	"ao/coordinator/control/queues"
	"ao/coordinator/control/retention"
	"ao/coordinator/drafts"
	"ao/coordinator/highwater"
	"ao/coordinator/record"
	"ao/coordinator/runners"
	"ao/coordinator/schemas"
	"ao/nats/subject"
	"ao/shared/runnerapi"
)

// wireRegistry wires the registry of runners.
func wireRegistry(c *Coordinator) {
	bucket := c.bus.Bucket(subject.Runners)
	c.Registry = runners.New(runners.Config{
		Log: c.log, Lease: c.Lease, NoMatch: c.NoMatch, Thresholds: c.Patience, Bucket: bucket,
		Retry:     c.retryUntilAvailable,
		Changed:   func() { c.scheduler.Wake(registered) },
		Listening: func() time.Duration { return c.Hearing.Listening() },
	})
	c.registered = &runners.Registrations{Bucket: bucket, Registry: c.Registry}
	c.runnerAgents = &runners.RunnerAgents{Runners: c.Registry, Names: &runners.Names{
		Bucket: bucket, Runners: c.Registry, Registered: c.registered,
		Taken: func(name string) bool { return c.Agents.Has(name) },
	}}
}

// wireDefinitions wires agents and output schemas.
func (c *Coordinator) wireDefinitions() {
	c.Schemas = &schemas.Store{Log: c.log, Dir: c.SchemasDir, Bucket: c.bus.Bucket(subject.Schemas),
		UsersByName: c.schemaUsers,
		AgentsUsing: func(ctx context.Context, schema string) ([]string, error) {
			return c.Agents.UsingSchema(ctx, schema)
		}}
	c.Drafts = &drafts.Store{
		Log: c.log, Bucket: c.bus.Bucket(subject.Drafts), Ready: func() bool { return c.Registries() == nil },
		Editable: func(ctx context.Context, name string) error { return c.Agents.Editable(ctx, name) },
		Exists:   func(name string) bool { return c.Agents.Exists(name) },
	}
	c.Agents = agents.New(agents.Config{
		Log: c.log, Dirs: c.AgentsDirs, Write: c.AgentsWritable, Seed: c.AgentsSeed,
		Bucket: c.bus.Bucket(subject.Agents), Retry: c.retryUntilAvailable, Runners: c.runnerAgents,
		Ready:    c.Registries,
		OnDelete: c.Drafts.Forget, Schemas: c.Schemas,
	})
}

// schemaUsers returns the agents that name or refer to a schema, by the schema's name.
func (c *Coordinator) schemaUsers() (map[string][]string, error) {
	all, err := c.Agents.Agents("")
	users := map[string][]string{}
	for _, b := range all {
		for _, name := range b.SchemaNames() {
			users[name] = append(users[name], b.Name)
		}
	}
	return users, err
}

// wireRunners wires how runners register, drain and expire.
func wireRunners(c *Coordinator) {
	c.Deregistrar = &runners.Deregistrar{Log: c.log, Runners: c.Registry, Registered: c.registered,
		Names: c.runnerAgents.Names, Commands: c.commands}
	c.Registrar = &runners.Registrar{
		Log: c.log, Lease: c.Lease, Heartbeat: c.Heartbeat, HeartbeatInterval: c.heartbeatInterval(),
		MaxRunners: c.MaxRunners,
		APIURL:     c.PublicURL,
		Registry:   c.Registry, Registered: c.registered, Names: c.runnerAgents.Names, Commands: c.commands,
		Pace: &runners.Pace{}, Queues: c.Queues,
		Versions: func() (records, events int) { return c.versions.Advertised(), c.versions.EventsAdvertised() },
		Attempts: c.History.ClaimedBy, Running: c.History.ClaimedCounts, Abandon: c.Leases.RecheckAll,
	}
	known := struct {
		*runners.Deregistrar
		removalAudit
	}{c.Deregistrar, removalAudit{c.Audit}}
	attempts := struct {
		history
		*lease.Controller
	}{c.History, c.Leases}
	c.Expiry = expiry.New(expiry.Config{
		Log: c.log, RemoveAfter: c.Patience.Remove, Lease: c.Lease, Connection: c.bus, Runners: known,
		Attempts: attempts,
	})
}

// removalAudit records removed runners.
type removalAudit struct{ log *audit.Log }

// Removed records a removed runner.
func (r removalAudit) Removed(runner string) {
	r.log.Record(audit.Entry{EntryPoint: audit.Clock, Actor: &audit.Actor{Kind: audit.Coordinator},
		Action: audit.Removed, Targets: audit.Targets{Runner: runner}})
}

// wireRetention wires the retention of history.
func wireRetention(c *Coordinator) {
	c.retained = &retention.Controller{
		Log: c.log, Keep: c.Keep, Old: c.Retention, Reported: c.Reports,
		Stream:   c.guarded,
		History:  c.History,
		Valid:    c.keys.Valid,
		Payloads: &retention.Payloads{Log: c.log, Stream: c.guarded, History: c.History, Room: c.payloads},
	}
	c.room = &retention.CapacityGuard{Log: c.log, Stream: c.bus, History: c.History}
}

// wireQueues wires the task queues.
func wireQueues(c *Coordinator) {
	told := struct {
		*runners.Registry
		*runners.Commander
	}{c.Registry, c.commands}
	c.news = &queues.Announcer{Log: c.log, Runners: told, Wake: func() { c.scheduler.Wake(requeued) },
		Queues: func(r runnerapi.Runner) []string { return c.Queues.Of(r) }}
	known := struct {
		history
		*record.ReadBarrier
	}{c.History, c.reads}
	consumers := struct {
		*guarded
		insisting
	}{c.guarded, c.retryUntilAvailable}
	served := struct {
		*runners.Registry
		*queues.Announcer
	}{c.Registry, c.news}
	c.Queues = queues.New(queues.Config{
		Log: c.log, Most: c.MaxQueues, Entries: c.bus.Bucket(subject.TaskQueues), Consumers: consumers, History: known,
		Runners: served,
	})
	judged := struct {
		*runners.Registry
		*lease.Heartbeats
		*lease.Controller
		*highwater.Keeper
		*record.EndWriter
	}{c.Registry, c.Hearing, c.Leases, c.Highwater, c.ends}
	c.QueueController = queues.NewController(queues.ControllerConfig{Log: c.log, Table: c.Queues, Consumers: c.guarded,
		History: known, Runners: judged})
}

// Register registers a runner.
func (c *Coordinator) Register(ctx context.Context, r runnerapi.Runner) (runnerapi.Registered, error) {
	return c.Registrar.Register(ctx, r)
}

// Deregister takes a process off its runner.
func (c *Coordinator) Deregister(ctx context.Context, f runnerapi.Deregistration) error {
	return c.Deregistrar.Deregister(ctx, f)
}

// Drain tells a runner to claim nothing more, finish and end.
func (c *Coordinator) Drain(ctx context.Context, id string) error {
	return c.Deregistrar.Drain(ctx, id)
}

// Runners lists the registered runners, without those that left.
func (c *Coordinator) Runners() []runners.View { return c.Registrar.Runners() }
