package run

import "time"

// CodeDisconnected is the code of the error of an attempt whose worker is gone.
const CodeDisconnected = "runner_disconnected"

// AllowsRetry reports whether another attempt is allowed after the n-th, as far as the run's own definition goes.
func (s *Spec) AllowsRetry(n int) bool { return n < s.Attempts }

// Claimant is who claimed an attempt.
type Claimant int

// The claimants.
const (
	Unclaimed            Claimant = iota // no claim precedes the end in the log: NATS has lost a runner's
	ClaimedByRunner                      // it was begun
	ClaimedByCoordinator                 // to end a run that no runner had begun, in the same write
)

// Claimant is who appended the claim; nil is none.
func (c *Claim) Claimant() Claimant {
	switch {
	case c == nil:
		return Unclaimed
	case c.RunnerID == "":
		return ClaimedByCoordinator
	}
	return ClaimedByRunner
}

// WillRetry reports whether a run is attempted again after its n-th attempt failed or was lost. What precedes the end
// record in the log decides, so that every reader decides alike: a runner had begun the attempt, another is allowed,
// and nobody had wanted the run stopped. before is the run's status then; where the claim is lost it is still pending.
func (s *Spec) WillRetry(n int, by Claimant, before Status) bool {
	return by != ClaimedByCoordinator && s.AllowsRetry(n) && before.After(MoveRetried) == Pending
}

// Backoff is how long a run waits after its n-th attempt failed until the next one is queued: 1 s, doubled each time,
// 60 s at most.
func Backoff(n int) time.Duration {
	return min(time.Second<<min(max(n-1, 0), 6), time.Minute)
}
