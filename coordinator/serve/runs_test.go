package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/runners"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// parrot answers with the parameters it got.
func parrot(q run.Queued) run.Outcome { return done(string(q.Parameters)) }

// blocking returns an executor that blocks until the test frees it.
func blocking() (do func(run.Queued) run.Outcome, free func()) {
	gate := make(chan struct{})
	return func(run.Queued) run.Outcome {
		<-gate
		return done(`"held"`)
	}, sync.OnceFunc(func() { close(gate) })
}

// TestSyncAnswersWithTheResult: one document, the parameters' order and digits as sent.
func TestSyncAnswersWithTheResult(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"))
	const sent = `{"z":1,"a":12345678901234567890.123456789,"b.c":"ü"}`
	g := s.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":`+sent+`}`)
	out := into[runs.Outcome](g, 200)
	if out.Status != run.Completed || out.Result == nil || string(out.Result.Data) != sent ||
		string(out.Parameters) != sent {
		t.Fatalf("%s", g.body)
	}
	if g.header.Get("Location") != "/runs/"+out.ID ||
		!strings.Contains(g.body, `"result":{"result_type":"procedural","result_text":null,"result_data":`+
			sent+`,"exit_code":0}`) {
		t.Errorf("%s %s", g.header.Get("Location"), g.body)
	}
	literal(t, s.get("/runs/"+out.ID+"/result"), 200, `{"result_type":"procedural","result_text":null,"result_data":`+
		sent+`,"exit_code":0}`)
	literal(t, s.get("/sessions/"+out.SessionID+"/result"), 200,
		`{"result_type":"procedural","result_text":null,"result_data":`+sent+`,"exit_code":0}`)
	literal(t, s.get("/sessions/"+out.SessionID+"/status"), 200, `{"session_id":"`+
		out.SessionID+`","status":"finished"}`)
	if w := s.get("/runs/" + out.ID + "/wait"); w.body != g.body || w.status != 200 {
		t.Errorf("wait answers %d %s", w.status, w.body)
	}
}

// TestAFailedRunKeepsItsResult: a failure is an answer, with its code and what there is of a result.
func TestAFailedRunKeepsItsResult(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome {
		o := done(`{"partial":true}`)
		three := 3
		o.Status, o.Error, o.Result.ExitCode = run.Failed, fault.New(fault.Internal, "command_failed", "no such file"),
			&three
		return o
	}, echo("tool"))
	out := into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
	if out.Status != run.Failed || out.Error.Code != "command_failed" || *out.Result.ExitCode != 3 {
		t.Errorf("%+v", out)
	}
	if res := into[run.Result](s.get("/runs/"+out.ID+"/result"), 200); string(res.Data) != `{"partial":true}` {
		t.Errorf("%+v", res)
	}
}

// TestWaiting: a wait ends with the run or with its time, and the run goes on.
func TestWaiting(t *testing.T) {
	t.Parallel()
	s := start(t)
	do, free := blocking()
	defer free()
	s.work(do, echo("tool"))
	acc := into[runs.Accepted](s.post("/runs", `{"agent_name":"tool","mode":"sync","wait_seconds":0}`), 202)
	s.until(acc.RunID, run.Running)
	if m := s.get("/runs/" + acc.RunID + "/wait?timeout_seconds=0").want(202); m["status"] != "running" ||
		m["run_id"] != acc.RunID {
		t.Errorf("%v", m)
	}
	if m := s.get("/runs/" + acc.RunID + "/result").want(409); m["error"] != "run_not_ended" {
		t.Errorf("%v", m)
	}
	s.get("/sessions/" + acc.SessionID + "/result").want(409)
	if m := s.call("DELETE", "/sessions/"+acc.SessionID, "").want(409); m["error"] != "conflict" {
		t.Errorf("%v", m)
	}
	if m := s.get("/sessions/" + acc.SessionID).want(200); m["status"] != "running" {
		t.Errorf("%v", m)
	}
	answers := s.later(func() got { return s.get("/runs/" + acc.RunID + "/wait?timeout_seconds=30") })
	free()
	if m := (<-answers).want(200); m["status"] != "completed" {
		t.Errorf("%v", m)
	}
	if g := s.call("DELETE", "/sessions/"+acc.SessionID, ""); g.status != 204 {
		t.Errorf("delete: %d %s", g.status, g.body)
	}
	s.get("/runs/" + acc.RunID).want(404)
	s.get("/sessions/" + acc.SessionID).want(404)
}

// TestHangingUpDoesNotStopTheRun.
func TestHangingUpDoesNotStopTheRun(t *testing.T) {
	t.Parallel()
	s := start(t)
	do, free := blocking()
	defer free()
	s.work(do, echo("tool"))
	ctx, hangUp := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", s.url+"/runs",
		strings.NewReader(`{"agent_name":"tool","mode":"sync"}`))
	answered := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(req)
		answered <- err
	}()
	var page query.Page
	natstest.Until(t, "the run is there", func() bool {
		page = into[query.Page](s.get("/runs?status=running"), 200)
		return len(page.Runs) == 1
	})
	hangUp()
	if err := <-answered; err == nil {
		t.Fatal("the caller did not hang up")
	}
	free()
	s.until(page.Runs[0].ID, run.Completed)
}

// TestStop: what waits ends at once, what runs when its worker says so, and an ended one is a conflict.
func TestStop(t *testing.T) {
	t.Parallel()
	s := start(t)
	do, free := blocking()
	defer free()
	s.work(do, echo("tool"))
	running := s.submit(`{"agent_name":"tool"}`)
	s.until(running.RunID, run.Running)
	if m := s.post("/runs/"+running.RunID+"/stop", "").want(200); m["status"] != "stopping" &&
		m["status"] != "stopped" {
		t.Errorf("%v", m)
	}
	s.until(running.RunID, run.Stopped)
	s.post("/runs/"+running.RunID+"/stop", "{}").want(200) // once more changes nothing
	if m := s.get("/runs/" + running.RunID + "/result").want(409); m["error"] != "no_result" {
		t.Errorf("%v", m)
	}

	s.post("/agents", `{"name":"plain"}`).want(201)
	waiting := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	if r := s.until(waiting.RunID, run.Pending); !strings.HasPrefix(r.WaitingFor,
		"a runner: none online matches type=autonomous") {
		t.Errorf("waiting for %q", r.WaitingFor)
	}
	if m := s.post("/sessions/"+waiting.SessionID+"/stop", "").want(200); m["status"] != "stopped" {
		t.Errorf("%v", m)
	}
	if r := s.until(waiting.RunID, run.Stopped); r.Error == nil || r.Error.Code != "stopped" {
		t.Errorf("%+v", r.Error)
	}
	free()
	finished := into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
	if m := s.post("/runs/"+finished.ID+"/stop", "").want(409); m["status"] != "completed" ||
		m["run_id"] != finished.ID {
		t.Errorf("%v", m)
	}
}

// TestIdempotencyKey: same key and body, same answer, also after a restart and at the same moment; another body is a
// conflict.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep := func(c *serve.Config) { c.NATS.DataDir = dir }
	s := start(t, keep)
	s.post("/agents", `{"name":"plain"}`).want(201)
	const body = `{"agent_name":"plain","prompt":"x"}`
	answers := make([]string, 8)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = s.post("/runs", body, "Idempotency-Key: k1").body })
	}
	wg.Wait()
	if slices.Sort(answers); answers[0] != answers[7] {
		t.Fatalf("one key, two answers: %s %s", answers[0], answers[7])
	}
	if m := s.post("/runs", `{"agent_name":"plain","prompt":"y"}`, "Idempotency-Key: k1").
		want(409); m["error"] != "idempotency_key_reused" {
		t.Errorf("%v", m)
	}
	s.post("/runs", `{"agent_name":"nobody"}`, "Idempotency-Key: k2").want(404)
	s.submit(body, "Idempotency-Key: k2") // a refused request does not use its key up
	if other := s.submit(body, "Idempotency-Key: k3"); strings.Contains(answers[0], other.RunID) {
		t.Error("another key, the same run")
	}
	s.stop()
	s.nats.Close()

	s = start(t, keep)
	if again := s.post("/runs", body, "Idempotency-Key: k1"); again.body != answers[0] || again.status != 201 {
		t.Errorf("after the restart: %d %s, before %s", again.status, again.body, answers[0])
	}
	if list := into[query.Page](s.get("/runs"), 200); len(list.Runs) != 3 {
		t.Errorf("%d runs, want 3", len(list.Runs))
	}
}

// TestRepeatedSync: a repeat waits for the same run.
func TestRepeatedSync(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"))
	const body = `{"agent_name":"tool","mode":"sync","parameters":{"a":1}}`
	first := s.post("/runs", body, "Idempotency-Key: k")
	again := s.post("/runs", body, "Idempotency-Key: k")
	if first.status != 200 || again.status != 200 || first.body != again.body {
		t.Errorf("first %d %s\nagain %d %s", first.status, first.body, again.status, again.body)
	}
	stream := s.post("/runs", body, "Idempotency-Key: k", "Accept: text/event-stream")
	if !strings.Contains(stream.body, "event: result\ndata: "+first.body) {
		t.Errorf("as a stream: %s", stream.body)
	}
}

// TestPages: every run once, newest first, and filters.
func TestPages(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"plain"}`).want(201)
	s.post("/agents", `{"name":"other"}`).want(201)
	var want []string
	var middle time.Time
	for i := range 7 {
		acc := s.submit(`{"agent_name":"plain","prompt":"x","session_id":"ses_` + fmt.Sprint(i) + `"}`)
		want = append(want, acc.RunID)
		r := s.until(acc.RunID, run.Pending)
		if i == 3 {
			middle = r.CreatedAt
		}
	}
	child := s.submit(`{"agent_name":"other","prompt":"x","parent_session_id":"ses_1"}`)
	want = append(want, child.RunID)
	s.until(child.RunID, run.Pending)
	s.post("/runs/"+want[0]+"/stop", "").want(200)
	slices.Reverse(want)
	var seen []string
	for path := "/runs?limit=3"; ; {
		p := into[query.Page](s.get(path), 200)
		for _, r := range p.Runs {
			seen = append(seen, r.ID)
		}
		if p.Next == "" {
			break
		}
		path = "/runs?limit=3&cursor=" + p.Next
	}
	if !slices.Equal(seen, want) {
		t.Errorf("paged %v\nwant %v", seen, want)
	}
	for filter, n := range map[string]int{
		"status=pending": 7, "status=stopped,pending": 8, "agent_name=other": 1, "session_id=ses_2": 1,
		"parent_session_id=ses_1": 1, "parent_session_id=ses_0": 0,
		"created_after=" + middle.Format(time.RFC3339Nano): 4, "status=failed": 0,
	} {
		if p := into[query.Page](s.get("/runs?"+filter), 200); len(p.Runs) != n {
			t.Errorf("runs?%s: %d, want %d", filter, len(p.Runs), n)
		}
	}
	for filter, n := range map[string]int{"status=pending": 7, "status=stopped": 1, "agent_name=other": 1,
		"parent_session_id=ses_1": 1, "limit=2": 2} {
		if p := into[query.SessionPage](s.get("/sessions?"+filter), 200); len(p.Sessions) != n {
			t.Errorf("sessions?%s: %d, want %d", filter, len(p.Sessions), n)
		}
	}
	literal(t, s.get("/runs?status=failed"), 200, `{"runs":[]}`)
}

// TestRegistrationReportsVersions: over HTTP as over NATS.
func TestRegistrationReportsVersions(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) {
		c.Coordinator.RecordVersion, c.Coordinator.Patience = 3, runnerapi.Thresholds{Stale: 500 * time.Millisecond,
			Remove: time.Second}
	})
	natstest.Until(t, "the versions are reported", func() bool {
		reply := s.post("/runner/register", `{"hostname":"h","executor_profile":"p","executor_type":"procedural"}`).
			want(200)
		return reply["record_version"] == 3.0 && reply["event_version"] == float64(run.EventVersion)
	})
}

// TestRunners: over HTTP a runner registers as over NATS, is listed, drained, and collides.
func TestRunners(t *testing.T) {
	t.Parallel()
	s := start(t)
	literal(t, s.get("/runners"), 200, `{"runners":[]}`)
	const body = `{"hostname":"h","project_dir":"/srv","executor_profile":"echo","executor":{"type":"procedural"},` +
		`"agents":[{"name":"echo","command":"./echo"}]}`
	m := s.post("/runner/register", body).want(200)
	if m["heartbeat_interval_seconds"] != 60.0 || m["nats"].(map[string]any)["beats"] != "ao.beats."+
		m["runner_id"].(string) {
		t.Errorf("%v", m)
	}
	if again := s.post("/runner/register", strings.Replace(body, `"executor":{"type":"procedural"}`,
		`"executor.type":"procedural"`, 1)).want(200); again["runner_id"] != m["runner_id"] {
		t.Errorf("the same identity, another runner: %v", again)
	}
	s.post("/runner/register", strings.Replace(body, `"executor"`, `"executor_type":"autonomous","executor"`, 1)).
		want(400)
	g := s.post("/runner/register", strings.NewReplacer(`"h"`, `"i"`, `./echo`, `./other`).Replace(body))
	literal(t, g, 409, `{"error":"agent_name_collision","message":"Agent 'echo' is already registered by runner `+
		m["runner_id"].(string)+
		` with another definition; rename one of them","agent_name":"echo","existing_runner_id":"`+
		m["runner_id"].(string)+`"}`)
	list := into[struct{ Runners []runners.View }](s.get("/runners"), 200)
	if len(list.Runners) != 1 || list.Runners[0].Status != runnerapi.Online ||
		!slices.Equal(list.Runners[0].Agents, []string{"echo"}) {
		t.Errorf("%+v", list)
	}
	if a := s.get("/agents/echo").want(200); a["runner_id"] != m["runner_id"] || a["command"] != "./echo" {
		t.Errorf("%v", a)
	}
	s.call("PATCH", "/agents/echo", `{"description":"x"}`).want(409)
	s.call("DELETE", "/runners/"+m["runner_id"].(string), "").want(202)
	if list := into[struct{ Runners []runners.View }](s.get("/runners"), 200); len(list.Runners) != 0 {
		t.Errorf("%+v", list)
	}
	if a := s.get("/agents/echo").want(200); a["status"] != "active" || a["runners"] != 0. { // for a grace
		t.Errorf("%v", a)
	}
	s.call("DELETE", "/runners/"+m["runner_id"].(string), "").want(202)
	natstest.Until(t, "its agent is gone, too", func() bool { return s.get("/agents/echo").status == 404 })
}
