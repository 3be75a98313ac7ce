package queues_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// A runner with many tags meets more different demands than there may be queues. A queue that is unused and was not
// requested a moment ago makes room at once. A queue in which runs wait does not.
func TestUnusedQueuesAreEvicted(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{MaxQueues: 4})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	r.Tags = []string{"0", "1", "2", "3", "4"}
	coordinatortest.Register(t, c, r)
	ask := func(tag int, caller string) (runs.Accepted, error) {
		return c.Submit(
			t.Context(),
			fmt.Appendf(nil, `{"agent_name":"a","additional_demands":{"tags":["%d"]}}`, tag),
			caller,
			"",
		)
	}
	var all []runs.Accepted
	for tag := range 2 {
		a, err := ask(tag, "x")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if _, err := ask(2, "x"); fault.KindOf(err) != fault.Busy || fault.Of(err).Code != "too_many_queues" ||
		fault.Of(err).RetryAfter == 0 {
		t.Errorf("a caller with half of all queues gets another: %v", err)
	}
	other, err := ask(2, "y")
	if err != nil {
		t.Fatalf("another caller: %v", err)
	}
	name := func(a runs.Accepted) string {
		return coordinatortest.Active(t, c, a.RunID, "is queued", coordinatortest.IsQueued).Queue
	}
	idle, waiting := name(all[0]), []string{name(all[1]), name(other)}
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, all[0].RunID, r))
	asked := c.Queues.Asked // when the queues were asked for last
	asked(time.Now().Add(time.Hour))
	if _, err := ask(3, "x"); fault.KindOf(err) != fault.Busy {
		t.Errorf("a queue goes that was asked for a moment ago: %v", err)
	}
	asked(time.Now().Add(-time.Minute))
	c.Queues.Asked(time.Now().Add(-30*time.Second), idle) // those in which runs wait are older
	all[0], err = ask(3, "x")
	if err != nil {
		t.Fatalf("the queue that nobody uses makes no room: %v", err)
	}
	asked(time.Now().Add(-time.Minute))
	if _, err := ask(4, "x"); fault.KindOf(err) != fault.Busy {
		t.Errorf("a queue goes in which runs wait: %v", err)
	}
	for _, name := range waiting {
		if retired, err := c.Queues.Retire(t.Context(), name); retired || err != nil {
			t.Errorf("a queue goes in which a run waits: %v", err)
		}
	}
	natstest.Until(t, "the consumer of the queue that made room is gone", func() bool {
		_, err := c.Bus.TaskQueueState(t.Context(), idle)
		return errors.Is(err, bus.ErrNotFound)
	})
	for _, a := range append(all, other) {
		coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, a.RunID, r))
	}
}

// A coordinator that ends between removing a queue's entry and its consumer leaves the consumer behind. Any coordinator
// removes such a consumer later. It keeps a consumer whose queue has an entry, has a waiting run, or needs no entry.
func TestConsumersWithoutAQueueAreRemoved(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	r.Tags = []string{"gpu", "eu"}
	coordinatortest.Register(t, c, r)
	name := func(tag string) string {
		a := coordinatortest.Submit(t, c, `{"agent_name":"a","additional_demands":{"tags":["`+tag+`"]}}`, "")
		return coordinatortest.Active(t, c, a.RunID, "is queued", coordinatortest.IsQueued).Queue
	}
	kept, waits := name("gpu"), name("eu")
	if err := c.Bus.Bucket(subject.TaskQueues).Delete(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "its entry is gone", func() bool { _, ok := c.Queues.Want(waits); return !ok })
	orphan, base := runnerapi.RoutingKey{Type: run.Procedural, Tags: []string{"old"}}.TaskQueue(), r.BaseTaskQueues()[0]
	if err := c.Bus.EnsureTaskQueue(t.Context(), orphan, 1); err != nil {
		t.Fatal(err)
	}
	names := c.QueueController.Rebuilds()
	orphans := names.Orphans()
	names.Sweep(t.Context())
	all, err := c.Bus.ListTaskQueues(t.Context())
	if err != nil || !slices.Contains(all, orphan) || orphans[orphan].IsZero() {
		t.Fatalf("the first scan left %q, %v, and notes %v", all, err, orphans)
	}
	if !orphans[kept].IsZero() || !orphans[base].IsZero() {
		t.Errorf("it notes %v", orphans)
	}
	for name := range orphans {
		orphans[name] = time.Now().Add(-time.Hour)
	}
	names.Sweep(t.Context())
	all, err = c.Bus.ListTaskQueues(t.Context())
	if err != nil || slices.Contains(all, orphan) {
		t.Errorf("it stays: %q %v", all, err)
	}
	for _, name := range []string{kept, waits, base} {
		if !slices.Contains(all, name) {
			t.Errorf("%s has no consumer any more", name)
		}
	}
	if len(orphans) != 0 {
		t.Errorf("still noted: %v", orphans)
	}
}

// takeUnclaimed takes a queued run, and what is before it, out of its queue without claiming it.
func takeUnclaimed(t *testing.T, c *parts.Coordinator, a state.Active) {
	t.Helper()
	ctx, enough := context.WithCancel(t.Context())
	var taking sync.WaitGroup
	taker := c.Bus.Poller(func() int { return 1 }, func(_ context.Context, d bus.Delivery) { d.Ack() })
	taking.Go(func() { _ = taker.Poll(ctx, a.Queue) })
	natstest.Until(t, "the delivery is settled", func() bool {
		s, err := c.Bus.TaskQueueState(t.Context(), a.Queue)
		return err == nil && s.AckFloor >= a.QueuedSeq
	})
	enough()
	taking.Wait()
}

// A queue's consumer is recreated if it is past a run that nobody has claimed. It is kept if a worker has claimed that
// run since the controller's lookup.
func TestOnlyAQueueThatLostARunIsRecreated(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{Lease: time.Hour})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	made := func(name string) time.Time {
		t.Helper()
		s, err := c.Bus.TaskQueueState(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return s.Created
	}
	for _, tt := range []struct {
		begun bool
		what  string
	}{{true, "a run was begun"}, {false, "a run was lost"}} {
		id := coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "").RunID
		a := coordinatortest.Active(t, c, id, "is queued", coordinatortest.IsQueued)
		takeUnclaimed(t, c, a)
		if tt.begun {
			coordinatortest.Claim(t, c, id, r)
		}
		before := made(a.Queue)
		if _, err := c.QueueController.RecreateConsumer(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if again := !made(a.Queue).Equal(before); again == tt.begun {
			t.Errorf("%s: its queue is made again: %t", tt.what, again)
		}
	}
}

// The queue of a profile whose last runner was removed loses its consumer, too. A profile that returns gets a new one.
func TestConsumersOfRemovedProfilesAreRemoved(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	a := coordinatortest.Submit(
		t,
		c,
		`{"agent_name":"a","additional_demands":{"executor_profile":"`+r.ExecutorProfile+`"}}`,
		"",
	)
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, a.RunID, r))
	natstest.Until(t, "its run has ended", func() bool { return c.History.Ended(a.RunID) })
	own, retired := r.BaseTaskQueues(), runnerapi.RoutingKey{Type: run.Procedural, Profile: "gone"}.TaskQueue()
	for _, name := range append(own, retired) {
		if _, err := c.Queues.Ensure(t.Context(), name, runnerapi.RoutingKey{Type: run.Procedural}, "",
			false); err != nil {
			t.Fatal(err)
		}
	}
	names := c.QueueController.Rebuilds()
	orphans := names.Orphans()
	names.Sweep(t.Context())
	if len(orphans) != 1 || orphans[retired].IsZero() {
		t.Fatalf("it notes %v", orphans)
	}
	orphans[retired] = time.Now().Add(-time.Hour)
	names.Sweep(t.Context())
	has := func() []string {
		all, err := c.Bus.ListTaskQueues(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := has(); slices.Contains(all, retired) || !slices.Contains(all, own[0]) || !slices.Contains(all, own[1]) {
		t.Errorf("there are %q", all)
	}
	if _, err := c.Queues.Ensure(t.Context(), retired, runnerapi.RoutingKey{Type: run.Procedural, Profile: "gone"}, "",
		false); err != nil ||
		!slices.Contains(has(), retired) {
		t.Errorf("it is not made again: %q, %v", has(), err)
	}
}

// A queue that is created when a runner registers counts for the caller who submitted the run, too.
func TestQueueCountsForItsCaller(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	first := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, first)
	a, err := c.Submit(
		t.Context(),
		[]byte(`{"agent_name":"a","additional_demands":{"tags":["later"]}}`),
		"somebody",
		"",
	)
	if err != nil {
		t.Fatal(err)
	}
	more := coordinatortest.Runner("two", coordinatortest.Echo("a"))
	more.Hostname, more.Tags = "there", []string{"later"}
	coordinatortest.Register(t, c, more)
	name := coordinatortest.Active(t, c, a.RunID, "is queued", coordinatortest.IsQueued).Queue
	other, err := c.Submit(
		t.Context(),
		[]byte(`{"agent_name":"a","additional_demands":{"tags":["later"],"hostname":"there"}}`),
		"another",
		"",
	)
	if err != nil {
		t.Fatal(err)
	}
	somebody, another := c.Queues.Caller(
		name,
	), c.Queues.Caller(
		coordinatortest.Active(t, c, other.RunID, "is queued", coordinatortest.IsQueued).Queue,
	)
	if want := coordinatortest.Active(t, c, a.RunID, "is queued",
		coordinatortest.IsQueued).Spec.Caller; somebody != want ||
		somebody == "" ||
		somebody == another {
		t.Errorf("it counts to %q, want %q; another caller's to %q", somebody, want, another)
	}
}
