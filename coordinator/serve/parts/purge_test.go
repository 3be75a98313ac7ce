package parts

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/follow"
	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// anew is a projection that reads what the stream has now.
func anew(t testing.TB, c *Coordinator) *query.Lists {
	t.Helper()
	p := projection.New(projection.Config{Log: natstest.Log(t), Key: c.keys.Of})
	j := follow.New(p, c.bus, "", natstest.Log(t))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { j.Run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	natstest.Until(t, "another projection has read all", func() bool { return j.Ready() == nil })
	return query.New(p, c.bus, j, c.keys.Of).Lists
}

// seen is all that readers see.
func seen(t testing.TB, j *query.Lists) string {
	t.Helper()
	runs, err := j.Runs(t.Context(), query.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := j.Sessions(t.Context(), query.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.MarshalIndent([]any{runs, sessions}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A parent was called back for one child, and for another by a turn that ended unclaimed; then it is deleted. A reader
// of the rest of the history sees of the children what was seen before.
func TestADeletedParentsChildrenAreTheSameForAll(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	f.ends(parent.RunID, results("started children"))
	first := f.child(parent.SessionID)
	f.ends(first.RunID, results("one"))
	turn, _ := f.turn(parent.SessionID)
	f.ends(turn.Spec.ID, results("heard"))
	second := f.child(parent.SessionID)
	f.ends(second.RunID, results("two"))
	turn, _ = f.turn(parent.SessionID)
	natstest.Until(t, "the parent is deleted", func() bool { // another turn may call it back before that
		for _, a := range f.c.History.Open(parent.SessionID) {
			if _, err := f.c.Stop(t.Context(), a.Spec.ID); err != nil && fault.KindOf(err) != fault.Conflict {
				t.Fatal(err)
			}
		}
		err := f.c.DeleteSession(t.Context(), parent.SessionID)
		if err != nil && fault.KindOf(err) != fault.Conflict {
			t.Fatal(err)
		}
		return err == nil
	})
	for _, tt := range []struct{ id, want string }{{first.RunID, run.CallbackDelivered},
		{second.RunID, run.CallbackUndeliverable}} {
		if got := f.call(tt.id); got.Status != tt.want {
			t.Errorf("%s: %+v, want %s", tt.id, got, tt.want)
		}
	}
	if got, want := seen(t, anew(t, f.c)), seen(t, f.c.History.Lists); got != want {
		t.Errorf("a new projection has\n%s\nwant\n%s", got, want)
	}
	lists, err := f.c.bus.Records(t.Context(), subject.Callback(subject.Partition(parent.SessionID), parent.SessionID,
		"*", 0), 0, 10)
	if err != nil || len(lists) != 1 || !strings.Contains(string(lists[0].Body), first.RunID) ||
		len(lists[0].Body) > 400 {
		t.Errorf("of its callbacks are left %+v, %v; want the list, without what the turn said", lists, err)
	}
	if r, err := f.c.Auditor.Ledger(t.Context()); err != nil || !r.OK {
		t.Errorf("ledger: %+v %v", r.Wrong, err)
	}
	left, err := f.c.bus.Records(t.Context(), "ao.runs."+subject.Partition(parent.SessionID)+".*."+parent.RunID+".>", 0,
		10)
	if err != nil || len(left) > 0 {
		t.Errorf("%d records of a deleted run are left: %v", len(left), err)
	}
}

// A deletion that is not honoured must not be honoured by who reads the rest of a truncated history.
func TestAFailedDeletionLeavesNoRecord(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	first := f.start("")
	f.ends(first.RunID, results("done"))
	part := subject.Partition(first.SessionID)
	for range 200 { // until a run comes in between the lookup and the record
		resumed := make(chan runs.Accepted, 1)
		go func() {
			a, err := f.c.Submit(t.Context(), []byte(`{"session_id":"`+first.SessionID+`","type":"resume_session",`+
				`"prompt":"more"}`), "test", "")
			if err != nil {
				a = runs.Accepted{}
			}
			resumed <- a
		}()
		err := f.c.DeleteSession(t.Context(), first.SessionID)
		a := <-resumed
		if _, notFound := f.c.History.Session(t.Context(), first.SessionID); fault.KindOf(notFound) == fault.NotFound {
			return // the deletion was first
		}
		if err == nil {
			continue // a turn after the deletion
		}
		if m, lastErr := f.c.bus.Last(t.Context(), subject.Deleted(part, first.SessionID)); lastErr == nil {
			t.Fatalf("record %d is left of a deletion in vain (%v)", m.Seq, err)
		}
		if a.RunID != "" {
			if _, err := f.c.Stop(t.Context(), a.RunID); err != nil && fault.KindOf(err) != fault.Conflict {
				t.Fatal(err)
			}
		}
	}
}

// A turn is accepted right behind the deletion of its session. The deletion counts, and all projections agree, also
// when the session is deleted once more.
func TestATurnBehindADeletion(t *testing.T) {
	for _, again := range []bool{false, true} {
		f := newFixture(t, start(t, natstest.Bus(t), Config{}))
		s := f.start("")
		f.ends(s.RunID, results("kept nowhere"))
		late, err := f.c.Plans.Plan(t.Context(), &run.Request{Type: run.Resume, SessionID: s.SessionID,
			Mode: run.AsyncPoll, Parameters: json.RawMessage(`{"prompt":"late"}`)})
		if err != nil {
			t.Fatal(err)
		}
		part := subject.Partition(s.SessionID)
		put(t, f.c.bus, subject.Deleted(part, s.SessionID), run.Deleted{V: run.Version})
		turn, err := f.c.Place(t.Context(), late, run.NewID(), "")
		if err != nil {
			t.Fatal(err)
		}
		natstest.Until(t, "the late turn has ended", func() bool { return f.c.History.Ended(turn.RunID) })
		if again {
			err = f.c.DeleteSession(t.Context(), s.SessionID)
		} else {
			err = f.c.FinishDelete(t.Context(), part, s.SessionID, []string{s.RunID})
		}
		if err != nil {
			t.Errorf("again %t: %v", again, err)
		}
		if live, fresh := seen(t, f.c.History.Lists), seen(t, anew(t, f.c)); live != fresh ||
			strings.Contains(fresh, s.RunID) {
			t.Errorf("again %t: live\n%s\nfresh\n%s", again, live, fresh)
		}
	}
}
