package projection

import (
	"testing"

	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestWhereASessionCanGoOn: of a session whose records of what it bound are no longer kept the next run's tells it: one
// of a model side goes on where that run was demanded to go, one that is kept here goes on anywhere, wherever that one
// run was demanded to go.
func TestWhereASessionCanGoOn(t *testing.T) {
	for _, tt := range []struct{ model, host string }{{"m", "h"}, {runnerapi.StatePointer("run_before", 1), ""}} {
		a := newActor(t, run.NewID(), run.NewSessionID(), "agent")
		a.spec.Type, a.spec.ExecutorSessionID, a.spec.Demands = run.Resume, tt.model, run.Demands{
			Hostname:        "h",
			ExecutorProfile: "p",
		}
		j := over(foldedWith(t, keyOf, []entry{a.queued(1)}))
		if at := j.Affinity(a.spec.SessionID); j.ExecutorSessionID(a.spec.SessionID) != tt.model ||
			at.Hostname != tt.host {
			t.Errorf("%s goes on at %+v, want %q", tt.model, at, tt.host)
		}
	}
}
