package state

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
		a.Spec.Type, a.Spec.ExecutorSessionID, a.Spec.Demands = run.Resume, tt.model, run.Demands{
			Hostname:        "h",
			ExecutorProfile: "p",
		}
		f := reducedWith(t, keyOf, []entry{a.Queued(1)})
		if got := f.Session(a.Spec.SessionID).Binding(); got.Model != tt.model || got.Host != tt.host {
			t.Errorf("%s goes on at %+v, want %q", tt.model, got, tt.host)
		}
	}
}
