package runners_test

import (
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/control/expiry"
	"ao/coordinator/coordinatortest"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// Missing heartbeats count only while somebody listened: after a pause of the coordinator, or of NATS, runners are
// heard before they expire.
func TestPauseDoesNotExpireRunners(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	id := coordinatortest.Register(t, c, coordinatortest.Runner("one", coordinatortest.Echo("a"))).RunnerID
	long := time.Now().Add(-time.Hour)
	c.Registry.SetLastHeard(id, long)
	_ = expiry.New(c.Expiry.Config).Reconcile(t.Context()) // which has not run for long
	if _, known, _ := c.Registry.Heard(id, "one"); !known {
		t.Error("it was removed")
	}
}

// A runner is removed while a cluster has no leader for RUNS. Its attempts are abandoned as soon as there is a leader,
// however long the lease is.
func TestAttemptsOfARemovedRunnerAreAbandoned(t *testing.T) {
	s := natstest.Server(t)
	b := natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := coordinatortest.Start(t, b, parts.Config{Lease: time.Hour})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	a := coordinatortest.Claim(t, c, coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "").RunID, r)
	nc := natstest.Conn(t, s)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	runs, err := js.StreamInfo(subject.Runs)
	if err != nil {
		t.Fatal(err)
	}
	away := runs.Config
	away.Subjects = []string{"elsewhere.>"}
	if _, err := js.UpdateStream(&away); err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int32
	refuse, err := nc.Subscribe(subject.AllRuns, func(m *nats.Msg) {
		tries.Add(1)
		m.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily ` +
			`unavailable"}}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "it is removed and NATS did not take what that means", func() bool {
		long := time.Now().Add(-time.Hour)
		c.Registry.SetLastHeard(r.ID(), long)
		impatient(t, c)
		return len(c.Runners()) == 0 && tries.Load() > 0
	})
	if err := refuse.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if _, err := js.UpdateStream(&runs.Config); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "its run has ended", func() bool { return c.History.Ended(a.Spec.ID) })
}

// impatient expires runners as if it had listened for long enough.
func impatient(t *testing.T, c *parts.Coordinator) {
	t.Helper()
	cfg := c.Expiry.Config
	cfg.RemoveAfter, cfg.Lease = 0, 0
	if err := expiry.New(cfg).Reconcile(t.Context()); err != nil {
		t.Error(err)
	}
}
