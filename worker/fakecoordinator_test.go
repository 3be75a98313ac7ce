package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/worker/profile"
)

const queue = "procedural._._"

// fakeCoordinator is the coordinators' side of the protocol, as far as a worker sees it. Its fields are its replies.
type fakeCoordinator struct {
	t testing.TB
	b *bus.Bus

	mu                 sync.Mutex
	refuseRegistration error // registrations
	registrations      []runnerapi.Registration
	farewells          []runnerapi.Deregistration
	heartbeats         []runnerapi.Heartbeat
	answer             func(runnerapi.Heartbeat) runnerapi.HeartbeatReply
	parts              map[string][]byte
	partErr            error
	onPart             func(name string) error // before a part is stored; where it is refused, it is not
	apiURL             string                  // where the HTTP API is
	recordVersion      int                     // the newest record version in the reply to a registration
	eventVersion       int                     // the newest form of events, likewise
	lease              time.Duration           // default 10 s
	lookups            atomic.Int32            // how often a record was asked for
	silence            context.CancelFunc      // from then on heartbeats are not answered
}

// newFakeCoordinator answers on a bus until the test ends.
func newFakeCoordinator(t testing.TB, b *bus.Bus) *fakeCoordinator {
	t.Helper()
	s := &fakeCoordinator{t: t, b: b, parts: map[string][]byte{}, answer: knownReply}
	if err := b.EnsureTaskQueue(t.Context(), queue, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	beats, mute := context.WithCancel(ctx)
	s.silence = mute
	for subj, ctx := range map[string]context.Context{subject.AllRunnerAPI: ctx, subject.AllHeartbeats: beats} {
		sub, err := b.Listen(subj, "")
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { sub.Serve(ctx, s.handle) })
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

func knownReply(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
	return runnerapi.HeartbeatReply{Known: true, TaskQueues: []string{queue}}
}

func (s *fakeCoordinator) handle(ctx context.Context, subj string, body []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := func() (p runnerapi.PartRequest, name string) {
		json.Unmarshal(body, &p)
		return p, fmt.Sprint(p.Name, "/", p.Part)
	}
	switch subj {
	case subject.RunnerAPI(runnerapi.OpRegister):
		var r runnerapi.Registration
		json.Unmarshal(body, &r)
		s.registrations = append(s.registrations, r)
		if s.refuseRegistration != nil {
			return nil, s.refuseRegistration
		}
		return json.Marshal(runnerapi.Registered{RunnerID: r.ID(), HeartbeatInterval: 20 * time.Millisecond,
			Lease: cmp.Or(s.lease, 10*time.Second), TaskQueues: []string{queue}, APIURL: s.apiURL,
			RecordVersion: s.recordVersion, EventVersion: s.eventVersion})
	case subject.RunnerAPI(runnerapi.OpDeregister):
		var f runnerapi.Deregistration
		json.Unmarshal(body, &f)
		if !slices.Contains(s.farewells, f) { // it is said again where the answer is late
			s.farewells = append(s.farewells, f)
		}
		return []byte("{}"), nil
	case subject.RunnerAPI(subject.OpRecord):
		var r bus.RecordRequest
		json.Unmarshal(body, &r)
		s.lookups.Add(1)
		m, err := s.b.Last(ctx, r.Subject)
		if errors.Is(err, bus.ErrNotFound) {
			return nil, fault.New(fault.NotFound, "", "There is no such record")
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(bus.Record{Seq: m.Seq, Body: m.Body, At: m.Time})
	case subject.RunnerAPI(runnerapi.OpGetPart):
		_, name := part()
		if s.partErr != nil {
			return nil, s.partErr
		}
		body, ok := s.parts[name]
		if !ok {
			return nil, fault.New(fault.NotFound, "", "It is not kept any more, or it is damaged")
		}
		return body, nil
	case subject.RunnerAPI(runnerapi.OpDropState):
		p, _ := part()
		for name := range s.parts {
			if at, ok := runnerapi.StatePointerOf(strings.Split(name, "/")[0]); ok &&
				runnerapi.StatePointer(p.RunID, p.Attempt) != at {
				if want, _ := runnerapi.StatePointerOf(p.Name); want == at {
					delete(s.parts, name)
				}
			}
		}
		return nil, nil
	case subject.RunnerAPI(runnerapi.OpPutPart):
		p, name := part()
		if s.onPart != nil {
			if err := s.onPart(name); err != nil {
				return nil, err
			}
		}
		s.parts[name] = p.Body
		return nil, s.partErr
	}
	var b runnerapi.Heartbeat
	json.Unmarshal(body, &b)
	s.heartbeats = append(s.heartbeats, b)
	return json.Marshal(s.answer(b))
}

// with calls f under the lock.
func (s *fakeCoordinator) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// enqueue puts a run into the task queue; change may modify its record.
func (s *fakeCoordinator) enqueue(change ...func(*run.Queued)) run.Queued {
	s.t.Helper()
	q := run.Queued{V: run.Version, Attempt: 1, Spec: run.Spec{
		ID: run.NewID(), Type: run.Start, SessionID: run.NewSessionID(), Agent: "a", AgentType: run.Procedural,
		Timeout: 60, TimeoutBy: "request",
		Input: &run.Input{Parameters: json.RawMessage(`{"b":1,"a":2.50,"prompt":"p"}`)},
	}}
	q.Key = "key-" + q.ID
	for _, f := range change {
		f(&q)
	}
	body, err := json.Marshal(q)
	if err == nil {
		_, err = s.b.Append(s.t.Context(), bus.Entry{Subject: subject.Queued(subject.Partition(q.SessionID), queue,
			q.ID, q.Attempt), Body: body})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return q
}

// waitEnded waits for a run's end record.
func (s *fakeCoordinator) waitEnded(q run.Queued) (e run.Ended) {
	s.t.Helper()
	natstest.Until(s.t, "run ends", func() bool {
		return s.record(subject.Ended(subject.Partition(q.SessionID), q.ID, q.Key), &e)
	})
	return e
}

// claim returns a run's claim, if there is one.
func (s *fakeCoordinator) claim(q run.Queued) (c run.Claim, ok bool) {
	ok = s.record(subject.Claimed(subject.Partition(q.SessionID), q.ID, q.Key), &c)
	return c, ok
}

func (s *fakeCoordinator) record(subj string, into any) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m, err := s.b.Last(ctx, subj)
	if err == nil {
		err = json.Unmarshal(m.Body, into)
	}
	if err != nil && !errors.Is(err, bus.ErrNotFound) && fault.KindOf(err) != fault.Unavailable {
		s.t.Error(err)
	}
	return err == nil
}

// command sends a command to a worker.
func (s *fakeCoordinator) command(w *Worker, c runnerapi.Command) (r runnerapi.CommandReply) {
	s.t.Helper()
	c.Instance = w.client.Instance
	body, _ := json.Marshal(c)
	raw, err := s.b.Request(s.t.Context(), subject.Commands(w.ID()), body)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// waitDrained waits until the task queue has neither pending nor unacknowledged messages.
func (s *fakeCoordinator) waitDrained() {
	s.t.Helper()
	natstest.Until(s.t, "every queue message is acknowledged", func() bool {
		l, err := s.b.TaskQueueState(s.t.Context(), queue)
		return err == nil && l.Pending == 0 && l.AckPending == 0
	})
}

// executorStub is an executor that does what the test says.
type executorStub func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome

func (f executorStub) Run(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
	return f(ctx, v, host)
}

// completed is a completed outcome with this data.
func completed(data string) run.Outcome {
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Procedural, Data: json.RawMessage(data)}}
}

// untilCanceled runs until it is ended.
func untilCanceled(ctx context.Context, _ executor.Invocation, _ executor.Host) run.Outcome {
	<-ctx.Done()
	return run.Outcome{Status: run.Stopped}
}

// runningWorker is a running worker.
type runningWorker struct {
	*Worker
	stop context.CancelFunc
	done chan error
}

// start starts a worker that ends with the test at the latest.
func start(t testing.TB, b *bus.Bus, do executorStub, change ...func(*Config)) runningWorker {
	t.Helper()
	l := startUnready(t, b, do, change...)
	select {
	case <-l.Ready():
	case err := <-l.done:
		t.Fatalf("the worker ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the worker does not register")
	}
	return l
}

// startUnready is start without waiting for the registration.
func startUnready(t testing.TB, b *bus.Bus, do executorStub, change ...func(*Config)) runningWorker {
	t.Helper()
	c := Config{Bus: b, Executor: do, Host: "h", ProjectDir: t.TempDir(), Grace: -1, Log: natstest.Log(t),
		Profile: profile.Profile{Name: "p", Type: run.Procedural, MaxConcurrentRuns: 4}}
	for _, f := range change {
		f(&c)
	}
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := runningWorker{w, cancel, make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.done <- w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return l
}

// end shuts the worker down and waits for it.
func (l runningWorker) end(t testing.TB) {
	t.Helper()
	l.stop()
	l.wait(t, nil)
}

func (l runningWorker) wait(t testing.TB, want error) {
	t.Helper()
	select {
	case err := <-l.done:
		if !errors.Is(err, want) {
			t.Errorf("the worker ended with %v, want %v", err, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("the worker does not end")
	}
}

// code returns the error code of an end record.
func code(e run.Ended) string {
	if e.Error == nil {
		return ""
	}
	return e.Error.Code
}

// field returns a field of an end record's error, as JSON.
func field(e run.Ended, name string) string {
	i := slices.IndexFunc(e.Error.Fields, func(f fault.Field) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	raw, _ := json.Marshal(e.Error.Fields[i].Value)
	return string(raw)
}
