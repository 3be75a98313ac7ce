package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// worker is a simulated worker process: it pulls, claims, executes and ends attempts as worker does.
type worker struct {
	*client
	runner   runnerapi.Runner
	commands string // the subject it listens on
	queues   []string
	slots    int
	ctx      context.Context // of the process
	kill     context.CancelFunc
	paused   bool
	attempts map[string]*attempt // by key
	nonces   atomic.Int64
}

// attempt is one that a worker was given.
type attempt struct {
	run.Queued
	worker  *worker
	queue   string
	seq     uint64
	claimed bool
	started time.Time
	stop    context.CancelFunc // ends its executor
	ctx     context.Context
	stopped bool // by a command
	killed  bool // abandoned by a coordinator
}

const workerSlots = 4

// startWorker starts a process on a host, for one type of agents.
func (w *world) startWorker(host, kind string) *worker {
	w.instances++
	k := &worker{client: w.connect(host), slots: workerSlots, attempts: map[string]*attempt{}}
	k.ctx, k.kill = context.WithCancel(context.Background())
	k.runner = runnerapi.Runner{MaxConcurrentRuns: workerSlots,
		Identity: runnerapi.Identity{Hostname: host, ExecutorProfile: "any", ExecutorType: kind},
		Instance: fmt.Sprintf("%s#%d", host, w.instances)}
	k.commands, k.queues = subject.CommandsFor("", k.runner.ID()), k.runner.BaseTaskQueues()
	w.workers = append(w.workers, k)
	w.register(k)
	w.loop.later(func() { w.loop.spawn(k.beat) })
	return k
}

func (k *worker) running() bool { return k.ctx.Err() == nil && k.up && !k.paused }

// register stores the worker's registration. Each coordinator learns of it a little later.
func (w *world) register(k *worker) {
	k.runner.RegisteredAt = time.Now().UTC()
	value, err := json.Marshal(k.runner)
	if err != nil {
		panic(err)
	}
	w.registrations[k.runner.ID()] = value
	w.announce(k.runner.ID(), value)
}

// announce has each coordinator see what is registered now: a little later, or when its watch goes on.
func (w *world) announce(id string, value []byte) {
	w.revision++
	rev := w.revision
	for _, c := range w.coordinators {
		if c.blind > 0 {
			c.unseen = append(c.unseen, func() { c.registry.Put(id, value, rev) })
		} else {
			w.loop.after(5*time.Millisecond, "registration", func() { c.registry.Put(id, value, rev) })
		}
	}
}

// unregister removes a registration, as a coordinator wants, unless another process has taken over.
func (w *world) unregister(by string, r runnerapi.Runner) {
	var stored runnerapi.Runner
	if json.Unmarshal(w.registrations[r.ID()], &stored) != nil || stored.Instance != r.Instance {
		return
	}
	w.oracle.removed(by, r)
	w.deregister(r)
}

// deregister removes a registration.
func (w *world) deregister(r runnerapi.Runner) {
	delete(w.registrations, r.ID())
	w.announce(r.ID(), nil)
}

// work has the worker pull while it has free slots.
func (k *worker) work() {
	if !k.running() || k.runs.down {
		return
	}
	for _, queue := range k.queues {
		for len(k.attempts) < k.slots {
			m, ok := k.pull(queue)
			if !ok {
				break
			}
			q, err := run.DecodeQueued(m.Body, func(b []byte) string { return string(b) })
			if err != nil || k.attempts[q.Key] != nil {
				k.ack(queue, m.Seq, 0)
				continue
			}
			a := &attempt{Queued: q, worker: k, queue: queue, seq: m.Seq}
			a.ctx, a.stop = context.WithCancel(k.ctx)
			k.attempts[q.Key] = a
			k.loop.later(func() { k.loop.spawn(a.run) })
		}
	}
}

// do has the loop do something for the worker.
func (k *worker) do(ctx context.Context, kind string, f func()) error {
	return k.loop.call(ctx, &act{key: k.name + " " + kind, do: func() time.Duration { f(); return 0 }})
}

// append writes a record until it or another one is there.
func (a *attempt) append(e entry, nonce string, failed func()) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		_, err := a.worker.AppendAndVerify(a.worker.ctx, e, func(body []byte) bool {
			var r struct {
				Nonce string `json:"nonce"`
			}
			return json.Unmarshal(body, &r) == nil && r.Nonce == nonce
		})
		if errors.Is(err, bus.ErrTaken) {
			_ = a.worker.do(a.worker.ctx, "taken", func() { a.worker.oracle.taken(a, e) })
		}
		if err == nil || errors.Is(err, bus.ErrTaken) || a.worker.ctx.Err() != nil {
			return err
		}
		failed()
		pause(a.worker.ctx, wait)
	}
}

func (k *worker) nonce() string {
	return fmt.Sprintf("%s.%d", k.runner.Instance, k.nonces.Add(1))
}

// run claims, executes and ends the attempt.
func (a *attempt) run() {
	k := a.worker
	free := func() { delete(k.attempts, a.Key); k.pullSoon() }
	gone := func() { _ = k.do(k.ctx, "free", free) }
	part := subject.Partition(a.SessionID)
	nonce := k.nonce()
	claim, err := run.Claim{V: 1, SessionID: a.SessionID, RunnerID: k.runner.ID(), Instance: k.runner.Instance,
		Nonce: nonce, Attempt: a.Attempt, At: time.Now().UTC()}.Encode()
	if err != nil {
		panic(err)
	}
	err = a.append(entry{Subject: subject.Claimed(part, a.ID, a.Key), Body: claim}, nonce, func() {
		_ = k.do(k.ctx, "nak", func() { k.ack(a.queue, a.seq, 2*time.Second) })
	})
	if k.do(k.ctx, "ack", func() { k.ack(a.queue, a.seq, 0) }) != nil {
		return
	}
	if err != nil {
		gone()
		return
	}
	if k.do(k.ctx, "begin", func() { a.begin() }) != nil {
		return
	}
	if a.AgentType == run.Autonomous && a.Type == run.Start {
		body, _ := json.Marshal(run.Bound{V: 1, SessionID: a.SessionID, RunnerID: k.runner.ID(), Attempt: a.Attempt,
			ExecutorSessionID: "model-" + a.ID, At: time.Now().UTC()})
		k.loop.spawn(func() {
			_, _ = k.Append(a.ctx, entry{Subject: subject.Bound(part, a.ID, a.Key), Body: body})
		})
	}
	plan := planOf(a.Input)
	pause(a.ctx, time.Duration(plan.Takes)*time.Millisecond)
	if k.loop.see(); k.ctx.Err() != nil {
		return
	}
	if a.killed {
		gone()
		return
	}
	e, nonce := a.end(plan)
	if a.append(e, nonce, func() {}) != nil {
		gone()
		return
	}
	_ = k.do(k.ctx, "ended", func() { k.oracle.ended(a, e); free() })
}

// begin notes that the executor starts.
func (a *attempt) begin() {
	a.claimed, a.started = true, time.Now()
	a.worker.oracle.noteStart(a)
	if a.worker.up && !a.worker.runs.down {
		a.worker.events[subject.RunEvents(a.SessionID, a.ID)]++
	}
}

// end returns the record of how the attempt ended.
func (a *attempt) end(plan work) (entry, string) {
	k := a.worker
	r := run.Ended{V: 1, SessionID: a.SessionID, RunnerID: k.runner.ID(), Nonce: k.nonce(), Attempt: a.Attempt,
		Status: run.Completed, StartedAt: &a.started, At: time.Now().UTC()}
	switch {
	case a.stopped:
		r.Status, r.Error = run.Stopped, fault.New(fault.Internal, "stopped", "Stopped")
	case plan.Fails:
		r.Status, r.Error = run.Failed, fault.New(fault.Internal, "executor_failed", "It failed")
	case a.HasOutputSchema:
		r.Result = &run.Result{Type: a.AgentType, Data: json.RawMessage(plan.Answer)}
	default:
		text := "done by " + a.ID
		r.Result = &run.Result{Type: a.AgentType, Text: &text}
	}
	body, err := r.Encode()
	if err != nil {
		panic(err)
	}
	to := subject.Ended(subject.Partition(a.SessionID), a.ID, a.Key)
	if a.HasOutputSchema {
		to = subject.Offered(subject.Partition(a.SessionID), a.ID, a.Key)
	}
	return entry{Subject: to, Body: body}, r.Nonce
}

// work is what a run's parameters require of the simulated executor.
type work struct {
	Takes  int    `json:"takes"` // milliseconds
	Fails  bool   `json:"fails,omitempty"`
	Answer string `json:"answer,omitempty"` // JSON
}

func planOf(in *run.Input) (p work) {
	p = work{Takes: 100, Answer: `{"ok":true}`} // a callback turn's
	if in == nil {
		return p
	}
	var params struct {
		Prompt string `json:"prompt"`
	}
	if json.Unmarshal(in.Parameters, &params) == nil && strings.HasPrefix(params.Prompt, "{") {
		_ = json.Unmarshal([]byte(params.Prompt), &p)
	}
	return p
}

// obey does what a command says.
func (k *worker) obey(cmd runnerapi.Command) runnerapi.CommandReply {
	a := k.attempts[cmd.Key]
	if a != nil && cmd.Type == runnerapi.CommandStop {
		a.stopped = true
		k.loop.later(a.stop)
	}
	return runnerapi.CommandReply{Instance: k.runner.Instance, Has: a != nil}
}

// beat sends heartbeats to every coordinator while the process runs.
func (k *worker) beat() {
	for k.ctx.Err() == nil {
		pause(k.ctx, beatEvery)
		if k.loop.see(); !k.running() {
			continue
		}
		b := runnerapi.Heartbeat{RunnerID: k.runner.ID(), Instance: k.runner.Instance, At: time.Now().UTC()}
		for _, key := range slices.Sorted(maps.Keys(k.attempts)) {
			if a := k.attempts[key]; a.claimed {
				b.Attempts = append(b.Attempts, runnerapi.Attempt{RunID: a.ID, SessionID: a.SessionID, Key: key,
					StartedAt: &a.started})
			}
		}
		for _, c := range k.coordinators {
			k.loop.spawn(func() { k.beatTo(c, b) })
		}
	}
}

func (k *worker) beatTo(c *coordinator, b runnerapi.Heartbeat) {
	heard, at := false, time.Time{}
	a := &act{key: k.name + " beat " + c.name}
	a.do = func() time.Duration { heard, at = k.up && c.up && c.started.Load() && !k.deaf(a), time.Now(); return 0 }
	if k.loop.call(k.ctx, a) != nil || !heard {
		return
	}
	reply, err := c.beats.Heartbeat(k.ctx, b)
	if err != nil {
		return
	}
	if k.oracle.heard(k, b, c, at); reply.Known && len(reply.Abandoned)+len(reply.Stop) == 0 {
		return
	}
	_ = k.do(k.ctx, "reply", func() {
		for _, key := range reply.Abandoned {
			if a := k.attempts[key]; a != nil {
				k.oracle.abandoned(a)
				a.killed = true
				k.loop.later(a.stop)
			}
		}
		for _, key := range reply.Stop {
			if a := k.attempts[key]; a != nil {
				a.stopped = true
				k.loop.later(a.stop)
			}
		}
		if !reply.Known && k.running() {
			k.register(k)
		}
	})
}
