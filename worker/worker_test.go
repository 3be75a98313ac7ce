package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

func TestRun(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, func(_ context.Context, v executor.Invocation, host executor.Host) run.Outcome {
		for i := range 3 {
			host.Emit(run.EventMessage, run.TextMessage("system", fmt.Sprint(i)))
		}
		host.Emit("nonsense", nil)
		host.Emit(run.EventMessage, json.RawMessage(`"no object"`))
		return completed(fmt.Sprintf(`{"mode":%q,"parameters":%s,"html":"<&>"}`, v.Mode, v.Parameters))
	})
	q := s.enqueue()
	e := s.waitEnded(q)
	c, ok := s.claim(q)
	if want := `{"mode":"start","parameters":{"b":1,"a":2.50,"prompt":"p"},"html":"<&>"}`; e.Status != run.Completed ||
		string(e.Result.Data) != want {
		t.Errorf("got %s %s, want %s", e.Status, e.Result.Data, want)
	}
	if !ok || c.RunnerID != w.ID() || c.Instance == "" || c.Nonce == "" || c.Nonce == e.Nonce || e.StartedAt == nil ||
		e.RunnerID != w.ID() || e.SessionID != q.SessionID {
		t.Errorf("claim %+v, ended %+v", c, e)
	}
	all, err := b.Events(t.Context(), subject.RunEvents(q.SessionID, q.ID), 0, 10)
	if err != nil || len(all) != 4 || all[3].Seq != e.Events {
		t.Fatalf("got %d events, %v, the end record has %d", len(all), err, e.Events)
	}
	if !strings.Contains(string(all[2].Body)+string(all[3].Body),
		`an event of the unknown kind \"nonsense\" is dropped`) {
		t.Errorf("the event of no kind is reported as %s and %s", all[2].Body, all[3].Body)
	}
	s.waitDrained()
	w.end(t)
	// The run's slot may be freed after its end is seen: then the runner first says that it still finishes runs.
	s.with(func() {
		last := len(s.farewells) - 1
		if last < 0 || last > 1 || s.farewells[last].Instance != c.Instance || s.farewells[last].Finishing ||
			last == 1 && !s.farewells[0].Finishing {
			t.Errorf("deregistered: got %+v, want a final one, before it at most one that finishes", s.farewells)
		}
	})
}

// TestExecutedOnce: one executor does a run, however often it is delivered, and to whom.
func TestExecutedOnce(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	starts := map[string]*atomic.Int32{}
	var all []run.Queued
	for range 60 {
		q := s.enqueue()
		starts[q.ID], all = new(atomic.Int32), append(all, q)
		// The same run again, as a second dispatch of it in another queue: same attempt, same key.
		body, _ := json.Marshal(q)
		other := subject.Queued(subject.Partition(q.SessionID), "procedural.p._", q.ID, 1)
		if _, err := b.Append(t.Context(), bus.Entry{Subject: other, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.EnsureTaskQueue(t.Context(), "procedural.p._", 1); err != nil {
		t.Fatal(err)
	}
	s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
		return runnerapi.HeartbeatReply{Known: true, TaskQueues: []string{queue, "procedural.p._"}}
	}
	do := func(_ context.Context, v executor.Invocation, _ executor.Host) run.Outcome {
		starts[v.RunID].Add(1)
		return completed("1")
	}
	w1, w2 := start(t, b, do), start(t, b, do)
	for _, q := range all {
		s.waitEnded(q)
	}
	s.waitDrained()
	natstest.Until(t, "the second queue is empty", func() bool {
		l, err := b.TaskQueueState(t.Context(), "procedural.p._")
		return err == nil && l.Pending == 0 && l.AckPending == 0
	})
	for id, n := range starts {
		if n.Load() != 1 {
			t.Errorf("run %s started %d times", id, n.Load())
		}
	}
	if n := w1.counts.claimed.Load() + w2.counts.claimed.Load(); n != 60 {
		t.Errorf("%d claims, want 60", n)
	}
}

// TestClaimReadBack: a claim whose append was not answered is found by its nonce, and not mistaken for another's. A
// worker without read permission asks a coordinator.
func TestClaimReadBack(t *testing.T) {
	for _, confined := range []bool{false, true} {
		t.Run(fmt.Sprintf("confined %v", confined), func(t *testing.T) { claimReadBack(t, confined) })
	}
}

func claimReadBack(t *testing.T, confined bool) {
	t.Parallel()
	server := natstest.Server(t)
	b := natstest.Open(t, server)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newFakeCoordinator(t, b)
	own, err := bus.Open(natstest.Conn(t, server), bus.Config{Confined: confined, Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	var starts atomic.Int32
	w := start(t, own, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		starts.Add(1)
		return completed("1")
	})
	mineQ, otherQ := s.enqueue(func(q *run.Queued) { q.V = 1 }), run.Queued{}
	s.waitEnded(mineQ)
	// Another's claim stands before the worker gets the run: it acknowledges and forgets.
	otherQ = run.Queued{V: 1, Attempt: 1, Key: "k", Spec: run.Spec{ID: run.NewID(), SessionID: run.NewSessionID(),
		Agent: "a"}}
	other, _ := json.Marshal(run.Claim{V: 1, Instance: w.client.Instance, RunnerID: w.ID(), Nonce: "another process's"})
	if _, err := s.b.Append(t.Context(), bus.Entry{Subject: subject.Claimed(subject.Partition(otherQ.SessionID),
		otherQ.ID, "k"), Body: other}); err != nil {
		t.Fatal(err)
	}
	s.enqueue(func(q *run.Queued) { *q = otherQ })
	natstest.Until(t, "the claim is refused", func() bool { return w.counts.lost.Load() == 1 })
	s.waitDrained()
	if starts.Load() != 1 {
		t.Errorf("got %d starts, want 1", starts.Load())
	}
	// The claim's append reaches the stream and its answer nobody: the same record is written again by the same claim.
	a := &attempt{Queued: run.Queued{V: 1, Attempt: 1, Key: "k2", Spec: run.Spec{ID: run.NewID(), SessionID: "ses_x"}},
		partition: "7"}
	nonce := w.records.nonce()
	body, _ := json.Marshal(run.Claim{Nonce: nonce})
	e := bus.Entry{Subject: subject.Claimed(a.partition, a.ID, a.Key), Body: body}
	if _, err := s.b.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := w.bus.AppendAndVerify(t.Context(), e, hasNonce(nonce)); err != nil {
		t.Errorf("own claim not recognized: %v", err)
	}
	if _, err := w.bus.AppendAndVerify(t.Context(), e, hasNonce(w.records.nonce())); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("got %v, want taken", err)
	}
	if s.lookups.Load() != map[bool]int32{true: 3}[confined] {
		t.Errorf("the coordinator was asked %d times", s.lookups.Load())
	}
}

// TestClaimWhileNATSRestarts: NATS is killed while runs are claimed and ended; each starts once and ends.
func TestClaimWhileNATSRestarts(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	s := newFakeCoordinator(t, p.Bus(t))
	var all []run.Queued
	for range 300 {
		all = append(all, s.enqueue())
	}
	var starts atomic.Int32
	w := start(t, p.Bus(t), func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		starts.Add(1)
		return completed("1")
	}, func(c *Config) { c.Profile.MaxConcurrentRuns = 16 })
	natstest.Until(t, "some have started", func() bool { return starts.Load() > 20 })
	p.Kill()
	p.Start()
	for _, q := range all {
		if e := s.waitEnded(q); e.Status != run.Completed {
			t.Errorf("run %s: %s", q.ID, e.Status)
		}
	}
	if n, claimed := starts.Load(), w.counts.claimed.Load(); int(n) != len(all) || uint64(n) != claimed {
		t.Errorf("got %d runs, %d started, %d claimed", len(all), n, claimed)
	}
}

// TestEndRecordAfterNATSIsBack: a run that ends while NATS is down is ended when it is back, with its events or
// without any.
func TestEndRecordAfterNATSIsBack(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{true, false} {
		t.Run(fmt.Sprint("events ", events), func(t *testing.T) {
			t.Parallel()
			p := natstest.Proc(t)
			s := newFakeCoordinator(t, p.Bus(t))
			started, goOn := make(chan struct{}), make(chan struct{})
			w := start(t, p.Bus(t), func(_ context.Context, _ executor.Invocation, host executor.Host) run.Outcome {
				if events {
					host.Emit(run.EventMessage, run.TextMessage("system", "before"))
				}
				close(started)
				<-goOn
				if events {
					host.Emit(run.EventMessage, run.TextMessage("system", "while away"))
				}
				return completed(`"late"`)
			})
			q := s.enqueue()
			<-started
			p.Kill()
			natstest.Until(t, "the worker has noticed", func() bool { return !w.bus.Connected() })
			close(goOn)
			p.Start()
			if e := s.waitEnded(q); e.Status != run.Completed || string(e.Result.Data) != `"late"` ||
				(e.Events > 0) != events {
				t.Errorf("got %s %+v, last event %d", e.Status, e.Result, e.Events)
			}
			if c := &w.counts; c.refused.Load() != 0 {
				t.Errorf("%d end records refused", c.refused.Load())
			}
		})
	}
}

// TestEnds covers every way an attempt can end, as its end record shows.
func TestEnds(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	starts := make(chan struct{}, 1)
	do := func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
		starts <- struct{}{}
		switch v.AgentName {
		case "panics":
			panic("ouch")
		case "fails":
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal,
				"command_failed", strings.Repeat("x", 1<<20)), Result: completed("3").Result}
		case "rambles":
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "odd", "odd").
				With("all", strings.Repeat("x", 2<<20))}
		case "mute":
			return run.Outcome{Status: run.Failed}
		case "none":
			return run.Outcome{}
		case "stops":
			return run.Outcome{Status: run.Stopped}
		case "broken":
			return completed(`{"a":`)
		case "shouts": // what it has to say is an event that is too large
			host.Emit(run.EventMessage, run.TextMessage("assistant", strings.Repeat("x", 700<<10)))
			return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous}}
		case "natural": // the stop comes, and it ends by itself all the same
			<-ctx.Done()
			return completed("1")
		case "late": // it says itself that it took too long, with an exit code
			<-ctx.Done()
			n := 124
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "timeout", "own words"),
				Result: &run.Result{Type: run.Procedural, Data: json.RawMessage("1"), ExitCode: &n}}
		}
		return untilCanceled(ctx, v, host)
	}
	w := start(t, b, do)
	for _, tt := range []struct {
		agent, stop string
		timeout     int
		want        string
	}{
		{"panics", "", 60, "failed executor_crashed"},
		{"fails", "", 60, "failed command_failed 3"},
		{"rambles", "", 60, "failed odd"},
		{"mute", "", 60, "failed executor_failed"},
		{"none", "", 60, "failed executor_crashed"},
		{"stops", "", 60, "failed executor_stopped"},
		{"broken", "", 60, "failed result_unreadable"},
		{"shouts", "", 60, "failed event_too_large null"},
		{"natural", "command", 60, "completed  1"},
		{"cut", "command", 60, "stopped stopped"},
		{"cut", "beat", 60, "stopped stopped"},
		{"late", "", 60, `failed timeout 1 Command timed out after 1 second by "profile" exit 124`},
		{"cut", "", 1, `failed timeout Command timed out after 1 second by "request"`},
	} {
		t.Run(tt.agent+" "+tt.stop, func(t *testing.T) {
			s := s
			s.t = t
			if tt.agent == "late" { // under a profile whose limit is no other row's
				b := natstest.Bus(t)
				s = newFakeCoordinator(t, b)
				start(t, b, do, func(c *Config) { c.Profile.TimeoutSeconds = 1 })
			}
			q := s.enqueue(func(q *run.Queued) { q.Agent, q.Timeout = tt.agent, tt.timeout })
			<-starts
			switch tt.stop {
			case "command":
				if !s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandProbe, Key: q.Key}).Has {
					t.Error("it does not have the attempt")
				}
				if r := s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandStop, Key: q.Key}); !r.Has ||
					r.Instance != w.client.Instance {
					t.Errorf("got %+v", r)
				}
			case "beat":
				s.with(func() {
					s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
						return runnerapi.HeartbeatReply{Known: true, TaskQueues: []string{queue}, Stop: []string{q.Key}}
					}
				})
				defer s.with(func() { s.answer = knownReply })
			}
			e := s.waitEnded(q)
			got := fmt.Sprintf("%s %s", e.Status, code(e))
			if e.Result != nil {
				got += " " + string(e.Result.Data)
			}
			if code(e) == "timeout" {
				got += fmt.Sprintf(" %s by %s", e.Error.Message, field(e, "timeout_by"))
			}
			if e.Result != nil && e.Result.ExitCode != nil {
				got += fmt.Sprint(" exit ", *e.Result.ExitCode)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	s.t = t
	if r := s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandStop, Key: "unknown"}); r.Has {
		t.Error("it has an attempt that nobody gave it")
	}
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, func(_ context.Context, v executor.Invocation, _ executor.Host) run.Outcome {
		var p struct{ Size int }
		json.Unmarshal(v.Parameters, &p)
		o := completed(`"` + strings.Repeat("<", p.Size) + `"`)
		if v.AgentName == "fails" {
			o.Status, o.Error = run.Failed, fault.New(fault.Internal, "own", "own")
		}
		return o
	}, func(c *Config) { c.MaxPayload = 1 << 20 })
	input := func(id string, in any) *run.Payload {
		raw, _ := json.Marshal(in)
		sum := sha256.Sum256(raw)
		p := &run.Payload{Name: id + ".in", Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])}
		for rest := raw; len(rest) > 0; p.Parts++ {
			n := min(len(rest), run.PartSize)
			s.with(func() { s.parts[fmt.Sprint(p.Name, "/", p.Parts)] = rest[:n] })
			rest = rest[n:]
		}
		return p
	}
	large := func(size int) func(*run.Queued) {
		return func(q *run.Queued) {
			q.Input, q.Body = nil,
				input(q.ID, run.Input{Parameters: json.RawMessage(fmt.Sprintf(`{"size":%d,"filler":%q}`, size,
					strings.Repeat("f", 600<<10)))})
		}
	}
	for _, tt := range []struct {
		name   string
		change []func(*run.Queued)
		size   int // of the result that is stored in parts, 0: none
		want   string
	}{
		{"large input, small result", []func(*run.Queued){large(10)}, 0, `completed  "<<<<<<<<<<"`},
		{"large input, large result", []func(*run.Queued){large(600 << 10)}, 600 << 10, "completed "},
		{"too large a result", []func(*run.Queued){large(1 << 20)}, 0, "failed result_too_large"},
		{"too large a result of a failed run", []func(*run.Queued){large(1 << 20), func(q *run.Queued) {
			q.Agent = "fails"
		}}, 0, "failed own"},
		{"a forged input", []func(*run.Queued){large(1), func(q *run.Queued) {
			q.Body.SHA256 = "0"
		}}, 0, "failed payload_unavailable"},
		{"an input of more parts than size", []func(*run.Queued){large(1), func(q *run.Queued) {
			q.Body.Parts = 1e9
		}}, 0, "failed payload_unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.t = t
			q := s.enqueue(tt.change...)
			e := s.waitEnded(q)
			got := fmt.Sprintf("%s %s", e.Status, code(e))
			if e.Result != nil {
				got += " " + string(e.Result.Data)
			}
			if got != tt.want || (e.Body != nil) != (tt.size > 0) {
				t.Fatalf("got %.200s, payload %+v; want %s", got, e.Body, tt.want)
			}
			if tt.size == 0 {
				return
			}
			var whole []byte
			for n := range e.Body.Parts {
				s.with(func() { whole = append(whole, s.parts[fmt.Sprint(e.Body.Name, "/", n)]...) })
			}
			var r run.Result
			sum := sha256.Sum256(whole)
			if err := json.Unmarshal(whole, &r); err != nil || bytes.Count(r.Data, []byte("<")) != tt.size ||
				e.Body.Name != q.ID+".1.out" || hex.EncodeToString(sum[:]) != e.Body.SHA256 {
				t.Errorf("%v, %d bytes of data in %+v", err, len(r.Data), e.Body)
			}
		})
	}
	t.Run("input away for a while", func(t *testing.T) {
		s.t = t
		s.with(func() { s.partErr = fault.New(fault.Unavailable, "", "away") })
		q := s.enqueue(large(1))
		natstest.Until(t, "it was tried", func() bool {
			l, err := b.TaskQueueState(t.Context(), queue)
			return err == nil && l.AckPending == 1
		})
		if _, ok := s.claim(q); ok {
			t.Error("started without its input")
		}
		s.with(func() { s.partErr = nil })
		if e := s.waitEnded(q); e.Status != run.Completed {
			t.Errorf("got %s %s", e.Status, code(e))
		}
	})
	w.end(t)
}

func TestUnreadableIsRejected(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		return completed("1")
	})
	s.enqueue(func(q *run.Queued) { q.V = -1 })
	s.enqueue(func(q *run.Queued) { q.Key = "a.b" })
	if _, err := b.Append(t.Context(), bus.Entry{Subject: subject.Queued("1", queue, "run_x", 1),
		Body: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "all three are put aside", func() bool {
		st, err := b.StreamState(t.Context(), subject.Rejected)
		return err == nil && st.Msgs == 3
	})
	s.waitDrained()
	if e := s.waitEnded(s.enqueue()); e.Status != run.Completed || w.counts.claimed.Load() != 1 {
		t.Errorf("got %s, %d claims", e.Status, w.counts.claimed.Load())
	}
}

// TestUnknownAgentIsRedelivered: a run of an agent that this worker does not have is left to others.
func TestUnknownAgentIsRedelivered(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	own := agent.Blueprint{Name: "a", Type: run.Procedural, Command: "x", Status: agent.Active}
	w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		return completed("1")
	},
		func(c *Config) { c.Agents = []agent.Blueprint{own} })
	foreign := s.enqueue(func(q *run.Queued) { q.Owner = "0123" })
	if e := s.waitEnded(s.enqueue(func(q *run.Queued) { q.Owner = own.Hash() })); e.Status != run.Completed {
		t.Errorf("got %s", e.Status)
	}
	if _, ok := s.claim(foreign); ok || w.counts.claimed.Load() != 1 {
		t.Error("it began a foreign agent's run")
	}
	s.with(func() {
		if len(s.registrations[0].Agents) != 1 || s.registrations[0].Agents[0].Hash() != own.Hash() {
			t.Errorf("announced %+v", s.registrations[0].Agents)
		}
	})
}
