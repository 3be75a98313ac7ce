package runnerapi

import (
	"fmt"
	"time"
)

// Unable is why a runner takes no runs: its profile cannot work there at the moment. The runner looks again by itself.
type Unable struct {
	Code     string    `json:"error"`
	Message  string    `json:"message"`
	Since    time.Time `json:"since"`
	NextLook time.Time `json:"next_look_at"`
}

// The limits of what a runner says of itself, in bytes.
const (
	maxUnableCode    = 64
	maxUnableMessage = 2000
)

// cut limits what a runner says of itself.
func (u *Unable) cut() {
	u.Code = u.Code[:min(len(u.Code), maxUnableCode)]
	u.Message = u.Message[:min(len(u.Message), maxUnableMessage)]
}

// Standing is how a registered runner is seen at one moment. It alone decides whether a runner takes runs.
type Standing struct {
	// Status is by the registration and the thresholds: Online, Draining, Left, Stale or Removed. It decides who has
	// an agent's name.
	Status string
	Silent time.Duration // since the last heartbeat, once a lease has passed; else 0
	Unable *Unable       // why its profile cannot work, as its last heartbeat says; nil: it can
}

// TakesRuns reports whether the runner takes runs.
func (s Standing) TakesRuns() bool { return s.Shown() == Online }

// Shown returns the status that readers see: Status, or why an online runner takes no runs.
func (s Standing) Shown() string {
	switch {
	case s.Status != Online:
		return s.Status
	case s.Silent > 0:
		return Unresponsive
	case s.Unable != nil:
		return StatusUnable
	}
	return Online
}

// Why returns why the runner takes no runs, in a few words; empty: it takes some.
func (s Standing) Why() string {
	switch {
	case s.Silent > 0:
		return fmt.Sprintf("not heard of for %d s", int(s.Silent.Seconds()))
	case s.Shown() == StatusUnable:
		return s.Unable.Message
	case s.Status == Draining:
		return "it drains"
	}
	return ""
}
