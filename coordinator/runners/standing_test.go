package runners_test

import (
	"strings"
	"testing"
	"time"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/shared/runnerapi"
)

// A runner that is silent for a lease, or unable, takes no runs in any view, and keeps its agents' names.
func TestWhoTakesRuns(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Lease: time.Second})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	id := coordinatortest.Register(t, c, r).RunnerID
	natstest.Until(t, "the coordinator has listened for a lease",
		func() bool { return c.Hearing.Listening() >= time.Second })
	beat := func(u *runnerapi.Unable) {
		t.Helper()
		if _, err := c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), runnerapi.Heartbeat{RunnerID: id,
			Instance: r.Instance, Unable: u}); err != nil {
			t.Fatal(err)
		}
	}
	w := runnerapi.RoutingKey{Type: r.ExecutorType, Profile: r.ExecutorProfile}
	for _, tt := range []struct {
		name          string
		tell          func()
		shown, why    string
		takes, online bool
	}{
		{"heard", func() { beat(nil) }, runnerapi.Online, "", true, true},
		{"unable", func() { beat(&runnerapi.Unable{Code: "x", Message: "no login"}) }, runnerapi.StatusUnable,
			"no login", false, true},
		{"able again", func() { beat(nil) }, runnerapi.Online, "", true, true},
		{"silent", func() { c.Registry.SetLastHeard(id, time.Now().Add(-34*time.Second)) }, runnerapi.Unresponsive,
			"not heard of for 3", false, true},
		{"heard again", func() { beat(nil) }, runnerapi.Online, "", true, true},
	} {
		tt.tell()
		if tt.name == "silent" { // what matches a queue is remembered for a second
			natstest.Until(t, "it matches nothing", func() bool { return !c.Registry.Matches(w) })
		}
		m, _ := c.Registry.Runner(id)
		if m.Shown() != tt.shown || !strings.HasPrefix(m.Why(), tt.why) || tt.why == "" && m.Why() != "" ||
			m.TakesRuns() != tt.takes || c.Registry.Matches(w) != tt.takes || m.ReservesNames("other") != tt.online {
			t.Errorf("%s: %+v, matches %v", tt.name, m.Standing, c.Registry.Matches(w))
		}
		if got := c.Runners()[0]; got.Status != tt.shown || !strings.HasPrefix(got.Why, tt.why) {
			t.Errorf("%s: shown as %+v", tt.name, got)
		}
	}
}
