package explain

import "time"

// Step is something that happened to a run. Its time is the record's; of started it is the worker's.
type Step struct {
	At       time.Time `json:"at"`
	Attempt  int       `json:"attempt,omitempty"`
	What     string    `json:"what"` // one of the constants below
	Detail   string    `json:"detail"`
	Sequence uint64    `json:"sequence,omitempty"` // of the record of RUNS that says so; none: no record does

	rejected *Rejected // the answer that it is about
}

// What can happen to a run.
const (
	stepAccepted = "accepted"
	stepQueued   = "queued"
	stepMoved    = "moved" // into another queue
	stepClaimed  = "claimed"
	stepStarted  = "started"
	stepBound    = "bound"
	// an answer that does not match the output schema: the session is asked again, where it may be
	stepRejected      = "rejected"
	stepOffered       = "offered"
	stepChecked       = "checked"
	stepStopping      = "stopping"
	stepAttemptFailed = "attempt_failed" // another follows
	stepAttemptLost   = "attempt_lost"   // likewise
	stepReturned      = "returned"       // its runner cannot work and gave the run back: another attempt follows
	stepCompleted     = "completed"
	stepFailed        = "failed"
	stepStopped       = "stopped"
	stepLost          = "lost" // failed, since its runner was
	stepCallback      = "callback"
	stepWebhook       = "webhook"
	stepLeftOut       = "left_out" // the story is too long
)
