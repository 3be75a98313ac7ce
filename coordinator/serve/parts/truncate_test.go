package parts

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/control/retention"
	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// Runs arrive all the time, and the history is truncated all the time. Whatever is open, waits, or has a pending
// callback stays. A coordinator that reads the rest sees the same.
func TestTruncationUnderLoadTouchesNothingOpenOrPending(t *testing.T) {
	const keep = 5
	f := newFixture(t, start(t, natstest.Bus(t), Config{Keep: keep, Reports: time.Nanosecond, Lease: time.Hour,
		NoMatch: time.Hour}))
	load := func() {
		t.Helper()
		ctx, enough := context.WithCancel(t.Context())
		var all, truncating sync.WaitGroup
		defer truncating.Wait()
		defer enough()
		defer all.Wait()
		truncating.Go(func() {
			every(ctx, 5*time.Millisecond, func(ctx context.Context) { f.c.retained.Truncate(ctx, 20) })
		})
		for range 3 {
			all.Go(func() {
				for range 15 {
					a, err := f.c.Submit(t.Context(), []byte(`{"agent_name":"thinker","prompt":"think"}`), "test", "")
					if err != nil {
						t.Error(err)
						return
					}
					f.passes(a)
				}
			})
		}
	}
	var first uint64
	for range 3 {
		load()
		parent := f.start("")
		turn := f.claim(parent.RunID)
		put(t, f.c.bus, subject.Bound(subject.Partition(parent.SessionID), turn.Spec.ID, turn.Key),
			run.Bound{V: run.Version, SessionID: parent.SessionID, RunnerID: f.r.ID(), Attempt: 1,
				ExecutorSessionID: "model of " +
					parent.SessionID, At: time.Now()})
		next := submit(t, f.c, `{"type":"resume_session","session_id":"`+parent.SessionID+`","prompt":"and more"}`, "")
		child, other := f.child(parent.SessionID), f.child(parent.SessionID)
		f.ends(child.RunID, results("one"))
		load()
		f.ends(other.RunID, results("two"))
		waits := f.start(`,"additional_demands":{"hostname":"elsewhere"}`)
		open := f.claim(f.start("").RunID)
		load()

		state, err := f.c.bus.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if state.First <= first {
			t.Errorf("history begins with record %d as before: nothing was truncated", state.First)
		}
		first = state.First
		for _, id := range []string{turn.Spec.ID, next.RunID, waits.RunID, open.Spec.ID} {
			a, ok := f.c.History.Active(id)
			if !ok {
				t.Fatalf("run %s is not open any more", id)
			}
			if _, err := f.c.bus.Get(t.Context(), a.FirstSeq); err != nil {
				t.Errorf("run %s: its record %d: %v", id, a.FirstSeq, err)
			}
		}
		for _, id := range []string{child.RunID, other.RunID} {
			if got := f.call(id); got.Status != run.CallbackPending {
				t.Errorf("child %s: %+v", id, got)
			}
		}
		f.sameForAll()

		f.end(turn, results("more"))
		f.ends(next.RunID, results("and more"))
		callback, prompt := f.turn(parent.SessionID)
		if !strings.Contains(prompt, `count="2"`) || callback.QueuedSeq == 0 {
			t.Errorf("the parent gets %s", prompt)
		}
		if m, err := f.c.bus.Get(t.Context(), callback.QueuedSeq); err != nil ||
			!strings.Contains(string(m.Body), "model of "+parent.SessionID) {
			t.Errorf("its turn goes on with another model session: %s %v", m.Body, err)
		}
		f.ends(callback.Spec.ID, results("heard"))
		f.end(open, results("done"))
		if _, err := f.c.Stop(t.Context(), waits.RunID); err != nil {
			t.Fatal(err)
		}
	}
	load()
	natstest.Until(t, "what is done goes", func() bool {
		f.c.retained.Truncate(t.Context(), retention.Step)
		_, _, ended := f.c.History.Counts()
		return ended == keep
	})
}

// passes claims and ends a run as a worker does; it may be truncated before anybody reads it.
func (f fixture) passes(a runs.Accepted) {
	var at state.Active
	natstest.Until(f.T, a.RunID+" is queued", func() (ok bool) {
		at, ok = f.c.History.Active(a.RunID)
		return ok && at.QueuedSeq != 0
	})
	part := subject.Partition(a.SessionID)
	for _, e := range []struct {
		subj   string
		record any
	}{
		{subject.Claimed(part, a.RunID, at.Key), run.Claim{V: run.Version, SessionID: a.SessionID, RunnerID: f.r.ID(),
			Nonce: "n", Attempt: 1, At: time.Now()}},
		{subject.Ended(part, a.RunID, at.Key), run.Ended{V: run.Version, SessionID: a.SessionID, RunnerID: f.r.ID(),
			Nonce: "n", Attempt: 1, Status: run.Completed, At: time.Now()}},
	} {
		put(f.T, f.c.bus, e.subj, e.record)
	}
}

// sameForAll compares what the coordinator shows with what a projection shows that reads the stream again.
func (f fixture) sameForAll() {
	f.Helper()
	// one that was cut off may have truncated the stream and not the projection
	f.c.retained.Truncate(f.Context(), retention.Step)
	if got, want := seen(f.T, anew(f.T, f.c)), seen(f.T, f.c.History.Lists); got != want {
		f.Errorf("a new projection has\n%s\nwant\n%s", got, want)
	}
}
