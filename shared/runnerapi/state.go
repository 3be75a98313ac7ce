package runnerapi

import (
	"strconv"
	"strings"
)

// An executor's state for the session's next run is in the object store, under names that begin with the run's
// id like its other payloads. Part 0 of StateName(run, attempt) is a run.Payload that names the parts of the
// body. It is written last, so it always names a complete body. The session is bound to it by StatePointer,
// instead of an executor session id.

const (
	statePrefix = "state:"
	stateSuffix = ".state"
)

// StatePointer returns what an attempt that keeps a state binds.
func StatePointer(run string, attempt int) string {
	return statePrefix + run + "." + strconv.Itoa(attempt)
}

// IsStatePointer reports whether a session is bound to a state instead of an executor session.
func IsStatePointer(id string) bool { return strings.HasPrefix(id, statePrefix) }

// StateName returns the name of the state for a pointer; false: it is not a pointer.
func StateName(pointer string) (name string, ok bool) {
	at, ok := strings.CutPrefix(pointer, statePrefix)
	return at + stateSuffix, ok && at != ""
}

// StateBody returns the name of a state's n-th body. Two alternate, so that one is complete at any moment.
func StateBody(name string, n int) string {
	return strings.TrimSuffix(name, stateSuffix) + "." + strconv.Itoa(n%2) + stateSuffix
}

// StatePointerOf returns the pointer for a payload's name; false: it is not part of a state.
func StatePointerOf(name string) (pointer string, ok bool) {
	parts := strings.Split(name, ".")
	body := len(parts) == 4 && (parts[2] == "0" || parts[2] == "1")
	if !body && len(parts) != 3 || "."+parts[len(parts)-1] != stateSuffix {
		return "", false
	}
	return statePrefix + parts[0] + "." + parts[1], true
}

// RunOfPayload returns the run of a payload: <run>.<hash>.in, <run>.<attempt>.out, and states (StateName).
func RunOfPayload(payload string) string {
	id, _, _ := strings.Cut(payload, ".")
	return id
}
