package parts

import (
	"slices"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestIdleSessions: a session is idle if its last run completed and a live runner lists it, in every view at once. It
// is not idle while a run is active or after one failed. A heartbeat without the session ends it, and so does the
// runner's expiry.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	c := start(t, b, Config{Lease: 6 * time.Second})
	r := runner("one", echo("e"))
	id := register(t, c, r).RunnerID
	heartbeatOf := func(sessions ...string) runnerapi.HeartbeatReply {
		return heartbeat(t, c, runnerapi.Heartbeat{RunnerID: id, Instance: "one", Idle: sessions})
	}
	good, bad := submit(t, c, `{"agent_name":"e","parameters":{}}`, ""),
		submit(t, c, `{"agent_name":"e","parameters":{}}`, "")
	shows := func(session string) (all []string) {
		v, err := c.History.Session(t.Context(), session)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(v.Status))
		for _, status := range []run.SessionStatus{run.SessionPending, run.SessionRunning, run.SessionIdle,
			run.SessionFinished, run.SessionFailed} {
			p, err := c.History.Sessions(t.Context(), query.Query{Statuses: []string{string(status)},
				Session: session})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Sessions {
				all = append(all, string(s.Status))
			}
		}
		return slices.Compact(all)
	}
	is := func(session, want string) {
		t.Helper()
		if got := shows(session); !slices.Equal(got, []string{want}) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	first, other := claim(t, c, good.RunID, r), claim(t, c, bad.RunID, r)
	heartbeatOf(good.SessionID, bad.SessionID) // before the end record
	is(good.SessionID, "running")
	finish(t, c, first)
	put(t, b, subject.Ended(subject.Partition(bad.SessionID), bad.RunID, other.Key),
		run.Ended{V: run.Version, SessionID: bad.SessionID, Nonce: "n", Attempt: 1, Status: run.Failed,
			Error: fault.New(fault.Internal, "x", "x"), At: time.Now()})
	natstest.Until(t, "the other has ended", func() bool { return c.History.Ended(bad.RunID) })
	is(good.SessionID, "idle")
	is(bad.SessionID, "failed")
	heartbeatOf()
	is(good.SessionID, "finished")
	heartbeatOf(good.SessionID)
	is(good.SessionID, "idle")
	heartbeat(t, c, runnerapi.Heartbeat{RunnerID: id, Instance: "another process", Idle: nil})
	is(good.SessionID, "idle")
	natstest.Until(t, "a stale runner has nothing idle",
		func() bool { return slices.Equal(shows(good.SessionID), []string{"finished"}) })
	if reply := heartbeatOf(good.SessionID, "ses_unknown"); reply.Forget != nil {
		t.Errorf("asked to forget %v", reply.Forget)
	}
	if err := c.DeleteSession(t.Context(), good.SessionID); err != nil {
		t.Fatal(err)
	}
	// and the worker that it may end the process
	natstest.Until(t, "the runner learns of the deletion",
		func() bool { return slices.Equal(heartbeatOf(good.SessionID).Forget, []string{good.SessionID}) })
}
