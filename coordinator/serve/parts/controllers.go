package parts

import (
	"context"

	"ao/coordinator/agents"
	"ao/coordinator/control/callback"
	"ao/coordinator/control/completion"
	"ao/coordinator/control/dispatch"
	"ao/coordinator/control/lease"
	"ao/coordinator/control/queues"
	"ao/coordinator/control/resultcheck"
	"ao/coordinator/control/stopping"
	"ao/coordinator/control/webhook"
	"ao/coordinator/highwater"
	"ao/coordinator/insight/metrics"
	"ao/coordinator/projection/query"
	"ao/coordinator/record"
	"ao/coordinator/runners"
	"ao/coordinator/runs"
	"ao/coordinator/workerapi"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// The controllers do not know the Coordinator.

func newDispatch(c *Coordinator) *dispatch.Controller {
	records := struct {
		reports
		*record.EndWriter
		*highwater.Keeper
	}{reports{c.records, c.reads}, c.ends, c.Highwater}
	fleet := struct {
		*runners.Registry
		*queues.Table
		*agents.Catalog
		*runs.Service
	}{c.Registry, c.Queues, c.Agents, c.runsService}
	return &dispatch.Controller{History: c.History, Records: records, Fleet: fleet, NoMatch: c.NoMatch, Log: c.log}
}

func newLease(c *Coordinator) *lease.Controller {
	commands := struct {
		*runners.Commander
		*runners.Registry
	}{c.commands, c.Registry}
	return lease.New(lease.Config{History: c.History, Ends: c.ends, Commands: commands, Heartbeats: c.Hearing})
}

func newWorkerAPI(c *Coordinator) *workerapi.Service {
	payloads := &workerapi.Payloads{
		Store: c.bus, History: c.History, Keys: c.keys, ActiveSession: c.sessionsService.ActiveSession,
		CatchUp: c.reads.CatchUp, MaxBytes: c.MaxPayload, Active: c.History.Active, Room: c.payloads,
	}
	return &workerapi.Service{
		Endpoints: c.bus, Stream: c.bus, Runners: c.Registrar, Deregistrar: c.Deregistrar, Heartbeats: newHeartbeats(c),
		Payloads: payloads,
		Audit:    c.Audit,
	}
}

func newHeartbeats(c *Coordinator) *workerapi.Heartbeats {
	return &workerapi.Heartbeats{
		History: c.History, Hearing: c.Hearing, Runner: c.Registry.Heartbeat, Tick: c.Registry.ObserveClock,
		Refresh: c.registered.Refresh, Queues: c.Queues.Of,
		Unused:    (&runners.Carried{History: c.History}).Unused,
		AttemptOf: c.ends.AttemptOf, CatchUp: c.reads.CatchUp,
		Versions: func() (records, events int) { return c.versions.Advertised(), c.versions.EventsAdvertised() },
		APIURL:   c.PublicURL,
	}
}

func newStopping(c *Coordinator) *stopping.Controller {
	return &stopping.Controller{History: c.History, Records: reports{c.records, c.reads}, Ends: c.ends, Log: c.log}
}

// reports writes callback records.
type reports struct {
	*record.Writer
	*record.ReadBarrier
}

func newCompletion(c *Coordinator) *completion.Controller {
	records := struct {
		*record.Writer
		*record.ReadBarrier
		*record.EndWriter
	}{c.records, c.reads, c.ends}
	return &completion.Controller{History: c.History, Records: records, Repair: c.torn, Log: c.log}
}

func newResultCheck(c *Coordinator) *resultcheck.Controller {
	r := resultcheck.New(resultcheck.Config{History: c.History, Ends: c.ends, Meter: c.meters, Spans: c.Trace,
		Log: c.log})
	r.Pool.Idle = func() { c.scheduler.Wake(offered) }
	return r
}

func newCallback(c *Coordinator) *callback.Controller {
	t := callback.New(callback.Config{History: c.History, Records: reports{c.records, c.reads},
		Plans: planner{c.Plans}, MaxPayload: c.MaxPayload, Spans: c.Trace, Log: c.log})
	t.Pool.Idle = func() { c.scheduler.Wake(callbackDue) }
	return t
}

// planner is a Planner whose plans are reduced to runs.
type planner struct{ *runs.Planner }

func (p planner) Plan(ctx context.Context, req *run.Request) (run.Spec, error) {
	plan, err := p.Planner.Plan(ctx, req)
	if err != nil {
		return run.Spec{}, err
	}
	return plan.Spec, nil
}

func newWebhook(c *Coordinator) *webhook.Controller {
	records := struct {
		*record.Writer
		*record.ReadBarrier
		*bus.Bucket
		insisting
	}{c.records, c.reads, c.bus.Bucket(subject.Reservations), c.retryUntilAvailable}
	shown := struct {
		history
		*runs.Service
	}{c.History, c.runsService}
	receivers := struct {
		*webhook.Client
		metrics.Meters
	}{c.Webhooks, c.meters}
	w := webhook.NewController(webhook.ControllerConfig{
		History: shown, Records: records, Receivers: receivers, Spans: c.Trace, Log: c.log,
	})
	w.Pool.Idle = func() { c.scheduler.Wake(webhookDue) }
	return w
}

// insisting is Coordinator.insist for those who ask for it by an interface.
type insisting bus.RetryFunc

// Insist calls f until NATS answers.
func (i insisting) Insist(ctx context.Context, what string, f func() error) error {
	return i(ctx, what, f)
}

// Redeliver starts the delivery of a run's webhook again, at once.
func (c *Coordinator) Redeliver(ctx context.Context, id string) (run.Run, error) {
	return c.Posting.Redeliver(ctx, id)
}

// Callbacks lists runs with callbacks.
func (c *Coordinator) Callbacks(ctx context.Context, q query.Query) (query.CallbackPage, error) {
	c.reads.WaitOwnWrites(ctx)
	return c.History.Callbacks(ctx, q)
}
