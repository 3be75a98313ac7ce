// Package parts wires the parts of a coordinator; it decides nothing. A coordinator has no state that could be lost.
// Facts are on the stream RUNS, which the projection applies; definitions and registrations are in key-value buckets.
// Any number of coordinators run side by side and settle conflicts by compare-and-set.
package parts

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/coordinator/control"
	"ao/coordinator/control/callback"
	"ao/coordinator/control/dispatch"
	"ao/coordinator/control/expiry"
	"ao/coordinator/control/lease"
	"ao/coordinator/control/queues"
	"ao/coordinator/control/resultcheck"
	"ao/coordinator/control/retention"
	"ao/coordinator/control/versions"
	"ao/coordinator/control/webhook"
	"ao/coordinator/drafts"
	"ao/coordinator/highwater"
	"ao/coordinator/insight/doctor"
	"ao/coordinator/insight/explain"
	"ao/coordinator/insight/metrics"
	"ao/coordinator/insight/status"
	"ao/coordinator/ledger"
	"ao/coordinator/logins"
	"ao/coordinator/payload"
	"ao/coordinator/preview"
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
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/trace"
)

// Config configures a Coordinator. Only Bus is required.
type Config struct {
	Bus            *bus.Bus
	AgentsDirs     []string             // folders of coordinator-owned agents
	AgentsWritable bool                 // their files may be changed over the API
	AgentsSeed     string               // folder that is copied to the first of AgentsDirs; empty: none
	SchemasDir     string               // folder of named schemas; empty: none
	PublicURL      string               // URL of the HTTP API for workers
	DataDir        string               // folder of checkpoints; empty: every start reads the whole history
	Sync           time.Duration        // how often NATS writes to disk; 0: before each acknowledgement
	Lease          time.Duration        // default 15 s: an attempt without a heartbeat for so long has failed
	NoMatch        time.Duration        // default 300 s: how long a run waits for a matching runner
	Heartbeat      time.Duration        // default 60 s: told to runners that register
	Patience       runnerapi.Thresholds // default 120 s until stale, 600 s until removed
	Retention      time.Duration        // default 168 h: how long history and idempotency keys are kept at least
	Keep           int                  // default 1,000,000: most ended runs kept
	// default 10 min: how long callback records are kept at least
	Reports    time.Duration
	MaxPending int // default 100,000: most waiting runs
	MaxQueues  int // default 256: most queues of demands, and as many of runners' agents
	MaxRunners int // default 4096: most registered runners
	// default none: what NATS may store in bytes; 0: unknown
	MaxStore   func() int64
	MaxPayload int64 // default 16 MiB: parameters with their agent, or a result
	// default 8: most sessions above a run's own; negative: runs have no children
	MaxDepth int
	// default 2: how often a run is retried whose result does not match the request's schema; negative: never
	Retries   int
	WholeOnly bool            // by default, only an answer that is JSON as a whole counts
	Audit     *audit.Log      // nil: nothing is recorded
	Trace     *trace.Tracer   // makes spans; default none
	Webhooks  *webhook.Client // delivers HTTP callbacks; default one that refuses every callback_url
	Log       *slog.Logger    // default slog.Default()

	// RecordVersion is the newest version of records to read and write, default run.Version. Tests of mixed versions
	// raise it.
	RecordVersion int

	Metrics *metric.Registry // default nil: nothing is measured
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 15*time.Second)
	c.NoMatch = cmp.Or(c.NoMatch, 300*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 60*time.Second)
	c.Patience.Stale = cmp.Or(c.Patience.Stale, 120*time.Second)
	c.Patience.Remove = cmp.Or(c.Patience.Remove, 600*time.Second)
	c.Retention = cmp.Or(c.Retention, 168*time.Hour)
	c.Keep = cmp.Or(c.Keep, 1_000_000)
	c.Reports = cmp.Or(c.Reports, 10*time.Minute)
	c.MaxPending = cmp.Or(c.MaxPending, 100_000)
	c.MaxQueues = cmp.Or(c.MaxQueues, 256)
	c.MaxRunners = cmp.Or(c.MaxRunners, 4096)
	if c.MaxStore == nil {
		c.MaxStore = func() int64 { return 0 }
	}
	c.MaxPayload = cmp.Or(c.MaxPayload, 16<<20)
	c.MaxDepth = max(cmp.Or(c.MaxDepth, 8), 0)
	c.Retries = max(cmp.Or(c.Retries, 2), 0)
	c.Log = cmp.Or(c.Log, slog.Default())
	c.RecordVersion = cmp.Or(c.RecordVersion, run.Version)
	if c.Webhooks == nil {
		c.Webhooks, _ = webhook.New(webhook.Config{}) // no hosts: cannot fail
	}
	return c
}

// heartbeatInterval returns the interval of heartbeats: five in a lease, so that one or two may be lost.
func (c Config) heartbeatInterval() time.Duration { return min(c.Lease/5, c.Heartbeat) }

// Coordinator is one of any number side by side.
type Coordinator struct {
	Config
	*runsService
	*sessionsService
	Bulk            *runs.Bulk
	Definitions     runs.Definitions
	Explainer       *explain.Explainer
	Preview         *preview.Previewer
	Overview        *status.Overview
	Doctor          *doctor.Doctor
	Auditor         *ledger.Auditor
	Highwater       *highwater.Keeper
	Registrar       *runners.Registrar
	Deregistrar     *runners.Deregistrar
	WorkerAPI       *workerapi.Service
	Registry        *runners.Registry
	Queues          *queues.Table
	QueueController *queues.Controller
	Hearing         *lease.Heartbeats
	Leases          *lease.Controller
	Dispatch        *dispatch.Controller
	Telling         *callback.Controller
	Checking        *resultcheck.Controller
	Posting         *webhook.Controller
	Expiry          *expiry.Controller
	Agents          *agents.Catalog
	Schemas         *schemas.Store
	Logins          *logins.Logins
	Drafts          *drafts.Store
	bus             *bus.Bus
	guarded         *guarded
	log             *slog.Logger
	keys            *record.Keys
	reads           *record.ReadBarrier
	records         *record.Writer
	ends            *record.EndWriter
	torn            *record.CrashRepair
	commands        *runners.Commander
	registered      *runners.Registrations
	runnerAgents    *runners.RunnerAgents
	versions        *versions.Versions
	news            *queues.Announcer
	retained        *retention.Controller
	room            *retention.CapacityGuard
	payloads        *payload.Room
	scrapes         *metrics.Scrapes
	meters          metrics.Meters
	started         atomic.Bool                 // keys and registries have been read
	unreadable      atomic.Pointer[fault.Fault] // why they cannot be read, if that is known

	scheduler *control.Scheduler

	History history
}

// history is the whole read model. Its users have smaller interfaces.
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

// wireHistory wires the read model.
func wireHistory(c *Coordinator, cfg projection.Config) {
	p := projection.New(cfg)
	f := follow.New(p, c.bus, c.DataDir, c.log)
	q := query.New(p, c.bus, f, cfg.Key)
	c.History = history{p, q.Index, q.Payloads, q.ActiveRuns, q.Worklist, projection.NewOverlay(p), q.Reader, q.Lists,
		q.Feed, f}
}

// wireRecords wires the writers of records.
func (c *Coordinator) wireRecords() {
	c.reads = record.NewReadBarrier(c.bus, c.History)
	c.records = record.NewWriter(c.bus, c.History, c.keys, c.versions, c.payloads)
	c.Hearing = lease.NewHeartbeats(c.bus, c.Lease, c.log)
	c.commands = &runners.Commander{Bus: c.bus, Credential: c.Registry.Credential, Log: c.log,
		ListeningFor: c.Hearing.Listening}
	c.torn = record.NewCrashRepair(c.guarded, c.History, c.reads, c.Highwater, c.log)
	c.ends = record.NewEndWriter(record.Needs{
		Records: c.records, Stream: c.guarded, History: c.History, Barrier: c.reads, Heartbeats: c.Hearing,
		Stopper: c.commands, Damaged: c.Highwater.Affects, Held: c.Highwater.Held,
		Spans: c.Trace, Log: c.log,
	})
}

// wireRuns wires the services of runs and sessions.
func (c *Coordinator) wireRuns() {
	c.runsService = runs.New(runs.Needs{
		Limits: runs.Limits{Payload: c.MaxPayload, Depth: c.MaxDepth, NoMatch: c.NoMatch, Retries: c.Retries,
			WholeOnly: c.WholeOnly, Waiting: c.MaxPending},
		History: c.History, Stream: c.bus, Records: c.records, Ends: c.ends, Torn: c.torn, Reads: c.reads,
		Batches: c.bus.Bucket(subject.Reservations), IDs: c.keys.IDs,
		Damaged: func(id string) (bool, bool) { return highwater.MayInclude(c.Highwater.Damages(), id) },
		Agents:  c.Agents, Runners: c.Registry, Queues: c.Queues,
		Schema: c.Schemas.Schema, Embed: c.Schemas.Embed, Callback: c.Webhooks.Check, Version: c.versions.Now,
		Ready:     c.Ready,
		CheckRoom: c.room.Admit, Waiting: func(r run.Run) string { return c.Explainer.WaitingFor(r) },
		Retry: c.retryUntilAvailable, Spans: c.Trace, Metrics: c.Metrics,
	})
	c.Bulk = runs.NewBulk(c.runsService, c.History, c.Redeliver)
	c.Definitions = runs.NewDefinitions(c.History, c.Agents)
	c.sessionsService = sessions.New(sessions.Needs{
		History: c.History, Reads: c.reads, Stops: c.runsService, Records: c.records, Stream: c.guarded, Keys: c.keys,
		Version: c.versions.Now, RunOf: runnerapi.RunOfPayload, Started: c.started.Load, Ready: c.Ready, Log: c.log,
	})
}

// Ready is nil when requests can be served: the projection is current, and NATS can be read and written.
func (c *Coordinator) Ready() error {
	if !c.bus.Connected() {
		return fault.New(fault.Unavailable, "", "NATS is not reachable; trying to reconnect").After(time.Second)
	}
	if err := c.bus.Storage(); err != nil {
		return err
	}
	if err := c.History.Ready(); err != nil {
		return err
	}
	if err := c.Highwater.Held(); err != nil {
		return err
	}
	if !c.started.Load() {
		return c.starting()
	}
	return nil
}

// Refused lists what is refused although the coordinator is ready: it still serves everything else.
func (c *Coordinator) Refused() (all []string) {
	for _, err := range []error{c.room.Full(), c.payloads.Full()} {
		if err != nil {
			all = append(all, fault.Of(err).Message)
		}
	}
	return all
}

var errStarting = fault.New(fault.Unavailable, "", "starting: agents and runners are being read").After(time.Second)

// Registries is nil once agents and runners have been read. Before, none can be shown or taken for new.
func (c *Coordinator) Registries() error {
	if c.Registry.Loaded() && c.Queues.Read() && c.Agents.Loaded() {
		return nil
	}
	return c.starting()
}

// retryUntilAvailable repeats f until NATS answers or ctx ends.
func (c *Coordinator) retryUntilAvailable(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			return err
		}
		c.log.Warn("NATS does not answer; retrying", "for", what, "err", err)
		clock.Sleep(ctx, 500*time.Millisecond)
	}
}

// Signals that wake controllers: the effects of records, and changes of registries.
const (
	turnDue     = control.Signal(state.TurnDue)
	offered     = control.Signal(state.ResultDue)
	callbackDue = control.Signal(state.CallbackDue)
	halted      = control.Signal(state.TreeStopDue)
	webhookDue  = control.Signal(state.WebhookDue)
	certain     = control.Signal(state.HistoryConfirmed)
	registered  = control.Signal(1 << 16) // a runner was registered or changed
	requeued    = control.Signal(1 << 17) // runners must be told of their queues
	// a payload was refused: room must be made
	payloadsShort = control.Signal(1 << 18)
)

// Names for what a Coordinator embeds.
type (
	runsService     = runs.Service
	sessionsService = sessions.Service
)
