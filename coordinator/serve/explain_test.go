package serve_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/insight/explain"
	"ao/coordinator/insight/status"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// secrets are what may never be seen in an explanation: the keys of the attempts that a worker was handed.
type secrets struct {
	mu   sync.Mutex
	keys []string
}

// noting has a worker's keys noted.
func (s *secrets) noting(do func(run.Queued) run.Outcome) func(run.Queued) run.Outcome {
	return func(q run.Queued) run.Outcome {
		s.mu.Lock()
		s.keys = append(s.keys, q.Key)
		s.mu.Unlock()
		return do(q)
	}
}

// explain asks for an explanation, and holds it against what must be so of every one.
func (s *stack) explain(id string, secret *secrets, headers ...string) explain.Explanation {
	s.t.Helper()
	g := s.get("/runs/"+id+"/explain", headers...)
	e := into[explain.Explanation](g, 200)
	secret.mu.Lock()
	defer secret.mu.Unlock()
	for _, key := range secret.keys {
		if strings.Contains(g.body, key) {
			s.t.Errorf("the explanation of %s shows an attempt's key: %s", id, g.body)
		}
	}
	if e.RunID != id || e.Summary == "" || (e.WaitsFor == nil) != e.Status.Final() || e.Incomplete != "" ||
		len(e.Story) == 0 || e.Story[0].What != "accepted" {
		s.t.Errorf("%s", g.body)
	}
	for i, step := range e.Story {
		if step.At.IsZero() || step.What == "" || step.Detail == "" || i > 0 && step.Sequence != 0 &&
			step.Sequence < e.Story[i-1].Sequence {
			s.t.Errorf("step %d: %+v", i, step)
		}
	}
	return e
}

// steps is a story in a few words: what happened, of which attempt.
func steps(e explain.Explanation) string {
	var all []string
	for _, s := range e.Story {
		label := s.What
		if s.Attempt > 0 {
			label = fmt.Sprintf("%s/%d", label, s.Attempt)
		}
		all = append(all, label)
	}
	return strings.Join(all, " ")
}

// TestExplainAClaim: until its runner's next heartbeat nobody knows whether a claimed run's executor was started.
func TestExplainAClaim(t *testing.T) {
	t.Parallel()
	s := start(t)
	wait, free := blocking()
	defer free()
	var secret secrets
	w := s.work(secret.noting(wait), echo("tool"))
	w.die()
	acc := s.submit(`{"agent_name":"tool"}`)
	s.until(acc.RunID, run.Claimed)
	e := s.explain(acc.RunID, &secret)
	if !strings.HasPrefix(e.Summary, "Runner "+w.id+" claimed it ") ||
		!strings.Contains(e.Summary, " ago. It has not reported yet that its executor runs.") {
		t.Errorf("%q", e.Summary)
	}
}

// TestExplainTheEnd: how runs ended, in order and with who did what; nothing of a deleted one.
func TestExplainTheEnd(t *testing.T) {
	t.Parallel()
	s := start(t, brief)
	wait, free := blocking()
	defer free()
	var secret secrets
	w := s.work(secret.noting(func(q run.Queued) run.Outcome {
		switch p := string(q.Parameters); {
		case strings.Contains(p, "hold"):
			return wait(q)
		case strings.Contains(p, "fail") && q.Attempt == 1:
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "command_failed",
				"no such file\nat all")}
		}
		return done(`{"secret":"result"}`)
	}), echo("tool"))

	well := s.submit(`{"agent_name":"tool","parameters":{"p":"well"}}`)
	s.until(well.RunID, run.Completed)
	e := s.explain(well.RunID, &secret)
	if got, want := steps(e), "accepted queued/1 claimed/1 started/1 completed/1"; got != want {
		t.Errorf("completed: %s", got)
	}
	if !strings.HasPrefix(e.Summary, "It completed ") ||
		!strings.Contains(e.Summary, " after runner "+w.id+" claimed it.") || e.Story[2].Detail != "by runner "+w.id ||
		!strings.HasPrefix(e.Story[1].Detail, "in queue procedural.procedural.") {
		t.Errorf("%q %+v", e.Summary, e.Story)
	}

	once := s.submit(`{"agent_name":"tool","parameters":{"p":"fail"}}`)
	s.until(once.RunID, run.Failed)
	e = s.explain(once.RunID, &secret)
	if got := steps(e); got != "accepted queued/1 claimed/1 started/1 failed/1" ||
		!strings.HasSuffix(e.Summary, " claimed it: no such file at all (command_failed).") {
		t.Errorf("failed: %s %q", got, e.Summary)
	}

	twice := s.submit(`{"agent_name":"tool","parameters":{"p":"fail"},"max_attempts":2}`)
	s.until(twice.RunID, run.Completed)
	e = s.explain(twice.RunID, &secret)
	if got := steps(e); got != "accepted queued/1 claimed/1 attempt_failed/1 queued/2 claimed/2 started/2 completed/2" {
		t.Errorf("twice: %s", got)
	}
	if got := e.Story[3].Detail; got != "no such file at all (command_failed); attempt 2 follows after 1s" ||
		!strings.HasSuffix(e.Summary, "(attempt 2 of 2).") {
		t.Errorf("%q %q", got, e.Summary)
	}

	stopped := s.submit(`{"agent_name":"tool","parameters":{"p":"hold"}}`)
	s.until(stopped.RunID, run.Running)
	s.post("/runs/"+stopped.RunID+"/stop", "").want(200)
	s.until(stopped.RunID, run.Stopped)
	e = s.explain(stopped.RunID, &secret)
	if steps(e) != "accepted queued/1 claimed/1 started/1 stopping stopped/1" ||
		!strings.HasPrefix(e.Summary, "It was stopped ") {
		t.Errorf("stopped: %s %q", steps(e), e.Summary)
	}

	lost := s.submit(`{"agent_name":"tool","parameters":{"p":"hold"}}`)
	s.until(lost.RunID, run.Running)
	e = s.explain(lost.RunID, &secret)
	if o := e.WaitsFor; o.Reason != "runner" || o.Runner != w.id || o.Until == nil || o.Heard == nil ||
		!o.Lease.After(*o.Heard) || !strings.HasPrefix(e.Summary, "It has been running on runner "+w.id+" for ") {
		t.Errorf("running: %+v %q", o, e.Summary)
	}
	w.die()
	s.until(lost.RunID, run.Failed)
	e = s.explain(lost.RunID, &secret)
	if got := steps(e); got != "accepted queued/1 claimed/1 started/1 lost/1" {
		t.Errorf("lost: %s", got)
	}
	if got := e.Story[4].Detail; got != "runner "+w.id+" was lost: no heartbeat within the lease" ||
		!strings.HasSuffix(e.Summary, " after runner "+
			w.id+" claimed it: the runner was lost, no heartbeat within the lease.") {
		t.Errorf("%q %q", got, e.Summary)
	}

	if g := s.call("DELETE", "/sessions/"+well.SessionID, ""); g.status != 204 {
		t.Fatalf("delete: %s", g.body)
	}
	// it was the oldest run
	for id, code := range map[string]string{well.RunID: "no_longer_kept",
		"run_00000000000000000000000000000000": "not_found"} {
		if m := s.get("/runs/" + id + "/explain").want(404); m["error"] != code {
			t.Errorf("%v, want %s", m, code)
		}
	}
	s.get("/runs/ses_1/explain").want(400)
}

// TestExplainTheWait: each reason by name, with all that is needed to correct it.
func TestExplainTheWait(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator.NoMatch = time.Minute })
	wait, free := blocking()
	defer free()
	var secret secrets
	r := thinker("brain", "gpu")
	r.MaxConcurrentRuns = 1
	w := s.workAs(r, secret.noting(func(q run.Queued) run.Outcome {
		if strings.Contains(string(q.Parameters), "fail") {
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "command_failed", "no")}
		}
		return wait(q)
	}))
	choosy := thinker("choosy", "eu")
	choosy.RequireMatchingTags, choosy.Hostname = true, "elsewhere"
	s.workAs(choosy, parrot)
	s.post("/agents", `{"name":"plain"}`).want(201)

	retried := s.submit(`{"agent_name":"plain","prompt":"fail","max_attempts":9}`)
	natstest.Until(t, "it waits for its next attempt", func() bool {
		e := s.explain(retried.RunID, &secret)
		o := e.WaitsFor
		return o.Reason == "retry_pause" && o.Until.After(time.Now().Add(-time.Minute)) &&
			strings.Contains(e.Summary, "of 9 failed. The next one is queued in ")
	})
	s.post("/runs/"+retried.RunID+"/stop", "").want(200)
	// stopped; or failed, where its next attempt was faster
	natstest.Until(t, "it has ended",
		func() bool { return into[run.Run](s.get("/runs/"+retried.RunID), 200).Status.Final() })

	busy := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.until(busy.RunID, run.Running)
	turn := s.submit(`{"session_id":"` + busy.SessionID + `","prompt":"next"}`)
	e := s.explain(turn.RunID, &secret)
	if o := e.WaitsFor; o.Reason != "session_turn" || o.RunID != busy.RunID || *o.Ahead != 1 ||
		e.Summary != "It waits for its turn in the session: 1 run is ahead of it, first "+busy.RunID+" (running)." {
		t.Errorf("turn: %+v %q", o, e.Summary)
	}
	if got := steps(e); got != "accepted" || !strings.Contains(e.Story[0].Detail, "as another turn of its session; "+
		"not queued at once") {
		t.Errorf("turn: %+v", e.Story)
	}

	first, second := s.submit(`{"agent_name":"plain","prompt":"x"}`), s.submit(`{"agent_name":"plain","prompt":"x"}`)
	natstest.Until(t, "it waits in the queue",
		func() bool { return s.explain(first.RunID, &secret).WaitsFor.Reason == "no_free_slot" })
	e = s.explain(second.RunID, &secret)
	o := e.WaitsFor
	if o.Reason != "no_free_slot" || *o.Ahead != 1 || o.Queue != "autonomous._._" ||
		*o.Slots != (explain.Slots{All: 1, Taken: 1}) || o.Wants.ExecutorType != run.Autonomous {
		t.Errorf("slot: %+v", o)
	}
	if len(o.Runners) != 1 || o.Runners[0].ID != w.id || len(o.Runners[0].Holds) != 1 ||
		o.Runners[0].Holds[0].RunID != busy.RunID || o.Runners[0].Holds[0].Agent != "plain" {
		t.Errorf("slot: %+v", o.Runners)
	}
	if !strings.HasPrefix(e.Summary, "It waits for a free slot: 1 of 1 slots of 1 matching runner are in use; 1 run "+
		"is ahead of it in queue autonomous._._, where it has waited ") {
		t.Errorf("slot: %q", e.Summary)
	}

	alone := s.submit(`{"agent_name":"plain","prompt":"x","additional_demands":{"hostname":"mars",` +
		`"executor_profile":"brain","tags":["gpu","moon"]}}`)
	natstest.Until(t, "the coordinator has looked",
		func() bool { return s.explain(alone.RunID, &secret).WaitsFor.Until != nil })
	e = s.explain(alone.RunID, &secret)
	o = e.WaitsFor
	if o.Reason != "no_matching_runner" || o.Wants.Hostname != "mars" ||
		!slices.Equal(o.Wants.Tags, []string{"gpu", "moon"}) || !o.Until.After(*o.Since) {
		t.Errorf("match: %+v", o)
	}
	var wrong []string
	for _, c := range o.Runners {
		raw, _ := json.Marshal(c.Mismatches)
		wrong = append(wrong, c.ExecutorProfile+" "+string(raw))
	}
	if want := []string{
		`brain [{"field":"hostname","wanted":"mars","has":"brain","message":"hostname is brain, not mars"},` +
			`{"field":"tags","wanted":["moon"],"has":["gpu"],"message":"tags [gpu] lack [moon]"}]`,
		`choosy [{"field":"executor_profile","wanted":"brain","has":"choosy","message":"executor_profile is choosy, ` +
			`not brain"},{"field":"hostname","wanted":"mars","has":"elsewhere","message":"hostname is ` +
			`elsewhere, not mars"},{"field":"tags","wanted":["gpu","moon"],"has":["eu"],"message":"tags ` +
			`[eu] lack [gpu moon]"}]`,
	}; !slices.Equal(wrong, want) {
		t.Errorf("match: got\n%s", strings.Join(wrong, "\n"))
	}
	for _, want := range []string{"matches type=autonomous profile=brain hostname=mars tags=[gpu moon]: none of 2 " +
		"online runners matches (closest: " + w.id + ", hostname is brain, not mars, and 1 more). It " +
		"fails in "} {
		if !strings.Contains(e.Summary, want) {
			t.Errorf("match: %q", e.Summary)
		}
	}

	// Everybody sees why with a run of this size: how everything stands.
	st := into[status.Status](s.get("/status"), 200)
	if st.Runs.Pending != 4 || st.Runs.Running != 1 || st.Runs.Ended != 1 || st.Totals.Accepted != 6 ||
		st.Totals.Stopped+st.Totals.Failed != 1 || st.Totals.Retried == 0 {
		t.Errorf("status: %+v", st)
	}
	if st.Slots != (explain.Slots{All: 5, Taken: 1}) || st.Runners[runnerapi.Online] != 2 || st.Unqueued.Runs != 2 ||
		st.Unqueued.Oldest == nil {
		t.Errorf("status: %+v", st)
	}
	if l := st.Queues[0]; l.Queue != "autonomous._._" || l.Runs != 2 || !l.Served || l.Oldest == nil ||
		len(st.Queues) < 2 || st.Queues[1].Runs != 0 {
		t.Errorf("queues: %+v", st.Queues)
	}
	free()
	s.until(second.RunID, run.Completed)
	// the next attempt of one may have come meanwhile
	natstest.Until(t, "nothing waits in the queue, nor holds a slot", func() bool {
		st := into[status.Status](s.get("/status"), 200)
		return st.Slots.Taken == 0 && st.Queues[0].Runs == 0 && st.Queues[0].Oldest == nil
	})
}

// TestExplainToASession: an executor may ask why its own and its children's runs wait; not who else is there.
func TestExplainToASession(t *testing.T) {
	t.Parallel()
	s := secure(t)
	m := think(s.stack, s.admin)
	var none secrets
	top := m.submit(`{"agent_name":"mind","prompt":"hold"}`, s.admin)
	mine := bearer(m.token(top.RunID))
	child := m.submit(`{"agent_name":"mind","prompt":"x","additional_demands":{"hostname":"mars"}}`, mine)
	other := m.submit(`{"agent_name":"mind","prompt":"hold"}`, s.admin)
	e := s.explain(child.RunID, &none, mine)
	if o := e.WaitsFor; o.Reason != "no_matching_runner" || o.Wants.Hostname != "mars" || o.Runners != nil ||
		strings.Contains(e.Summary, "rnr_") {
		t.Errorf("%+v %q", o, e.Summary)
	}
	if e := s.explain(child.RunID, &none, s.admin); len(e.WaitsFor.Runners) != 1 ||
		!strings.Contains(e.Summary, "rnr_") {
		t.Errorf("%+v %q", e.WaitsFor, e.Summary)
	}
	s.get("/runs/"+other.RunID+"/explain", mine).want(403)
	s.get("/runs/" + other.RunID + "/explain").want(401)
	s.get("/status", mine).want(403)
	s.get("/status").want(401)
}

// explainedMind is how a run of an agent with an output schema is explained, once it has ended as do has it. do may
// write into its session.
func explainedMind(t *testing.T, do func(*worker, run.Queued) run.Outcome) explain.Explanation {
	t.Helper()
	s := start(t)
	var secret secrets
	var w *worker
	ready := make(chan struct{})
	w = s.workAs(thinker("brain"), secret.noting(func(q run.Queued) run.Outcome {
		<-ready
		return do(w, q)
	}))
	close(ready)
	s.post("/agents", `{"name":"plain","output_schema":{"type":"object","required":["n"]}}`).want(201)
	acc := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.until(acc.RunID, run.Completed)
	return s.explain(acc.RunID, &secret)
}

// rejectedIn are the answers of a story that did not fit.
func rejectedIn(e explain.Explanation) (details []string) {
	for _, step := range e.Story {
		if step.What == "rejected" {
			details = append(details, step.Detail)
		}
	}
	return details
}

// counted is the result that fits the schema of explainedMind.
func counted(validation string) run.Outcome {
	return run.Outcome{Status: run.Completed,
		Result: &run.Result{Type: run.Autonomous, Data: json.RawMessage(`{"n":1}`),
			SchemaValidation: json.RawMessage(validation)}}
}

// TestExplainSchemaRetries: the retries of a session come between the claim and the unverified result. Each is a field
// of the message; what looks like it in a text is text.
func TestExplainSchemaRetries(t *testing.T) {
	t.Parallel()
	e := explainedMind(t, func(w *worker, q run.Queued) run.Outcome {
		w.message(q, "I am thinking")
		w.message(q, "Output rejected, attempt 1 of 3: it does not match the output schema\n- $.n: 'n' is a required "+
			"property\n\nThe rejected output:\n{\"private\":1}")
		w.publish(q, json.RawMessage(`{"role":"system","content":[{"type":"text","text":"No. {\"private\":1}"}],`+
			`"rejection":{"attempt":2,"of":3,"errors":[{"path":"$.n","message":"it is too small"}]}}`))
		return counted(`{"valid":true,"retry_count":1}`)
	})
	if got := steps(e); got != "accepted queued/1 claimed/1 started/1 rejected/1 offered/1 checked/1 completed/1" {
		t.Fatalf("%s", got)
	}
	if e.Story[4].Detail != "answer 2 of 3 does not match the output schema: $.n: it is too small" ||
		!strings.HasSuffix(e.Story[5].Detail, "; the agent was asked again once") {
		t.Errorf("%+v", e.Story)
	}
}

// TestExplainHasRejectedAnswers: whole where they are short, with all that is wrong with each.
func TestExplainHasRejectedAnswers(t *testing.T) {
	t.Parallel()
	long := `{"n":"` + strings.Repeat("ü", 20_000) + `"}`
	wrong := []run.OutputError{{Path: "$.n", Message: "'ü' is not of type 'integer'"}, {Path: "$", Message: "no"}}
	e := explainedMind(t, func(w *worker, q run.Queued) run.Outcome {
		w.publish(q, run.RejectionMessage(1, 3, wrong, `{"n":"ü"}`), run.RejectionMessage(2, 3, wrong[:1], long))
		return counted(`{"valid":true,"retry_count":2}`)
	})
	if len(e.Rejected) != 2 {
		t.Fatalf("%+v", e)
	}
	one, two := e.Rejected[0], e.Rejected[1]
	if one.Attempt != 1 || one.Number != 1 || one.Of != 3 || one.Output != `{"n":"ü"}` || one.Truncated ||
		one.Message != "$.n: 'ü' is not of type 'integer' - $: no" || !slices.Equal(one.Errors, wrong) {
		t.Errorf("%+v", one)
	}
	if !two.Truncated || two.Bytes != len(long) || len(two.Output) > 16<<10 || len(two.Output) < 16<<10-4 ||
		!strings.HasPrefix(long, two.Output) {
		t.Errorf("%d of %d bytes, truncated %t", len(two.Output), two.Bytes, two.Truncated)
	}
}
