package runnerapi

import (
	"strconv"
	"strings"
)

// The conversation that an executor keeps for the session's next run lies in the object store under names that begin with the run's
// id, as its other payloads: the part 0 of StateName(run, attempt) is a run.Payload that names the body's parts. That one is written
// last, so that it always names a whole body. The session is bound to it by StatePointer, in the place of a model side's session id.

const (
	statePrefix = "state:"
	stateSuffix = ".state"
)

// StatePointer is what an attempt that keeps a state binds.
func StatePointer(run string, attempt int) string {
	return statePrefix + run + "." + strconv.Itoa(attempt)
}

// IsStatePointer tells whether what a session is bound to is a state, not the session id of a model side.
func IsStatePointer(model string) bool { return strings.HasPrefix(model, statePrefix) }

// StateName is where the state lies that a pointer names; false: it names none.
func StateName(pointer string) (name string, ok bool) {
	at, ok := strings.CutPrefix(pointer, statePrefix)
	return at + stateSuffix, ok && at != ""
}

// StateBody is where the n-th body of a state lies; two of them take turns, so that one is whole at any moment.
func StateBody(name string, n int) string {
	return strings.TrimSuffix(name, stateSuffix) + "." + strconv.Itoa(n%2) + stateSuffix
}

// StatePointerOf tells to which pointer a payload's name belongs; false: it is no part of a state.
func StatePointerOf(name string) (pointer string, ok bool) {
	parts := strings.Split(name, ".")
	body := len(parts) == 4 && (parts[2] == "0" || parts[2] == "1")
	if !body && len(parts) != 3 || "."+parts[len(parts)-1] != stateSuffix {
		return "", false
	}
	return statePrefix + parts[0] + "." + parts[1], true
}

// RunOfPayload is the run that a payload belongs to: <run>.<hash>.in, <run>.<attempt>.out, and states (StateName).
func RunOfPayload(payload string) string {
	id, _, _ := strings.Cut(payload, ".")
	return id
}
