package state

import (
	"fmt"

	"ao/shared/fault"
)

// StoppedError returns the error of a run that is stopped before a runner claimed it.
func (a Active) StoppedError() *fault.Fault {
	if h := a.TreeStop; h.Seq != 0 {
		return fault.New(fault.Internal, "stopped",
			fmt.Sprintf("Stopped before it began, with all that is below session %s", h.Session)).
			With("stopped_with", h.Session)
	}
	if n := a.AttemptNumber(); n > 1 {
		return fault.New(fault.Internal, "stopped", fmt.Sprintf("Stopped before its attempt %d began", n))
	}
	return fault.New(fault.Internal, "stopped", "Stopped before it began")
}
