package run

import (
	"cmp"
	"encoding/json"
	"time"

	"ao/shared/fault"
)

// Version is the newest version of records that this program reads and writes. A reader skips kinds it does not know, and
// is not ready when it meets a coordinator's record of a version greater than its own. What a worker writes is bound by
// its attempt: see Queued.RecordVersion.
const Version = 1

// PartSize is the size of a payload's parts, in bytes: with its envelope well below NATS's 1 MiB.
const PartSize = 512 << 10

// Payload names a body that is too large for a message: numbered parts in the object store.
type Payload struct {
	Name   string `json:"name"`
	Parts  int    `json:"parts"`
	Size   int64  `json:"size"` // bytes in all
	SHA256 string `json:"sha256"`
}

// Spec is what was accepted, and never changes: it is carried by Accepted and Queued.
type Spec struct {
	ID                string     `json:"run_id"`
	Type              string     `json:"type"`
	SessionID         string     `json:"session_id"`
	Agent             string     `json:"agent_name"`
	AgentType         string     `json:"agent_type"`
	Mode              string     `json:"mode"`
	Parent            string     `json:"parent_session_id,omitempty"`
	Depth             int        `json:"depth,omitempty"` // how many sessions are above this one; a record of an older version has none
	ProjectDir        string     `json:"project_dir,omitempty"`
	Demands           Demands    `json:"demands"`                       // as readers see them
	Owner             string     `json:"owner,omitempty"`               // runner-owned agents: hash of the definition that may run it
	Timeout           int        `json:"timeout_seconds"`               // limit of the execution
	TimeoutBy         string     `json:"timeout_by"`                    // who set it: request, agent, profile, default
	Attempts          int        `json:"max_attempts,omitempty"`        // how often it may be begun; 0: once
	CallbackURL       string     `json:"callback_url,omitempty"`        // told of the run's end
	ExecutorSessionID string     `json:"executor_session_id,omitempty"` // queued: what an earlier run of the session bound
	PreviousRunID     string     `json:"after_run_id,omitempty"`        // queued, a resume: the session's run that was begun before it
	HasOutputSchema   bool       `json:"contract,omitempty"`            // an output schema holds, Input.Output: what a worker ends well with is offered
	Caller            string     `json:"caller,omitempty"`              // whose share of queues it counts to; opaque
	IsCallbackTurn    bool       `json:"callback_turn,omitempty"`       // it reports ended children to its session; a record of an older version never says so
	CreatedAt         time.Time  `json:"created_at"`                    // the coordinator's clock
	Trace             *Trace     `json:"trace,omitempty"`               // whose trace it is a part of; nil: nobody's
	RetryOf           string     `json:"retry_of,omitempty"`            // the run that it repeats
	Requested         *Requested `json:"asked,omitempty"`               // what a retry asks for again; nil: nothing
	Body              *Payload   `json:"payload,omitempty"`             // instead of Input where that is too large
	*Input            `json:",omitempty"`
}

// Requested is what the request asked for where the other members have it merged with the agent's values. A retry asks for the
// same, and today's agent is merged anew.
type Requested struct {
	ProjectDir string         `json:"project_dir,omitempty"`
	Demands    *Demands       `json:"additional_demands,omitempty"`
	Timeout    *int           `json:"timeout_seconds,omitempty"`
	Attempts   *int           `json:"max_attempts,omitempty"`
	Options    *OutputOptions `json:"output_schema_options,omitempty"`
}

// Trace is a W3C trace context: what is below it in a trace says so by it. It decides nothing.
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

// Size is how many bytes it has.
func (in *Input) Size() int64 {
	n := len(in.Parameters) + len(in.Blueprint)
	if in.Output != nil {
		n += len(in.Output.Schema)
	}
	return int64(n)
}

// Accepted is a run that waits: for its turn in the session, or for a runner that could take it.
type Accepted struct {
	V int `json:"v"`
	Spec
}

// Queued is a run that may be taken now.
type Queued struct {
	V       int    `json:"v"`
	Attempt int    `json:"attempt"` // from 1
	Key     string `json:"key"`     // the attempt's, shown to nobody but its worker
	// RecordVersion is the newest version that records under the attempt's key may have; 0: 1. All coordinators that were
	// online could read it. A record above it ends the attempt, for every reader alike.
	RecordVersion int `json:"record_version,omitempty"`
	Spec
}

// MaxRecordVersion is the newest version that records under the attempt's key may have.
func (q Queued) MaxRecordVersion() int { return max(q.RecordVersion, 1) }

// SessionCreated is a session that begins under an id the caller chose. Its run's first record stands behind it.
type SessionCreated struct {
	V     int             `json:"v"`
	RunID string          `json:"run_id"`
	At    time.Time       `json:"at"`
	Next  json.RawMessage `json:"next,omitempty"` // the run's accepted record: whoever finds the run without one writes it
}

// Claim is the beginning of an attempt.
type Claim struct {
	V           int       `json:"v"`
	SessionID   string    `json:"session_id"`
	RunnerID    string    `json:"runner_id,omitempty"` // none: a coordinator took it, to end it
	Instance    string    `json:"instance,omitempty"`  // the worker process
	Nonce       string    `json:"nonce"`               // tells an own claim from another's when read back
	Attempt     int       `json:"attempt"`
	At          time.Time `json:"at"`
	SignsEvents bool      `json:"proves,omitempty"` // events of the attempt are proven (Prove); a worker of an older version proves none
	// Next is the ended record that a coordinator claims the attempt for: whoever finds the attempt without one writes it.
	Next json.RawMessage `json:"next,omitempty"`
}

// MaxEndRecord is how many bytes a last word of a coordinator may have: what NATS takes in one message, without the headers
// of a batch.
const MaxEndRecord = 1<<20 - 4<<10

// Ended is the last word of an attempt. On the subject of an offer it is what the worker would have said: a result with an output
// schema, which a coordinator checks once more before it says the last word.
type Ended struct {
	V         int          `json:"v"`
	SessionID string       `json:"session_id"`
	RunnerID  string       `json:"runner_id,omitempty"`
	Nonce     string       `json:"nonce"`
	Attempt   int          `json:"attempt"`
	Status    Status       `json:"status"`
	Error     *fault.Fault `json:"error,omitempty"`
	Result    *Result      `json:"result,omitempty"`
	Body      *Payload     `json:"payload,omitempty"` // instead of Result where that is too large
	Events    uint64       `json:"events,omitempty"`  // sequence of its last event on EVENTS
	Checked   string       `json:"checked,omitempty"` // a coordinator's proof that it has checked the result against the run's output schema
	StartedAt *time.Time   `json:"started_at,omitempty"`
	At        time.Time    `json:"at"`
}

// Bound is what an executor says of its session: the model side's own id, which a resume gets back.
type Bound struct {
	V                 int       `json:"v"`
	SessionID         string    `json:"session_id"`
	RunnerID          string    `json:"runner_id"`
	Attempt           int       `json:"attempt"`
	ExecutorSessionID string    `json:"executor_session_id"`
	Hostname          string    `json:"hostname,omitempty"`         // where alone the model side has the session; empty: it can go on anywhere
	Profile           string    `json:"executor_profile,omitempty"` // whose executor knows it
	At                time.Time `json:"at"`
}

// Callback lists the ended children that a turn of their parent session reports. Its subject names the first child, so only one
// of two lists with the same first child is stored (decision 0014). The list precedes its turn and carries it.
type Callback struct {
	V int `json:"v"`
	// RunID is the parent's newest run that a runner claimed: a program of an older version takes that one for the turn. In a
	// record of an older version it is the turn, which precedes.
	RunID    string          `json:"run_id"`
	TurnID   string          `json:"turn_id,omitempty"` // the parent's turn; none in a record of an older version
	Children []string        `json:"children"`          // run ids, in the order of their ends
	At       time.Time       `json:"at"`
	Next     json.RawMessage `json:"next,omitempty"` // the turn's accepted record: any coordinator that finds no turn writes it

	// Suppressed: no turn reports the children, since they were stopped with what is above them.
	Suppressed bool `json:"suppressed,omitempty"`
}

// Turn is the run that reports the children.
func (c Callback) Turn() string { return cmp.Or(c.TurnID, c.RunID) }

// The ways a try of an HTTP callback goes.
const (
	NotifyDelivered = "delivered" // the last record: the receiver took it
	NotifyFailed    = "failed"    // another try comes at Next
	NotifyDead      = "dead"      // no further try, unless somebody asks for it
	NotifyAgain     = "again"     // somebody asked for it
)

// Notified is the n-th step of a run's HTTP callback.
type Notified struct {
	V         int        `json:"v"`
	SessionID string     `json:"session_id"`
	N         int        `json:"n"` // from 1
	Status    string     `json:"status"`
	HTTP      int        `json:"http_status,omitempty"` // the receiver's; 0: it did not answer
	Reason    string     `json:"reason,omitempty"`      // why it failed; never a part of an answer's body
	Next      *time.Time `json:"next_at,omitempty"`
	At        time.Time  `json:"at"`
}

// Stop is the wish to stop a run that a worker has.
type Stop struct {
	V         int       `json:"v"`
	SessionID string    `json:"session_id"`
	With      string    `json:"stopped_with,omitempty"` // the session whose tree is stopped; empty: somebody named this run
	At        time.Time `json:"at"`
}

// TreeStop is the wish to stop what is below a session, and a run of it, or all that it had accepted. Its subject names the run that the
// session began last. Where a later one was begun before the record, the record counts for nothing.
type TreeStop struct {
	V         int       `json:"v"`
	SessionID string    `json:"session_id"`
	RunID     string    `json:"run_id,omitempty"` // the run of the session to be stopped; empty: all that the stream has before
	At        time.Time `json:"at"`
}

// Deleted is the end of a session and all that belongs to it.
type Deleted struct {
	V      int       `json:"v"`
	Parent string    `json:"parent_session_id,omitempty"` // the session's; a record of an older version names none
	At     time.Time `json:"at"`
}
