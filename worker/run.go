package worker

import (
	"cmp"
	"context"
	"os"
	"sync"

	"ao/nats/bus"
	"ao/shared/runnerapi"
	"ao/worker/gateway"
	"ao/worker/process"
)

// New makes a Worker; Run makes it work. The error is about the profile or its agents' folder. An agent that is broken is
// told of in the log and left out.
func New(cfg Config) (*Worker, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	me := runnerOf(cfg)
	log := cfg.Log.With("runner", me.ID())
	exposure(cfg, &me, log)
	w := &Worker{
		Config: cfg, bus: cfg.Bus, log: log, serves: runnerapi.AgentSet(cfg.Agents), ready: make(chan struct{}),
		me:       member{Runner: me, id: me.ID(), secret: runnerapi.NewSecret(), bus: cfg.Bus, log: log},
		attempts: attempts{all: map[string]*attempt{}},
		spans:    spans{cfg.Trace, me.ID(), cfg.Profile.Name},
	}
	w.end.init()
	w.pulse = pulse{
		me: &w.me, terms: &w.terms, attempts: &w.attempts, sessions: &w.sessions, end: &w.end, obey: w.obey, log: log, poke: make(chan struct{}, 1),
	}
	w.sessions = keptBy(cfg.Executor, w.pulse.now)
	w.bodies = &bodies{bus: cfg.Bus, log: log, dead: w.end.dead}
	w.records = &records{
		runner: me.ID(), instance: me.Instance, host: cfg.Host, profile: &w.Profile, newest: cfg.RecordVersion, allowed: w.terms.version, most: cfg.MaxPayload,
		bodies: w.bodies,
	}
	w.hosting = hosting{
		executor: cfg.Executor, profile: cfg.Profile, dir: cfg.ProjectDir, env: cfg.Profile.Inherited(os.LookupEnv), runner: me.ID(), log: log,
		api: func() string { return cmp.Or(cfg.APIURL, w.terms.api()) }, attempts: &w.attempts, spans: w.spans,
	}
	w.slots.most, w.slots.end, w.slots.do, w.slots.next = me.MaxConcurrentRuns, &w.end, w.begin, make(chan bus.Delivery)
	w.slots.taker = w.bus.Poller(w.slots.free, w.slots.accept)
	w.lanes.take = w.slots.taker.Poll
	w.bus.OnReconnect(w.pulse.now)
	return w, nil
}

// Run registers, takes runs and sees to them until ctx ends, or a coordinator drains the runner; then it takes no more, lets
// what runs finish within the grace, and returns nil. It returns an error when another process is this runner now,
// or the registration can never succeed. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	defer process.Tidy()
	defer w.end.killAll()
	meter, forget := newMeter(w.Metrics, w.me.id, w.Profile.Name, &w.slots, w.sessions, &w.counts)
	defer forget()
	w.meter = meter
	w.hosting.retries = meter.retries.Inc
	if w.hosting.door = w.Gateway; w.hosting.door == nil {
		g, err := gateway.New(gateway.Config{MaxState: w.MaxPayload, Log: w.log})
		if err != nil {
			return err
		}
		defer g.Close()
		w.hosting.door = g
	}
	defer w.sessions.close()
	if err := w.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	alive, die := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.pulse.run(alive, w.meter.beats[0], w.meter.beats[1]) })
	wg.Go(func() {
		(&fence{terms: &w.terms, attempts: &w.attempts, killed: &w.counts.fenced, log: w.log}).run(alive)
	})
	wg.Go(func() { w.me.serve(alive, w.do) })
	defer wg.Wait()
	defer die()

	select {
	case <-ctx.Done():
		w.leave(ctx, "told to end")
	case <-w.end.drain:
		w.leave(ctx, "drained")
	case err := <-w.end.fatal:
		w.going()
		w.log.Error("ending", "err", err)
		w.abandon(errSuperseded)
		return err
	}
	return nil
}
