package explain

import "time"

// Step is something that happened to a run. Its time is that of the record on the stream, but for started: that is the worker's.
type Step struct {
	At       time.Time `json:"at"`
	Attempt  int       `json:"attempt,omitempty"`
	What     string    `json:"what"` // one of the constants below
	Detail   string    `json:"detail"`
	Sequence uint64    `json:"sequence,omitempty"` // of the record of RUNS that says so; none: no record does
}

// What can happen to a run.
const (
	StepAccepted      = "accepted"
	StepQueued        = "queued"
	StepMoved         = "moved" // into another queue
	StepClaimed       = "claimed"
	StepStarted       = "started"
	StepBound         = "bound"
	StepRejected      = "rejected" // an answer that does not match the output schema: the session is asked again, where it may be
	StepOffered       = "offered"
	StepChecked       = "checked"
	StepStopping      = "stopping"
	StepAttemptFailed = "attempt_failed" // another follows
	StepAttemptLost   = "attempt_lost"   // likewise
	StepCompleted     = "completed"
	StepFailed        = "failed"
	StepStopped       = "stopped"
	StepLost          = "lost" // failed, since its runner was
	StepCallback      = "callback"
	StepWebhook       = "webhook"
	StepLeftOut       = "left_out" // the story is too long
)
