package parts

import (
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// A session whose executor session is on one host continues there. The demands of its next run say so, even if that run
// was accepted before the executor bound anything. Once no runner is left there, a resume is refused at once.
func TestSessionContinuesOnItsHost(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	c := start(t, b, Config{NoMatch: 4 * time.Second})
	f := newFixture(t, c)
	there := f.r
	there.Identity.Hostname, there.Instance = "there", "i2"
	register(t, c, there)
	answers(t, b, there)
	bind := func(first runs.Accepted) {
		turn := f.claim(first.RunID)
		put(t, b, subject.Bound(subject.Partition(first.SessionID), first.RunID, turn.Key),
			run.Bound{V: run.Version, SessionID: first.SessionID,
				RunnerID: there.ID(), Attempt: 1, ExecutorSessionID: "m", Hostname: "there",
				Profile: there.ExecutorProfile,
				At:      time.Now()})
		early := submit(t, c, `{"type":"resume_session","session_id":"`+first.SessionID+`","prompt":"and more"}`, "")
		f.end(turn, results("one"))
		a := active(t, c, early.RunID, "is queued", isQueued)
		if want := (runnerapi.RoutingKey{Type: run.Autonomous, Profile: there.ExecutorProfile, Hostname: "there",
			ProjectDir: a.Spec.Demands.ProjectDir}); a.Queue != want.TaskQueue() {
			t.Errorf("it is queued in %s, want %s", a.Queue, want.TaskQueue())
		}
		claim(t, c, early.RunID, there)
		f.end(active(t, c, early.RunID, "is claimed", func(state.Active) bool { return true }), results("two"))
	}
	first := f.start("")
	bind(first)
	v, err := c.Validate(t.Context(),
		[]byte(`{"type":"resume_session","session_id":"`+first.SessionID+`","prompt":"more"}`))
	if err != nil || v.Demands.Hostname != "there" || !v.Available {
		t.Errorf("a resume would demand %+v, %v", v, err)
	}

	if err := c.Deregister(t.Context(),
		runnerapi.Deregistration{RunnerID: there.ID(), Instance: there.Instance}); err != nil {
		t.Fatal(err)
	}
	waiting := submit(t, c, `{"type":"resume_session","session_id":"`+first.SessionID+`","prompt":"more"}`, "")
	r, err := c.Show(t.Context(), waiting.RunID)
	if err != nil || !strings.Contains(r.WaitingFor, `only on host "there"`) {
		t.Errorf("it waits for %q, %v", r.WaitingFor, err)
	}
	natstest.Until(t, "the run has failed", func() bool { return c.History.Ended(waiting.RunID) })
	natstest.Until(t, "a resume is refused", func() bool {
		_, err = c.Submit(t.Context(),
			[]byte(`{"type":"resume_session","session_id":"`+first.SessionID+`","prompt":"more"}`), "test", "")
		return err != nil
	})
	wantCode(t, err, "session_host_gone")
	if !strings.Contains(fault.Of(err).Message, `"there"`) {
		t.Errorf("got %v", err)
	}

	register(t, c, there)
	if _, err := c.Submit(t.Context(),
		[]byte(`{"type":"resume_session","session_id":"`+first.SessionID+`","prompt":"more"}`), "test",
		""); err != nil {
		t.Errorf("the runner is back: %v", err)
	}
}
