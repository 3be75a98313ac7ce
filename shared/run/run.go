// Package run is what a run is and how it lives: the request, the records on the stream, the transition table,
// the result document, what a run demands of a runner, and the events a session's reader sees.
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

// The modes of a run: how its caller learns of the end.
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

// MaxDepth is the most that a limit of depth (AO_MAX_DEPTH) may be.
const MaxDepth = 250

// Demands are what a run asks of a runner. Empty members ask nothing.
type Demands struct {
	Hostname        string   `json:"hostname,omitempty"`
	ProjectDir      string   `json:"project_dir,omitempty"`
	ExecutorProfile string   `json:"executor_profile,omitempty"`
	ExecutorType    string   `json:"executor_type,omitempty"`
	Tags            []string `json:"tags,omitempty"`
}

// Empty tells whether nothing is asked for.
func (d Demands) Empty() bool {
	return d.Hostname == "" && d.ProjectDir == "" && d.ExecutorProfile == "" && d.ExecutorType == "" && len(d.Tags) == 0
}

// Merge adds demands up: for single values the earlier wins, tags are united and sorted.
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
	Parameters json.RawMessage `json:"parameters"`
	Status     Status          `json:"status"`
	Mode       string          `json:"mode"`
	Parent     string          `json:"parent_session_id,omitempty"`
	RetryOf    string          `json:"retry_of,omitempty"` // the run that it repeats
	Demands    Demands         `json:"demands"`
	RunnerID   string          `json:"runner_id,omitempty"`
	Attempt    int             `json:"attempt"`
	Error      *fault.Fault    `json:"error"`
	CreatedAt  time.Time       `json:"created_at"`
	ClaimedAt  *time.Time      `json:"claimed_at,omitempty"`
	StartedAt  *time.Time      `json:"started_at,omitempty"`
	EndedAt    *time.Time      `json:"completed_at,omitempty"`
	TimeoutAt  *time.Time      `json:"timeout_at,omitempty"`
	NextAt     *time.Time      `json:"next_attempt_at,omitempty"` // a pending one whose attempt failed: when the next one may be queued
	WaitingFor string          `json:"waiting_for,omitempty"`     // a pending one: why it waits

	// ParametersOmitted says that parameters are null because a list or a live stream leaves large ones out.
	ParametersOmitted bool `json:"parameters_omitted,omitempty"`

	MaxAttempts   int            `json:"max_attempts,omitempty"`
	Depth         int            `json:"depth,omitempty"`       // how many sessions are above its own
	Children      int            `json:"children,omitempty"`    // lists of roots: how many runs the sessions right below its own have
	ParentDeleted bool           `json:"parent_gone,omitempty"` // the parent session does not exist any more
	Callback      *CallbackState `json:"callback,omitempty"`    // mode async_callback: whether the parent session was told
	CallbackURL   string         `json:"callback_url,omitempty"`
	HTTPCallback  *CallbackState `json:"http_callback,omitempty"` // whether the callback_url was told

	Trace *Trace `json:"-"` // whose trace it is a part of; nil: nobody's
}

// CallbackState is where a callback stands.
type CallbackState struct {
	Status string     `json:"status"`                    // one of the constants below
	RunID  string     `json:"callback_run_id,omitempty"` // the parent's turn that tells it
	Reason string     `json:"reason,omitempty"`          // why it is undeliverable, or the last try failed
	Tries  int        `json:"tries,omitempty"`           // HTTP callbacks
	HTTP   int        `json:"http_status,omitempty"`     // of the last try; 0: no answer
	Next   *time.Time `json:"next_try_at,omitempty"`
}

// The statuses of a callback.
const (
	CallbackWaiting       = "waiting"       // the run has not ended
	CallbackPending       = "owed"          // it has, and the parent is busy, or tries are left
	CallbackDelivered     = "delivered"     // a turn of the parent was accepted that tells it; the receiver took it
	CallbackUndeliverable = "undeliverable" // the parent is gone or cannot be resumed
	CallbackSuppressed    = "suppressed"    // the run, or its parent, was stopped with what is above: nobody is told
	CallbackDead          = "dead"          // all tries were in vain; it can be asked for again
)

// CallbackStatuses are all of them.
var CallbackStatuses = []string{CallbackWaiting, CallbackPending, CallbackDelivered, CallbackUndeliverable, CallbackSuppressed, CallbackDead}

// LogValue keeps parameters and errors' details out of logs.
func (r Run) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", r.ID), slog.String("session", r.SessionID), slog.String("agent", r.Agent), slog.String("status", string(r.Status)))
}

// SessionStatus is where a session stands.
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

// Session is a session as readers see it; its status is always made from its runs.
type Session struct {
	ID         string        `json:"session_id"`
	Status     SessionStatus `json:"status"`
	Agent      string        `json:"agent_name"`
	AgentType  string        `json:"agent_type"`
	Parent     string        `json:"parent_session_id,omitempty"`
	Depth      int           `json:"depth,omitempty"`       // how many sessions are above it
	ParentGone bool          `json:"parent_gone,omitempty"` // the parent session does not exist any more
	ProjectDir string        `json:"project_dir,omitempty"`
	LastRun    string        `json:"last_run_id"`
	Runs       int           `json:"runs"`
	CreatedAt  time.Time     `json:"created_at"`
	ModifiedAt time.Time     `json:"modified_at"`
}

// sessionStatus is the session's status by that of its open run, else of its last ended one.
var sessionStatus = map[Status]SessionStatus{
	Pending: SessionPending, Claimed: SessionRunning, Running: SessionRunning, Stopping: SessionStopping,
	Completed: SessionFinished, Failed: SessionFailed, Stopped: SessionStopped,
}

// SessionStatusOf is a session's status, given the status of the run that speaks for it: the one that is open and
// oldest, else the one that ended last.
func SessionStatusOf(s Status) SessionStatus { return sessionStatus[s] }

// Result is the result document. Text and Data are mutually exclusive; Data is kept byte for byte.
type Result struct {
	Type             string          `json:"result_type"`
	Text             *string         `json:"result_text"`
	Data             json.RawMessage `json:"result_data"`
	ExitCode         *int            `json:"exit_code,omitempty"` // procedural runs only
	SchemaValidation json.RawMessage `json:"schema_validation,omitempty"`
	RawOutput        *string         `json:"raw_output,omitempty"`
}

// Outcome is how an attempt went: exactly one of completed, failed, stopped; a failed one may keep its result.
type Outcome struct {
	Status Status       `json:"status"`
	Error  *fault.Fault `json:"error,omitempty"`
	Result *Result      `json:"result,omitempty"`
}
