package parts

import (
	"context"
	"time"

	"ao/coordinator/control"
	"ao/coordinator/control/versions"
	"ao/coordinator/logins"
	"ao/coordinator/payload"
	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/coordinator/record"
	"ao/nats/subject"
	"ao/shared/clock"

	"golang.org/x/sync/errgroup"
)

// New wires a coordinator. Run starts it.
func New(cfg Config) *Coordinator {
	cfg = cfg.withDefaults()
	c := &Coordinator{Config: cfg, bus: cfg.Bus, log: cfg.Log, keys: record.NewKeys()}
	wireHistory(c, projection.Config{
		Log: cfg.Log, OnEffect: func(e state.Effect) { c.scheduler.Wake(control.Signal(e)) },
		OnStep: c.newMeters(), Version: cfg.RecordVersion,
		Key:          c.keys.Of,
		ValidChecked: c.keys.ValidChecked,
	})
	wireHighwater(c)
	c.Logins = &logins.Logins{Signer: c.keys, Bucket: c.bus.Bucket(subject.Logins), Ready: c.started.Load}
	wireRegistry(c)
	c.wireDefinitions()
	c.versions = versions.New(versions.Config{Records: cfg.RecordVersion, RaiseAfter: cfg.Patience.Remove,
		Survey: cfg.Bus.RequestMany, Log: cfg.Log})
	c.payloads = &payload.Room{Stream: c.bus, History: c.History,
		Wake: func() { c.scheduler.Wake(payloadsShort) }}
	c.wireRecords()
	wireRetention(c)
	c.Leases = newLease(c)
	wireQueues(c)
	c.wireRuns()
	c.Dispatch = newDispatch(c)
	c.Posting, c.Telling = newWebhook(c), newCallback(c)
	c.Checking = newResultCheck(c)
	wireRunners(c)
	c.WorkerAPI = newWorkerAPI(c)
	c.wireInsight()
	c.scheduler = control.New(cfg.Log, c.plans()...)
	return c
}

// Run runs the coordinator until ctx ends. It creates or checks the streams first.
func (c *Coordinator) Run(ctx context.Context) error {
	if err := c.bus.Setup(ctx); err != nil {
		return err
	}
	_ = c.payloads.Reconcile(ctx) // what may be stored is known before the first upload
	err := c.retryUntilAvailable(ctx, "the deployment's secret",
		func() error {
			if err := c.checkSecret(ctx); err != nil {
				return err
			}
			return c.keys.Read(ctx, c.bus.Bucket(subject.Secrets))
		})
	if err != nil {
		return err
	}
	defer c.scrapes.Register()()
	defer c.Leases.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.History.Run(ctx) })
	g.Go(func() error { return c.Highwater.Run(ctx) })
	g.Go(func() error { return newSkipped(c).Run(ctx) })
	g.Go(func() error { return c.Registry.Watch(ctx) })
	g.Go(func() error { return c.Queues.Watch(ctx) })
	g.Go(func() error { return c.Agents.Watch(ctx) })
	g.Go(func() error { return c.Drafts.Run(ctx) })
	g.Go(func() error { return c.explainStart(ctx) })
	g.Go(func() error {
		if err := c.waitLoaded(ctx); err != nil {
			return nil // ctx has ended
		}
		serve, err := c.WorkerAPI.Open()
		if err != nil {
			return err
		}
		c.started.Store(true)
		c.log.Info("coordinator ready", "runs_sequence", c.History.Seq())
		g.Go(func() error { return serve(ctx) })
		g.Go(func() error { return c.reconcile(ctx) })
		return nil
	})
	return g.Wait()
}

// waitLoaded waits until the projection and the registries have been read.
func (c *Coordinator) waitLoaded(ctx context.Context) error {
	for c.History.Ready() != nil || c.Registries() != nil {
		if !clock.Sleep(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}
