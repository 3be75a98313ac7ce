package parts

import (
	"context"
	"testing"
	"time"

	"ao/coordinator/runs"
	"ao/coordinator/sessions"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// A session below a stopped tree may have a run that a session outside of the tree requested. That session is called
// back, whether the run was claimed, waited, or came later.
func TestSessionOutsideAStoppedTreeIsCalledBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	outside := f.start("")
	f.ends(outside.RunID, results("ok"))
	top := f.start("")
	f.claim(top.RunID)
	child := f.start(`,"parent_session_id":"` + top.SessionID + `"`)
	f.ends(child.RunID, results("ok"))
	turn := func(parent string) runs.Accepted {
		t.Helper()
		return submit(t, f.c, `{"session_id":"`+child.SessionID+`","prompt":"x","mode":"async_callback",`+
			`"parent_session_id":"`+parent+`"}`, "")
	}
	claimed, waits, inside := turn(outside.SessionID), turn(outside.SessionID), turn(top.SessionID)
	a := f.claim(claimed.RunID)
	if _, err := f.c.StopSession(t.Context(), top.SessionID, sessions.Stop{Tree: true}); err != nil {
		t.Fatal(err)
	}
	later := turn(outside.SessionID)
	f.end(a, run.Outcome{Status: run.Stopped})
	for r, want := range map[runs.Accepted]string{claimed: run.CallbackPending, waits: run.CallbackPending,
		later:  run.CallbackPending,
		inside: run.CallbackSuppressed} {
		natstest.Until(t, "it ends", func() bool { return f.c.History.Ended(r.RunID) })
		shown, err := f.c.Show(t.Context(), r.RunID)
		if err == nil && shown.Callback.Status == run.CallbackDelivered { // by the one turn that reports some of them
			shown.Callback.Status = run.CallbackPending
		}
		if err != nil || shown.Callback.Status != want {
			t.Errorf("what becomes of its callback: %+v %v, want %s", shown.Callback, err, want)
		}
	}
	natstest.Until(t, "a turn tells of some of them",
		func() bool { return len(f.c.History.Open(outside.SessionID)) > 0 })
}

// The subject of a request to stop a tree may hold a record that counts for nothing. Whoever stops the tree gets an
// error, and the stop is not tried for ever.
func TestAStopOfATreeEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	top := f.start("")
	f.claim(top.RunID)
	if _, err := f.c.bus.Append(t.Context(),
		bus.Entry{Subject: subject.Tree(subject.Partition(top.SessionID), top.SessionID, top.RunID),
			Body: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := f.c.StopSession(ctx, top.SessionID, sessions.Stop{Tree: true}); fault.KindOf(
		err) != fault.Unavailable || ctx.Err() != nil {
		t.Errorf("it ended with %v, %v", err, ctx.Err())
	}
}
