package runners_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/runners"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// Two processes find an identity free at the same time: one of them gets it, and the other one asks again.
func TestAnIdentityIsTakenOnce(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	one, two := coordinatortest.Runner("one", coordinatortest.Echo("a")),
		coordinatortest.Runner("two", coordinatortest.Echo("a"))
	rev, _, err := c.Registrar.TakeOver(t.Context(), two.ID(), two)
	if err != nil {
		t.Fatal(err)
	}
	coordinatortest.Register(t, c, one)
	value, err := json.Marshal(two)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Registrar.Registered.Write(t.Context(), two.ID(), value, rev); !errors.Is(err, bus.ErrTaken) ||
		fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
	if _, known, _ := c.Registry.Heard(one.ID(), "one"); !known {
		t.Error("the one that came first is not known")
	}
}

// A clock that is ahead must not make a registration look young for as long as it is ahead.
func TestAnOwnerFromTheFutureIsNotYoung(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	raw, err := json.Marshal(map[string]runners.Owner{"a": {Hash: "other", Profile: "procedural", Runner: "rnr_gone",
		At: time.Now().Add(time.Hour)}})
	if err == nil {
		_, err = c.Bus.Bucket(subject.Runners).Create(t.Context(), runners.OwnersKey, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	coordinatortest.Register(t, c, coordinatortest.Runner("one", coordinatortest.Echo("a")))
}

// A registration shows that the runner is there, like a heartbeat.
func TestAStaleRunnerThatRegistersAgainIsOnline(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Patience: runnerapi.Thresholds{Stale: time.Hour}})
	id := coordinatortest.Register(t, c, coordinatortest.Runner("one", coordinatortest.Echo("a"))).RunnerID
	c.Registry.SetLastHeard(id, time.Now().Add(-2*time.Hour))
	coordinatortest.Register(t, c, coordinatortest.Runner("one", coordinatortest.Echo("a")))
	if got := c.Runners()[0].Status; got != runnerapi.Online {
		t.Errorf("it is %s", got)
	}
}

// A runner that names no process starts anew with each registration, so a drain of the one before is over.
func TestARegistrationWithoutAProcessEndsADrain(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	for process, draining := range map[string]bool{"": false, "one": true} {
		r := coordinatortest.Runner(process, coordinatortest.Echo("a"))
		r.Hostname = "host" + process
		coordinatortest.Register(t, c, r)
		stored, rev, err := c.Registrar.Registered.Load(t.Context(), r.ID())
		stored.Draining = true
		value, _ := json.Marshal(stored)
		if err == nil {
			err = c.Registrar.Registered.Write(t.Context(), r.ID(), value, rev)
		}
		if err != nil {
			t.Fatal(err)
		}
		coordinatortest.Register(t, c, r)
		if got, _ := c.Registry.Runner(r.ID()); got.Draining != draining {
			t.Errorf("process %q: draining is %t, want %t", process, got.Draining, draining)
		}
	}
}

// A name that another profile took while its runner sent no heartbeats is refused, also to a registration without a
// change.
func TestANameThatWasTakenIsNotRegisteredAgain(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Patience: runnerapi.Thresholds{Stale: time.Hour}})
	one := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, one)
	coordinatortest.Register(t, c, one)
	c.Registry.SetLastHeard(one.ID(), time.Now().Add(-2*time.Hour))
	coordinatortest.Register(t, c, stranger("s", coordinatortest.Echo("a")))
	_, err := c.Register(t.Context(), one)
	coordinatortest.WantCode(t, err, "agent_name_collision")
}
