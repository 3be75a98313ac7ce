package projection

import (
	"testing"

	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestWhereASessionCanContinue: the records that bound a session may be truncated. Then the queued record of its next
// run carries the binding. If the executor keeps the session on a host, the session continues where that run's demands
// say. If the session's state is stored in NATS, it continues anywhere, whatever that one run demanded.
func TestWhereASessionCanContinue(t *testing.T) {
	for _, tt := range []struct{ model, host string }{{"m", "h"}, {runnerapi.StatePointer("run_before", 1), ""}} {
		a := newActor(t, run.NewID(), run.NewSessionID(), "agent")
		a.spec.Type, a.spec.ExecutorSessionID, a.spec.Demands = run.Resume, tt.model, run.Demands{
			Hostname:        "h",
			ExecutorProfile: "p",
		}
		j := over(reducedWith(t, keyOf, []entry{a.queued(1)}))
		if at := j.Affinity(a.spec.SessionID); j.ExecutorSessionID(a.spec.SessionID) != tt.model ||
			at.Hostname != tt.host {
			t.Errorf("%s goes on at %+v, want %q", tt.model, at, tt.host)
		}
	}
}
