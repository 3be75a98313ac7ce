package runnerapi

import "time"

// Member is a registered runner as it stands at one moment: a copy, which asks for no lock.
type Member struct {
	Runner
	ID      string
	Status  string
	Heard   time.Time
	Left    time.Time     // when it left, by this process; zero: it did not
	Until   time.Time     // how long its agents' names are held; zero: it did not leave
	Unnamed bool          // its last heartbeat came from a NATS that does not say with whose credential
	Ahead   time.Duration // by how much its clock is before ours
	Ticked  bool          // that is known
	Size    int           // of its registration, in bytes
}

// Over tells whether a runner left and its grace is over.
func (m *Member) Over() bool { return !m.Until.IsZero() && !time.Now().Before(m.Until) }

// Holds tells whether a runner keeps its agents' names from another one with other definitions, of this profile.
func (m *Member) Holds(profile string) bool {
	switch m.Status {
	case Online:
		return true
	case Draining, Left:
		return m.ExecutorProfile != profile && !m.Over()
	}
	return false
}
