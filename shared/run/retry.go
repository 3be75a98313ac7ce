package run

import "time"

// CodeDamaged is the error code of what the history may have lost: a run's claim or end, or the run of an idempotency
// key.
const CodeDamaged = "history_damaged"

// CodeDisconnected is the error code of an attempt whose worker is gone.
const CodeDisconnected = "runner_disconnected"

// CodeTooLarge is the error of a run whose result is larger than a result may be.
const CodeTooLarge = "result_too_large"

// CodeHistoryShare is the error code where a caller, or its session tree, has its share of the history.
const CodeHistoryShare = "history_share"

// The error codes of payloads, which the object store keeps.
const (
	CodePayloadsFull      = "payloads_full"      // the object store has no room for another
	CodePayloadShare      = "payload_share"      // the caller, or its session tree, has its share of it
	CodeParametersExpired = "parameters_expired" // the parameters of an ended run were removed to make room
)

// AllowsRetry reports whether the run's definition allows another attempt after the n-th.
func (s *Spec) AllowsRetry(n int) bool { return n < s.Attempts }

// Claimant is who claimed an attempt.
type Claimant int

// The claimants.
const (
	Unclaimed            Claimant = iota // no claim precedes the end record: NATS lost a runner's
	ClaimedByRunner                      // a runner claimed it
	ClaimedByCoordinator                 // to end a run that no runner had claimed, in the same write
)

// Claimant is who appended the claim; nil means nobody.
func (c *Claim) Claimant() Claimant {
	switch {
	case c == nil:
		return Unclaimed
	case c.RunnerID == "":
		return ClaimedByCoordinator
	}
	return ClaimedByRunner
}

// WillRetry reports whether a run is attempted again after its n-th attempt failed or was lost. The records
// before the end record decide, so every reader decides alike: a runner claimed the attempt, another is
// allowed, and no stop was requested. before is the run's status then; without the claim it is still pending.
func (s *Spec) WillRetry(n int, by Claimant, before Status) bool {
	return by != ClaimedByCoordinator && s.AllowsRetry(n) && before.After(MoveRetried) == Pending
}

// ReturnVersion is the version of attempts that runners may give back. A coordinator of an older version takes an
// attempt that was given back for a plain failure.
const ReturnVersion = 2

// MaxReturns is how often a run may be given back.
const MaxReturns = 16

// WillReturn reports whether a run is attempted again because its runner gave it back with this end record. As for
// WillRetry, what precedes the record decides.
func (e *Ended) WillReturn(returnable bool, by Claimant, before Status) bool {
	return e.Returned && e.Status == Failed && returnable && by == ClaimedByRunner &&
		before.After(MoveRetried) == Pending
}

// AddReturn allows a further attempt in place of one that was given back.
func (s *Spec) AddReturn() { s.Attempts = max(s.Attempts, 1) + 1 }

// Backoff returns the pause after the n-th failed attempt: 1 s, doubled each time, 60 s at most.
func Backoff(n int) time.Duration {
	return min(time.Second<<min(max(n-1, 0), 6), time.Minute)
}
