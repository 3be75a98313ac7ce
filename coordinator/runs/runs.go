// Package runs accepts runs, reports how they end, and stops them. It checks a request step by step and stores its run
// with one write. A request that is repeated with its idempotency key gets its first answer.
package runs

import (
	"context"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/coordinator/schemas"
	"ao/nats/bus"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/trace"
)

// Limits has the limits of requests and their defaults.
type Limits struct {
	Payload   int64         // bytes of parameters with their agent and output schema
	Depth     int           // sessions above a run's own
	NoMatch   time.Duration // how long a run waits for a matching runner
	Retries   int           // of an answer that does not match the request's output schema
	WholeOnly bool          // by default, only an answer that is JSON as a whole counts
	Waiting   int           // most waiting runs
}

// Needs is what a Service works with.
type Needs struct {
	Limits  Limits
	History interface {
		planHistory
		readHistory
		stopHistory
		keyHistory
	}
	Stream  Stream
	Records Records
	Ends    Ends
	Torn    Torn
	Reads   Freshness
	Batches Batches
	IDs     KeyedIDs
	Agents  Agents
	Runners Runners
	Queues  Queues

	Schema   func(ctx context.Context, name string) (schemas.Schema, error) // by name
	Embed    agent.EmbedFunc                                                // the schemas that one refers to
	Callback func(url string) error                                         // refuses a URL that must not be called
	Version  func() int                                                     // of records to write
	Ready    func() error
	// Damaged reports whether the history may have lost an unknown run. final: it has, and an admin has accepted that.
	Damaged func(id string) (may, final bool)
	// CheckRoom refuses a new run in a session's tree while the history is nearly full, or its caller has its share.
	CheckRoom func(caller, session string) error
	Waiting   func(run.Run) string // why a run waits
	Retry     bus.RetryFunc

	Spans   *trace.Tracer
	Metrics *metric.Registry
}

// Records writes the records of runs.
type Records interface {
	Offload(ctx context.Context, s *run.Spec) error
	OffloadNew(ctx context.Context, s *run.Spec) error
	Withdraw(ctx context.Context, s *run.Spec)
	Queued(part, queue string, s run.Spec, attempt int, returnable bool) (bus.Entry, error)
	Put(ctx context.Context, e bus.Entry) error
	Append(ctx context.Context, e bus.Entry) error
	AppendEither(ctx context.Context, together, apart []bus.Entry) (uint64, error)
	NoteWritten(seq uint64)
}

// Stream reads the records.
type Stream interface {
	Last(ctx context.Context, subj string) (bus.Message, error)
	Records(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
	State(ctx context.Context) (bus.State, error)
}

// Ends ends and stops attempts.
type Ends interface {
	EndWaiting(ctx context.Context, a state.Active, s run.Status, f *fault.Fault) error
	AppendCarriedEnd(ctx context.Context, a state.Active) error
	Stop(ctx context.Context, a state.Active) error
}

// Torn tells what a crash of NATS left incomplete.
type Torn interface {
	Exists(ctx context.Context, run, session string) (bool, error)
}

// Batches has the batches of bulk retries, by idempotency key.
type Batches interface {
	Get(ctx context.Context, key string) ([]byte, uint64, error)
	Create(ctx context.Context, key string, value []byte) (uint64, error)
}

// Agents finds the agent of a run.
type Agents interface {
	Usable(ctx context.Context, name string) (*agents.Resolved, error)
}

// Runners knows which runners can take a run.
type Runners interface {
	Seen(home run.Demands, within time.Duration) bool
	Permit(w runnerapi.RoutingKey, model string) error
	QueueMatches(queue string, w runnerapi.RoutingKey) bool
	Matches(w runnerapi.RoutingKey) bool
}

// Queues makes task queues and returns their names.
type Queues interface {
	Ensure(ctx context.Context, queue string, w runnerapi.RoutingKey, caller string, again bool) (string, error)
}

// catchUp waits until the projection has applied records.
type catchUp interface {
	CatchUp(ctx context.Context) error             // all that were written before the call
	WaitFor(ctx context.Context, seq uint64) error // the record with this sequence
}

// Freshness waits for what readers must see. Only catchUp reports that NATS does not answer; the others then return.
type Freshness interface {
	catchUp
	WaitCurrent(ctx context.Context)   // waits for what the stream holds now
	WaitOwnWrites(ctx context.Context) // waits for what this process has written
}

// planHistory is the part of the history that planning reads.
type planHistory interface {
	Session(ctx context.Context, id string) (run.Session, error)
	Spec(ctx context.Context, id string) (run.Spec, error)
	WasDeleted(session string) bool
	CanResume(session string) bool
	IsAncestor(session, of string) bool
	Affinity(session string) run.Demands
	Open(session string) []state.Active
}

// readHistory is the part of the history that readers see.
type readHistory interface {
	Waiting(caller, session string) state.Waiting
	InStoppedTree(session string) bool // runs below it are stopped at once, as far as the projection knows
	Open(session string) []state.Active
	Get(ctx context.Context, id string) (run.Run, error)
	Trace(ctx context.Context, id string) (query.Trace, error)
	Result(ctx context.Context, id string) (run.Result, run.Run, error)
	Runs(ctx context.Context, q query.Query) (query.Page, error)
	Count(ctx context.Context, q query.Query) (query.Count, error)
	WatchRuns(ctx context.Context, q query.Query, after string, emit func(query.Item) error) error
	Wait(ctx context.Context, id string) (run.Run, error)
	Done(ctx context.Context, id string) error
}

// stopHistory is the part of the history that stopping reads.
type stopHistory interface {
	Get(ctx context.Context, id string) (run.Run, error)
	Active(id string) (state.Active, bool)
	Below(session string, most int) (n int, oldest []string)
	Root(session string) string // the run that was claimed last
	TreeStopped(session string) bool
}

// keyHistory is the part of the history that idempotency reads.
type keyHistory interface {
	// Request returns the session of a run and the hash of the request that made it; empty: that is unknown
	Request(ctx context.Context, id string) (session, hash string, err error)
	RunsOf(session string) []string
	IsReserved(id string) bool // another record carries the run, and it has none of its own yet
	WasDeleted(session string) bool
	Truncated() bool // runs were removed for their age
}

// Accepted answers an accepted run. From here on it ends in exactly one final status.
type Accepted struct {
	RunID     string     `json:"run_id"`
	SessionID string     `json:"session_id"`
	Status    run.Status `json:"status"`
	RetryOf   string     `json:"retry_of,omitempty"`
	Changed   bool       `json:"agent_changed,omitempty"` // a retry: the definition differs from the first run's
	Mode      string     `json:"-"`                       // as asked for
	Wait      *int       `json:"-"`                       // seconds, as asked for
	fresh     bool       // stored by this request
}

// Outcome is a run and its result in one document.
type Outcome struct {
	run.Run
	Result *run.Result `json:"result"` // null: it has none, or has not ended
}

// New makes a Service.
func New(n Needs) *Service {
	s := &Service{
		Needs:       n,
		Plans:       &Planner{n.Limits, n.History, n.Reads, n.Agents, n.Runners, n.Schema, n.Embed, n.Callback},
		Idempotency: &Idempotency{n.IDs, n.History, n.Stream, n.Damaged},
		treeStops:   TreeStops{n.History, n.Stream}, meter: newRunMeter(n.Metrics),
	}
	s.Stopper = &Stopper{n.Ends, n.Records, n.History, n.Reads, s.Show, n.Version}
	return s
}
