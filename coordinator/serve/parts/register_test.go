package parts

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/metric/metrictest"
	"ao/shared/runnerapi"
)

// A runner that restarts while it is told to drain is told again: the runner is to end, not the process.
func TestDrainDuringARestart(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]time.Duration{"that says so": 0,
		"that does not answer in time": 1200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) { drainMeetsRestart(t, slow) })
	}
}

func drainMeetsRestart(t *testing.T, slow time.Duration) {
	t.Parallel()
	b := natstest.Bus(t)
	c := start(t, b, Config{})
	one, two := runner("one"), runner("two")
	register(t, c, one)
	var now atomic.Pointer[runnerapi.Runner]
	now.Store(&one)
	var mu sync.Mutex
	var drained []string
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	d, err := b.Listen(subject.Commands(one.ID()), "")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(served)
		d.Serve(ctx, func(_ context.Context, _ string, body []byte) ([]byte, error) {
			var cmd runnerapi.Command
			if err := json.Unmarshal(body, &cmd); err != nil {
				return nil, err
			}
			if cmd.Type != runnerapi.CommandDrain {
				return json.Marshal(runnerapi.CommandReply{Instance: "two"})
			}
			mu.Lock()
			drained = append(drained, cmd.Instance)
			mu.Unlock()
			if now.CompareAndSwap(&one, &two) { // the command reaches the process that has just started
				if _, err := c.Register(ctx, two); err != nil {
					t.Error(err)
				}
				<-time.After(slow)
			}
			if cmd.Instance != "two" {
				return nil, fault.New(fault.Forbidden, "", "another process")
			}
			return json.Marshal(runnerapi.CommandReply{Instance: "two"})
		})
	}()
	if err := c.Drain(t.Context(), one.ID()); err != nil {
		t.Error(err)
	}
	cancel()
	<-served
	if !slices.Equal(drained, []string{"one", "two"}) {
		t.Errorf("commands to drain: %q", drained)
	}
	if m, known, _ := c.Registry.Heard(one.ID(), "two"); !known || !m.Draining {
		t.Errorf("known %v, draining %v; its heartbeats would not say so", known, m.Draining)
	}
}

// A coordinator that has not read yet that a runner restarted must not shut the new process down.
func TestStaleCoordinatorKeepsASuccessor(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	before, after := runner("one", echo("a")), runner("two", echo("a"))
	id := register(t, c, before).RunnerID
	old, _, err := c.bus.Bucket(subject.Runners).Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	register(t, c, after)
	c.Registry.Put(id, nil, 0)
	c.Registry.Put(id, old, 1) // as if the news had not come
	if r := heartbeat(t, c, runnerapi.Heartbeat{RunnerID: id, Instance: "two"}); r.Superseded || !r.Known {
		t.Errorf("the new process gets %+v", r)
	}
	if r := heartbeat(t, c, runnerapi.Heartbeat{RunnerID: id, Instance: "one"}); !r.Superseded {
		t.Errorf("the old process gets %+v", r)
	}
}

// SIGTERM deregisters at once and lets runs finish: a successor under the same identity leaves them alone.
func TestASuccessorLeavesWhatItsPredecessorFinishes(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	before, after := runner("one", echo("a")), runner("two", echo("a"))
	id := register(t, c, before).RunnerID
	a := claim(t, c, submit(t, c, `{"agent_name":"a"}`, "").RunID, before)
	answers(t, c.bus, before)
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: id, Instance: "one"}); err != nil {
		t.Fatal(err)
	}
	heardForLong(c)
	register(t, c, after)
	c.Leases.WaitAll()
	if err := c.reads.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.History.Ended(a.Spec.ID) {
		t.Error("its run was abandoned")
	}
}

// heardForLong makes a coordinator sure that who does not listen is not there.
func heardForLong(c *Coordinator) {
	c.Hearing.Restart("long ago", time.Now().Add(-time.Hour))
}

// Also where it is so busy that it does not answer in time.
func TestASuccessorLeavesWhatASlowPredecessorFinishes(t *testing.T) {
	s := natstest.Server(t)
	c := start(t, natstest.Open(t, s), Config{})
	before := runner("one", echo("a"))
	id := register(t, c, before).RunnerID
	a := claim(t, c, submit(t, c, `{"agent_name":"a"}`, "").RunID, before)
	nc := natstest.Conn(t, s)
	if _, err := nc.SubscribeSync(subject.Commands(id)); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: id, Instance: "one"}); err != nil {
		t.Fatal(err)
	}
	heardForLong(c)
	register(t, c, runner("two", echo("a")))
	c.Leases.WaitAll()
	if err := c.reads.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.History.Ended(a.Spec.ID) {
		t.Error("its run was abandoned")
	}
}

// A process that has registered listens a moment later, and one whose connection was cut is back within a second:
// neither is dead.
func TestAProcessThatIsAboutToListenIsNotDead(t *testing.T) {
	metrics := metric.New("test")
	b, err := bus.Open(natstest.Conn(t, natstest.Server(t)), bus.Config{Log: natstest.Log(t), Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	asked := func() float64 {
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return metrictest.Read(t, w.Body.String()).Sum("ao_nats_request_seconds")
	}
	c := start(t, b, Config{})
	// again where this machine stood still for longer than is waited
	natstest.Until(t, "the second process is refused", func() bool {
		one, two := runner("one"), runner("two")
		one.ProjectDir = t.TempDir()
		two.ProjectDir = one.ProjectDir
		register(t, c, one)
		refused, before := make(chan error, 1), asked()
		go func() {
			_, err := c.Register(t.Context(), two)
			refused <- err
		}()
		natstest.Until(t, "it was asked for", func() bool { return asked() > before })
		answers(t, b, one)
		err := <-refused
		return err != nil && fault.Of(err).Code == "runner_already_online"
	})
}

func TestSuccessorAbandonsWhatACrashLeft(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	before := runner("one", echo("a"))
	register(t, c, before)
	a := claim(t, c, submit(t, c, `{"agent_name":"a"}`, "").RunID, before)
	register(t, c, runner("two", echo("a")))
	natstest.Until(t, "the old attempt is abandoned", func() bool { return c.History.Ended(a.Spec.ID) })
}

// Only one definition of a name at a time, also where the owner itself comes back with another one and a replica has
// the first.
func TestAnOwnerThatComesBackChangedCollidesWithItsReplica(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	replica := runner("one", echo("a"))
	replica.Hostname = "there"
	changed := echo("a")
	changed.Command = "./other"
	register(t, c, runner("one", echo("a")))
	register(t, c, replica)
	_, err := c.Register(t.Context(), runner("two", changed))
	wantCode(t, err, "agent_name_collision")
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: replica.ID(), Instance: "one"}); err != nil {
		t.Fatal(err)
	}
	register(t, c, runner("two", changed))
}

// Nothing of a refused registration is kept.
func TestARegistrationWithoutRoomForItsQueueStoresNothing(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{MaxQueues: 1})
	register(t, c, runner("one", echo("a")))
	more := runner("one", echo("b"))
	more.Hostname = "there"
	_, err := c.Register(t.Context(), more)
	if fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("got %v", err)
	}
	if n := len(c.Runners()); n != 1 {
		t.Errorf("%d runners are registered", n)
	}
	if _, ok := c.Agents.Find("b"); ok {
		t.Error("its agent is there")
	}
}

// A run in a queue that is deleted with its runner moves to where the agent is announced now (decision 0004).
func TestAWaitingRunFollowsItsAgentToAnotherQueue(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	both := runner("one", echo("a"), echo("b"))
	register(t, c, both)
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	first := active(t, c, id, "is queued", isQueued).Queue
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: both.ID(), Instance: "one"}); err != nil {
		t.Fatal(err)
	}
	one := runner("two", echo("a"))
	register(t, c, one)
	moved := active(t, c, id, "moved", func(a state.Active) bool { return a.Queue != first })
	if w, _ := c.Queues.Want(moved.Queue); !one.Matches(w) && len(w.Agents) != 1 {
		t.Errorf("it waits in %s", moved.Queue)
	}
	finish(t, c, claim(t, c, id, one))
}

// The deregistration of an old process may come to a coordinator that has not read of the new one yet.
func TestLateDeregistrationKeepsTheSuccessor(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	id := register(t, c, runner("one", echo("a"))).RunnerID
	old, _, err := c.bus.Bucket(subject.Runners).Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	register(t, c, runner("two", echo("a")))
	c.Registry.Put(id, nil, 0)
	c.Registry.Put(id, old, 1) // as if the news had not come
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: id, Instance: "one"}); fault.KindOf(
		err) != fault.Forbidden {
		t.Errorf("got %v", err)
	}
	if _, _, err := c.bus.Bucket(subject.Runners).Get(t.Context(), id); err != nil {
		t.Errorf("the successor's registration: %v", err)
	}
	if m, known, _ := c.Registry.Heard(id, "two"); !known || m.Instance != "two" {
		t.Errorf("known here is %+v", m)
	}
}
