// Package coordinatortest runs coordinators in tests, and plays the runners that they talk to.
package coordinatortest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"ao/coordinator/control/pool"
	"ao/coordinator/projection"
	"ao/coordinator/runs"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Start runs a coordinator until the test ends. Leases are long, since most tests send no heartbeats.
func Start(t testing.TB, b *bus.Bus, cfg parts.Config) *parts.Coordinator {
	t.Helper()
	c, _ := StartUntil(t, b, cfg)
	return c
}

// StartUntil is Start for a coordinator that may end before the test.
func StartUntil(t testing.TB, b *bus.Bus, cfg parts.Config) (c *parts.Coordinator, end func()) {
	t.Helper()
	cfg.Bus, cfg.Log, cfg.Lease = b, natstest.Log(t), cmp.Or(cfg.Lease, time.Hour)
	c = parts.New(cfg)
	return c, Run(t, c)
}

// Run runs a coordinator until the test ends or end is called.
func Run(t testing.TB, c *parts.Coordinator) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	contexts.Store(c, ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Errorf("the coordinator ended with %v", err)
		}
	})
	t.Cleanup(end)
	natstest.Until(t, "the coordinator is ready", func() bool { return c.Ready() == nil })
	return end
}

// contexts are those of running coordinators.
var contexts sync.Map

// OccupyPool takes every slot of a coordinator's pool until release is called or the coordinator ends.
func OccupyPool(t *testing.T, c *parts.Coordinator, p *pool.Pool) (release func()) {
	t.Helper()
	life, ok := contexts.Load(c)
	if !ok {
		t.Fatal("the coordinator is not running")
	}
	until := make(chan struct{})
	held := func(ctx context.Context) error {
		select {
		case <-until:
		case <-ctx.Done():
		}
		return nil
	}
	for n := range p.Slots {
		natstest.Until(t, "there is a slot",
			func() bool { return p.Go(life.(context.Context), fmt.Sprint("held ", n), "", held) })
	}
	return sync.OnceFunc(func() { close(until) })
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

// AnswerCommands plays the process of a runner: it answers commands until the test ends.
func AnswerCommands(t testing.TB, b *bus.Bus, r runnerapi.Runner) {
	t.Helper()
	ReplyWith(t, b, r, runnerapi.CommandReply{Instance: r.Instance})
}

// ReplyWith is AnswerCommands with a given reply.
func ReplyWith(t testing.TB, b *bus.Bus, r runnerapi.Runner, reply runnerapi.CommandReply) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Serve(ctx, subject.Commands(r.ID()), "", func(context.Context, string, []byte) ([]byte, error) {
			return json.Marshal(reply)
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	natstest.Until(t, "the runner answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Request(ctx, subject.Commands(r.ID()), []byte(`{"type":"ping"}`))
		return err == nil
	})
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
func Active(t testing.TB, c *parts.Coordinator, id, what string, ok func(projection.Active) bool) (
	a projection.Active) {
	t.Helper()
	natstest.Until(t, id+" "+what, func() bool {
		var there bool
		a, there = c.History.Active(id)
		return there && ok(a)
	})
	return a
}

func IsQueued(a projection.Active) bool { return a.QueuedSeq != 0 }

// Claim claims a queued run, as a worker does.
func Claim(t testing.TB, c *parts.Coordinator, id string, r runnerapi.Runner) projection.Active {
	t.Helper()
	a := Active(t, c, id, "is queued", IsQueued)
	Put(t, c.Bus, subject.Claimed(subject.Partition(a.Spec.SessionID), id, a.Key),
		run.Claim{V: run.Version, SessionID: a.Spec.SessionID, RunnerID: r.ID(), Instance: r.Instance, Nonce: "n" + id,
			Attempt: a.Attempt, At: time.Now()})
	return Active(t, c, id, "is claimed", func(a projection.Active) bool { return a.Claim != nil })
}

// Finish appends the end record of a claimed run.
func Finish(t testing.TB, c *parts.Coordinator, a projection.Active) {
	t.Helper()
	Put(t, c.Bus, subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key),
		run.Ended{V: run.Version, SessionID: a.Spec.SessionID, Nonce: "n", Attempt: a.Attempt, Status: run.Completed,
			At: time.Now()})
	natstest.Until(t, a.Spec.ID+" has ended", func() bool { return c.History.Ended(a.Spec.ID) })
}

func Put(t testing.TB, b *bus.Bus, subj string, record any) {
	t.Helper()
	body, err := json.Marshal(record)
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
