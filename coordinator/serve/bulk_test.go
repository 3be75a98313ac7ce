package serve_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ao/coordinator/control/webhook"
	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
)

// failing fails with a code that its parameters name.
func failing(q run.Queued) run.Outcome {
	code := "command_failed"
	if strings.Contains(string(q.Parameters), "other") {
		code = "timeout"
	}
	return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, code, "It went wrong")}
}

// TestManyRunsAreStopped: those that match and have not ended, if they are as many as the caller has seen.
func TestManyRunsAreStopped(t *testing.T) {
	t.Parallel()
	s := start(t)
	do, free := blocking()
	defer free()
	s.work(do, echo("tool"))
	s.post("/agents", `{"name":"nobodys","demands":{"tags":["none"]}}`).want(201)
	var mine []string
	for range 5 {
		mine = append(mine, s.submit(`{"agent_name":"nobodys","prompt":"x"}`).RunID)
	}
	blocked := s.submit(`{"agent_name":"tool"}`)
	s.until(blocked.RunID, run.Running)
	for _, tt := range []struct {
		body   string
		status int
		say    string
	}{
		{``, 400, ""},
		{`{}`, 400, "Give at least one filter"},
		{`{"limit":1,"tree":true}`, 400, "Give at least one filter"},
		{`{"roots":false}`, 400, "Give at least one filter"},
		{`[]`, 400, ""},
		{`{"agent":"tool"}`, 400, `"field":"agent"`},
		{`{"agent_name":["tool"]}`, 400, `"field":"agent_name"`},
		{`{"agent_name":""}`, 400, `"field":"agent_name"`},
		{`{"status":"gone"}`, 400, `"field":"status"`},
		{`{"expect":-1}`, 400, `"field":"expect"`},
		{`{"expect":"x"}`, 400, `"field":"expect"`},
		{`{"limit":1001,"agent_name":"tool"}`, 400, `"field":"limit"`},
		{`{"agent_name":"nobodys","expect":4}`, 409, `"error":"expect_mismatch"`},
		{`{"agent_name":"nobodys","expect":4}`, 409, `"count":5,"expect":4`},
		{`{"agent_name":"nobodys","limit":2,"expect":2}`, 409, `"count":5`},
	} {
		if g := s.post("/runs/stop", tt.body); g.status != tt.status || !strings.Contains(g.body, tt.say) {
			t.Errorf("%s: %d %s, want %d %s", tt.body, g.status, g.body, tt.status, tt.say)
		}
	}
	first := into[runs.BulkResult](
		s.post("/runs/stop", `{"agent_name":"nobodys","status":"pending","limit":2,"expect":5}`),
		200)
	if first.Count != 2 || !slices.Equal(first.Runs, []string{mine[4], mine[3]}) || first.Next == "" {
		t.Errorf("the newest two: %+v", first)
	}
	rest := into[runs.BulkResult](s.post("/runs/stop", `{"agent_name":"nobodys","expect":3}`), 200)
	if rest.Count != 3 || rest.Next != "" {
		t.Errorf("the rest: %+v", rest)
	}
	for _, id := range mine {
		s.until(id, run.Stopped)
	}
	if r := into[run.Run](s.get("/runs/"+blocked.RunID), 200); r.Status != run.Running {
		t.Errorf("a run that does not match is %s", r.Status)
	}
	all := into[runs.BulkResult](s.post("/runs/stop", `{"expect":1}`), 200)
	if all.Count != 1 || all.Runs[0] != blocked.RunID {
		t.Errorf("all that have not ended: %+v", all)
	}
	s.until(blocked.RunID, run.Stopped)
	if d := into[runs.BulkResult](s.post("/runs/stop", `{"agent_name":"tool"}`), 200); d.Count != 0 || d.Runs == nil {
		t.Errorf("nothing: %+v", d)
	}
	s.verified()
}

// TestManyRunsAreRetried: each that matches once, however often the call is made, by key and without one; and page by
// page.
func TestManyRunsAreRetried(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(failing, echo("tool"), echo("else"))
	var failed []string
	for i := range 6 {
		failed = append(failed, s.submit(fmt.Sprintf(`{"agent_name":"tool","parameters":{"n":%d.0}}`, i)).RunID)
	}
	other := s.submit(`{"agent_name":"tool","parameters":{"n":"other"}}`)
	s.submit(`{"agent_name":"else"}`)
	for _, id := range append(failed, other.RunID) {
		s.until(id, run.Failed)
	}
	const filter = `{"agent_name":"tool","error":"command_failed","created_after":"2020-01-01T00:00:00Z"`
	for _, tt := range []struct {
		body   string
		status int
		say    string
	}{
		{`{}`, 400, "Give at least one filter"},
		{`{"status":"pending"}`, 400, `"field":"status"`},
		{filter + `,"expect":7}`, 409, `"count":6,"expect":7`},
		{filter + `,"tree":true}`, 400, `"field":"tree"`},
	} {
		if g := s.post("/runs/retry", tt.body); g.status != tt.status || !strings.Contains(g.body, tt.say) {
			t.Errorf("%s: %d %s, want %d %s", tt.body, g.status, g.body, tt.status, tt.say)
		}
	}
	body := filter + `,"status":"failed","expect":6}`
	const key = "Idempotency-Key: all"
	done := into[runs.BulkResult](s.post("/runs/retry", body, key), 200)
	if done.Count != 6 || len(done.Refused) != 0 || done.Next != "" {
		t.Fatalf("%+v", done)
	}
	for i, id := range done.Runs { // the oldest first
		if r := s.until(id, run.Failed); r.RetryOf != failed[i] || string(r.Parameters) != fmt.Sprintf(`{"n":%d.0}`,
			i) {
			t.Errorf("%s: %+v", id, r)
		}
	}
	// there are twelve that match now
	if again := into[runs.BulkResult](s.post("/runs/retry", body, key), 200); !slices.Equal(again.Runs, done.Runs) {
		t.Errorf("a repeat gives %+v, want %+v", again, done)
	}
	// who looked again meanwhile
	if again := into[runs.BulkResult](s.post("/runs/retry", strings.Replace(body, "6}", "12}", 1), key),
		200); !slices.Equal(again.Runs, done.Runs) {
		t.Errorf("a repeat with another number gives %+v, want %+v", again, done)
	}
	if m := s.post("/runs/retry", `{"agent_name":"else"}`, key).want(409); m["error"] != "idempotency_key_reused" {
		t.Errorf("%v", m)
	}

	one := into[runs.BulkResult](s.post("/runs/retry", `{"agent_name":"else"}`), 200)
	two := into[runs.BulkResult](s.post("/runs/retry", `{"agent_name":"else"}`), 200)
	if one.Count != 1 || !slices.Contains(two.Runs, one.Runs[0]) {
		t.Errorf("without a key: %+v, then %+v", one, two)
	}
	pages, next := 0, ""
	var made []string
	for {
		d := into[runs.BulkResult](s.post("/runs/retry", `{"agent_name":"tool","error":"timeout","limit":1,"cursor":"`+
			next+`"}`), 200)
		made, pages = append(made, d.Runs...), pages+1
		next = d.Next
		if next == "" || pages == 50 {
			break
		}
	}
	if len(made) != 1 {
		t.Errorf("page by page: %v", made)
	}
	s.verified()
}

// TestWhatCannotBeRetriedIsReported: the others are.
func TestWhatCannotBeRetriedIsReported(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	s.post("/agents", `{"name":"passing"}`).want(201)
	kept, agentDeleted := s.submit(`{"agent_name":"mind","prompt":"fail"}`),
		s.submit(`{"agent_name":"passing","prompt":"fail"}`)
	s.until(kept.RunID, run.Failed)
	s.until(agentDeleted.RunID, run.Failed)
	s.call("DELETE", "/agents/passing", "").want(204)
	d := into[runs.BulkResult](s.post("/runs/retry", `{"status":"failed"}`), 200)
	if d.Count != 1 || len(d.Refused) != 1 || d.Refused[0].RunID != agentDeleted.RunID ||
		d.Refused[0].Error.Code != "not_found" {
		t.Errorf("%+v", d)
	}
	if r := into[run.Run](s.get("/runs/"+d.Runs[0]), 200); r.RetryOf != kept.RunID {
		t.Errorf("%+v", r)
	}
}

// TestManyCallbacksAreRedelivered: dead ones, by default.
func TestManyCallbacksAreRedelivered(t *testing.T) {
	t.Parallel()
	var answer atomic.Int32
	answer.Store(http.StatusGone) // which is dead at once
	receiver := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(answer.Load())) }))
	t.Cleanup(receiver.Close)
	s := start(t, func(c *serve.Config) {
		c.Callbacks = webhook.Policy{
			Hosts: []string{"*"}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Secret: "whsec_" +
				base64.StdEncoding.EncodeToString(make([]byte, 32)),
		}
	})
	s.work(parrot, echo("tool"))
	for range 3 {
		s.submit(`{"agent_name":"tool","callback_url":"` + receiver.URL + `"}`)
	}
	status := func(want string) int {
		n := 0
		for _, one := range into[query.CallbackPage](s.get("/callbacks"), 200).Runs {
			if one.HTTPCallback != nil && one.HTTPCallback.Status == want {
				n++
			}
		}
		return n
	}
	natstest.Until(t, "three are dead", func() bool { return status(run.CallbackDead) == 3 })
	s.post("/callbacks/redeliver", `{}`).want(400)
	s.post("/callbacks/redeliver", `{"status":"delivered"}`).want(400)
	if m := s.post("/callbacks/redeliver", `{"agent_name":"tool","expect":2}`).
		want(409); m["error"] != "expect_mismatch" || m["count"] != 3.0 {
		t.Errorf("%v", m)
	}
	answer.Store(http.StatusOK)
	if d := into[runs.BulkResult](s.post("/callbacks/redeliver", `{"agent_name":"tool","expect":3}`),
		200); d.Count != 3 {
		t.Errorf("%+v", d)
	}
	natstest.Until(t, "three are delivered", func() bool { return status(run.CallbackDelivered) == 3 })
	if d := into[runs.BulkResult](s.post("/callbacks/redeliver", `{"agent_name":"tool"}`), 200); d.Count != 0 {
		t.Errorf("%+v", d)
	}
}

// TestInterruptedBulkRetryCanBeRepeated: a limit refuses runs in the middle of it. The repeat, under its key or without
// one, makes none twice.
func TestInterruptedBulkRetryCanBeRepeated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		headers []string
	}{{"with a key", []string{"Idempotency-Key: k"}}, {"without", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(c *serve.Config) { c.Coordinator.MaxPending = 4 })
			gate := make(chan struct{})
			var blocked atomic.Bool
			free := sync.OnceFunc(func() { close(gate) })
			defer free()
			s.work(func(q run.Queued) run.Outcome {
				if blocked.Load() {
					<-gate
					return done(`"ok"`)
				}
				return failing(q)
			}, echo("tool"))
			const all = 20
			for range all {
				s.post("/runs", `{"agent_name":"tool","mode":"sync"}`).want(200)
			}
			blocked.Store(true)
			const body = `{"agent_name":"tool","created_after":"2020-01-01T00:00:00Z"}`
			s.post("/runs/retry", body, tt.headers...).want(429)
			once := func(when string, most int) {
				t.Helper()
				of := map[string]int{}
				for _, r := range into[query.Page](s.get("/runs?limit=1000"), 200).Runs {
					of[r.RetryOf]++
				}
				for id, n := range of {
					if id != "" && n != 1 {
						t.Errorf("%s: %s was retried %d times", when, id, n)
					}
				}
				if n := len(of) - 1; n == 0 || n > most {
					t.Errorf("%s: %d were retried", when, n)
				}
			}
			once("cut off", all-1)
			free()
			natstest.Until(t, "it goes through",
				func() bool { return s.post("/runs/retry", body, tt.headers...).status == 200 })
			once("repeated", all)
			if d := into[runs.BulkResult](s.post("/runs/retry", body, tt.headers...), 200); d.Count != all {
				t.Errorf("it is about %d runs", d.Count)
			}
		})
	}
}
