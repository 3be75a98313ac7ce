// Package coordinatortest runs coordinators in tests, and plays the runners that they talk to.
package coordinatortest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// Start runs a coordinator until the test ends. Leases are long, since most tests send no heartbeats.
func Start(t testing.TB, b *bus.Bus, cfg parts.Config) *parts.Coordinator {
	t.Helper()
	cfg.Bus, cfg.Log, cfg.Lease = b, natstest.Log(t), cmp.Or(cfg.Lease, time.Hour)
	c := parts.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	natstest.Until(t, "the coordinator is ready", func() bool { return c.Ready() == nil })
	return c
}

// Runner returns a runner with these agents.
func Runner(instance string, agents ...agent.Blueprint) runnerapi.Runner {
	return runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: "here", ProjectDir: "/srv", ExecutorProfile: "procedural",
			ExecutorType: run.Procedural},
		Instance: instance, MaxConcurrentRuns: 8, Agents: agents,
	}
}

// Echo returns an agent that takes any parameters.
func Echo(name string) agent.Blueprint {
	return agent.Blueprint{Name: name, Type: run.Procedural, Command: "./" + name, Status: agent.Active}
}

// Register registers a runner. It retries where a dead process looks alive on a slow machine, or another registration
// came in between.
func Register(t testing.TB, c *parts.Coordinator, r runnerapi.Runner) (reg runnerapi.Registered) {
	t.Helper()
	natstest.Until(t, r.ID()+" is registered", func() bool {
		var err error
		reg, err = c.Register(t.Context(), r)
		if err != nil && fault.Of(err).Code != "runner_already_online" && fault.KindOf(err) != fault.Unavailable {
			t.Fatalf("register: %v", err)
		}
		return err == nil
	})
	return reg
}

func Submit(t testing.TB, c *parts.Coordinator, body, key string) runs.Accepted {
	t.Helper()
	a, err := c.Submit(t.Context(), []byte(body), "test", key)
	if err != nil {
		t.Fatalf("submit %s: %v", body, err)
	}
	return a
}

// Active waits until a run is as ok wants it.
func Active(t testing.TB, c *parts.Coordinator, id, what string, ok func(state.Active) bool) (
	a state.Active) {
	t.Helper()
	natstest.Until(t, id+" "+what, func() bool {
		var there bool
		a, there = c.History.Active(id)
		return there && ok(a)
	})
	return a
}

func IsQueued(a state.Active) bool { return a.QueuedSeq != 0 }

// Claim claims a queued run, as a worker does.
func Claim(t testing.TB, c *parts.Coordinator, id string, r runnerapi.Runner) state.Active {
	t.Helper()
	a := Active(t, c, id, "is queued", IsQueued)
	Put(t, c.Bus, subject.Claimed(subject.Partition(a.Spec.SessionID), id, a.Key),
		run.Claim{V: run.Version, SessionID: a.Spec.SessionID, RunnerID: r.ID(), Instance: r.Instance, Nonce: "n" + id,
			Attempt: a.Attempt, At: time.Now()})
	return Active(t, c, id, "is claimed", func(a state.Active) bool { return a.Claim != nil })
}

// Finish appends the end record of a claimed run.
func Finish(t testing.TB, c *parts.Coordinator, a state.Active) {
	t.Helper()
	Put(t, c.Bus, subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key),
		run.Ended{V: run.Version, SessionID: a.Spec.SessionID, Nonce: "n", Attempt: a.Attempt, Status: run.Completed,
			At: time.Now()})
	natstest.Until(t, a.Spec.ID+" has ended", func() bool { return c.History.Ended(a.Spec.ID) })
}

func Put(t testing.TB, b *bus.Bus, subj string, record any) {
	t.Helper()
	body, err := strictjson.Encode(record)
	if err == nil {
		_, err = b.Append(t.Context(), bus.Entry{Subject: subj, Body: body})
	}
	if err != nil {
		t.Fatalf("%s: %v", subj, err)
	}
}

// WantCode checks the code of a fault.
func WantCode(t testing.TB, err error, code string) {
	t.Helper()
	if err == nil || fault.Of(err).Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}
