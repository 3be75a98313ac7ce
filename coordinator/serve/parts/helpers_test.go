package parts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"ao/coordinator/control/pool"
	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// start runs a coordinator that ends with the test. Most tests send no heartbeats, so no lease ends unless a test sets
// one.
func start(t testing.TB, b *bus.Bus, cfg Config) *Coordinator {
	t.Helper()
	c, _ := startStoppable(t, b, cfg)
	return c
}

// startStoppable is start of a coordinator that may end before the test.
func startStoppable(t testing.TB, b *bus.Bus, cfg Config) (c *Coordinator, end func()) {
	t.Helper()
	cfg.Bus, cfg.Log, cfg.Lease = b, natstest.Log(t), cmp.Or(cfg.Lease, time.Hour)
	c = New(cfg)
	return c, launch(t, c)
}

// launch runs a coordinator that ends with the test, or before.
func launch(t testing.TB, c *Coordinator) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	lives.Store(c, ctx)
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

// lives are the contexts of running coordinators.
var lives sync.Map

// occupyPool takes all slots of a coordinator's pool until they are released, or the coordinator ends.
func occupyPool(t *testing.T, c *Coordinator, p *pool.Pool) (release func()) {
	t.Helper()
	life, ok := lives.Load(c)
	if !ok {
		t.Fatal("this coordinator is not running")
	}
	until := make(chan struct{})
	wait := func(ctx context.Context) error {
		select {
		case <-until:
		case <-ctx.Done():
		}
		return nil
	}
	for n := range p.Slots {
		natstest.Until(t, "there is a slot",
			func() bool { return p.Go(life.(context.Context), fmt.Sprint("held ", n), "", wait) })
	}
	return sync.OnceFunc(func() { close(until) })
}

// runner is a process with these agents.
func runner(instance string, agents ...agent.Blueprint) runnerapi.Runner {
	return runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: "here", ProjectDir: "/srv", ExecutorProfile: "procedural",
			ExecutorType: run.Procedural},
		Instance: instance, MaxConcurrentRuns: 8, Agents: agents,
	}
}

// echo is an agent that takes anything.
func echo(name string) agent.Blueprint {
	return agent.Blueprint{Name: name, Type: run.Procedural, Command: "./" + name, Status: agent.Active}
}

// register tries again where a slow machine makes a dead process look alive, or another registration came
// between.
func register(t testing.TB, c *Coordinator, r runnerapi.Runner) (reg runnerapi.Registered) {
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

// answers plays the process of a runner that is there: it answers commands until the test ends.
func answers(t testing.TB, b *bus.Bus, r runnerapi.Runner) {
	t.Helper()
	replies(t, b, r, runnerapi.CommandReply{Instance: r.Instance})
}

// replies is answers with a given answer to whatever is asked.
func replies(t testing.TB, b *bus.Bus, r runnerapi.Runner, reply runnerapi.CommandReply) {
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

func submit(t testing.TB, c *Coordinator, body, key string) runs.Accepted {
	t.Helper()
	a, err := c.Submit(t.Context(), []byte(body), "test", key)
	if err != nil {
		t.Fatalf("submit %s: %v", body, err)
	}
	return a
}

// active waits until a run is as it should be.
func active(t testing.TB, c *Coordinator, id, what string, ok func(state.Active) bool) (a state.Active) {
	t.Helper()
	natstest.Until(t, id+" "+what, func() bool {
		var there bool
		a, there = c.History.Active(id)
		return there && ok(a)
	})
	return a
}

func isQueued(a state.Active) bool { return a.QueuedSeq != 0 }

// claim claims a queued run, as a worker does.
func claim(t testing.TB, c *Coordinator, id string, r runnerapi.Runner) state.Active {
	t.Helper()
	a := active(t, c, id, "is queued", isQueued)
	put(t, c.bus, subject.Claimed(subject.Partition(a.Spec.SessionID), id, a.Key),
		run.Claim{V: run.Version, SessionID: a.Spec.SessionID, RunnerID: r.ID(), Instance: r.Instance, Nonce: "n" + id,
			Attempt: a.Attempt, At: time.Now()})
	return active(t, c, id, "is claimed", func(a state.Active) bool { return a.Claim != nil })
}

// heartbeat is one that is not refused.
func heartbeat(t testing.TB, c *Coordinator, b runnerapi.Heartbeat) runnerapi.HeartbeatReply {
	t.Helper()
	reply, err := c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), b)
	if err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	return reply
}

// finish writes the end record of a claimed run.
func finish(t testing.TB, c *Coordinator, a state.Active) {
	t.Helper()
	put(t, c.bus, subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key),
		run.Ended{V: run.Version, SessionID: a.Spec.SessionID, Nonce: "n", Attempt: a.Attempt, Status: run.Completed,
			At: time.Now()})
	natstest.Until(t, a.Spec.ID+" has ended", func() bool { return c.History.Ended(a.Spec.ID) })
}

func put(t testing.TB, b *bus.Bus, subj string, record any) {
	t.Helper()
	body, err := json.Marshal(record)
	if err == nil {
		_, err = b.Append(t.Context(), bus.Entry{Subject: subj, Body: body})
	}
	if err != nil {
		t.Fatalf("%s: %v", subj, err)
	}
}

// wantCode checks what a fault says.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if err == nil || fault.Of(err).Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

// every calls f at an interval until ctx ends.
func every(ctx context.Context, d time.Duration, f func(context.Context)) {
	for clock.Sleep(ctx, d) {
		f(ctx)
	}
}
