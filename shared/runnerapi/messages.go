package runnerapi

import (
	"time"
)

// The operations that a worker requests from any coordinator, on ao.fleet.<op> (core NATS, request and reply).
const (
	OpRegister   = "register"    // Registration → Registered
	OpDeregister = "deregister"  // Deregistration → nothing
	OpGetPart    = "payload_get" // PartRequest → the part's bytes
	OpPutPart    = "payload_put" // PartRequest with Body → nothing
	OpDropState  = "state_drop"  // PartRequest for a state that the session is no longer bound to → nothing
)

// Registration is what a worker announces, over NATS or HTTP. SecretHash is not set yet: see HashSecret.
type Registration struct {
	Runner
	Secret string `json:"secret,omitempty"` // of this process; older workers send none
}

// Registered is the reply: the runner's id, the heartbeat interval, and its task queues.
type Registered struct {
	RunnerID          string        `json:"runner_id"`
	HeartbeatInterval time.Duration `json:"beat_every"` // nanoseconds; derived from the lease
	Lease             time.Duration `json:"lease"`      // nanoseconds
	HeartbeatSeconds  int           `json:"heartbeat_interval_seconds"`
	TaskQueues        []string      `json:"lanes"`
	APIURL            string        `json:"api_url,omitempty"` // HTTP API of the coordinator that replied, for workers
	// RecordVersion is the newest version of records that the worker may write; 0: 1. Every online coordinator
	// reads it.
	RecordVersion int `json:"record_version,omitempty"`
	// EventVersion is the newest format of events that every online coordinator reads; 0: 1. See run.EventVersion.
	EventVersion int `json:"event_version,omitempty"`
	// Updates: the coordinator understands Runner.Updates. Older ones do not.
	Updates bool `json:"updates,omitempty"`
	// Refused are the new agents of an update whose names collide, and why. The rest was registered.
	Refused map[string]string `json:"refused,omitempty"`
}

// Deregistration announces the end of a worker process. After SIGTERM the process sends it at once if it has
// runs to finish, and again when it exits.
type Deregistration struct {
	RunnerID  string `json:"runner_id"`
	Instance  string `json:"instance"`
	Secret    string `json:"secret,omitempty"`    // as it registered
	Finishing bool   `json:"finishing,omitempty"` // it takes no more runs but still has some
}

// Heartbeat reports that a worker is alive and which attempts it has. It is a request on ao.beats.<runner>.
type Heartbeat struct {
	RunnerID string    `json:"runner_id"`
	Instance string    `json:"instance"`
	Secret   string    `json:"secret,omitempty"` // as it registered
	Attempts []Attempt `json:"attempts"`
	Idle     []string  `json:"idle,omitempty"` // sessions with a process that waits for the next turn
	Draining bool      `json:"draining,omitempty"`
	Unable   *Unable   `json:"unable,omitempty"` // it takes no runs, and why
	At       time.Time `json:"at,omitzero"`      // by the worker's clock
}

// Attempt is one that a worker has claimed and not ended.
type Attempt struct {
	RunID     string     `json:"run_id"`
	SessionID string     `json:"session_id"`
	Key       string     `json:"key"`
	StartedAt *time.Time `json:"started_at,omitempty"` // when its executor was started
}

// HeartbeatReply tells a worker what it does not know yet.
type HeartbeatReply struct {
	Known      bool     `json:"known"`             // false: register again
	Superseded bool     `json:"superseded"`        // another process is this runner now: end everything
	Abandoned  []string `json:"given_up"`          // keys of attempts that the coordinator has ended: kill them
	Stop       []string `json:"stop"`              // keys of attempts to stop
	Forget     []string `json:"forget,omitempty"`  // deleted sessions of Idle: end their processes
	Drain      bool     `json:"drain"`             // take no more runs, finish, exit
	TaskQueues []string `json:"lanes"`             // all task queues the runner pulls from
	APIURL     string   `json:"api_url,omitempty"` // HTTP API of the coordinator that replied
	// RecordVersion is the newest version of records that the worker may write from now on; 0: 1.
	RecordVersion int `json:"record_version,omitempty"`
	// EventVersion is the newest format of events that the worker may write from now on; 0: 1.
	EventVersion int `json:"event_version,omitempty"`
	// Unused are hashes of the runner's older definitions that no accepted run carries.
	Unused []string `json:"unused,omitempty"`
}

// The commands of a coordinator to one worker, on ao.commands.<runner>.
const (
	CommandStop       = "stop"  // end this attempt's process tree
	CommandProbe      = "probe" // do you still have this attempt? → Probed
	CommandPing       = "ping"  // are you alive? → Ponged
	CommandTaskQueues = "lanes" // pull from these task queues
	CommandDrain      = "drain" // take no more runs, finish, exit
)

// Command is a command to a worker. Commands that change something are authenticated: stop by the attempt's
// key, the others by the process id, which no other worker knows.
type Command struct {
	Type       string   `json:"type"`
	RunID      string   `json:"run_id,omitempty"`
	Key        string   `json:"key,omitempty"`
	Instance   string   `json:"instance,omitempty"` // lanes, drain: the worker process
	TaskQueues []string `json:"lanes,omitempty"`
}

// CommandReply is the reply to every command.
type CommandReply struct {
	Instance string `json:"instance"`
	Secret   string `json:"secret,omitempty"` // as it registered: proves that the process replied
	Has      bool   `json:"has,omitempty"`    // probe, stop: the attempt is here
}

// PartRequest reads or writes one part of a payload. The attempt's key proves the worker's right.
type PartRequest struct {
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	Attempt   int    `json:"attempt"`
	Key       string `json:"key"`
	Name      string `json:"name"`
	Part      int    `json:"part"`
	Body      []byte `json:"body,omitempty"`
	Size      int64  `json:"size,omitempty"` // of the whole payload in bytes; 0: unknown
}
