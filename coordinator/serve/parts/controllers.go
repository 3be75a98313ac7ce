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
	"ao/coordinator/fleetapi"
	"ao/coordinator/projection"
	"ao/coordinator/record"
	"ao/coordinator/runners"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// What the controllers are made of. None of them knows the Coordinator.

func newDispatch(c *Coordinator) *dispatch.Controller {
	records := struct {
		*record.Writer
		*record.Ender
	}{c.records, c.ends}
	renew := func(ctx context.Context, s run.Spec, k agents.Resolved) (run.Spec, error) {
		return c.runsService.Renewed(ctx, s, k)
	}
	fleet := struct {
		*runners.Registry
		*queues.Table
		*agents.Catalog
	}{c.Registry, c.Queues, c.Agents}
	return &dispatch.Controller{
		History: c.History, Records: records, Fleet: fleet,
		Renew: renew, NoMatch: c.NoMatch, Log: c.log,
	}
}

func newLease(c *Coordinator) *lease.Controller {
	return lease.New(lease.Config{History: c.History, Ends: c.ends, Commands: c.commands, Proven: c.Registry.Proven, Hearing: c.Hearing})
}

func newFleet(c *Coordinator) *fleetapi.Service {
	payloads := &fleetapi.Payloads{
		Store: c.bus, History: c.History, Keys: c.keys, UnderWay: c.sessionsService.UnderWay, CaughtUp: c.reads.CaughtUp, Most: c.MaxPayload,
	}
	return &fleetapi.Service{
		Doors: c.bus, Stream: c.bus, Runners: c.Registrar, Leaving: c.Leaving, Beats: newBeats(c), Payloads: payloads, Audit: c.Audit,
	}
}

func newBeats(c *Coordinator) *fleetapi.Beats {
	return &fleetapi.Beats{
		History: c.History, Hearing: c.Hearing, Runner: c.Registry.Beat, Tick: c.Registry.Tick, Refresh: c.registered.Refresh, Queues: c.Queues.Of,
		AttemptOf: c.ends.AttemptOf, CaughtUp: c.reads.CaughtUp,
		Versions: func() (records, events int) { return c.versions.Told(), c.versions.EventsTold() }, APIURL: c.PublicURL,
	}
}

func newStopping(c *Coordinator) *stopping.Controller {
	return &stopping.Controller{History: c.History, Records: c.records, Ends: c.ends, Log: c.log}
}

func newCompletion(c *Coordinator) *completion.Controller {
	records := struct {
		*record.Writer
		*record.Ender
	}{c.records, c.ends}
	return &completion.Controller{History: c.History, Records: records, Torn: c.torn, Log: c.log}
}

func newResultCheck(c *Coordinator) *resultcheck.Controller {
	return resultcheck.New(resultcheck.Config{
		History: c.History, Words: c.ends, Meter: c.meters, Idle: func() { c.scheduler.Wake(offered) }, Spans: c.Trace, Log: c.log,
	})
}

func newCallback(c *Coordinator) *callback.Controller {
	plan := func(ctx context.Context, req run.Request) (run.Spec, error) {
		p, err := c.Plans.Plan(ctx, req)
		return p.Spec, err
	}
	return callback.New(callback.Config{
		History: c.History, Records: c.records, Plan: plan, TooLarge: c.Plans.TooLarge, Most: c.MaxPayload, Spans: c.Trace, Log: c.log,
		Idle: func() { c.scheduler.Wake(callbackDue) },
	})
}

func newWebhook(c *Coordinator) *webhook.Controller {
	records := struct {
		*record.Writer
		*record.Reads
		*bus.Bucket
	}{c.records, c.reads, c.bus.Bucket(subject.Idempotency)}
	return webhook.NewController(webhook.ControllerConfig{
		History: c.History, Records: records, Runs: c.runsService, Receivers: c.Webhooks,
		Version: c.versions.Now, Insist: c.insist, Posted: c.meters.Posted, Idle: func() { c.scheduler.Wake(webhookDue) }, Spans: c.Trace, Log: c.log,
	})
}

// Redeliver has an HTTP callback that failed tried again, from the beginning of its schedule and at once.
func (c *Coordinator) Redeliver(ctx context.Context, id string) (run.Run, error) {
	return c.Posting.Redeliver(ctx, id)
}

// Callbacks lists the runs that call back.
func (c *Coordinator) Callbacks(ctx context.Context, q projection.Query) (projection.CallbackPage, error) {
	c.reads.Own(ctx)
	return c.History.Callbacks(ctx, q)
}
