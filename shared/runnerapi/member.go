package runnerapi

import "time"

// Member is a copy of a registered runner at one moment; it needs no lock.
type Member struct {
	Runner
	Standing
	ID                 string
	LastHeartbeat      time.Time
	LeftSeenAt         time.Time     // when it left, by this process's clock; zero: it did not
	NamesReservedUntil time.Time     // how long its agents' names are reserved; zero: it did not leave
	CredentialUnknown  bool          // NATS did not name the credential of its last heartbeat
	ClockOffset        time.Duration // how far its clock is ahead of ours
	ClockKnown         bool          // ClockOffset is known
	RegistrationBytes  int           // size of its registration
}

// GraceOver reports whether a runner left and its grace period is over.
func (m *Member) GraceOver() bool {
	return !m.NamesReservedUntil.IsZero() && !time.Now().Before(m.NamesReservedUntil)
}

// ReservesNames reports whether a runner keeps its agents' names from another runner of this profile with other
// definitions.
func (m *Member) ReservesNames(profile string) bool {
	switch m.Status {
	case Online:
		return true
	case Draining, Left:
		return m.ExecutorProfile != profile && !m.GraceOver()
	}
	return false
}
