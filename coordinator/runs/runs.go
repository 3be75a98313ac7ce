// Package runs takes runs, answers with how they end, and stops them: it checks a request step by step, stores its run
// with one write, and gives a request that comes again with its key the first answer.
package runs

import (
	"context"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/projection"
	"ao/coordinator/schemas"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/trace"
)

// Limits are what a request may ask for at most, and what counts where nobody says.
type Limits struct {
	Payload   int64         // bytes of parameters with their agent and output schema
	Depth     int           // sessions above a run's own
	NoMatch   time.Duration // how long a run waits for a runner
	Retries   int           // of an answer that does not match a caller's output schema
	WholeOnly bool          // only an answer that is JSON as a whole counts
	Waiting   int           // runs that wait
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
	Keys    Keys
	Agents  Agents
	Runners Runners
	Queues  Queues

	Schema    func(ctx context.Context, name string) (schemas.Schema, error) // by its name
	Callback  func(url string) error                                         // refuses a URL that is not to be told
	Version   func() int                                                     // of the records that are written
	Ready     func() error
	CheckDisk func() error         // refuses what would fill the history
	Waiting   func(run.Run) string // why a run waits
	Retry     bus.RetryFunc

	Spans   *trace.Tracer
	Metrics *metric.Registry
}

// Records writes what is known of runs.
type Records interface {
	Offload(ctx context.Context, s *run.Spec) error
	Queued(part, lane string, s run.Spec, attempt int) (bus.Entry, error)
	Put(ctx context.Context, e bus.Entry) error
	AppendEither(ctx context.Context, together, apart []bus.Entry) (uint64, error)
	NoteWritten(seq uint64)
}

// Stream is where the records are.
type Stream interface {
	Last(ctx context.Context, subj string) (bus.Message, error)
	State(ctx context.Context) (bus.State, error)
}

// Ends says the last words on runs.
type Ends interface {
	EndWaiting(ctx context.Context, a projection.Active, s run.Status, f *fault.Fault) error
	AppendCarriedEnd(ctx context.Context, a projection.Active) error
	Stop(ctx context.Context, a projection.Active) error
}

// Torn mends what a crash of NATS leaves.
type Torn interface {
	Exists(ctx context.Context, run, session string) (bool, error)
	RemoveStale(ctx context.Context, run, session string) error
	RemoveEarlier(ctx context.Context, run, session string)
}

// Keys is the bucket of idempotency keys.
type Keys interface {
	Get(ctx context.Context, key string) ([]byte, uint64, error)
	Create(ctx context.Context, key string, value []byte) (uint64, error)
}

// Agents finds what may be run.
type Agents interface {
	Usable(ctx context.Context, name string) (*agents.Resolved, error)
}

// Runners tells who could take a run.
type Runners interface {
	Seen(home run.Demands, within time.Duration) bool
	Permit(w runnerapi.RoutingKey, model string) error
	QueueMatches(lane string, w runnerapi.RoutingKey) bool
	Matches(w runnerapi.RoutingKey) bool
}

// Queues has a lane's queue be there, and says where it is.
type Queues interface {
	Ensure(ctx context.Context, lane string, w runnerapi.RoutingKey, caller string, again bool) (string, error)
}

// catchUp waits until the fold has what was written.
type catchUp interface {
	CatchUp(ctx context.Context) error             // all that was written before
	WaitFor(ctx context.Context, seq uint64) error // that record
}

// Freshness waits for what readers are to see. Where NATS does not answer, what is known has to do: only past says so.
type Freshness interface {
	catchUp
	WaitCurrent(ctx context.Context)   // what the stream holds now
	WaitOwnWrites(ctx context.Context) // what this process has written
}

// planHistory is what the history tells who checks a request.
type planHistory interface {
	Session(ctx context.Context, id string) (run.Session, error)
	Spec(ctx context.Context, id string) (run.Spec, error)
	WasDeleted(session string) bool
	CanResume(session string) bool
	IsAncestor(session, of string) bool
	Affinity(session string) run.Demands
	Open(session string) []projection.Active
}

// readHistory is what it tells who asks for runs.
type readHistory interface {
	Counts() (waiting, begun, ended int)
	InStoppedTree(session string) bool // what it starts is stopped at once, as far as the fold knows
	Open(session string) []projection.Active
	Get(ctx context.Context, id string) (run.Run, error)
	Result(ctx context.Context, id string) (run.Result, run.Run, error)
	Runs(ctx context.Context, q projection.Query) (projection.Page, error)
	Count(ctx context.Context, q projection.Query) (projection.Count, error)
	WatchRuns(ctx context.Context, q projection.Query, after string, emit func(projection.Item) error) error
	Wait(ctx context.Context, id string) (run.Run, error)
	Done(ctx context.Context, id string) error
}

// stopHistory is what it tells who stops them.
type stopHistory interface {
	Get(ctx context.Context, id string) (run.Run, error)
	Active(id string) (projection.Active, bool)
	Below(session string, most int) (n int, oldest []string)
	Root(session string) string // the run that was begun last
	TreeStopped(session string) bool
}

// keyHistory is what it tells of a request that comes again.
type keyHistory interface {
	Get(ctx context.Context, id string) (run.Run, error)
	WasDeleted(session string) bool
}

// Accepted answers a run that was taken: from here on it ends in exactly one terminal state.
type Accepted struct {
	RunID     string     `json:"run_id"`
	SessionID string     `json:"session_id"`
	Status    run.Status `json:"status"`
	RetryOf   string     `json:"retry_of,omitempty"`
	Mode      string     `json:"-"` // as asked for: who waits, an ingress decides
	Wait      *int       `json:"-"` // seconds, as asked for
	fresh     bool       // stored by this request
}

// Outcome is a run and its result in one document.
type Outcome struct {
	run.Run
	Result *run.Result `json:"result"` // null: it has none, or has not ended
}
