package parts

import (
	"strings"
	"testing"

	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Another coordinator prunes a queue at the moment in which a run is queued there.
func TestAQueueThatIsDeletedWithARunInItComesBack(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	register(t, c, runner("one", echo("a")))
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	queue := active(t, c, id, "is queued", isQueued).Queue
	if err := c.bus.Bucket(subject.TaskQueues).Delete(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if err := c.bus.DeleteTaskQueue(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the run can be delivered again, and runners get the queue", func() bool {
		s, err := c.bus.TaskQueueState(t.Context(), queue)
		_, known := c.Queues.Want(queue)
		return err == nil && s.Pending == 1 && known
	})
}

// Thousands may have waited for a runner: they are queued in the order in which they came, each once, also by two
// coordinators.
func TestWaitingRunsAreQueuedInOrder(t *testing.T) {
	server := natstest.Server(t)
	one, other := start(t, natstest.Open(t, server), Config{}), start(t, natstest.Open(t, server), Config{})
	r := talker(t, one)
	if err := one.Deregister(t.Context(), runnerapi.Deregistration{
		RunnerID: r.ID(), Instance: r.Instance}); err != nil {
		t.Fatal(err)
	}
	const runs = 600
	ids := make([]string, runs)
	for i := range ids {
		ids[i] = submit(t, one, `{"agent_name":"talker","prompt":"hi"}`, "").RunID
	}
	register(t, other, r)
	var last uint64
	for _, id := range ids {
		a := active(t, one, id, "is queued", isQueued)
		if a.QueuedSeq < last {
			t.Fatalf("run %s overtook one that came before", id)
		}
		last = a.QueuedSeq
	}
	var queued uint64
	natstest.Until(t, "NATS counts all that are queued", func() bool {
		s, err := one.bus.TaskQueueState(t.Context(), "autonomous._._")
		queued = uint64(s.Pending)
		return err == nil && queued >= runs
	})
	if queued != runs {
		t.Errorf("%d are queued, want %d", queued, runs)
	}
}

// A session continues with a run that was accepted before a runner claimed its first one. If no runner ever does, that
// run says so.
func TestTurnBeforeItsSessionIsClaimed(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	f := newFixture(t, c)
	resume := func(s runs.Accepted) string {
		return `{"type":"resume_session","session_id":"` + s.SessionID + `","prompt":"go on"}`
	}
	claimed, ended := f.start(""), f.start("")
	next, last, cannotStart := submit(t, c, resume(claimed), ""), submit(t, c, resume(claimed), ""),
		submit(t, c, resume(ended), "")
	for _, id := range []string{claimed.RunID, next.RunID, last.RunID} {
		f.ends(id, results("ok"))
	}
	if _, err := c.Stop(t.Context(), ended.RunID); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the turn after it has ended", func() bool { return c.History.Ended(cannotStart.RunID) })
	r, err := c.Show(t.Context(), cannotStart.RunID)
	if err != nil || r.Status != run.Failed || r.Error == nil || r.Error.Code != "session_never_began" {
		t.Errorf("got %+v %v", r, err)
	}
	_, err = c.Submit(t.Context(), []byte(resume(ended)), "test", "")
	wantCode(t, err, "session_never_began")
	waits := f.start(`,"additional_demands":{"hostname":"elsewhere"}`)
	_, err = c.Submit(t.Context(), []byte(resume(waits)), "test", "")
	wantCode(t, err, "session_never_began")
	if message := fault.Of(err).Message; !strings.Contains(message, "run "+waits.RunID+" waits for a runner") {
		t.Errorf("got %q", message)
	}
}

// A crash of NATS may take a claim and leave the end record of its runner: that session was claimed all the same.
func TestATurnAfterALostClaim(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	f := newFixture(t, c)
	first := f.start("")
	next := submit(t, c, `{"type":"resume_session","session_id":"`+first.SessionID+`","prompt":"go on"}`, "")
	f.end(active(t, c, first.RunID, "is queued", isQueued), results("ok"))
	f.ends(next.RunID, results("ok"))
}
