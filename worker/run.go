package worker

import (
	"cmp"
	"context"
	"os"
	"sync"
	"time"

	"ao/nats/bus"
	"ao/shared/runnerapi"
	"ao/shared/share"
	"ao/worker/gateway"
	"ao/worker/process"
	"ao/worker/program"
)

// New makes a Worker; Run runs it. The error is about the profile or its agents' folder. A broken agent is logged and
// left out.
func New(cfg Config) (*Worker, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	me := newRunner(cfg)
	log := cfg.Log.With("runner", me.ID())
	reportExposedSecret(cfg, &me, log)
	w := &Worker{
		Config: cfg, bus: cfg.Bus, log: log, ready: make(chan struct{}),
		client:   client{Runner: me, id: me.ID(), secret: runnerapi.NewSecret(), bus: cfg.Bus, log: log},
		attempts: attempts{all: map[string]*attempt{}},
		spans:    spans{cfg.Trace, me.ID(), cfg.Profile.Name},

		eventShare: share.NewRate(cfg.EventBytes, time.Minute, maxEventOwners, nil),
	}
	w.shutdown.init()
	checks, _ := cfg.Executor.(checker)
	w.rests = rests{checker: checks, agents: w.definitions.hashes, log: log, own: map[string]*rest{},
		changed: func(paused bool) {
			w.queues.pause(paused)
			w.heartbeats.sendNow()
		}}
	w.definitions.resting = w.rests.broken
	w.heartbeats = heartbeater{
		client: &w.client, remote: &w.remote, attempts: &w.attempts, shutdown: &w.shutdown, obey: w.obey, log: log,
		unable: w.rests.unable,
		wake:   make(chan struct{}, 1),
	}
	w.sessions = keptSessions(cfg.Executor, w.heartbeats.sendNow)
	w.heartbeats.sessions = w.sessions
	w.payloads = &payloads{bus: cfg.Bus, log: log, hardStop: w.shutdown.hardStop, noRoom: noRoomTimeout}
	w.records = &recordBuilder{
		runner: me.ID(), instance: me.Instance, host: cfg.Host, profile: &w.Profile, maxVersion: cfg.RecordVersion,
		coordinatorVersion: w.remote.recordVersion, maxResult: cfg.MaxPayload, payloads: w.payloads,
	}
	w.supervisor = supervisor{
		executor: cfg.Executor, profile: cfg.Profile, projectDir: cfg.ProjectDir,
		env: cfg.Profile.BaseEnv(os.LookupEnv), runner: me.ID(), log: log,
		apiURL: func() string { return cmp.Or(cfg.APIURL, w.remote.apiURL()) }, attempts: &w.attempts, spans: w.spans,
	}
	w.slots.usable = w.rests.limit
	w.slots.limit, w.slots.shutdown, w.slots.handle, w.slots.handoff = me.MaxConcurrentRuns, &w.shutdown, w.handle,
		make(chan bus.Delivery)
	w.slots.taker = w.bus.Poller(w.slots.free, w.slots.accept)
	w.queues.consume = w.slots.taker.Poll
	w.bus.OnReconnect(w.heartbeats.sendNow)
	return w, nil
}

// Run registers, takes runs and supervises them until ctx ends or a coordinator drains the runner. Then it takes no
// more, lets running executors finish within the grace period, and returns nil. It returns an error when another
// process has become this runner, or when the registration can never succeed. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	defer process.RemoveTempDirs()
	defer w.shutdown.stopHard()
	meter, forget := newMeter(w.Metrics, w.client.id, w.Profile.Name, &w.slots, w.sessions, &w.counts)
	defer forget()
	w.meter = meter
	w.supervisor.onSchemaRetry = meter.retries.Inc
	w.supervisor.gateway = w.Gateway
	if w.supervisor.gateway == nil {
		g, err := gateway.New(gateway.Config{MaxState: w.MaxPayload, Log: w.log})
		if err != nil {
			return err
		}
		defer g.Close()
		w.supervisor.gateway = g
	}
	defer endSessions(w.sessions)
	w.rests.look(true)
	if err := w.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	alive, die := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.heartbeats.run(alive, w.meter.heartbeats[0], w.meter.heartbeats[1]) })
	wg.Go(func() {
		(&fence{remote: &w.remote, attempts: &w.attempts, killed: &w.counts.fenced, log: w.log}).run(alive)
	})
	wg.Go(func() { w.client.serveCommands(alive, w.command) })
	wg.Go(func() { w.announceChanges(alive) })
	wg.Go(func() { w.rests.run(alive) })
	defer wg.Wait()
	defer die()

	select {
	case <-ctx.Done():
		w.drain(ctx, "shutdown requested")
	case <-w.shutdown.drain:
		w.drain(ctx, "drained")
	case err := <-w.shutdown.fatal:
		w.stopTaking()
		w.log.Error("stopping", "err", err)
		w.endAll(errSuperseded)
		return err
	}
	return nil
}

// keptSessions returns the processes that an executor keeps for further turns; an empty pool if it keeps none. changed
// is called whenever the set of idle ones changes.
func keptSessions(e Executor, changed func()) *program.Pool {
	pool := program.NewPool(program.PoolConfig{})
	if p, ok := e.(persistentExecutor); ok {
		pool = p.Pool
	}
	pool.Watch(changed)
	return pool
}

// endSessions ends the remaining processes when the worker shuts down.
func endSessions(pool *program.Pool) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	pool.Close(ctx)
}
