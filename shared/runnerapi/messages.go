package runnerapi

import (
	"time"
)

// What a worker asks of any coordinator, over ao.fleet.<op> (core NATS, request and reply).
const (
	OpRegister   = "register"    // Registration → Registered
	OpDeregister = "deregister"  // Deregistration → nothing
	OpGetPart    = "payload_get" // PartRequest → the part's bytes
	OpPutPart    = "payload_put" // PartRequest with Body → nothing
	OpDropState  = "state_drop"  // PartRequest that names a state the session is no longer bound to → nothing
)

// Registration is what a worker announces; over HTTP the same. The embedded Runner has no Proof yet: see Admitted.
type Registration struct {
	Runner
	Secret string `json:"secret,omitempty"` // of this process; workers before it send none
}

// Registered is the answer: who the runner is, how often it is to beat, and where its runs wait.
type Registered struct {
	RunnerID          string        `json:"runner_id"`
	HeartbeatInterval time.Duration `json:"beat_every"` // nanoseconds; the lease's rhythm
	Lease             time.Duration `json:"lease"`      // nanoseconds
	HeartbeatSeconds  int           `json:"heartbeat_interval_seconds"`
	TaskQueues        []string      `json:"lanes"`
	APIURL            string        `json:"api_url,omitempty"` // where the coordinator that answered has its HTTP API, as workers reach it
	// RecordVersion is the newest version of records that the worker may write; 0: 1. Every coordinator that is online reads it.
	RecordVersion int `json:"record_version,omitempty"`
	// EventVersion is the newest form of events that every coordinator reads which is online; 0: 1. See
	// run.EventVersion.
	EventVersion int `json:"event_version,omitempty"`
}

// Deregistration is the end of a worker process. One that was told to end (SIGTERM) says it at once where it has runs to finish, and again when
// it goes.
type Deregistration struct {
	RunnerID  string `json:"runner_id"`
	Instance  string `json:"instance"`
	Secret    string `json:"secret,omitempty"`    // as it registered
	Finishing bool   `json:"finishing,omitempty"` // it takes no more and is still there
}

// Heartbeat says that a worker is alive and which attempts it has. It is a request on ao.beats.<runner>.
type Heartbeat struct {
	RunnerID string    `json:"runner_id"`
	Instance string    `json:"instance"`
	Secret   string    `json:"secret,omitempty"` // as it registered
	Attempts []Attempt `json:"attempts"`
	Idle     []string  `json:"idle,omitempty"` // sessions that have a process which waits for their next turn
	Draining bool      `json:"draining,omitempty"`
	At       time.Time `json:"at,omitzero"` // by the worker's clock
}

// Attempt is one that a worker has begun and not yet ended.
type Attempt struct {
	RunID     string     `json:"run_id"`
	SessionID string     `json:"session_id"`
	Key       string     `json:"key"`
	StartedAt *time.Time `json:"started_at,omitempty"` // its executor runs since
}

// HeartbeatReply tells a worker what it does not know yet.
type HeartbeatReply struct {
	Known      bool     `json:"known"`             // false: register again
	Superseded bool     `json:"superseded"`        // another process is this runner now: end everything
	Abandoned  []string `json:"given_up"`          // keys of attempts that are over for the coordinator: kill them
	Stop       []string `json:"stop"`              // keys of attempts that somebody wants stopped
	Forget     []string `json:"forget,omitempty"`  // sessions of Idle that are deleted: end their processes
	Drain      bool     `json:"drain"`             // take no more, finish, go
	TaskQueues []string `json:"lanes"`             // all queues the runner takes from
	APIURL     string   `json:"api_url,omitempty"` // where the coordinator that answers has its HTTP API
	// RecordVersion is the newest version of records that the worker may write from now on; 0: 1.
	RecordVersion int `json:"record_version,omitempty"`
	// EventVersion is the newest form of events that the worker may write from now on; 0: 1.
	EventVersion int `json:"event_version,omitempty"`
}

// What a coordinator asks of one worker, on ao.commands.<runner>.
const (
	CommandStop       = "stop"  // end this attempt's process tree
	CommandProbe      = "probe" // do you still have this attempt? → Probed
	CommandPing       = "ping"  // are you alive? → Ponged
	CommandTaskQueues = "lanes" // take from these queues
	CommandDrain      = "drain" // take no more, finish, go
)

// Command is a coordinator's word to a worker. What changes something proves that it is one: stop by the attempt's key, the others by
// the process that they are for, which no other worker is told.
type Command struct {
	Type       string   `json:"type"`
	RunID      string   `json:"run_id,omitempty"`
	Key        string   `json:"key,omitempty"`
	Instance   string   `json:"instance,omitempty"` // lanes, drain: the worker process
	TaskQueues []string `json:"lanes,omitempty"`
}

// CommandReply answers every command.
type CommandReply struct {
	Instance string `json:"instance"`
	Secret   string `json:"secret,omitempty"` // as it registered: the reply is that process's
	Has      bool   `json:"has,omitempty"`    // probe, stop: the attempt is here
}

// PartRequest asks for, or brings, one part of a payload; the attempt's key proves that the worker may.
type PartRequest struct {
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	Attempt   int    `json:"attempt"`
	Key       string `json:"key"`
	Name      string `json:"name"`
	Part      int    `json:"part"`
	Body      []byte `json:"body,omitempty"`
}
