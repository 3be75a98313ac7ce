package serve_test

import (
	"testing"

	"ao/coordinator/ledger"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// TestACarriedRunOfADamage: the record of a session carries its first run, whose own records are lost. A run that had
// claimed is accepted again under its id, and fails. It is not started again.
func TestACarriedRunOfADamage(t *testing.T) {
	t.Parallel()
	for _, evidence := range []string{"a coordinator", "its end"} {
		t.Run(evidence, func(t *testing.T) {
			t.Parallel()
			r := fill(t, 8)
			a := r.submit(`{"agent_name":"tool","session_id":"ses_own"}`)
			r.until(a.RunID, run.Completed)
			r.marked(r.dir)
			s := r.stack
			if evidence == "a coordinator" {
				r.remove(a.RunID, a.SessionID, "queued claim end")
			} else {
				r.stop()
				r.dir = t.TempDir()
				r.remove(a.RunID, a.SessionID, "queued claim")
				s = start(t, r.on)
				s.work(r.starts.do, echo("tool"))
			}
			s.ledgerAs("the affected runs are known", resolved)
			var failed run.Run
			natstest.Until(t, "the run has failed", func() bool {
				g := s.get("/runs/" + a.RunID)
				if g.status == 200 {
					failed = into[run.Run](g, 200)
				}
				return failed.Status == run.Failed
			})
			if failed.Error == nil || failed.Error.Code != "history_damaged" {
				t.Errorf("it ended with %v", failed.Error)
			}
			s.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
			s.post("/ledger/accept", "").want(200)
			s.ledgerAs("the ledger is in order", func(l ledger.Report) bool { return l.OK })
			r.starts.wantOnce(t)
		})
	}
}

// TestACarriedRunThatCannotBeAccepted: NATS neither gives the record that accepts it nor takes it again. The run fails.
func TestACarriedRunThatCannotBeAccepted(t *testing.T) {
	t.Parallel()
	r := fill(t, 8)
	r.post("/agents", `{"name":"mind"}`).want(201)
	a := r.submit(`{"agent_name":"mind","prompt":"it waits for a runner","session_id":"ses_own"}`)
	r.submit(`{"agent_name":"mind","prompt":"it is the last record"}`)
	r.marked(r.dir)
	r.rot(subject.Runs, subject.Accepted(subject.Partition(a.SessionID), a.SessionID, a.RunID))
	again := start(t, r.on)
	again.ledgerAs("the affected runs are known", resolved)
	natstest.Until(t, "the run has failed", func() bool { return again.get("/runs/"+a.RunID).status == 200 })
	if failed := again.until(a.RunID, run.Failed); failed.Error == nil || failed.Error.Code != "history_damaged" {
		t.Errorf("it ended with %v", failed.Error)
	}
	again.post("/ledger/accept", "").want(200)
	again.ledgerAs("the ledger is in order", func(l ledger.Report) bool { return l.OK })
}

// TestACarriedRunWhoseQueuedRecordIsUnreadable: it has completed, and its session's record carries it. A coordinator
// that reads the history for the first time neither starts it again nor removes what is left of it.
func TestACarriedRunWhoseQueuedRecordIsUnreadable(t *testing.T) {
	t.Parallel()
	r := fill(t, 8)
	a := r.submit(`{"agent_name":"tool","session_id":"ses_own"}`)
	r.until(a.RunID, run.Completed)
	r.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":1}}`).want(200)
	end := r.record(subject.Ended(subject.Partition(a.SessionID), a.RunID, "*"))
	r.rot(subject.Runs, r.record(subject.QueuedOf(subject.Partition(a.SessionID), a.RunID)))
	r.dir = t.TempDir()
	again := start(t, r.on)
	again.work(r.starts.do, echo("tool"), echo("second")) // it takes other queues
	natstest.Until(t, "the run has failed", func() bool {
		g := again.get("/runs/" + a.RunID)
		return g.status == 200 && into[run.Run](g, 200).Status == run.Failed
	})
	if _, err := r.bus.Last(t.Context(), end); err != nil {
		t.Errorf("its end record: %v", err)
	}
	again.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
	r.starts.wantOnce(t)
}
