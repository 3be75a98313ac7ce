package state

import (
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Binding returns what the session's executor bound last; zero if it bound nothing.
func (s *Session) Binding() binding {
	if s == nil || s.Bound == nil {
		return binding{}
	}
	return *s.Bound
}

// bindingOf returns the binding that a queued record implies, for when the record that bound it is no longer kept. The
// run demanded the session's host. A state pointer works on every host, whatever else that run demanded.
func bindingOf(s *run.Spec) *binding {
	if runnerapi.IsStatePointer(s.ExecutorSessionID) {
		return &binding{Model: s.ExecutorSessionID, Profile: s.Demands.ExecutorProfile}
	}
	return &binding{s.ExecutorSessionID, s.Demands.Hostname, s.Demands.ExecutorProfile}
}

// StatePointers returns the kept conversation states that sessions are bound to.
func StatePointers(f *State) map[string]bool {
	all := map[string]bool{}
	for _, s := range f.sessions {
		if runnerapi.IsStatePointer(s.Binding().Model) {
			all[s.Binding().Model] = true
		}
	}
	return all
}
