package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/control"
	"ao/coordinator/control/callback"
	"ao/coordinator/control/completion"
	"ao/coordinator/control/damage"
	"ao/coordinator/control/dispatch"
	"ao/coordinator/control/expiry"
	"ao/coordinator/control/lease"
	"ao/coordinator/control/queues"
	"ao/coordinator/control/resultcheck"
	"ao/coordinator/control/retention"
	"ao/coordinator/control/stopping"
	"ao/coordinator/control/webhook"
	"ao/coordinator/highwater"
	"ao/coordinator/ledger"
	"ao/coordinator/payload"
	"ao/coordinator/projection"
	"ao/coordinator/projection/follow"
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/coordinator/record"
	"ao/coordinator/runners"
	"ao/coordinator/runs"
	"ao/coordinator/schemas"
	"ao/coordinator/sessions"
	"ao/coordinator/workerapi"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// The settings of every simulated deployment. They are short, so that a minute shows what takes hours.
const (
	leaseTime     = 3 * time.Second
	beatEvery     = leaseTime / 5
	noMatch       = 8 * time.Second
	removeAfter   = 12 * time.Second
	keptRuns      = 40
	retentionTime = 15 * time.Second
)

// history is the whole read model, as serve/parts has it.
type history struct {
	*projection.Projection
	*query.Index
	*query.Payloads
	*query.ActiveRuns
	*query.Worklist
	*projection.Overlay
	*query.Reader
	*query.Lists
	*query.Feed
	*follow.Follower
}

func newHistory(log interface {
	query.Log
	follow.Source
}, cfg projection.Config,
) history {
	p := projection.New(cfg)
	f := follow.New(p, log, "", cfg.Log)
	q := query.New(p, log, f, cfg.Key)
	return history{p, q.Index, q.Payloads, q.ActiveRuns, q.Worklist, projection.NewOverlay(p), q.Reader, q.Lists,
		q.Feed, f}
}

// coordinator is one coordinator process: the product's parts, wired to simulated ones.
type coordinator struct {
	*client
	cancel   context.CancelFunc
	ended    sync.WaitGroup
	keys     *record.Keys
	mark     *highwater.Keeper
	skipped  *highwater.Skipped
	auditor  *ledger.Auditor
	history  history
	registry *runners.Registry
	service  *runs.Service
	sessions *sessions.Service
	beats    *workerapi.Heartbeats
	hearing  *lease.Heartbeats
	started  atomic.Bool
	blind    int      // watches of buckets that lag, counted
	unseen   []func() // what they have not given yet

	scheduler *control.Scheduler
	leases    *lease.Controller
	waits     []interface{ Wait() }
}

// fixed is record version 1, for everybody.
type fixed struct{}

func (fixed) Now() int              { return run.Version }
func (fixed) Of(a state.Active) int { return run.Version }
func (fixed) Advertised() int       { return run.Version }
func (fixed) Returns() bool         { return true }

// catalog has the agents of every deployment.
type catalog map[string]*agents.Resolved

func (c catalog) Find(name string) (*agents.Resolved, bool) { a, ok := c[name]; return a, ok }
func (c catalog) Usable(_ context.Context, name string) (*agents.Resolved, error) {
	if a, ok := c[name]; ok {
		return a, nil
	}
	return nil, fault.Newf(fault.NotFound, "no agent %q", name)
}

// meters measure nothing.
type meters struct{}

func (meters) Checked(run.Status) {}
func (meters) Mismatch()          {}
func (meters) Posted(string)      {}

// insist is bus.RetryFunc.
func insist(ctx context.Context, _ string, f func() error) error {
	for {
		err := f()
		if fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			return err
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// insisting is insist for those who ask for it by an interface.
type insisting struct{}

func (insisting) Insist(ctx context.Context, what string, f func() error) error {
	return insist(ctx, what, f)
}

// planner is a callback.Config's planner, as in serve/parts.
type planner struct{ *runs.Planner }

func (p planner) Plan(ctx context.Context, req *run.Request) (run.Spec, error) {
	plan, err := p.Planner.Plan(ctx, req)
	if err != nil {
		return run.Spec{}, err
	}
	return plan.Spec, nil
}

// Request is bus.Requests': a command to a runner.
func (c *coordinator) Request(ctx context.Context, subj string, body []byte) ([]byte, error) {
	var cmd runnerapi.Command
	if err := json.Unmarshal(body, &cmd); err != nil {
		return nil, err
	}
	return ask(ctx, c.client, "command", func() ([]byte, error) {
		for _, w := range c.workers {
			if w.running() && subj == w.commands {
				return json.Marshal(w.obey(cmd))
			}
		}
		return nil, bus.ErrNoResponders
	})
}

// startCoordinator starts a process under a name.
func (w *world) startCoordinator(name string) *coordinator {
	w.oracle.listens(name)
	ctx, cancel := context.WithCancel(context.Background())
	c := &coordinator{client: w.connect(name), cancel: cancel, keys: record.NewKeys()}
	log := w.log.With("by", name)
	c.history = newHistory(c.client, projection.Config{Log: log, Key: c.keys.Of, ValidChecked: c.keys.ValidChecked,
		OnEffect: func(e state.Effect) { c.scheduler.Wake(control.Signal(e)) }})
	c.registry = runners.New(runners.Config{Log: log, Lease: leaseTime, NoMatch: noMatch,
		Listening:  func() time.Duration { return c.hearing.Listening() },
		Thresholds: runnerapi.Thresholds{Stale: removeAfter / 2, Remove: removeAfter}, Retry: insist,
		Changed: func() { c.scheduler.Wake(registered) }})
	c.wire(log)
	for id, value := range w.registrations {
		c.registry.Put(id, value, w.revision)
	}
	w.loop.later(func() { c.run(ctx) })
	w.coordinators = append(w.coordinators, c)
	return c
}

func (c *coordinator) run(ctx context.Context) {
	c.ended.Go(func() {
		if c.keys.Read(ctx, insistingBucket{c.bucket("secrets")}) == nil {
			_ = c.history.Run(ctx)
		}
	})
	c.ended.Go(func() { _ = c.mark.Run(ctx) })
	c.ended.Go(func() { _ = c.skipped.Run(ctx) })
	c.ended.Go(func() {
		for c.history.Ready() != nil {
			if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
				return
			}
		}
		c.started.Store(true)
		c.scheduler.Run(ctx)
		for _, p := range c.waits {
			p.Wait()
		}
	})
}

// stop ends the process. What it has sent may still arrive.
func (c *coordinator) stop() {
	c.started.Store(false)
	c.loop.later(func() {
		c.cancel()
		go c.leases.Close()
	})
}

// Signals that wake controllers, as in serve/parts.
const (
	certain    = control.Signal(state.HistoryConfirmed)
	registered = control.Signal(1 << 16)
	requeued   = control.Signal(1 << 17)
)

// wire is what serve/parts does, but for definitions and registries.
func (c *coordinator) wire(log *slog.Logger) {
	h := c.history
	c.mark = highwater.New(highwater.Config{Stream: c.client, Bucket: c.bucket(subject.HighWater), History: h,
		Name: record.Nonce(), Log: log})
	c.auditor = &ledger.Auditor{Stream: c.client, Mark: c.mark,
		Rules: ledger.Rules{Key: c.keys.Of, Checked: c.keys.ValidChecked}}
	c.skipped = &highwater.Skipped{Stream: c.client, History: h, Log: log, Audit: func(ctx context.Context) error {
		_, err := c.auditor.Ledger(ctx)
		return err
	}}
	careful := guarded{c.client, c.mark}
	reads := record.NewReadBarrier(c.client, h)
	records := record.NewWriter(c.client, h, c.keys, fixed{}, &payload.Room{})
	hearing := lease.NewHeartbeats(c.client, leaseTime, log)
	c.hearing = hearing
	commands := &runners.Commander{Bus: c, Credential: c.registry.Credential, Log: log,
		ListeningFor: hearing.Listening}
	torn := record.NewCrashRepair(careful, h, reads, c.mark, log)
	ends := record.NewEndWriter(record.Needs{Records: records, Stream: careful, History: h, Barrier: reads,
		Heartbeats: hearing, Stopper: commands, Damaged: c.mark.Affects, Held: c.mark.Held, Log: log})
	c.leases = lease.New(lease.Config{History: h, Ends: ends, Heartbeats: hearing, Commands: struct {
		*runners.Commander
		*runners.Registry
	}{commands, c.registry}})
	known := struct {
		history
		*record.ReadBarrier
	}{h, reads}
	table := queues.New(queues.Config{Log: log, Most: 64, History: known, Consumers: struct {
		guarded
		insisting
	}{careful, insisting{}}, Runners: struct {
		*runners.Registry
		silent
	}{c.registry, silent{}}})
	consumers := queues.NewController(queues.ControllerConfig{Log: log, Table: table, Consumers: careful,
		History: known, Runners: struct {
			*runners.Registry
			*lease.Heartbeats
			*lease.Controller
			*record.EndWriter
			*highwater.Keeper
		}{c.registry, hearing, c.leases, ends, c.mark}})
	agents := c.agents
	c.service = runs.New(runs.Needs{
		Limits:  runs.Limits{Payload: 1 << 20, Depth: 8, NoMatch: noMatch, Waiting: 10_000},
		History: h,
		Stream:  c.client, Records: records, Ends: ends, Torn: torn, Reads: reads,
		Batches: c.bucket(subject.Reservations), IDs: c.keys.IDs, Agents: agents,
		Damaged: func(id string) (bool, bool) { return highwater.MayInclude(c.mark.Damages(), id) },
		Runners: c.registry, Queues: table,
		Schema:   func(context.Context, string) (s schemas.Schema, err error) { return s, errors.New("none") },
		Embed:    func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) { return raw, nil }, // no names
		Callback: func(string) error { return nil }, Version: fixed{}.Now, Ready: c.ready,
		CheckRoom: func(string, string) error { return nil },
		Waiting:   func(run.Run) string { return "" }, Retry: insist,
	})
	c.sessions = sessions.New(sessions.Needs{History: h, Reads: reads, Stops: c.service, Records: records,
		Stream: careful, Keys: c.keys, Version: fixed{}.Now, RunOf: runnerapi.RunOfPayload,
		Started: func() bool { return c.started.Load() }, Ready: c.ready, Log: log})
	c.beats = &workerapi.Heartbeats{History: h, Hearing: hearing, Runner: c.registry.Heartbeat,
		Tick: c.registry.ObserveClock, Queues: table.Of, Unused: (&runners.Carried{History: h}).Unused,
		AttemptOf: ends.AttemptOf, CatchUp: reads.CatchUp,
		Refresh:  func(context.Context, string) (uint64, error) { return 0, errNoAnswer },
		Versions: func() (records, events int) { return run.Version, 1 }}
	queued := struct {
		*record.Writer
		*record.ReadBarrier
		*record.EndWriter
		*highwater.Keeper
	}{records, reads, ends, c.mark}
	dispatcher := &dispatch.Controller{History: h, Records: queued, NoMatch: noMatch, Log: log, Fleet: struct {
		*runners.Registry
		*queues.Table
		catalog
		*runs.Service
	}{c.registry, table, agents, c.service}}
	results := resultcheck.New(resultcheck.Config{History: h, Ends: ends, Meter: meters{}, Log: log})
	results.Pool.Idle = func() { c.scheduler.Wake(control.Signal(state.ResultDue)) }
	reports := struct {
		*record.Writer
		*record.ReadBarrier
	}{records, reads}
	callbacks := callback.New(callback.Config{History: h, Records: reports, Plans: planner{c.service.Plans},
		MaxPayload: 1 << 20, Log: log})
	callbacks.Pool.Idle = func() { c.scheduler.Wake(control.Signal(state.CallbackDue)) }
	webhooks := webhook.NewController(webhook.ControllerConfig{History: struct {
		history
		*runs.Service
	}{h, c.service}, Records: struct {
		*record.Writer
		*record.ReadBarrier
		bucket
		insisting
	}{records, reads, c.bucket(subject.Reservations), insisting{}}, Receivers: receivers{c: c}, Log: log})
	webhooks.Pool.Idle = func() { c.scheduler.Wake(control.Signal(state.WebhookDue)) }
	expired := expiry.New(expiry.Config{Log: log, RemoveAfter: removeAfter, Lease: leaseTime, Connection: c.client,
		Runners: &departures{Deregistrar: &runners.Deregistrar{Runners: c.registry}, by: c.name, world: c.world},
		Attempts: struct {
			history
			*lease.Controller
		}{h, c.leases}})
	retained := &retention.Controller{Log: log, Keep: keptRuns, Old: retentionTime, Reported: retentionTime / 2,
		Stream: careful, History: h, Valid: c.keys.Valid,
		Payloads: &retention.Payloads{Log: log, Stream: careful, History: h, Room: &payload.Room{}}}
	evidence := struct {
		*client
		*lease.Heartbeats
		*record.EndWriter
	}{c.client, hearing, ends}
	damaged := &damage.Controller{Log: log, Lease: leaseTime, Mark: c.mark, History: h, Evidence: evidence}
	sure := func() bool { return h.Confirmed() && c.mark.Held() == nil }
	c.scheduler = control.New(log,
		control.Plan{Name: "leases", Do: c.leases, Every: lease.Every},
		control.Plan{Name: "dispatch", Do: dispatcher, Every: time.Second, Allowed: sure,
			Wakes: control.Signal(state.TurnDue) | registered | certain},
		control.Plan{Name: "result check", Do: results, Every: time.Second, Allowed: sure,
			Wakes: control.Signal(state.ResultDue) | certain},
		control.Plan{Name: "callbacks", Do: callbacks, Every: time.Second, Allowed: sure,
			Wakes: control.Signal(state.CallbackDue) | certain},
		control.Plan{Name: "webhooks", Do: webhooks, Every: webhooks.Pace(), Allowed: sure,
			Wakes: control.Signal(state.WebhookDue) | certain},
		control.Plan{Name: "stopping", Do: &stopping.Controller{History: h, Records: reports, Ends: ends, Log: log},
			Wakes: control.Signal(state.TreeStopDue) | certain, Every: time.Second, Allowed: sure},
		control.Plan{Name: "completion", Every: completion.Every, Allowed: sure,
			Do: &completion.Controller{History: h, Records: queued, Repair: torn, Log: log}},
		control.Plan{Name: "expiry", Do: expired, Every: time.Second},
		control.Plan{Name: "queues", Do: consumers, Every: 250 * time.Millisecond, Allowed: sure},
		control.Plan{Name: "damage", Do: damaged, Every: damage.Every},
		control.Plan{Name: "retention", Do: retained, Every: retention.Every, Allowed: sure},
	)
	c.waits = []interface{ Wait() }{results.Pool, callbacks.Pool, webhooks, c.leases}
	consumers.Begin()
	hearing.Restart("start", time.Now())
}

// ready is nil when requests can be served.
func (c *coordinator) ready() error {
	if !c.Connected() {
		return errAway
	}
	if err := c.history.Ready(); err != nil {
		return err
	}
	if err := c.mark.Held(); err != nil {
		return err
	}
	if !c.started.Load() {
		return unavailable("starting")
	}
	return nil
}

// departures removes runners from the simulated registrations.
type departures struct {
	*runners.Deregistrar
	by    string // the coordinator
	world *world
}

func (d *departures) RemoveProcess(ctx context.Context, r runnerapi.Runner) error {
	d.world.unregister(d.by, r)
	return nil
}
func (d *departures) ProcessGone(ctx context.Context, r runnerapi.Runner) error {
	return d.RemoveProcess(ctx, r)
}
func (d *departures) RemoveDeparted(ctx context.Context, r runnerapi.Runner) error {
	return d.RemoveProcess(ctx, r)
}
func (d *departures) Removed(string) {}

// silent announces no queue to runners: they poll all of them.
type silent struct{}

func (silent) Announce(runnerapi.RoutingKey) {}
