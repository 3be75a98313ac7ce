package run

import (
	"cmp"
	"encoding/json"
	"time"

	"ao/shared/fault"
)

// Version is the newest version of records that this program reads and writes. A reader skips unknown kinds,
// and stops being ready when a coordinator's record has a newer version. A worker's records are limited by its
// attempt: see Queued.RecordVersion.
const Version = 1

// PartSize is the size of a payload's parts, in bytes. With its envelope a part is well below NATS's 1 MiB.
const PartSize = 512 << 10

// MaxInline is the size limit of a body in a record, in bytes. A larger one is stored as a payload.
const MaxInline = 256 << 10

// Payload names a body that is too large for a message: numbered parts in the object store.
type Payload struct {
	Name   string `json:"name"`
	Parts  int    `json:"parts"`
	Size   int64  `json:"size"` // bytes in all
	SHA256 string `json:"sha256"`
}

// Spec is an accepted run, which never changes. Accepted and Queued contain it.
type Spec struct {
	ID          string  `json:"run_id"`
	Type        string  `json:"type"`
	SessionID   string  `json:"session_id"`
	Agent       string  `json:"agent_name"`
	AgentType   string  `json:"agent_type"`
	Mode        string  `json:"mode"`
	Parent      string  `json:"parent_session_id,omitempty"`
	Depth       int     `json:"depth,omitempty"` // number of ancestor sessions; older records have none
	ProjectDir  string  `json:"project_dir,omitempty"`
	Demands     Demands `json:"demands"`                // as shown to readers
	Owner       string  `json:"owner,omitempty"`        // runner-owned agents: hash of the definition
	Timeout     int     `json:"timeout_seconds"`        // limit of the execution
	TimeoutBy   string  `json:"timeout_by"`             // its source: request, agent, profile, default
	Attempts    int     `json:"max_attempts,omitempty"` // maximum number of attempts; 0: one
	CallbackURL string  `json:"callback_url,omitempty"` // gets a webhook when the run ends
	// queued: bound by an earlier run of the session
	ExecutorSessionID string `json:"executor_session_id,omitempty"`
	// queued, a resume: the session's run that was claimed before it
	PreviousRunID string `json:"after_run_id,omitempty"`
	// it has an output schema: a worker offers its result for a check
	HasOutputSchema bool `json:"contract,omitempty"`
	// counts towards this caller's share of queues; opaque
	Caller string `json:"caller,omitempty"`
	// it reports ended children to its session; never set in older records
	IsCallbackTurn bool      `json:"callback_turn,omitempty"`
	CreatedAt      time.Time `json:"created_at"`         // the coordinator's clock
	Trace          *Trace    `json:"trace,omitempty"`    // its trace context; nil: none
	RetryOf        string    `json:"retry_of,omitempty"` // the run that it repeats
	// RequestHash is a hash of the request that an idempotency key came with; empty: none did. Then the run's id
	// follows from the key, and the run's first record shows which request made it.
	RequestHash string     `json:"request_hash,omitempty"`
	Requested   *Requested `json:"asked,omitempty"`   // what a retry requests again; nil: nothing
	Body        *Payload   `json:"payload,omitempty"` // instead of a large Input
	// hash of the definition, where that is in the payload; older records have none
	AgentHash string `json:"agent_hash,omitempty"`
	*Input    `json:",omitempty"`
}

// Requested is what the request asked for, where other members have it merged with the agent's values. A retry
// requests the same, merged with the current agent.
type Requested struct {
	ProjectDir string         `json:"project_dir,omitempty"`
	Demands    *Demands       `json:"additional_demands,omitempty"`
	Timeout    *int           `json:"timeout_seconds,omitempty"`
	Attempts   *int           `json:"max_attempts,omitempty"`
	Options    *OutputOptions `json:"output_schema_options,omitempty"`
}

// Trace is a W3C trace context.
type Trace struct {
	Parent string `json:"traceparent"`
	State  string `json:"tracestate,omitempty"`
}

// Input is the part of a Spec that may be large.
type Input struct {
	Parameters json.RawMessage `json:"parameters,omitempty"` // as sent
	Blueprint  json.RawMessage `json:"agent_blueprint,omitempty"`
	Output     *Output         `json:"output,omitempty"` // what the answer must be; nil: anything
}

// Size is its size in bytes.
func (in *Input) Size() int64 {
	n := len(in.Parameters) + len(in.Blueprint)
	if in.Output != nil {
		n += len(in.Output.Schema)
	}
	return int64(n)
}

// Accepted is a run that waits for its turn in the session, or for a runner.
type Accepted struct {
	V int `json:"v"`
	Spec
}

// Queued is a run that may be claimed now.
type Queued struct {
	V       int    `json:"v"`
	Attempt int    `json:"attempt"` // from 1
	Key     string `json:"key"`     // the attempt's fencing token, known to its worker and coordinators
	// RecordVersion is the newest version that records under the attempt's key may have; 0: 1. All coordinators
	// that were online could read it. A newer record ends the attempt, for every reader alike.
	RecordVersion int `json:"record_version,omitempty"`
	// Returnable: its runner may give it back (returned). All coordinators that were online understand that.
	Returnable bool `json:"returnable,omitempty"`
	Spec
}

// MaxRecordVersion returns the newest version that records under the attempt's key may have.
func (q Queued) MaxRecordVersion() int { return max(q.RecordVersion, 1) }

// SessionCreated is a session that starts under an id the caller chose. The run's first record follows it.
type SessionCreated struct {
	V     int             `json:"v"`
	RunID string          `json:"run_id"`
	At    time.Time       `json:"at"`
	Next  json.RawMessage `json:"next,omitempty"` // the run's accepted record; a reader that finds no run writes it
}

// Claim is the start of an attempt.
type Claim struct {
	V         int       `json:"v"`
	SessionID string    `json:"session_id"`
	RunnerID  string    `json:"runner_id,omitempty"` // none: a coordinator claimed it, to end it
	Instance  string    `json:"instance,omitempty"`  // the worker process
	Nonce     string    `json:"nonce"`               // identifies an own claim when it is read back
	Attempt   int       `json:"attempt"`
	At        time.Time `json:"at"`
	// the attempt's events are signed (SignEvent); older workers sign none
	SignsEvents bool `json:"proves,omitempty"`
	// Queued is the sequence of the record that is claimed. Programs of older versions do not say it.
	Queued uint64 `json:"queued,omitempty"`
	// Next is the end record that a coordinator claims the attempt for. A reader that finds no end record writes it.
	Next json.RawMessage `json:"next,omitempty"`
}

// MaxEndRecord is the size limit of a coordinator's end record in bytes: NATS's limit without the headers of a batch.
const MaxEndRecord = 1<<20 - 4<<10

// Ended is the end record of an attempt. On the subject of an offer it is the worker's unverified result. A
// coordinator checks it against the output schema before it appends the end record.
type Ended struct {
	V         int          `json:"v"`
	SessionID string       `json:"session_id"`
	RunnerID  string       `json:"runner_id,omitempty"`
	Nonce     string       `json:"nonce"`
	Attempt   int          `json:"attempt"`
	Status    Status       `json:"status"`
	Error     *fault.Fault `json:"error,omitempty"`
	Result    *Result      `json:"result,omitempty"`
	Body      *Payload     `json:"payload,omitempty"` // instead of a large Result
	Events    uint64       `json:"events,omitempty"`  // sequence of its last event in EVENTS
	// Returned: failed, and the runner gives the run back: it cannot do any run of its profile now, and nothing of
	// this one was done. Only an attempt that is Returnable can be.
	Returned  bool       `json:"returned,omitempty"`
	Checked   string     `json:"checked,omitempty"` // a coordinator's proof that it checked the result
	StartedAt *time.Time `json:"started_at,omitempty"`
	At        time.Time  `json:"at"`
}

// Bound binds an executor session to a session: the executor's own id, which a resume gets back.
type Bound struct {
	V                 int    `json:"v"`
	SessionID         string `json:"session_id"`
	RunnerID          string `json:"runner_id"`
	Attempt           int    `json:"attempt"`
	ExecutorSessionID string `json:"executor_session_id"`
	// the only host that has the executor session; empty: any has
	Hostname string    `json:"hostname,omitempty"`
	Profile  string    `json:"executor_profile,omitempty"` // the profile whose executor knows it
	At       time.Time `json:"at"`
}

// Callback lists the ended children that a turn of their parent session reports. Its subject names the first child, so
// only one of two lists with the same first child is stored. The list precedes its turn and contains it.
type Callback struct {
	V int `json:"v"`
	// RunID is the parent's newest claimed run: older programs take it for the turn. In an older record it is
	// the turn, which precedes the list.
	RunID    string    `json:"run_id"`
	TurnID   string    `json:"turn_id,omitempty"` // the parent's turn; none in older records
	Children []string  `json:"children"`          // run ids, in the order of their ends
	At       time.Time `json:"at"`
	// the turn's accepted record; a coordinator that finds no turn writes it. None once the session is deleted
	Next json.RawMessage `json:"next,omitempty"`

	// Suppressed: no turn reports the children, since they were stopped together with an ancestor.
	Suppressed bool `json:"suppressed,omitempty"`
}

// Turn returns the run that reports the children.
func (c Callback) Turn() string { return cmp.Or(c.TurnID, c.RunID) }

// The outcomes of a webhook delivery.
const (
	NotifyDelivered = "delivered" // the last record: the receiver accepted it
	NotifyFailed    = "failed"    // retried at Next
	NotifyDead      = "dead"      // no further try, unless requested
	NotifyAgain     = "again"     // a further try was requested
)

// Notified is the n-th step of a run's webhook.
type Notified struct {
	V         int        `json:"v"`
	SessionID string     `json:"session_id"`
	N         int        `json:"n"`                     // from 1
	Status    string     `json:"status"`                // delivered, failed (tried at next_at), dead, again
	HTTP      int        `json:"http_status,omitempty"` // of the receiver; 0: no response
	Reason    string     `json:"reason,omitempty"`      // why it failed; never part of a response body
	Next      *time.Time `json:"next_at,omitempty"`
	At        time.Time  `json:"at"`
}

// Stop is the request to stop a run that a worker has.
type Stop struct {
	V         int       `json:"v"`
	SessionID string    `json:"session_id"`
	With      string    `json:"stopped_with,omitempty"` // the session whose tree is stopped; empty: this run was named
	At        time.Time `json:"at"`
}

// TreeStop is the request to stop a session's descendants, and one of its runs or all that it had accepted. Its subject
// names the session's last claimed run. If a later one was claimed before the record, the record has no effect.
type TreeStop struct {
	V         int       `json:"v"`
	SessionID string    `json:"session_id"`
	RunID     string    `json:"run_id,omitempty"` // the run of the session to stop; empty: all that precede the record
	At        time.Time `json:"at"`
}

// Deleted is the deletion of a session and everything that belongs to it.
type Deleted struct {
	V      int       `json:"v"`
	Parent string    `json:"parent_session_id,omitempty"` // the session's; none in older records
	At     time.Time `json:"at"`
}
