package projection

import (
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// bond is what the session's executor bound last; none where it bound nothing.
func (s *session) bond() bond {
	if s.bound == nil {
		return bond{}
	}
	return *s.bound
}

// bondOf is what a queued record says of that: it is all that is left once the record that bound it is no longer kept. Such a run
// was demanded to go where the session is; a state is on every host, whatever else was demanded of that one run.
func bondOf(s *run.Spec) *bond {
	if runnerapi.IsStatePointer(s.ExecutorSessionID) {
		return &bond{model: s.ExecutorSessionID, profile: s.Demands.ExecutorProfile}
	}
	return &bond{s.ExecutorSessionID, s.Demands.Hostname, s.Demands.ExecutorProfile}
}
