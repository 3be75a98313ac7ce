package serve_test

import (
	"strings"
	"testing"

	"ao/coordinator/projection/query"
	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
)

// A tree shows each attempt that another one followed, with its times and its error. It does so while the next attempt
// waits, while that runs, and after the run has ended.
func TestATreeShowsEarlierAttempts(t *testing.T) {
	t.Parallel()
	s := start(t)
	wait, free := blocking()
	defer free()
	var secret secrets
	w := s.work(secret.noting(func(q run.Queued) run.Outcome {
		switch {
		case q.Attempt < 3 && strings.Contains(string(q.Parameters), "again"):
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "command_failed", "no such file")}
		case strings.Contains(string(q.Parameters), "hold"):
			return wait(q)
		}
		return done(`1`)
	}), echo("tool"))
	tree := func(session string) query.TreeRun {
		t.Helper()
		g := s.get("/sessions/" + session + "/tree")
		secret.mu.Lock()
		defer secret.mu.Unlock()
		for _, key := range secret.keys {
			if strings.Contains(g.body, key) {
				t.Errorf("it shows an attempt's key: %s", g.body)
			}
		}
		return into[query.TreePage](g, 200).Sessions[0].Runs[0]
	}
	plain := s.submit(`{"agent_name":"tool","parameters":{}}`)
	s.until(plain.RunID, run.Completed)
	if r := tree(plain.SessionID); r.Attempt != 1 || r.Earlier != nil {
		t.Errorf("a run of one attempt: %+v", r)
	}
	again := s.submit(`{"agent_name":"tool","parameters":{"p":"again, then hold"},"max_attempts":3}`)
	var r query.TreeRun
	natstest.Until(t, "an attempt failed, and the next one waits", func() bool {
		p := into[query.Page](s.get("/runs?session_id="+again.SessionID), 200)
		row := p.Runs[0]
		r = tree(again.SessionID)
		if row.NextAt == nil || r.Status != run.Pending || r.Attempt != row.Attempt {
			return false
		}
		last := r.Earlier[len(r.Earlier)-1]
		if len(r.Earlier) != row.Attempt || last.Error == nil || last.Error.Code != "command_failed" ||
			row.NextAt.Before(*last.EndedAt) || row.ClaimedAt != nil {
			t.Errorf("before the next attempt: %+v, %+v", r, row)
		}
		return true
	})
	check := func(when string) {
		t.Helper()
		r := tree(again.SessionID)
		if r.Attempt != 3 || len(r.Earlier) != 2 {
			t.Fatalf("%s: %+v", when, r)
		}
		at := r.CreatedAt
		for i, e := range r.Earlier {
			if e.Attempt != i+1 || e.RunnerID != w.id || e.Error == nil || e.Error.Message != "no such file" ||
				e.ClaimedAt.Before(at) || e.StartedAt.Before(*e.ClaimedAt) || e.EndedAt.Before(*e.StartedAt) {
				t.Errorf("%s: %+v", when, e)
			}
			at = *e.EndedAt
		}
		if r.ClaimedAt.Before(at) {
			t.Errorf("%s: the last attempt was claimed at %v, before %v", when, r.ClaimedAt, at)
		}
	}
	s.until(again.RunID, run.Running)
	check("while it runs")
	if shown := into[run.Run](s.get("/runs/"+again.RunID), 200); shown.NextAt != nil || shown.Attempt != 3 {
		t.Errorf("it runs, and is shown as %+v", shown)
	}
	s.post("/runs/"+again.RunID+"/stop", "").want(200)
	s.until(again.RunID, run.Stopped)
	check("ended")

	lost := start(t, brief)
	dead := lost.work(wait, echo("tool"))
	retried := lost.submit(`{"agent_name":"tool","max_attempts":2}`)
	lost.until(retried.RunID, run.Running)
	dead.die()
	s = lost
	natstest.Until(t, "the attempt is lost", func() bool { r = tree(retried.SessionID); return len(r.Earlier) == 1 })
	if e := r.Earlier[0]; e.RunnerID != dead.id || e.Error == nil || e.Error.Code != "runner_disconnected" ||
		e.EndedAt == nil {
		t.Errorf("a lost attempt: %+v", e)
	}
}
