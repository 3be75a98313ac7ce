package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing/synctest"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/highwater"
	"ao/coordinator/runs"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// world is a simulated deployment: NATS, coordinators, workers and callers, in one bubble.
type world struct {
	loop   *loop
	story  story
	log    *slog.Logger
	oracle *oracle
	began  time.Time

	runs          *runsLog
	parts         map[string][]byte
	values        map[string]value
	revisions     uint64
	consumers     map[string]*consumer
	clients       []*client
	registrations map[string][]byte
	revision      uint64            // of the registrations
	events        map[string]uint64 // the last one of each run
	instances     int
	agents        catalog

	coordinators []*coordinator
	workers      []*worker
	past         []*coordinator // that were killed
	calling      int
	pulling      bool
	answers      map[int]acceptance    // by request
	waits        map[int]chan struct{} // closed when a request is answered

	active      map[string]int // faults that last, counted
	tearing     *faultEvent    // the next batch, or one of the next, is torn
	slowUntil   time.Time      // when the last slow time ended
	steadySince time.Time      // when the last fault ended that delays or loses requests
}

const coordinatorCount = 3

// newWorld makes a deployment in which nothing runs yet.
func newWorld(s story, log *slog.Logger) *world {
	w := &world{loop: newLoop(s.Seed), story: s, log: log, began: time.Now(), runs: newLog(s.Clustered),
		parts: map[string][]byte{}, values: map[string]value{}, consumers: map[string]*consumer{},
		registrations: map[string][]byte{},
		events:        map[string]uint64{}, answers: map[int]acceptance{}, waits: map[int]chan struct{}{},
		active: map[string]int{}}
	w.oracle = newOracle(w)
	w.loop.delays, w.loop.check = w.delay, w.oracle.check
	w.agents = catalog{}
	for _, kind := range []string{run.Autonomous, run.Procedural} {
		b := agent.Blueprint{Name: kind, Type: kind, Status: "active"}
		w.agents[kind] = agents.Announced(b, runnerapi.Runner{}, "", true)
	}
	return w
}

// play runs the story to its end and returns what went wrong.
func (w *world) play() (wrong []string) {
	for n := range coordinatorCount {
		w.startCoordinator(fmt.Sprintf("coordinator%d", n+1))
	}
	for n := range 2 {
		w.startWorker(fmt.Sprintf("host%d", n+1), run.Autonomous)
		w.startWorker(fmt.Sprintf("host%d", n+1), run.Procedural)
	}
	w.schedule()
	w.loop.run(w.began.Add(activeTime), w.oracle.found)
	w.heal()
	w.loop.run(w.began.Add(activeTime+calmTime), func() bool { return w.oracle.found() || w.settled() })
	if !w.oracle.found() {
		w.oracle.final()
	}
	w.end()
	for _, line := range w.oracle.about(strings.Join(w.oracle.wrong, " ")) {
		w.log.Info("record", "is", line)
	}
	return w.oracle.wrong
}

// schedule puts what the story says into the loop.
func (w *world) schedule() {
	for _, q := range w.story.Requests {
		w.loop.after(q.At, fmt.Sprintf("request %d", q.N), func() {
			w.calling++
			w.loop.later(func() { w.loop.spawn(func() { w.returned(fmt.Sprint(q.N), w.request(q)) }) })
		})
	}
	for n, f := range w.story.Faults {
		w.loop.after(f.At, fmt.Sprintf("fault %d", n), func() { w.inject(f) })
	}
	w.tick()
}

// pullDelay is how long a worker's pull takes.
const pullDelay = 5 * time.Millisecond

// pullSoon has the workers pull, since there may be something for them.
func (w *world) pullSoon() {
	if w.pulling {
		return
	}
	w.pulling = true
	w.loop.after(pullDelay, "pull", func() {
		w.pulling = false
		w.pullAll()
	})
}

func (w *world) pullAll() {
	for _, k := range w.workers {
		k.work()
	}
}

// returned notes that a caller is done, and the answer that it got.
func (w *world) returned(who string, told func()) {
	_ = w.loop.call(context.Background(), &act{key: "answered " + who,
		do: func() time.Duration { told(); w.calling--; return 0 }})
}

// tick has the workers pull what is delivered again.
func (w *world) tick() {
	w.loop.after(200*time.Millisecond, "tick", func() {
		w.pullAll()
		w.tick()
	})
}

// delay is how long an act takes to arrive.
func (w *world) delay(a *act) time.Duration {
	d := time.Duration(a.fate%3000) * time.Microsecond
	switch n := a.fate >> 16 % 100; {
	case n < 3:
		d *= 50
	case n < 20:
		d *= 8
	}
	if w.active[slow] > 0 && a.fate>>32%4 == 0 {
		d += time.Duration(a.fate>>40%2500) * time.Millisecond
	}
	return d
}

func (w *world) chance(what string, a *act, percent uint64) bool {
	return w.active[what] > 0 && w.loop.number(what+a.key, int(a.fate>>1))%100 < percent
}

func (w *world) loses(a *act) bool   { return w.chance(lostAnswers, a, 30) }
func (w *world) delayed(a *act) bool { return w.chance(lateWrites, a, 30) }
func (w *world) holds(a *act) bool   { return w.chance(inFlight, a, 40) }
func (w *world) crowded(a *act) bool { return w.chance(noBatches, a, 80) }
func (w *world) deaf(a *act) bool    { return w.chance(deafness, a, 85) }

// write appends to the log and wakes its followers.
func (c *client) write(entries ...entry) (uint64, error) {
	queued := c.runs.queuings
	seq, err := c.runs.append(entries...)
	if err == nil {
		c.oracle.written(c, entries)
		c.notifyAll()
	}
	if c.runs.queuings > queued {
		c.pullSoon()
	}
	return seq, err
}

func (w *world) notifyAll() {
	for _, c := range w.clients {
		c.notify()
	}
}

func (w *world) purge(filter string, before uint64) {
	w.runs.purge(filter, before)
	for seq := range w.runs.rotten {
		if seq <= max(before, w.runs.first) && (filter == "" || seq == w.runs.first) {
			w.oracle.losses.beyond = true
		}
	}
}

// request is one caller. It repeats what is not answered, with its key, until it is. It returns what notes the answer.
func (w *world) request(q request) (note func()) {
	none := func() {}
	scope, key := "caller", fmt.Sprintf("key-%d", q.N)
	var of acceptance
	if q.What != "start" {
		told, ok := w.awaitAnswer(q.Of)
		if !ok {
			return none
		}
		of = told
	}
	if q.What == "repeat" {
		for _, first := range w.story.Requests {
			if first.N == q.Of {
				q, key = first, fmt.Sprintf("key-%d", q.Of)
				if q.What != "start" {
					of, _ = w.awaitAnswer(q.Of)
				}
				break
			}
		}
	}
	body := q.body(of)
	tries := 200
	if q.What == "halt" {
		w.awaitEnd(of.run)
		tries = 1
	}
	for try := 0; try < tries; try++ {
		w.loop.see()
		c := w.coordinators[(q.N+try)%len(w.coordinators)]
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		told, again, err := c.serve(ctx, q, body, scope, key, of)
		w.log.Debug("request answered", "n", q.N, "what", q.What, "by", c.name, "again", again)
		cancel()
		switch {
		case again:
			pause(context.Background(), 200*time.Millisecond)
		case told != nil:
			return func() { w.oracle.accepted(q, key, *told) }
		case err != nil:
			return func() { w.oracle.refused(q, key, err) }
		default:
			return none
		}
	}
	return none
}

// serve has a coordinator answer a request. again: the caller has no answer, and repeats it.
func (c *coordinator) serve(ctx context.Context, q request, body []byte, scope, key string, of acceptance) (
	told *acceptance, again bool, err error) {
	if !c.started.Load() {
		return nil, true, nil
	}
	switch q.What {
	case "stop", "tree", "halt":
		_, err = c.service.StopRun(ctx, of.run, q.What == "tree")
	case "delete":
		err = c.sessions.DeleteSession(ctx, of.session)
	default:
		var a runs.Accepted
		a, err = c.service.Submit(ctx, body, scope, key)
		if err == nil {
			told = &acceptance{a.RunID, a.SessionID}
		}
	}
	if err != nil {
		c.log.Debug("request failed", "n", q.N, "err", err)
	}
	// a caller with a key waits until the admin has accepted what is lost
	again = err != nil && (fault.KindOf(err) == fault.Unavailable || ctx.Err() != nil ||
		fault.Of(err).Code == run.CodeDamaged && highwater.Missing(c.mark.Damages()) > 0)
	return told, again, err
}

// acceptance is the answer that a caller got.
type acceptance struct{ run, session string }

// awaitAnswer waits a while until another request is answered.
func (w *world) awaitAnswer(n int) (of acceptance, ok bool) {
	var told chan struct{}
	_ = w.loop.call(context.Background(), &act{key: fmt.Sprintf("look %d", n), do: func() time.Duration {
		of, ok = w.answers[n]
		if !ok && w.waits[n] == nil {
			w.waits[n] = make(chan struct{})
		}
		told = w.waits[n]
		return 0
	}})
	if ok {
		return of, ok
	}
	select {
	case <-told:
	case <-time.After(4 * time.Second):
	}
	w.loop.see()
	of, ok = w.answers[n]
	return of, ok
}

// answer notes the answer to a request.
func (w *world) answer(n int, a acceptance) {
	if told := w.waits[n]; told != nil && w.answers[n] == (acceptance{}) {
		w.loop.later(func() { close(told) })
	}
	w.answers[n] = a
}

// awaitEnd waits until an attempt of a run ends.
func (w *world) awaitEnd(id string) {
	ended := make(chan struct{})
	_ = w.loop.call(context.Background(), &act{key: "halt", do: func() time.Duration {
		w.oracle.halts[id] = ended
		return 0
	}})
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
	}
}

// halted has the coordinator that wrote the request to stop a run die, if the story says so.
func (w *world) halted(c *client, id string) {
	if _, ok := w.oracle.halts[id]; !ok {
		return
	}
	w.loop.after(0, "halt", func() {
		for _, k := range w.coordinators {
			if k.client == c {
				w.killCoordinator(k, time.Second)
				return
			}
		}
	})
}

// body is a request's JSON.
func (q request) body(of acceptance) []byte {
	prompt, _ := json.Marshal(q.With.Work)
	text := string(prompt)
	b := map[string]any{"agent_name": q.With.Type}
	if q.With.Type == run.Procedural {
		b["parameters"] = map[string]string{"prompt": text}
	} else {
		b["prompt"] = text
	}
	switch q.What {
	case "resume":
		b = map[string]any{"type": run.Resume, "session_id": of.session, "prompt": text}
	case "child":
		b["parent_session_id"], b["mode"] = of.session, run.AsyncCallback
	}
	if q.With.OwnID && q.What != "resume" {
		b["session_id"] = fmt.Sprintf("ses_own%d", q.N)
	}
	if q.With.Webhook {
		b["callback_url"] = receiverOf(q.N)
	}
	if q.With.Attempts > 0 {
		b["max_attempts"] = q.With.Attempts
	}
	if q.With.Schema {
		b["output_schema"] = json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},
			"required":["ok"]}`)
	}
	body, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return body
}

// settled reports whether nothing is left to do.
func (w *world) settled() bool {
	if w.calling > 0 || time.Since(w.began) < activeTime+2*time.Second {
		return false
	}
	for _, c := range w.coordinators {
		waiting, claimed, _ := c.history.Counts()
		behind := c.history.Seq() < w.runs.last() && len(w.runs.read("ao.runs.>", c.history.Seq(), 1)) > 0
		unknown := (w.oracle.losses.marked || w.oracle.losses.rotten) && len(c.mark.Damages()) == 0
		if !c.started.Load() || behind || unknown || c.mark.Held() != nil || waiting+claimed > 0 ||
			len(c.history.DueCallbacks())+len(c.history.Reservations())+len(c.webhooksDue()) > 0 {
			return false
		}
	}
	return true
}

// end stops everything, and waits for it.
func (w *world) end() {
	for _, c := range append(w.past, w.coordinators...) {
		c.stop()
	}
	for _, k := range w.workers {
		k.kill()
	}
	w.loop.release()
	w.loop.close()
	for range 3 { // let go what is in the loop's hands
		synctest.Wait()
		w.loop.take()
		for _, a := range w.loop.pending {
			if a.done != nil {
				close(a.done)
				a.done = nil
			}
		}
		pause(context.Background(), 20*time.Second)
	}
}
