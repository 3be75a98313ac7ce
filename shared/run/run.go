// Package run defines a run and its life: the request, its demands, the records, the transition table and the result.
// It also defines the events for a session's readers.
package run

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"ao/shared/fault"
)

// The types of a run.
const (
	Start  = "start_session"
	Resume = "resume_session"
)

// The modes of a run: how its caller learns that it ended.
const (
	Sync          = "sync"
	AsyncPoll     = "async_poll"
	AsyncCallback = "async_callback"
)

// The types of agents and executors.
const (
	Autonomous = "autonomous"
	Procedural = "procedural"
)

// The execution timeouts of runs without one, by agent type.
const (
	proceduralTimeout = 5 * time.Minute
	autonomousTimeout = time.Hour
)

// DefaultTimeout returns the execution timeout of a run without one.
func DefaultTimeout(agentType string) time.Duration {
	if agentType == Procedural {
		return proceduralTimeout
	}
	return autonomousTimeout
}

// MaxDepth is the largest allowed AO_MAX_DEPTH.
const MaxDepth = 250

// Demands are what a run requires of a runner. Empty members require nothing.
type Demands struct {
	Hostname        string   `json:"hostname,omitempty"`
	ProjectDir      string   `json:"project_dir,omitempty"`
	ExecutorProfile string   `json:"executor_profile,omitempty"`
	ExecutorType    string   `json:"executor_type,omitempty"`
	Tags            []string `json:"tags,omitempty"`
}

// Empty reports whether nothing is required.
func (d Demands) Empty() bool {
	return d.Hostname == "" && d.ProjectDir == "" && d.ExecutorProfile == "" && d.ExecutorType == "" && len(d.Tags) == 0
}

// Merge combines demands: of single values the first wins, tags are united and sorted.
func Merge(all ...Demands) Demands {
	var sum Demands
	first := func(to *string, v string) {
		if *to == "" {
			*to = v
		}
	}
	for _, d := range all {
		first(&sum.Hostname, d.Hostname)
		first(&sum.ProjectDir, d.ProjectDir)
		first(&sum.ExecutorProfile, d.ExecutorProfile)
		first(&sum.ExecutorType, d.ExecutorType)
		sum.Tags = append(sum.Tags, d.Tags...)
	}
	slices.Sort(sum.Tags)
	sum.Tags = slices.Compact(sum.Tags)
	return sum
}

// Run is a run as readers see it.
type Run struct {
	ID         string          `json:"run_id"`
	Type       string          `json:"type"`
	SessionID  string          `json:"session_id"`
	Agent      string          `json:"agent_name"`
	AgentHash  string          `json:"agent_hash,omitempty"` // of the definition that it runs; empty: unknown
	Parameters json.RawMessage `json:"parameters"`
	// large parameters of an ended run were removed to make room for others
	ParametersExpired bool         `json:"parameters_expired,omitempty"`
	Status            Status       `json:"status"`
	Mode              string       `json:"mode"`
	Parent            string       `json:"parent_session_id,omitempty"`
	RetryOf           string       `json:"retry_of,omitempty"` // the run that it repeats
	Demands           Demands      `json:"demands"`
	RunnerID          string       `json:"runner_id,omitempty"`
	Attempt           int          `json:"attempt"`
	Error             *fault.Fault `json:"error"`
	CreatedAt         time.Time    `json:"created_at"`
	ClaimedAt         *time.Time   `json:"claimed_at,omitempty"`
	StartedAt         *time.Time   `json:"started_at,omitempty"`
	EndedAt           *time.Time   `json:"completed_at,omitempty"`
	TimeoutAt         *time.Time   `json:"timeout_at,omitempty"`
	// pending after a failed attempt: when the next one may be queued
	NextAt     *time.Time `json:"next_attempt_at,omitempty"`
	WaitingFor string     `json:"waiting_for,omitempty"` // pending: why it waits

	// StoppedWith is the session whose tree was stopped, and this run with it; empty: the run was not stopped so.
	StoppedWith string `json:"stopped_with,omitempty"`

	// ParametersOmitted: parameters are null because lists and live streams omit large ones.
	ParametersOmitted bool `json:"parameters_omitted,omitempty"`

	MaxAttempts int `json:"max_attempts,omitempty"`
	Depth       int `json:"depth,omitempty"` // number of ancestor sessions
	// in lists of roots: number of runs in the child sessions
	Children      int  `json:"children,omitempty"`
	ParentDeleted bool `json:"parent_gone,omitempty"` // the parent session no longer exists
	// mode async_callback: the callback to the parent session
	Callback     *CallbackState `json:"callback,omitempty"`
	CallbackURL  string         `json:"callback_url,omitempty"`
	HTTPCallback *CallbackState `json:"http_callback,omitempty"` // the webhook to callback_url

	Trace *Trace `json:"-"` // its trace context; nil: none
}

// CallbackState is the state of a callback or webhook.
type CallbackState struct {
	Status string     `json:"status"`                    // one of the constants below
	RunID  string     `json:"callback_run_id,omitempty"` // the parent's turn that reports it
	Reason string     `json:"reason,omitempty"`          // why it is undeliverable, or the last try failed
	Tries  int        `json:"tries,omitempty"`           // webhooks
	HTTP   int        `json:"http_status,omitempty"`     // of the last try; 0: no response
	Next   *time.Time `json:"next_try_at,omitempty"`
}

// The statuses of a callback.
const (
	CallbackWaiting = "waiting" // the run has not ended
	CallbackPending = "owed"    // the run has ended; the parent is busy, or tries are left
	// a turn of the parent that reports it was accepted; or the receiver accepted it
	CallbackDelivered     = "delivered"
	CallbackUndeliverable = "undeliverable" // the parent is deleted or cannot be resumed
	CallbackSuppressed    = "suppressed"    // the run, or its parent, was stopped together with an ancestor
	CallbackDead          = "dead"          // all tries failed; another can be requested
)

// CallbackStatuses are all statuses of a callback.
var CallbackStatuses = []string{CallbackWaiting, CallbackPending, CallbackDelivered, CallbackUndeliverable,
	CallbackSuppressed, CallbackDead}

// LogValue keeps parameters and the details of errors out of logs.
func (r Run) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", r.ID), slog.String("session", r.SessionID),
		slog.String("agent", r.Agent), slog.String("status", string(r.Status)))
}

// SessionStatus is the status of a session.
type SessionStatus string

// The statuses of a session.
const (
	SessionPending  SessionStatus = "pending"
	SessionRunning  SessionStatus = "running"
	SessionIdle     SessionStatus = "idle"
	SessionStopping SessionStatus = "stopping"
	SessionFinished SessionStatus = "finished"
	SessionStopped  SessionStatus = "stopped"
	SessionFailed   SessionStatus = "failed"
)

// Session is a session as readers see it. Its status is derived from its runs.
type Session struct {
	ID         string        `json:"session_id"`
	Status     SessionStatus `json:"status"`
	Agent      string        `json:"agent_name"`
	AgentType  string        `json:"agent_type"`
	Parent     string        `json:"parent_session_id,omitempty"`
	Depth      int           `json:"depth,omitempty"`       // number of ancestor sessions
	ParentGone bool          `json:"parent_gone,omitempty"` // the parent session no longer exists
	ProjectDir string        `json:"project_dir,omitempty"`
	LastRun    string        `json:"last_run_id"`
	Runs       int           `json:"runs"`
	CreatedAt  time.Time     `json:"created_at"`
	ModifiedAt time.Time     `json:"modified_at"`
}

// sessionStatus is the session's status by that of its run.
var sessionStatus = map[Status]SessionStatus{
	Pending: SessionPending, Claimed: SessionRunning, Running: SessionRunning, Stopping: SessionStopping,
	Completed: SessionFinished, Failed: SessionFailed, Stopped: SessionStopped,
}

// SessionStatusOf returns a session's status by the status of its oldest open run, or else of the run that ended last.
func SessionStatusOf(s Status) SessionStatus { return sessionStatus[s] }

// MaxNote is the size limit of a result's note, in bytes.
const MaxNote = 1 << 10

// Result is the result document. Text and Data exclude each other; Data is kept byte for byte.
type Result struct {
	Type             string          `json:"result_type"`
	Text             *string         `json:"result_text"`
	Data             json.RawMessage `json:"result_data"`
	ExitCode         *int            `json:"exit_code,omitempty"` // procedural runs only
	SchemaValidation json.RawMessage `json:"schema_validation,omitempty"`
	RawOutput        *string         `json:"raw_output,omitempty"`
	Note             string          `json:"note,omitempty"` // what a reader must know: the answer is invented
}

// Outcome is the outcome of an attempt: completed, failed or stopped. A failed one may have a result.
type Outcome struct {
	Status Status       `json:"status"`
	Error  *fault.Fault `json:"error,omitempty"`
	Result *Result      `json:"result,omitempty"`
}
