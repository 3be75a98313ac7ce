package projection

import (
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// binding returns what the session's executor bound last; zero if it bound nothing.
func (s *session) binding() binding {
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
