package parts

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/coordinator/sessions"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// dueCallback returns a parent, started with more members, its ended child, and the records of its callback, which are
// not written.
func (p *prefix) dueCallback(more string) (parent, child runs.Accepted, records []bus.Entry) {
	p.Helper()
	release := p.blockCallbacks()
	if p.anew { // one that ends gives its slots back a moment before it ends
		p.c.Telling.Records = mute{reports{p.c.records, p.c.reads}}
	}
	parent = p.start(more)
	p.ends(parent.RunID, results("ok"))
	child = p.child(parent.SessionID)
	p.ends(child.RunID, results("from below"))
	o, ok := p.c.History.DueCallback(parent.SessionID)
	if !ok {
		p.Fatal("no callback of the parent is due")
	}
	records = p.callback(o)
	p.Cleanup(release)
	return parent, child, records
}

// mute writes no callback.
type mute struct{ reports }

func (mute) AppendBatch(context.Context, ...bus.Entry) (uint64, error) { return 0, errors.New("muted") }

// blockCallbacks keeps the coordinator from calling parents back.
func (p *prefix) blockCallbacks() (release func()) {
	return occupyPool(p.T, p.c, p.c.Telling.Pool)
}

func (p *prefix) callback(o state.PendingCallback) []bus.Entry {
	p.Helper()
	t, err := p.c.Telling.Prepare(p.Context(), o)
	if err != nil || t.Reported != len(o.Children) {
		p.Fatalf("%d children %v", t.Reported, err)
	}
	return t.Records
}

// Any coordinator makes the turn that a list carries. Its text is what it was, even where the child is deleted.
func TestAPrefixOfACallback(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		parent, child, records := p.dueCallback("")
		p.write(records, nil)
		turn, prompt := p.turn(parent.SessionID)
		if !strings.Contains(prompt, "from below") {
			t.Errorf("the turn says %s", prompt)
		}
		p.ends(turn.Spec.ID, results("noted"))
		natstest.Until(t, "the child is reported", func() bool {
			got := p.call(child.RunID)
			return got.Status == run.CallbackDelivered && got.RunID == turn.Spec.ID
		})
		p.listThenTurn(parent.SessionID)
		p.inOrder()
	})
}

// listThenTurn wants one callback of a session, its list before its turn.
func (p *prefix) listThenTurn(session string) {
	p.Helper()
	part := subject.Partition(session)
	lists, turns := p.records(subject.Callback(part, session, "*", 0), 1),
		p.records(subject.Accepted(part, session, "*"), 1)
	if len(lists) == 1 && len(turns) == 1 && lists[0].Seq > turns[0].Seq {
		p.Errorf("record %d is the list of turn %d", lists[0].Seq, turns[0].Seq)
	}
}

// The list of a whole callback precedes its turn, and a program of an older version finds a run that it knows in there.
func TestACallbackIsAListThenItsTurn(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	p := prefix{fixture: f}
	parent := p.start("")
	p.ends(parent.RunID, results("ok"))
	p.ends(p.child(parent.SessionID).RunID, results("from below"))
	turn, _ := p.turn(parent.SessionID)
	p.listThenTurn(parent.SessionID)
	for _, m := range p.records(subject.Callback(subject.Partition(parent.SessionID), parent.SessionID, "*", 0), 1) {
		var list run.Callback
		if err := json.Unmarshal(m.Body, &list); err != nil || list.TurnID != turn.Spec.ID ||
			list.RunID != parent.RunID {
			t.Errorf("%+v %v", list, err)
		}
	}
}

// The turn is stopped before it is claimed: another one reports its children.
func TestAPrefixOfACallbackThatIsStopped(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		parent, _, records := p.dueCallback("")
		p.write(records, nil)
		turn, _ := p.turn(parent.SessionID)
		if _, err := p.c.Stop(t.Context(), turn.Spec.ID); err != nil {
			t.Fatal(err)
		}
		if !p.anew { // it delivers nothing in this test
			p.c = start(t, p.c.bus, Config{})
		}
		again, prompt := p.turn(parent.SessionID)
		if again.Spec.ID == turn.Spec.ID || !strings.Contains(prompt, "from below") {
			t.Errorf("%s %s", again.Spec.ID, prompt)
		}
		p.ends(again.Spec.ID, results("noted"))
		p.inOrder()
	})
}

// The tree above is stopped between a list and its turn: the turn is stopped unclaimed, and the child is reported to
// nobody.
func TestAPrefixOfACallbackInAStoppedTree(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		top := p.start("")
		p.claim(top.RunID)
		parent, child, records := p.dueCallback(`,"parent_session_id":"` + top.SessionID + `"`)
		if _, err := p.c.bus.Append(t.Context(), records[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := p.c.StopSession(t.Context(), top.SessionID, sessions.Stop{Tree: true}); err != nil {
			t.Fatal(err)
		}
		p.k = 0 // the list is committed
		p.write(records, nil)
		natstest.Until(t, "no callback of the child is pending",
			func() bool { return p.call(child.RunID).Status == run.CallbackSuppressed })
		natstest.Until(t, "a record says so", func() bool {
			all, err := p.c.bus.Records(t.Context(), subject.Callback(subject.Partition(parent.SessionID),
				parent.SessionID, "*", 0), 0, 100)
			return err == nil && len(all) == 2 && strings.Contains(string(all[1].Body), `"suppressed":true`)
		})
		turn := p.records(subject.Accepted(subject.Partition(parent.SessionID), parent.SessionID, "*"), 1)
		rec, err := subject.Parse(turn[0].Subject)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.c.Show(t.Context(), rec.Run); err != nil || r.Status != run.Stopped || r.RunnerID != "" {
			t.Errorf("the turn: %+v %v", r, err)
		}
		p.inOrder()
	})
}

// A list holds its turn's text beside up to a thousand children: NATS takes it.
func TestALargeListIsTaken(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	o := state.PendingCallback{Session: parent.SessionID, LastRun: parent.RunID, LastClaimed: parent.RunID}
	text := strings.Repeat("x", 130<<10)
	child := f.start("")
	f.ends(child.RunID, results(text))
	o.Children = append(o.Children, state.Child{RunID: child.RunID, SessionID: child.SessionID,
		Status: run.Completed})
	for len(o.Children) < 1000 {
		o.Children = append(o.Children, state.Child{RunID: run.NewID(), SessionID: run.NewSessionID(),
			Status: run.Completed})
	}
	turn, err := f.c.Telling.Prepare(t.Context(), o)
	if err != nil || turn.Reported != 1000 || len(turn.Records[1].Body) < run.MaxInline*9/10 {
		t.Fatalf("%d children are reported in %d bytes: %v", turn.Reported, len(turn.Records[1].Body), err)
	}
	if _, err := f.c.records.AppendBatch(t.Context(), turn.Records...); err != nil {
		t.Errorf("a list of %d bytes: %v", len(turn.Records[0].Body), err)
	}
}

// Two coordinators call one parent back at the same moment: the first list decides, and there is one turn, whichever of
// their records come between.
func TestTwoCoordinatorsCallOneParentBack(t *testing.T) {
	for _, way := range []string{"together", "one by one"} {
		t.Run(way, func(t *testing.T) {
			cuts(t, 2, func(t *testing.T, p prefix) {
				parent, _, mine := p.dueCallback("")
				o, _ := p.c.History.DueCallback(parent.SessionID)
				theirs := p.callback(o)
				p.write(mine, nil)
				add := map[string]func(context.Context, ...bus.Entry) (uint64, error){"together": p.c.bus.AppendBatch,
					"one by one": p.c.bus.AppendEach}[way]
				if _, err := add(t.Context(), theirs...); !errors.Is(err, bus.ErrTaken) {
					t.Errorf("the second list: %v", err)
				}
				turn, _ := p.turn(parent.SessionID)
				p.ends(turn.Spec.ID, results("noted"))
				p.listThenTurn(parent.SessionID)
				p.inOrder()
			})
		})
	}
}

// NATS may lose a child's end while the record that reports it is on its way. That record then precedes the end, and
// does not count. Neither does one that NATS cannot read. The next one has another number.
func TestACallbackRecordThatDoesNotCountIsNotInTheWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	early := func() (parent, child runs.Accepted) {
		parent = f.start("")
		f.ends(parent.RunID, results("ok"))
		child = f.child(parent.SessionID)
		put(t, f.c.bus, subject.Callback(subject.Partition(parent.SessionID), parent.SessionID, child.RunID, 0),
			run.Callback{V: run.Version, RunID: parent.RunID, Children: []string{child.RunID}, At: time.Now()})
		return parent, child
	}
	reported, child := early()
	f.ends(child.RunID, results("from below"))
	if _, prompt := f.turn(reported.SessionID); !strings.Contains(prompt, "from below") {
		t.Errorf("the turn says %s", prompt)
	}
	stopped, child := early()
	a := f.claim(child.RunID)
	if _, err := f.c.StopSession(t.Context(), stopped.SessionID, sessions.Stop{Tree: true}); err != nil {
		t.Fatal(err)
	}
	f.end(a, run.Outcome{Status: run.Stopped})
	natstest.Until(t, "a record says that the parent is not called back", func() bool {
		_, err := f.c.bus.Last(t.Context(), subject.Callback(subject.Partition(stopped.SessionID),
			stopped.SessionID, child.RunID, 1))
		return err == nil && len(f.c.History.SuppressedCallbacks()) == 0
	})
}
