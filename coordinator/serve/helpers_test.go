package serve_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
)

// stack is a coordinator as its program runs it, with a real NATS behind it.
type stack struct {
	t    testing.TB
	url  string
	nats *serve.NATS
	nc   *nats.Conn // the test's own
	bus  *bus.Bus
	stop func() // ends the coordinator and waits
}

// brief is a lease for tests that lose a worker.
func brief(c *serve.Config) { c.Coordinator.Lease = 3 * time.Second }

// start runs a coordinator that ends with the test.
func start(t testing.TB, change ...func(*serve.Config)) *stack {
	t.Helper()
	log := natstest.Log(t)
	cfg := serve.Config{
		HTTPAddr: "127.0.0.1:0", Log: log,
		NATS:        serve.NATSConfig{URL: "embed", Listen: "none", Sync: "2m", DataDir: t.TempDir(), Log: log},
		Coordinator: parts.Config{Lease: 10 * time.Second},
	}
	for _, f := range change {
		f(&cfg)
	}
	n, err := cfg.Server, error(nil)
	if n == nil {
		n, err = serve.OpenNATS(cfg.NATS)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
	}
	serving := make(chan string, 1)
	notify := cfg.Serving
	cfg.Server, cfg.Serving = n, func(url string) {
		if notify != nil {
			notify(url)
		}
		serving <- url
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve.Run(ctx, cfg) }()
	s := &stack{t: t, nats: n, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the coordinator ended with %v", err)
		}
	})}
	t.Cleanup(s.stop)
	select {
	case s.url = <-serving:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the coordinator did not start: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the coordinator does not serve")
	}
	s.nc, err = n.Dial(t.Context(), t.Name(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nc.Close)
	s.bus, err = bus.Open(s.nc, bus.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// another is a second coordinator beside this one.
func (s *stack) another(change ...func(*serve.Config)) *stack {
	s.t.Helper()
	return start(s.t, append(change, func(c *serve.Config) { c.Server = s.nats })...)
}

// got is an HTTP answer.
type got struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// call makes a request; headers are given as "Name: value".
func (s *stack) call(method, path, body string, headers ...string) got {
	s.t.Helper()
	return s.callReader(method, path, strings.NewReader(body), headers...)
}

func (s *stack) callReader(method, path string, body io.Reader, headers ...string) got {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	g := got{s.t, res.StatusCode, res.Header, string(bytes.TrimSpace(raw))}
	asDescribed(s.t, method, path, g)
	if g.body != "" && res.Header.Get("Content-Type") == "application/json" {
		if err := strictjson.Check([]byte(g.body)); err != nil { // a key twice, too
			s.t.Errorf("%s %s answers what is no clean JSON: %v: %s", method, path, err, g.body)
		}
	}
	return g
}

func (s *stack) get(path string, headers ...string) got {
	s.t.Helper()
	return s.call(http.MethodGet, path, "", headers...)
}

func (s *stack) post(path, body string, headers ...string) got {
	s.t.Helper()
	return s.call(http.MethodPost, path, body, headers...)
}

// later makes a request beside the test; it gives an answer in any case.
func (s *stack) later(f func() got) <-chan got {
	answer := make(chan got, 2)
	go func() {
		defer func() { answer <- got{t: s.t} }() // f may have ended this goroutine
		answer <- f()
	}()
	return answer
}

// want checks the status and gives the body's members.
func (g got) want(status int) map[string]any {
	g.t.Helper()
	if g.status != status {
		g.t.Fatalf("status %d, want %d: %s", g.status, status, g.body)
	}
	var m map[string]any
	if g.body != "" {
		if err := json.Unmarshal([]byte(g.body), &m); err != nil {
			g.t.Fatalf("%v: %s", err, g.body)
		}
	}
	return m
}

// into reads the body of an answer of this status.
func into[T any](g got, status int) T {
	g.t.Helper()
	var v T
	if g.status != status {
		g.t.Fatalf("status %d, want %d: %s", g.status, status, g.body)
	}
	if err := json.Unmarshal([]byte(g.body), &v); err != nil {
		g.t.Fatalf("%v: %s", err, g.body)
	}
	return v
}

// submit starts a run and gives its ids.
func (s *stack) submit(body string, headers ...string) runs.Accepted {
	s.t.Helper()
	return into[runs.Accepted](s.post("/runs", body, headers...), http.StatusCreated)
}

// until polls a run until it has this status.
func (s *stack) until(id string, status run.Status) run.Run {
	s.t.Helper()
	var r run.Run
	natstest.Until(s.t, id+" is "+string(status), func() bool {
		g := s.get("/runs/" + id)
		if g.status == http.StatusServiceUnavailable { // what was accepted a moment ago is not read yet
			return false
		}
		r = into[run.Run](g, http.StatusOK)
		return r.Status == status
	})
	return r
}

// worker plays a worker's side of the protocol.
type worker struct {
	stack     *stack
	id        string
	runner    runnerapi.Runner
	do        func(run.Queued) run.Outcome
	mu        sync.Mutex
	attempts  []runnerapi.Attempt
	stops     map[string]chan struct{} // by key: closed when the run is to stop
	lastEvent map[string]uint64        // by key: sequence of the attempt's last event
	dead      bool
	clock     time.Time // of its claims; zero: now
	old       bool      // it is of a version that proves no events
	lies      bool      // it ends runs with an output schema itself
	queues    map[string]bool
	take      func(queue string)
	end       func() // ends its loops
}

// echo is an agent that takes anything.
func echo(name string) agent.Blueprint {
	return agent.Blueprint{Name: name, Type: run.Procedural, Command: "./" + name, Status: agent.Active}
}

// done is a completed run with this result.
func done(data string) run.Outcome {
	zero := 0
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Procedural, Data: json.RawMessage(data),
		ExitCode: &zero}}
}

// work registers a worker with these agents, and takes runs until the test ends.
func (s *stack) work(do func(run.Queued) run.Outcome, agents ...agent.Blueprint) *worker {
	s.t.Helper()
	return s.workAs(runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: "here", ProjectDir: "/srv", ExecutorProfile: "procedural",
			ExecutorType: run.Procedural},
		Instance: "one", MaxConcurrentRuns: 8, Agents: agents,
	}, do)
}

func (s *stack) workAs(r runnerapi.Runner, do func(run.Queued) run.Outcome) *worker {
	s.t.Helper()
	w := &worker{stack: s, id: r.ID(), runner: r, do: do, stops: map[string]chan struct{}{},
		lastEvent: map[string]uint64{}, queues: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	w.end = func() { cancel(); loops.Wait() }
	s.t.Cleanup(w.end)
	raw, err := json.Marshal(runnerapi.Registration{Runner: r})
	if err != nil {
		s.t.Fatal(err)
	}
	var answer []byte
	natstest.Until(s.t, "somebody takes registrations", func() bool {
		answer, err = s.bus.Request(ctx, subject.RunnerAPI(runnerapi.OpRegister), raw)
		return !errors.Is(err, bus.ErrNoResponders)
	})
	if err != nil {
		s.t.Fatalf("register: %v", err)
	}
	var reg runnerapi.Registered
	if err := json.Unmarshal(answer, &reg); err != nil {
		s.t.Fatal(err)
	}
	free := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return r.MaxConcurrentRuns - len(w.attempts)
	}
	var taker *bus.Poller
	taker = s.bus.Poller(free, func(ctx context.Context, d bus.Delivery) {
		var q run.Queued
		if err := json.Unmarshal(d.Body, &q); err != nil {
			s.t.Errorf("a queued record cannot be read: %v", err)
			return
		}
		stop := w.enter(q)
		loops.Go(func() {
			defer taker.Wake()
			w.attempt(ctx, d, q, stop)
		})
	})
	w.take = func(queue string) { loops.Go(func() { taker.Poll(ctx, queue) }) }
	commands, err := s.bus.Listen(subject.Commands(w.id), "")
	if err != nil {
		s.t.Fatal(err)
	}
	loops.Go(func() { commands.Serve(ctx, w.command) })
	w.serves(reg.TaskQueues)
	loops.Go(func() {
		for ctx.Err() == nil {
			w.heartbeat(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(min(reg.HeartbeatInterval, 200*time.Millisecond)): // that a run runs is seen soon
			}
		}
	})
	return w
}

func (w *worker) enter(q run.Queued) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.attempts = append(w.attempts, runnerapi.Attempt{RunID: q.ID, SessionID: q.SessionID, Key: q.Key, StartedAt: &now})
	stop := make(chan struct{})
	w.stops[q.Key] = stop
	return stop
}

func (w *worker) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts = slices.DeleteFunc(w.attempts, func(a runnerapi.Attempt) bool { return a.Key == key })
	delete(w.stops, key)
}

// free reports whether the worker has no attempt.
func (w *worker) free() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.attempts) == 0
}

// attempt claims a run, executes it, and writes its end record.
func (w *worker) attempt(ctx context.Context, d bus.Delivery, q run.Queued, stop chan struct{}) {
	defer w.leave(q.Key)
	t, b, part := w.stack.t, w.stack.bus, subject.Partition(q.SessionID)
	w.mu.Lock()
	at := cmp.Or(w.clock, time.Now())
	w.mu.Unlock()
	claim, _ := json.Marshal(run.Claim{V: run.Version, SessionID: q.SessionID, RunnerID: w.id,
		Instance: w.runner.Instance, Nonce: q.Key + w.id, Attempt: q.Attempt, At: at, SignsEvents: !w.old})
	if _, err := b.Append(ctx, bus.Entry{Subject: subject.Claimed(part, q.ID, q.Key), Body: claim}); err != nil {
		if errors.Is(err, bus.ErrTaken) {
			d.Ack()
		}
		return
	}
	d.Ack()
	outcome := make(chan run.Outcome, 1)
	go func() { outcome <- w.do(q) }()
	var o run.Outcome
	select {
	case o = <-outcome:
	case <-stop:
		o = run.Outcome{Status: run.Stopped, Error: fault.New(fault.Internal, "stopped", "Stopped")}
	}
	last := subject.Ended(part, q.ID, q.Key)
	w.mu.Lock()
	events := w.lastEvent[q.Key]
	if q.HasOutputSchema && o.Status == run.Completed && !w.lies {
		last = subject.Offered(part, q.ID, q.Key)
	}
	w.mu.Unlock()
	now := time.Now()
	ended, _ := json.Marshal(run.Ended{V: run.Version, SessionID: q.SessionID, RunnerID: w.id, Nonce: "n" + q.Key,
		Attempt: q.Attempt,
		Status:  o.Status, Error: o.Error, Result: o.Result, Events: events, StartedAt: &now, At: now})
	if _, err := b.Append(context.WithoutCancel(ctx), bus.Entry{Subject: last, Body: ended}); err != nil &&
		ctx.Err() == nil {
		t.Logf("end record of %s: %v", q.ID, err)
	}
}

// message writes a message of the system into the run's session, or several as one pack.
func (w *worker) message(q run.Queued, texts ...string) {
	var all []json.RawMessage
	for _, text := range texts {
		all = append(all, run.TextMessage("system", text))
	}
	w.publish(q, all...)
}

// publish writes a message into the run's session, or several as one pack.
func (w *worker) publish(q run.Queued, messages ...json.RawMessage) {
	var all [][]byte
	for _, m := range messages {
		raw, _ := json.Marshal(run.Event{Type: run.EventMessage, SessionID: q.SessionID, RunID: q.ID, At: time.Now(),
			Body: m})
		all = append(all, raw)
	}
	kind, raw := run.EventMessage, all[0]
	if len(all) > 1 {
		kind, raw = run.PackKind, run.Pack(all)
	}
	ctx, e := context.Background(), w.stack.bus.Emitter(context.Background(), nil)
	at := subject.Event(subject.Partition(q.SessionID), q.SessionID, q.ID, kind)
	if !w.old {
		raw = run.SignEvent(q.Key, at, raw)
	}
	err := e.Emit(ctx, at, raw)
	if err != nil {
		w.stack.t.Error(err)
	}
	seq, err := e.Flush(ctx)
	if err != nil {
		w.stack.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastEvent[q.Key] = seq
}

// serves begins to take from queues that are new.
func (w *worker) serves(queues []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, queue := range queues {
		if !w.queues[queue] {
			w.queues[queue] = true
			w.take(queue)
		}
	}
}

// die ends the worker as a crash does: it sends no heartbeat and answers nothing.
func (w *worker) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
}

func (w *worker) heartbeat(ctx context.Context) {
	w.mu.Lock()
	if w.dead {
		w.mu.Unlock()
		return
	}
	raw, _ := json.Marshal(runnerapi.Heartbeat{RunnerID: w.id, Instance: w.runner.Instance,
		Attempts: slices.Clone(w.attempts)})
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := w.stack.bus.Request(ctx, subject.Heartbeats(w.id), raw)
	var reply runnerapi.HeartbeatReply
	if err == nil && json.Unmarshal(answer, &reply) == nil {
		w.serves(reply.TaskQueues)
	}
}

func (w *worker) command(_ context.Context, _ string, body []byte) ([]byte, error) {
	var c runnerapi.Command
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	w.serves(c.TaskQueues)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return nil, errors.New("dead")
	}
	stop, has := w.stops[c.Key]
	if c.Type == runnerapi.CommandStop && has {
		select {
		case <-stop:
		default:
			close(stop)
		}
	}
	return json.Marshal(runnerapi.CommandReply{Instance: w.runner.Instance, Has: has})
}
