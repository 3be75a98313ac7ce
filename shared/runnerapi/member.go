package runnerapi

import "time"

// Member is a registered runner as it stands at one moment: a copy, which asks for no lock.
type Member struct {
	Runner
	ID                 string
	Status             string
	LastHeartbeat      time.Time
	LeftSeenAt         time.Time     // when it left, by this process; zero: it did not
	NamesReservedUntil time.Time     // how long its agents' names are held; zero: it did not leave
	CredentialUnknown  bool          // its last heartbeat came from a NATS that does not say with whose credential
	ClockOffset        time.Duration // by how much its clock is before ours
	ClockKnown         bool          // that is known
	RegistrationBytes  int           // of its registration, in bytes
}

// GraceOver tells whether a runner left and its grace is over.
func (m *Member) GraceOver() bool {
	return !m.NamesReservedUntil.IsZero() && !time.Now().Before(m.NamesReservedUntil)
}

// ReservesNames tells whether a runner keeps its agents' names from another one with other definitions, of this profile.
func (m *Member) ReservesNames(profile string) bool {
	switch m.Status {
	case Online:
		return true
	case Draining, Left:
		return m.ExecutorProfile != profile && !m.GraceOver()
	}
	return false
}
