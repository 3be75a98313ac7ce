package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// fixture is a coordinator with an autonomous agent, and a runner that takes its runs; the test plays the runner.
type fixture struct {
	*testing.T
	c *Coordinator
	r runnerapi.Runner
}

func newFixture(t *testing.T, c *Coordinator) fixture {
	t.Helper()
	if _, err := c.Agents.CreateAgent(t.Context(), []byte(`{"name":"thinker","description":"thinks"}`)); err != nil {
		t.Fatal(err)
	}
	f := fixture{t, c, runnerapi.Runner{Identity: runnerapi.Identity{Hostname: "here", ProjectDir: "/srv",
		ExecutorProfile: "mind", ExecutorType: run.Autonomous}, Instance: "one", MaxConcurrentRuns: 8}}
	register(t, c, f.r)
	answers(t, c.bus, f.r)
	return f
}

// heartbeats has the runner heard of until the test ends. They name no attempt.
func (f fixture) heartbeats(t *testing.T) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-t.Context().Done():
				tick.Stop()
				return
			case <-tick.C:
				_, _ = f.c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), runnerapi.Heartbeat{RunnerID: f.r.ID(),
					Instance: "one"})
			}
		}
	})
	t.Cleanup(wg.Wait)
}

// start starts a run of the agent, with more members of the request.
func (f fixture) start(more string) runs.Accepted {
	f.Helper()
	return submit(f.T, f.c, `{"agent_name":"thinker","prompt":"think"`+more+`}`, "")
}

// child starts a run whose end calls a parent back.
func (f fixture) child(parent string) runs.Accepted {
	f.Helper()
	return f.start(`,"mode":"async_callback","parent_session_id":"` + parent + `"`)
}

func (f fixture) claim(id string) state.Active {
	f.Helper()
	return claim(f.T, f.c, id, f.r)
}

// ends claims a run and writes its end record.
func (f fixture) ends(id string, o run.Outcome) {
	f.Helper()
	f.end(f.claim(id), o)
}

func (f fixture) end(a state.Active, o run.Outcome) {
	f.Helper()
	put(f.T, f.c.bus, subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key),
		run.Ended{V: run.Version, SessionID: a.Spec.SessionID, RunnerID: f.r.ID(), Nonce: "n", Attempt: a.Attempt,
			Status: o.Status, Error: o.Error, Result: o.Result, At: time.Now()})
	natstest.Until(f.T, a.Spec.ID+" has ended", func() bool { return f.c.History.Ended(a.Spec.ID) })
}

// turn waits for the session's next callback turn, and gives it with its prompt.
func (f fixture) turn(session string) (state.Active, string) {
	f.Helper()
	var open []state.Active
	natstest.Until(f.T, "a callback turn of "+session, func() bool {
		open = f.c.History.Open(session)
		return len(open) == 1 && open[0].QueuedSeq != 0
	})
	return open[0], f.prompt(open[0].Spec.ID)
}

func (f fixture) prompt(id string) string {
	f.Helper()
	r, err := f.c.Show(f.Context(), id)
	var p struct{ Prompt string }
	if err == nil {
		err = json.Unmarshal(r.Parameters, &p)
	}
	if err != nil {
		f.Fatal(err)
	}
	return p.Prompt
}

// call is the state of a run's callback.
func (f fixture) call(id string) run.CallbackState {
	f.Helper()
	r, err := f.c.Show(f.Context(), id)
	if err != nil || r.Callback == nil {
		f.Fatalf("%s: %+v %v", id, r, err)
	}
	return *r.Callback
}

func results(text string) run.Outcome {
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text}}
}

func data(raw string) run.Outcome {
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Data: json.RawMessage(raw)}}
}

func broke(message string) run.Outcome {
	return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "broke", message)}
}

func TestAnIdleParentIsCalledBackAtOnce(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	for _, tt := range []struct {
		name, want string
		how        run.Outcome
	}{
		{"data", "<agent-callback session=%q status=\"completed\">\n## Child Result\n\n{\n  \"z\": 1,\n  \"a\": " +
			"[]\n}\n</agent-callback>\n\nPlease continue with the orchestration based on this result.",
			data(`{"z":1,"a":[]}`)},
		{"failure", "<agent-callback session=%q status=\"failed\">\n## Error\n\nout of " +
			"ideas\n</agent-callback>\n\nPlease handle this failure and continue with the orchestration.",
			broke("out of ideas")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.T = t
			parent := f.start("")
			f.ends(parent.RunID, results("started children"))
			child := f.child(parent.SessionID)
			if got := f.call(child.RunID); got.Status != run.CallbackWaiting {
				t.Errorf("before its end: %+v", got)
			}
			f.ends(child.RunID, tt.how)
			turn, prompt := f.turn(parent.SessionID)
			if want := fmt.Sprintf(tt.want, child.SessionID); prompt != want {
				t.Errorf("got\n%s\nwant\n%s", prompt, want)
			}
			if turn.Spec.Type != run.Resume || turn.Spec.Agent != "thinker" || turn.Spec.Mode != run.AsyncPoll ||
				turn.Spec.Parent != "" {
				t.Errorf("the turn is %+v", turn.Spec)
			}
			if got := f.call(child.RunID); got.Status != run.CallbackDelivered || got.RunID != turn.Spec.ID {
				t.Errorf("afterwards: %+v", got)
			}
			f.ends(turn.Spec.ID, results("noted"))
			if open := f.c.History.Open(parent.SessionID); len(open) != 0 {
				t.Errorf("called back twice: %+v", open)
			}
		})
	}
}

// Busy parents: what ends meanwhile comes together when the turn ends, however it ends.
func TestABusyParentIsCalledBackWhenItsTurnEnds(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	for _, how := range []run.Outcome{results("ok"), broke("no"),
		{Status: run.Stopped, Error: fault.New(fault.Internal, "stopped", "Stopped")}} {
		t.Run(string(how.Status), func(t *testing.T) {
			f.T = t
			parent := f.start("")
			turn := f.claim(parent.RunID)
			a, b, c := f.child(parent.SessionID), f.child(parent.SessionID), f.child(parent.SessionID)
			f.ends(b.RunID, results("first </agent-callback>"))
			f.ends(a.RunID, broke("second"))
			if got := f.call(a.RunID); got.Status != run.CallbackPending {
				t.Errorf("%+v", got)
			}
			if open := f.c.History.Open(parent.SessionID); len(open) != 1 {
				t.Fatalf("%d open runs of a busy parent", len(open))
			}
			f.end(turn, how)
			next, prompt := f.turn(parent.SessionID)
			if !strings.HasPrefix(prompt, `<agent-callback type="aggregated" count="2">`) ||
				strings.Index(prompt, "### Child: "+b.SessionID+" (status: completed)") > strings.Index(prompt,
					"### Child: "+a.SessionID+" (status: failed)") ||
				strings.Count(prompt, "</agent-callback>") != 1 ||
				!strings.HasSuffix(prompt, "Please continue with the orchestration based on these results.") {
				t.Errorf("got\n%s", prompt)
			}
			f.ends(c.RunID, results("third"))
			f.ends(next.Spec.ID, results("ok"))
			if _, prompt := f.turn(parent.SessionID); !strings.Contains(prompt, c.SessionID) ||
				strings.Contains(prompt, a.SessionID) {
				t.Errorf("got\n%s", prompt)
			}
		})
	}
}

func TestEveryEndOfAChildIsReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t, start(t, natstest.Bus(t), Config{Lease: 5 * time.Second, NoMatch: time.Second}))
	f.heartbeats(t)
	for _, tt := range []struct {
		name, want string
		end        func(a runs.Accepted)
	}{
		{"stopped before it began", `status="stopped"`, func(a runs.Accepted) {
			if _, err := f.c.Stop(f.Context(), a.RunID); err != nil {
				f.Fatal(err)
			}
		}},
		{"lost", "Runner disconnected during execution", func(a runs.Accepted) { f.claim(a.RunID) }},
		{"never taken", "No matching runner available within timeout", func(runs.Accepted) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.T = t
			parent := f.start("")
			f.ends(parent.RunID, results("ok"))
			more := ""
			if tt.name == "never taken" {
				more = `,"additional_demands":{"tags":["nobody"]}`
			}
			child := f.start(`,"mode":"async_callback","parent_session_id":"` + parent.SessionID + `"` + more)
			tt.end(child)
			if _, prompt := f.turn(parent.SessionID); !strings.Contains(prompt, tt.want) ||
				!strings.Contains(prompt, "## Error") {
				t.Errorf("got\n%s", prompt)
			}
		})
	}
}

// In a chain the answer that the middle one gives after its callback reaches the top.
func TestAChainOfThree(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	top := f.start("")
	f.ends(top.RunID, results("ok"))
	middle := f.child(top.SessionID)
	first := f.claim(middle.RunID)
	leaf := f.child(middle.SessionID)
	f.end(first, results("waiting for the leaf"))
	callback, prompt := f.turn(top.SessionID)
	if !strings.Contains(prompt, "waiting for the leaf") {
		t.Errorf("got\n%s", prompt)
	}
	f.ends(callback.Spec.ID, results("ok"))
	f.ends(leaf.RunID, results("from the leaf"))
	turn, prompt := f.turn(middle.SessionID)
	if !strings.Contains(prompt, "from the leaf") || turn.Spec.Mode != run.AsyncCallback ||
		turn.Spec.Parent != top.SessionID {
		t.Errorf("got %+v\n%s", turn.Spec, prompt)
	}
	f.ends(turn.Spec.ID, results("the middle's last answer"))
	if _, prompt := f.turn(top.SessionID); !strings.Contains(prompt, "the middle's last answer") {
		t.Errorf("got\n%s", prompt)
	}
}

func TestAParentThatCannotBeCalledBack(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	tool := runner("tools", echo("tool"))
	register(t, f.c, tool)
	answers(t, f.c.bus, tool)
	deleted := f.start("")
	f.ends(deleted.RunID, results("ok"))
	never := f.start(`,"additional_demands":{"tags":["nobody"]}`)
	procedural := submit(t, f.c, `{"agent_name":"tool"}`, "")
	finish(t, f.c, claim(t, f.c, procedural.RunID, tool))
	orphan, unbegun, mute := f.child(deleted.SessionID), f.child(never.SessionID), f.child(procedural.SessionID)
	if err := f.c.DeleteSession(t.Context(), deleted.SessionID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.c.Stop(t.Context(), never.RunID); err != nil {
		t.Fatal(err)
	}
	for id, reason := range map[string]string{orphan.RunID: "parent_gone", unbegun.RunID: "session_never_began",
		mute.RunID: "procedural_agent_no_resume"} {
		f.ends(id, results("ok"))
		if got := f.call(id); got.Status != run.CallbackUndeliverable || got.Reason != reason {
			t.Errorf("got %+v, want %s", got, reason)
		}
	}
	page, err := f.c.Callbacks(t.Context(), query.Query{Statuses: []string{run.CallbackUndeliverable}})
	if err != nil || len(page.Runs) != 3 {
		t.Errorf("%d are listed, %v", len(page.Runs), err)
	}
	r, _ := f.c.Show(t.Context(), orphan.RunID)
	s, err := f.c.History.Session(t.Context(), orphan.SessionID)
	if !r.ParentDeleted || !s.ParentGone || err != nil {
		t.Errorf("%+v %+v %v", r, s, err)
	}
	if err := f.c.DeleteSession(t.Context(), orphan.SessionID); err != nil {
		t.Error(err)
	}
}

func TestAParentThatFailedAndIsResumed(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	first := f.claim(parent.RunID)
	child := f.child(parent.SessionID)
	f.end(first, broke("fell over"))
	again := submit(t, f.c, `{"session_id":"`+parent.SessionID+`","prompt":"go on"}`, "")
	f.claim(again.RunID)
	f.ends(child.RunID, results("child"))
	if err := f.c.DeleteSession(t.Context(), child.SessionID); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a child is deleted whose parent is yet to be called back: %v", err)
	}
	a, _ := f.c.History.Active(again.RunID)
	f.end(a, results("ok"))
	if _, prompt := f.turn(parent.SessionID); !strings.Contains(prompt, "child") {
		t.Errorf("got\n%s", prompt)
	}
	turn := f.c.History.Open(parent.SessionID)[0]
	f.ends(turn.Spec.ID, results("ok"))
	if err := f.c.DeleteSession(t.Context(), child.SessionID); err != nil {
		t.Error(err)
	}
}

// A coordinator that is a moment behind calls nobody back twice (decision 0014).
func TestAStaleLookupCallsNobodyBackTwice(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	turn := f.claim(parent.RunID)
	a, b := f.child(parent.SessionID), f.child(parent.SessionID)
	f.ends(a.RunID, results("a"))
	stale := state.PendingCallback{Session: parent.SessionID, LastRun: parent.RunID, Mode: run.AsyncPoll,
		Children: []state.Child{{RunID: a.RunID, SessionID: a.SessionID, Status: run.Completed}}}
	// so that the last run is another one
	again := submit(t, f.c, `{"session_id":"`+parent.SessionID+`","prompt":"go on"}`, "")
	f.end(turn, results("ok"))
	f.ends(b.RunID, results("b"))
	f.ends(again.RunID, results("ok"))
	callback, _ := f.turn(parent.SessionID)
	f.ends(callback.Spec.ID, results("ok"))
	f.refusesCallback(stale)
	if runs := f.c.History.RunsOf(parent.SessionID); len(runs) != 3 {
		t.Errorf("%d runs of the parent", len(runs))
	}
}

// TestALookupBeforeTheLastTurnCallsNobodyBack: a callback may wait for room. Whom the turn answers to, and how, the
// session's last run decides.
func TestALookupBeforeTheLastTurnCallsNobodyBack(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	top, parent := f.start(""), f.start("")
	f.ends(top.RunID, results("ok"))
	f.ends(parent.RunID, results("ok"))
	release := occupyPool(t, f.c, f.c.Telling.Pool)
	child := f.child(parent.SessionID)
	f.ends(child.RunID, results("from below"))
	due, ok := f.c.History.DueCallback(parent.SessionID)
	if !ok {
		t.Fatal("no callback of the parent is due")
	}
	again := submit(t, f.c, `{"session_id":"`+parent.SessionID+`","prompt":"go on","mode":"async_callback",`+
		`"parent_session_id":"`+top.SessionID+`"}`, "")
	f.ends(again.RunID, results("ok"))
	if callback, err := f.c.Telling.Deliver(t.Context(), due); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("delivered %d, %v", callback, err)
	}
	release()
	turn, _ := f.turn(parent.SessionID)
	if s := turn.Spec; s.Mode != run.AsyncCallback || s.Parent != top.SessionID {
		t.Errorf("the turn answers to %q, %s", s.Parent, s.Mode)
	}
}

// A turn that ended unclaimed has delivered nothing.
func TestAnUnclaimedTurnIsPendingAgain(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	child := f.child(parent.SessionID)
	f.ends(child.RunID, results("child"))
	turn, prompt := f.turn(parent.SessionID)
	if _, err := f.c.Stop(t.Context(), turn.Spec.ID); err != nil {
		t.Fatal(err)
	}
	if got := f.call(child.RunID); got.Status != run.CallbackPending {
		t.Errorf("got %+v", got)
	}
	second, again := f.turn(parent.SessionID)
	if second.Spec.ID == turn.Spec.ID || again != prompt {
		t.Errorf("got\n%s", again)
	}
	f.ends(second.Spec.ID, broke("a turn that began has told, however it ends"))
	if got := f.call(child.RunID); got.Status != run.CallbackDelivered || len(f.c.History.Open(parent.SessionID)) != 0 {
		t.Errorf("got %+v", got)
	}
}

// Between the end of a child and its delivery any coordinator may restart: nothing is lost and nothing comes twice.
func TestEndWhileNoCoordinatorRuns(t *testing.T) {
	s := natstest.Server(t)
	b := natstest.Open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	c := New(Config{Bus: b, Log: natstest.Log(t)})
	over := make(chan error, 1)
	go func() { over <- c.Run(ctx) }()
	natstest.Until(t, "it is ready", func() bool { return c.Ready() == nil })
	f := newFixture(t, c)
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	child := f.claim(f.child(parent.SessionID).RunID)
	cancel()
	<-over
	text := "in the dark"
	put(t, b, subject.Ended(subject.Partition(child.Spec.SessionID), child.Spec.ID, child.Key),
		run.Ended{V: run.Version, SessionID: child.Spec.SessionID, RunnerID: f.r.ID(), Nonce: "n", Attempt: 1,
			Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text}, At: time.Now()})
	f.c = start(t, natstest.Open(t, s), Config{})
	if _, prompt := f.turn(parent.SessionID); !strings.Contains(prompt, text) {
		t.Errorf("got\n%s", prompt)
	}
}

// A hundred children end at once, under three coordinators: each is delivered exactly once.
func TestAHundredChildren(t *testing.T) {
	s := natstest.Server(t)
	f := newFixture(t, start(t, natstest.Open(t, s), Config{}))
	for range 2 {
		start(t, natstest.Open(t, s), Config{})
	}
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	var children []runs.Accepted
	var claimed []state.Active
	for range 100 {
		children = append(children, f.child(parent.SessionID))
	}
	for _, a := range children {
		claimed = append(claimed, f.claim(a.RunID))
	}
	var wg sync.WaitGroup
	for i, a := range claimed {
		wg.Go(func() {
			text := fmt.Sprint("answer ", i)
			body, _ := json.Marshal(run.Ended{V: run.Version, SessionID: a.Spec.SessionID, RunnerID: f.r.ID(),
				Nonce: "n", Attempt: 1, Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text},
				At: time.Now()})
			if _, err := f.c.bus.Append(t.Context(),
				bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key),
					Body: body}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	callback := map[string]int{}
	turns := 0
	for len(callback) < len(children) {
		turn, prompt := f.turn(parent.SessionID)
		turns++
		for _, a := range children {
			callback[a.SessionID] += strings.Count(prompt, a.SessionID)
			if callback[a.SessionID] == 0 {
				delete(callback, a.SessionID)
			}
		}
		f.ends(turn.Spec.ID, results("ok"))
	}
	for id, n := range callback {
		if n != 1 {
			t.Errorf("child %s was reported %d times", id, n)
		}
	}
	if open := f.c.History.Open(parent.SessionID); len(open) != 0 || turns > 20 {
		t.Errorf("%d turns, %d more open", turns, len(open))
	}
	t.Logf("100 children in %d turns", turns)
}

// An agent that is inactive by now still gets its children's results, as it was.
func TestAnInactiveParentIsCalledBack(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	child := f.claim(f.child(parent.SessionID).RunID)
	if _, err := f.c.Agents.ChangeAgent(t.Context(), "thinker", []byte(`{"status":"inactive"}`), nil); err != nil {
		t.Fatal(err)
	}
	f.end(child, results("late"))
	turn, prompt := f.turn(parent.SessionID)
	if !strings.Contains(prompt, "late") || !strings.Contains(string(turn.Spec.Blueprint), "thinks") {
		t.Errorf("got %s\n%s", turn.Spec.Blueprint, prompt)
	}
}

// What does not fit into one turn comes in several, and a single child that does not is cut visibly.
func TestLargeResults(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{MaxPayload: 64 << 10}))
	parent := f.start("")
	turn := f.claim(parent.RunID)
	var children []runs.Accepted
	for i := range 3 {
		a := f.child(parent.SessionID)
		children = append(children, a)
		f.ends(a.RunID, results(strings.Repeat(fmt.Sprint(i), 30<<10)))
	}
	huge := f.child(parent.SessionID)
	f.ends(huge.RunID, results(strings.Repeat("\x01", 60<<10)))
	f.end(turn, results("ok"))
	seen := ""
	for len(f.c.History.Open(parent.SessionID)) > 0 || f.call(huge.RunID).Status != run.CallbackDelivered {
		next, prompt := f.turn(parent.SessionID)
		seen += prompt
		f.ends(next.Spec.ID, results("ok"))
	}
	for i, a := range children {
		if strings.Count(seen, a.SessionID) != 1 || strings.Count(seen, fmt.Sprint(i)) < 30<<10 {
			t.Errorf("child %d is not whole", i)
		}
	}
	if !strings.Contains(seen, huge.SessionID) || !strings.Contains(seen, "GET /runs/"+huge.RunID+"/result has "+
		"all of it") {
		t.Errorf("the huge one: %.200s", seen[strings.Index(seen, huge.SessionID):])
	}
}

func TestSessionsDoNotCallEachOtherForEver(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	child := f.child(parent.SessionID)
	f.ends(child.RunID, results("ok"))
	for _, above := range []string{child.SessionID, parent.SessionID} {
		_, err := f.c.Submit(t.Context(), []byte(`{"session_id":"`+parent.SessionID+`","prompt":"x",`+
			`"mode":"async_callback","parent_session_id":"`+above+`"}`), "", "")
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", above, err)
		}
	}
}

// refusesCallback requires that the stream, too, refuses a callback of an old lookup.
func (f fixture) refusesCallback(o state.PendingCallback) {
	f.Helper()
	turn, err := f.c.Telling.Prepare(f.Context(), o)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := f.c.records.AppendBatch(f.Context(), turn.Records...); !errors.Is(err, bus.ErrTaken) {
		f.Errorf("an old lookup called the parent back again: %v", err)
	}
}
