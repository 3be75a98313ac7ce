package queues_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ao/coordinator/control/queues"
	"ao/coordinator/coordinatortest"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/clock/clocktest"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// taking plays the worker of a runner that is there: it begins and ends what it is handed, from the queues that the
// coordinators name.
func taking(t *testing.T, b *bus.Bus, r runnerapi.Runner) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	taker := b.Poller(func() int { return 8 }, func(ctx context.Context, d bus.Delivery) {
		var q run.Queued
		if err := json.Unmarshal(d.Body, &q); err != nil {
			t.Error(err)
			return
		}
		part := subject.Partition(q.SessionID)
		for _, e := range []struct {
			subject string
			record  any
		}{
			{subject.Claimed(part, q.ID, q.Key), run.Claim{V: run.Version, SessionID: q.SessionID, RunnerID: r.ID(),
				Instance: r.Instance, Nonce: "n", Attempt: q.Attempt, At: time.Now()}},
			{subject.Ended(part, q.ID, q.Key), run.Ended{V: run.Version, SessionID: q.SessionID, RunnerID: r.ID(),
				Nonce: "n", Attempt: q.Attempt, Status: run.Completed, At: time.Now()}},
		} {
			body, _ := json.Marshal(e.record)
			if _, err := b.Append(context.WithoutCancel(ctx), bus.Entry{Subject: e.subject, Body: body}); err != nil &&
				!errors.Is(err, bus.ErrTaken) { // it may have been handed over twice
				t.Error(err)
			}
		}
		d.Ack()
	})
	open := map[string]context.CancelFunc{}
	var mu sync.Mutex
	serves := func(names []string) {
		mu.Lock()
		defer mu.Unlock()
		now := map[string]bool{}
		for _, name := range names {
			now[name] = true
			if open[name] == nil && ctx.Err() == nil {
				take, stop := context.WithCancel(ctx)
				open[name] = stop
				wg.Go(func() { _ = taker.Poll(take, name) })
			}
		}
		for name, stop := range open {
			if !now[name] {
				stop()
				delete(open, name)
			}
		}
	}
	commands, err := b.Listen(subject.Commands(r.ID()), "")
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		_ = commands.Serve(ctx, func(_ context.Context, _ string, body []byte) ([]byte, error) {
			var c runnerapi.Command
			if json.Unmarshal(body, &c) == nil && c.Type == runnerapi.CommandTaskQueues {
				serves(c.TaskQueues)
			}
			return json.Marshal(runnerapi.CommandReply{Instance: r.Instance})
		})
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			ask, _ := json.Marshal(runnerapi.Heartbeat{RunnerID: r.ID(), Instance: r.Instance})
			var reply runnerapi.HeartbeatReply
			if answer, err := b.Request(ctx, subject.Heartbeats(r.ID()), ask); err == nil &&
				json.Unmarshal(answer, &reply) == nil &&
				reply.Known {
				serves(reply.TaskQueues)
			}
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	})
}

// stuck ends a test with what the coordinators think of a run that nobody begins.
func stuck(t *testing.T, all []*parts.Coordinator, id string) {
	t.Helper()
	for i, c := range all {
		a, ok := c.History.Active(id)
		s, err := c.Bus.TaskQueueState(t.Context(), a.Queue)
		_, _, entry := c.Bus.Bucket(subject.TaskQueues).Get(t.Context(), a.Queue)
		exists, made, closing := c.Queues.Knows(a.Queue)
		t.Errorf(
			"coordinator %d: active %t, claimed %t, in %s at %d; consumer %+v %v; entry %v, known %t, "+
				"made %t, closing %v",
			i,
			ok,
			a.Claim != nil,
			a.Queue,
			a.QueuedSeq,
			s,
			err,
			entry,
			exists,
			made,
			closing,
		)
	}
	t.FailNow()
}

// While a coordinator removes the consumer of a deleted queue, another one recreates the queue: in any order, one
// exists.
func TestRecreatedQueueHasAConsumer(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	goes, comes := coordinatortest.Start(
		t,
		natstest.Open(t, s),
		parts.Config{},
	), coordinatortest.Start(
		t,
		natstest.Open(t, s),
		parts.Config{},
	)
	for i := range 40 {
		want := runnerapi.RoutingKey{Type: run.Procedural, Tags: []string{fmt.Sprint(i)}}
		name := want.TaskQueue()
		if err := goes.Bus.EnsureTaskQueue(t.Context(), name, 1); err != nil { // its entry is gone
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if err := goes.Queues.Close(t.Context(), name); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := comes.Queues.EnsureQueue(t.Context(), want, "x"); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if _, err := goes.Bus.TaskQueueState(t.Context(), name); err != nil {
			t.Fatalf("round %d: its consumer: %v", i, err)
		}
		if _, err := comes.Queues.Retire(t.Context(), name); err != nil { // room for the next
			t.Fatal(err)
		}
	}
}

// A coordinator that has not read a queue's deletion queues a run there: the queue is not closed, and is restored.
func TestQueueWithARunIsRestored(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	goes, late := coordinatortest.Start(
		t,
		natstest.Open(t, s),
		parts.Config{},
	), coordinatortest.Start(
		t,
		natstest.Open(t, s),
		parts.Config{},
	)
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	r.Tags = []string{"gpu"}
	coordinatortest.Register(t, goes, r)
	natstest.Until(t, "both know the agent", func() bool { _, ok := late.Agents.Find("a"); return ok })
	const body = `{"agent_name":"a","additional_demands":{"tags":["gpu"]}}`
	first := coordinatortest.Submit(t, late, body, "")
	name := coordinatortest.Active(t, goes, first.RunID, "is queued", coordinatortest.IsQueued).Queue
	coordinatortest.Finish(t, goes, coordinatortest.Claim(t, goes, first.RunID, r))
	again := late.Queues.Remember(name)
	if retired, err := goes.Queues.Retire(t.Context(), name); !retired || err != nil {
		t.Fatalf("gone %t: %v", retired, err)
	}
	natstest.Until(t, "the other has heard of it", func() bool { return !late.Queues.IsMade(name) })
	again() // as if it had not
	second := coordinatortest.Submit(t, late, body, "")
	late.Queues.Put(name, nil, 0) // now it has
	before, err := goes.Bus.TaskQueueState(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := goes.Queues.Close(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if now, err := goes.Bus.TaskQueueState(t.Context(), name); err != nil || !now.Created.Equal(before.Created) {
		t.Errorf("a queue is closed in which a run waits: %+v %v", now, err)
	}
	taking(t, natstest.Open(t, s), r)
	natstest.Until(t, "the run is done", func() bool { return goes.History.Ended(second.RunID) })
}

// TestAnOldDeletionRemovesNoQueue: a watch may report the deletion of an earlier entry after the new one was made.
func TestAnOldDeletionRemovesNoQueue(t *testing.T) {
	t.Parallel()
	s := queues.New(queues.Config{Log: natstest.Log(t)})
	for _, step := range []struct {
		value string
		rev   uint64
		want  bool
	}{
		{`{"type":"procedural","tags":["a"]}`, 6, true}, {"", 5, true}, {"", 7, false},
		{`{"type":"procedural","tags":["a"]}`, 8, true}, {"", 0, false}, // the bucket has no trace of it
	} {
		var value []byte
		if step.value != "" {
			value = []byte(step.value)
		}
		s.Put("q", value, step.rev)
		if _, got := s.Want("q"); got != step.want {
			t.Errorf("after %q of revision %d: got %v, want %v", step.value, step.rev, got, step.want)
		}
	}
}

// Two coordinators create and remove queues at once. One may remove a queue at the moment when the other queues a run
// there. Every run still ends within seconds.
func TestNoRunIsStuckInADeletedQueue(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	cfg := parts.Config{MaxQueues: 8}
	both := []*parts.Coordinator{
		coordinatortest.Start(t, natstest.Open(t, s), cfg),
		coordinatortest.Start(t, natstest.Open(t, s), cfg),
	}
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	r.Tags = []string{"0", "1", "2", "3", "4", "5"}
	coordinatortest.Register(t, both[0], r)
	taking(t, natstest.Open(t, s), r)
	natstest.Until(t, "both know the agent", func() bool {
		_, a := both[0].Agents.Find("a")
		_, b := both[1].Agents.Find("a")
		return a && b
	})
	var slowest time.Duration
	for round := range 40 {
		var mu sync.Mutex
		var ids []string
		began := time.Now()
		var wg sync.WaitGroup
		for i, c := range both {
			wg.Go(func() {
				for tag := range 6 { // one upwards, one downwards: they meet
					if i == 1 {
						tag = 5 - tag
					}
					name := runnerapi.RoutingKey{
						Type:    run.Procedural,
						Profile: "procedural",
						Tags:    []string{fmt.Sprint(tag)},
						Agents:  map[string]string{"a": r.Agents[0].Hash()},
					}.TaskQueue()
					if (round+tag+i)%2 == 0 { // as if its room were needed now
						if _, err := c.Queues.Retire(t.Context(), name); err != nil &&
							fault.KindOf(err) != fault.Unavailable {
							t.Error(err)
						}
						continue
					}
					a, err := c.Submit(
						t.Context(),
						fmt.Appendf(nil, `{"agent_name":"a","additional_demands":{"tags":["%d"]}}`, tag),
						fmt.Sprint(tag),
						"",
					)
					if err != nil {
						if k := fault.KindOf(err); k != fault.Busy && k != fault.Unavailable {
							t.Error(err)
						}
						continue
					}
					mu.Lock()
					ids = append(ids, a.RunID)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for _, id := range ids {
			if !clocktest.Poll(20*time.Second, func() bool { return both[0].History.Ended(id) }) {
				stuck(t, both, id)
			}
		}
		slowest = max(slowest, time.Since(began))
	}
	if slowest > 15*time.Second { // the reconciliation would have found it after 30
		t.Errorf("a run waited for %v", slowest)
	}
	t.Logf("the slowest round took %v", slowest)
}
