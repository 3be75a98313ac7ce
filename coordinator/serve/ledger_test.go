package serve_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/ledger"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestTheLedger: after runs of every kind the audit agrees with what the callers counted; a forged record is reported.
func TestTheLedger(t *testing.T) {
	t.Parallel()
	s := start(t)
	wait, free := blocking()
	defer free()
	var key string // of the first run's attempt
	w := s.workAs(runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: "here", ProjectDir: "/srv", ExecutorProfile: "talk",
			ExecutorType: run.Autonomous}, Instance: "one", MaxConcurrentRuns: 8,
	}, func(q run.Queued) run.Outcome {
		if string(q.Parameters) == `{"prompt":"one"}` {
			key = q.Key
		}
		switch p := string(q.Parameters); {
		case strings.Contains(p, "hold"):
			return wait(q)
		case strings.Contains(p, "fail") && q.Attempt == 1:
			return run.Outcome{Status: run.Failed}
		}
		text := "well"
		return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text}}
	})
	s.post("/agents", `{"name":"talker"}`).want(201)
	audit := func() ledger.Report { t.Helper(); return into[ledger.Report](s.get("/ledger"), 200) }
	if r := audit(); !r.OK || r.Runs.Accepted != 0 {
		t.Errorf("at the beginning: %+v", r)
	}

	first := s.submit(`{"agent_name":"talker","prompt":"one"}`)
	s.until(first.RunID, run.Completed)
	s.submit(`{"agent_name":"talker","prompt":"own id","session_id":"ses_of-mine"}`)
	again := s.submit(`{"agent_name":"talker","prompt":"fail","max_attempts":2}`)
	s.until(again.RunID, run.Completed)

	// A parent, three children, the turns that call it back.
	for i := range 3 {
		s.submit(fmt.Sprintf(`{"agent_name":"talker","prompt":"child %d","mode":"async_callback",`+
			`"parent_session_id":%q}`, i, first.SessionID))
	}
	// A session with one run that runs, one that waits, one that is stopped while it waits.
	busy := s.submit(`{"agent_name":"talker","prompt":"hold"}`)
	s.until(busy.RunID, run.Running)
	waits := s.submit(fmt.Sprintf(`{"session_id":%q,"prompt":"next"}`, busy.SessionID))
	stopped := s.submit(fmt.Sprintf(`{"session_id":%q,"prompt":"never"}`, busy.SessionID))
	s.post("/runs/"+stopped.RunID+"/stop", "").want(200)
	// A session that is deleted.
	deleted := s.submit(`{"agent_name":"talker","prompt":"gone"}`)
	s.until(deleted.RunID, run.Completed)
	for range 2 {
		s.until(s.submit(fmt.Sprintf(`{"session_id":%q,"prompt":"gone"}`, deleted.SessionID)).RunID, run.Completed)
	}
	if g := s.call("DELETE", "/sessions/"+deleted.SessionID, ""); g.status != 204 {
		t.Fatalf("delete: %s", g.body)
	}

	var r ledger.Report
	natstest.Until(t, "all children are reported", func() bool {
		r = audit()
		return !r.OK || r.Callbacks.Owed == 3 && r.Callbacks.Delivered == 3 && r.Runs.Waiting == 1 &&
			r.Runs.Running == 1
	})
	turns := len(s.get("/runs?session_id=" + first.SessionID).want(200)["runs"].([]any)) - 1
	if accepted := 9 + turns; !r.OK || r.Runs.Accepted != accepted || r.Runs.Ended != accepted-2 ||
		r.Runs.Stopped != 1 || r.Attempts.Retried != 1 || r.Sessions != 7 {
		t.Errorf("with %d callback turns: %+v", turns, r)
	}
	free()
	s.until(waits.RunID, run.Completed)
	if r := audit(); !r.OK || r.Runs.Waiting+r.Runs.Running != 0 || r.Before != 1 {
		t.Errorf("in the end: %+v", r)
	}

	// What no coordinator and no worker would write. Under no key, or in another partition, it is nobody's.
	part := subject.Partition(first.SessionID)
	forge := func(subj string, record any) {
		t.Helper()
		raw, _ := json.Marshal(record)
		if _, err := s.bus.Append(t.Context(), bus.Entry{Subject: subj, Body: raw}); err != nil {
			t.Fatal(err)
		}
	}
	forge(subject.Claimed(part, first.RunID, "forged"), run.Claim{V: 1, SessionID: first.SessionID, RunnerID: w.id,
		Attempt: 1, At: time.Now()})
	forge(subject.Ended(other(part), first.RunID, key), run.Ended{V: 1, SessionID: first.SessionID, RunnerID: w.id,
		Attempt: 1, Status: run.Failed, At: time.Now()})
	if r := audit(); !r.OK || r.Foreign != 2 {
		t.Errorf("with two forgeries of nobody: %+v", r)
	}
	spec := run.Spec{ID: first.RunID, SessionID: first.SessionID, Agent: "talker", Type: run.Start}
	forge(subject.Queued(part, "autonomous._._", first.RunID, 7), run.Queued{V: 1, Attempt: 7, Key: "forged",
		Spec: spec})
	r = audit()
	for _, w := range r.Wrong {
		if w.RunID != first.RunID || w.Sequence == 0 || w.Kind != "attempt_out_of_turn" {
			t.Errorf("of another kind: %+v", w)
		}
	}
	if r.OK || len(r.Wrong) == 0 {
		t.Errorf("got %+v, want the queued attempt", r)
	}
}

// other is a partition in which the session does not lie.
func other(part string) string {
	if part == "63" {
		return "62"
	}
	return "63"
}
