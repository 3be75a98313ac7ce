package parts

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ao/coordinator/control/callback"
	"ao/coordinator/control/retention"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// A stop request that follows the failure of an attempt: no other attempt follows.
func TestStopAtTheMomentOfAFailure(t *testing.T) {
	for _, queued := range []bool{false, true} {
		f := newFixture(t, start(t, natstest.Bus(t), Config{}))
		id := f.start(`,"max_attempts":3`).RunID
		a := f.claim(id)
		part := subject.Partition(a.Spec.SessionID)
		put(t, f.c.bus, subject.Ended(part, id, a.Key), run.Ended{V: run.Version, SessionID: a.Spec.SessionID,
			RunnerID: f.r.ID(), Nonce: "n", Attempt: 1, Status: run.Failed, Error: fault.New(fault.Internal, "x", "x"),
			At: time.Now()})
		if queued {
			active(t, f.c, id, "is queued again", func(a state.Active) bool { return a.Attempt == 2 })
		}
		put(t, f.c.bus, subject.Stopping(part, id), run.Stop{V: run.Version, SessionID: a.Spec.SessionID,
			At: time.Now()})
		natstest.Until(t, "it has ended", func() bool { return f.c.History.Ended(id) })
		r, err := f.c.Stop(t.Context(), id)
		if err != nil || r.Status != run.Stopped || r.Error == nil ||
			r.Error.Message != "Stopped before its attempt 2 began" {
			t.Errorf("queued %t: %+v %v", queued, r, err)
		}
	}
}

// A parent is inherited by a resume that names none; that can make a cycle too.
func TestInheritedParentMakesNoCycle(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	b := f.start("")
	f.ends(b.RunID, results("ok"))
	a := f.start(`,"parent_session_id":"` + b.SessionID + `"`)
	f.ends(a.RunID, results("ok"))
	again := submit(t, f.c, `{"session_id":"`+b.SessionID+`","prompt":"x","mode":"async_callback",`+
		`"parent_session_id":"`+a.SessionID+`"}`, "")
	f.ends(again.RunID, results("ok"))
	turn, _ := f.turn(a.SessionID)
	f.ends(turn.Spec.ID, results("ok"))
	_, err := f.c.Submit(t.Context(), []byte(`{"session_id":"`+a.SessionID+`","prompt":"x","mode":"async_callback"}`),
		"", "")
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "forever") {
		t.Errorf("got %v", err)
	}
}

// A turn that ended unclaimed is followed by another; only that one's answer goes up.
func TestAnUnclaimedTurnCallsNobodyBack(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	top := f.start("")
	f.ends(top.RunID, results("ok"))
	middle := f.child(top.SessionID)
	f.ends(middle.RunID, results("first"))
	answered, _ := f.turn(top.SessionID)
	f.ends(answered.Spec.ID, results("ok"))
	leaf := f.child(middle.SessionID)
	f.ends(leaf.RunID, results("leaf"))
	turn, _ := f.turn(middle.SessionID)
	if _, err := f.c.Stop(t.Context(), turn.Spec.ID); err != nil {
		t.Fatal(err)
	}
	turn, _ = f.turn(middle.SessionID)
	if open := f.c.History.Open(top.SessionID); len(open) != 0 {
		t.Errorf("the top was called back for a turn that did nothing: %s", f.prompt(open[0].Spec.ID))
	}
	f.ends(turn.Spec.ID, results("second"))
	if _, prompt := f.turn(top.SessionID); !strings.Contains(prompt, "second") {
		t.Errorf("got\n%s", prompt)
	}
}

// A child whose parent's turn was not claimed may be pending again; it stays until then.
func TestAChildStaysUntilItsTurnBegins(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	child := f.child(parent.SessionID)
	f.ends(child.RunID, results("child"))
	turn, _ := f.turn(parent.SessionID)
	if err := f.c.DeleteSession(t.Context(), child.SessionID); fault.KindOf(err) != fault.Conflict {
		t.Errorf("got %v", err)
	}
	f.ends(turn.Spec.ID, results("ok"))
	if err := f.c.DeleteSession(t.Context(), child.SessionID); err != nil {
		t.Error(err)
	}
}

// What the parent's agent has become is no reason not to call it back.
func TestParentOfAChangedAgentIsCalledBack(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	child := f.claim(f.child(parent.SessionID).RunID)
	if err := f.c.Agents.DeleteAgent(t.Context(), "thinker", nil); err != nil {
		t.Fatal(err)
	}
	tool := runner("tools", echo("thinker"))
	natstest.Until(t, "a runner has taken the name",
		func() bool { _, err := f.c.Register(t.Context(), tool); return err == nil })
	f.end(child, results("late"))
	if turn, prompt := f.turn(parent.SessionID); !strings.Contains(prompt, "late") ||
		turn.Spec.AgentType != run.Autonomous {
		t.Errorf("got %+v\n%s", turn.Spec, prompt)
	}
}

// A callback record outlives truncation for a while: its subject refuses a coordinator that acts on an old lookup.
func TestTruncationKeepsFreshCallbacks(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{Keep: 1, Retention: time.Millisecond}))
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	child := f.child(parent.SessionID)
	f.ends(child.RunID, results("child"))
	stale := state.PendingCallback{ReadAt: time.Now(), Session: parent.SessionID, LastRun: parent.RunID,
		Mode:     run.AsyncPoll,
		Children: []state.Child{{RunID: child.RunID, SessionID: child.SessionID, Status: run.Completed}}}
	turn, _ := f.turn(parent.SessionID)
	f.ends(turn.Spec.ID, results("ok"))
	for range 3 {
		f.ends(submit(t, f.c, `{"session_id":"`+parent.SessionID+`","prompt":"go on"}`, "").RunID, results("ok"))
	}
	f.c.retained.Truncate(t.Context(), retention.Step)
	f.refusesCallback(stale)
	if _, err := f.c.Telling.Deliver(t.Context(), stale); !errors.Is(err, bus.ErrTaken) {
		t.Errorf("got %v", err)
	}
}

// Of children with large results only so many are read as a turn can hold.
func TestChildrenAreReadUpToALimit(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{MaxPayload: 64 << 10}))
	parent := f.start("")
	f.claim(parent.RunID)
	var pending []state.Child
	for range 6 {
		a := f.child(parent.SessionID)
		f.ends(a.RunID, results(strings.Repeat("x", 60<<10)))
		pending = append(pending, state.Child{RunID: a.RunID, SessionID: a.SessionID, Status: run.Completed})
	}
	o := state.PendingCallback{Session: parent.SessionID, LastRun: parent.RunID, Children: pending}
	cfg, read := f.c.Telling.Config, 0
	cfg.History = counting{cfg.History, &read}
	if _, err := callback.New(cfg).Prepare(t.Context(), o); err != nil || read != 2 {
		t.Errorf("%d children were read, %v", read, err)
	}
	ending, cancel := context.WithCancel(t.Context()) // the coordinator ends while it calls a parent back
	cancel()
	if turn, err := f.c.Telling.Prepare(ending, o); err == nil {
		t.Errorf("%d children are reported by an ending coordinator", turn.Reported)
	}
}

// counting counts the ends that are read.
type counting struct {
	callback.History
	read *int
}

func (c counting) End(ctx context.Context, id string) (run.Ended, error) {
	*c.read++
	return c.History.End(ctx, id)
}
