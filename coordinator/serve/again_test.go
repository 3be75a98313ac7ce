package serve_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/shared/run"
)

// retry starts a run like another one.
func (s *stack) retry(id, changes string, headers ...string) runs.Accepted {
	s.t.Helper()
	g := s.post("/runs/"+id+"/retry", changes, headers...)
	acc := into[runs.Accepted](g, 201)
	if acc.RetryOf != id || g.header.Get("Location") != "/runs/"+acc.RunID {
		s.t.Errorf("a retry of %s is answered %s at %s", id, g.body, g.header.Get("Location"))
	}
	return acc
}

// TestRetryRepeatsTheRequest: parameters byte by byte, also large ones, the output schema, and what was merged with the
// agent's values.
func TestRetryRepeatsTheRequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"))
	large := strings.Repeat("x", 120_000)
	for _, tt := range []struct{ name, parameters string }{
		{"digits and order", `{"10":1,"2":9223372036854775807,"a":0.10,"e":1e300,"b.c":"ü"}`},
		{"a body in parts", `{"z":"` + large + `","y":"` + large + `","x":"` + large + `","a":1.0}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"agent_name":"tool","parameters":` + tt.parameters + `,"timeout_seconds":77,"max_attempts":3,` +
				`"additional_demands":{"tags":["a"]},` +
				`"output_schema":{"type":"object","properties":{"z":{},"a":{"maximum":1.0}}},` +
				`"output_schema_options":{"strict_json_only":true}}`
			first := s.submit(body)
			again := s.retry(first.RunID, "")
			if again.SessionID == first.SessionID || again.RunID == first.RunID {
				t.Fatalf("the retry of %+v is %+v", first, again)
			}
			one, two := into[run.Run](s.get("/runs/"+first.RunID), 200), into[run.Run](s.get("/runs/"+again.RunID), 200)
			if two.RetryOf != first.RunID || one.RetryOf != "" || string(two.Parameters) != tt.parameters {
				t.Errorf("retry_of %q, %.300s", two.RetryOf, two.Parameters)
			}
			if fmt.Sprint(two.Demands, two.MaxAttempts, two.Mode) != fmt.Sprint(one.Demands, one.MaxAttempts,
				one.Mode) {
				t.Errorf("%+v is not like %+v", two, one)
			}
			q := s.spec(again.RunID)
			if p := s.spec(first.RunID); q.Timeout != 77 || q.Output == nil ||
				string(marshal(t, q.Output)) != string(marshal(t, p.Output)) ||
				string(marshal(t, q.Requested)) != string(marshal(t, p.Requested)) {
				t.Errorf("stored as %.500s, the first as %.500s", marshal(t, q), marshal(t, p))
			}
			rows := into[query.Page](s.get("/runs?session_id="+again.SessionID), 200)
			if len(rows.Runs) != 1 || rows.Runs[0].RetryOf != first.RunID {
				t.Errorf("the list has %+v", rows)
			}
			if third := s.retry(again.RunID, ""); string(marshal(t, s.spec(third.RunID).Requested)) != string(
				marshal(t, q.Requested)) {
				t.Errorf("a retry of a retry asks for %s", marshal(t, s.spec(third.RunID).Requested))
			}
		})
	}
	s.verified()
}

// spec is what was stored of a run.
func (s *stack) spec(id string) run.Spec {
	s.t.Helper()
	all, err := s.bus.Records(s.t.Context(), "ao.runs.>", 0, 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range all {
		if !strings.Contains(m.Subject, ".queued.") && !strings.Contains(m.Subject, ".accepted.") {
			continue
		}
		q, err := run.DecodeQueued(m.Body, nil)
		if err != nil || q.ID != id {
			continue
		}
		if q.Body != nil {
			var whole []byte
			for n := range q.Body.Parts {
				part, err := s.bus.GetPart(s.t.Context(), q.Body.Name, n)
				if err != nil {
					s.t.Fatal(err)
				}
				whole = append(whole, part...)
			}
			q.Input = &run.Input{}
			if err := json.Unmarshal(whole, q.Input); err != nil {
				s.t.Fatal(err)
			}
		}
		return q.Spec
	}
	s.t.Fatalf("there is no record of %s", id)
	return run.Spec{}
}

// TestARetryWithChanges: a member takes the place of what was asked for, null takes it away, and what is wrong is
// refused as at POST /runs.
func TestARetryWithChanges(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"), echo("other"))
	first := s.submit(`{"agent_name":"tool","parameters":{"a":1},"timeout_seconds":9,` +
		`"output_schema":{"type":"object"}}`)
	s.until(first.RunID, run.Completed)
	for _, tt := range []struct {
		changes string
		status  int
		message string
	}{
		{`{"parameters":{"b":2.50}}`, 201, `"parameters":{"b":2.50}`},
		{`{"prompt":"x"}`, 201, `"parameters":{"prompt":"x"}`},
		{`{"agent_name":"other"}`, 201, `"agent_name":"other"`},
		{`{"session_id":"ses_mine"}`, 201, `"session_id":"ses_mine"`},
		{`{"timeout_seconds":null,"output_schema":null}`, 201, `"parameters":{"a":1}`},
		{`{"mode":"sync"}`, 200, `"result_data":{"a":1}`},
		{`{"mode":"sync","wait_seconds":"x"}`, 400, `"field":"wait_seconds"`},
		{`{"zz":1}`, 400, `Unknown field \"zz\"`},
		{`[]`, 400, `"error":"invalid_request"`},
		{`{"parameters":{"a":1,"a":2}}`, 400, `"error":"invalid_request"`},
		{`{"type":"start_session"}`, 400, `"field":"type"`},
		{`{"in":"there"}`, 400, `"field":"in"`},
		{`{"in":1}`, 400, `"field":"in"`},
		{`{"in":"same_session"}`, 400, `"error":"procedural_agent_no_resume"`},
		{`{"in":"same_session","session_id":"ses_x"}`, 400, `"field":"session_id"`},
		{`{"agent_name":"nobody"}`, 404, `"error":"not_found"`},
		{`{"mode":"async_callback"}`, 400, `"field":"parent_session_id"`},
	} {
		g := s.post("/runs/"+first.RunID+"/retry", tt.changes)
		text := g.body
		if g.status == 201 {
			text = s.get(g.header.Get("Location")).body
		}
		if g.status != tt.status || !strings.Contains(text, tt.message) {
			t.Errorf("%s: %d %s, want %d %s", tt.changes, g.status, text, tt.status, tt.message)
		}
		if tt.status < 300 && !strings.Contains(text, `"retry_of":"`+first.RunID+`"`) {
			t.Errorf("%s: %s", tt.changes, text)
		}
	}
	s.post("/runs/run_none/retry", "").want(404)
	s.post("/runs/x/retry", "").want(400)
}

// TestARetryIsCheckedAgainstTodaysAgent: what fitted then may not fit now.
func TestARetryIsCheckedAgainstTodaysAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	s.post("/agents", `{"name":"strict","parameters_schema":{"type":"object","properties":{"n":{"type":"integer"}}}}`).
		want(201)
	first := s.submit(`{"agent_name":"strict","parameters":{"n":1}}`)
	s.call("PATCH", "/agents/strict", `{"parameters_schema":{"type":"object","properties":{"n":{"type":"string"}}}}`).
		want(200)
	if m := s.post("/runs/"+first.RunID+"/retry", "").want(400); m["error"] != "parameter_validation_failed" ||
		m["agent_name"] != "strict" {
		t.Errorf("%v", m)
	}
	s.retry(first.RunID, `{"parameters":{"n":"1"}}`)
	s.call("PATCH", "/agents/strict", `{"status":"inactive"}`).want(200)
	s.post("/runs/"+first.RunID+"/retry", "").want(409)
}

// TestARetryInTheSameSession is a further turn of it; without that it is a session of its own.
func TestARetryInTheSameSession(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	first := s.submit(`{"agent_name":"mind","prompt":"fail"}`)
	s.until(first.RunID, run.Failed)
	again := s.retry(first.RunID, `{"in":"same_session"}`)
	if r := s.until(again.RunID, run.Failed); again.SessionID != first.SessionID || r.Type != run.Resume ||
		string(r.Parameters) != `{"prompt":"fail"}` || r.RetryOf != first.RunID {
		t.Errorf("%+v", r)
	}
	other := s.retry(again.RunID, `{"in":"new_session","prompt":"well"}`)
	if r := s.until(other.RunID, run.Completed); other.SessionID == first.SessionID || r.Type != run.Start ||
		r.RetryOf != again.RunID {
		t.Errorf("%+v", r)
	}
	parent := s.submit(`{"agent_name":"mind","prompt":"well"}`)
	child := s.submit(`{"agent_name":"mind","prompt":"fail","parent_session_id":"` +
		parent.SessionID + `","mode":"async_callback"}`)
	if r := s.until(s.retry(child.RunID, "").RunID, run.Failed); r.Parent != parent.SessionID ||
		r.Mode != run.AsyncCallback || r.Depth != 1 {
		t.Errorf("the retry of a child is %+v", r)
	}
}

// TestARetryWithAKeyIsMadeOnce: the same key and body give the first answer again, also when the run that it repeats
// was deleted.
func TestARetryWithAKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"))
	first := s.submit(`{"agent_name":"tool","parameters":{"a":1}}`)
	s.until(first.RunID, run.Completed)
	const key = "Idempotency-Key: k"
	again := s.retry(first.RunID, `{"parameters":{"a":2}}`, key)
	s.until(again.RunID, run.Completed)
	if m := s.post("/runs/"+first.RunID+"/retry", `{"parameters":{"a":3}}`, key).
		want(409); m["error"] != "idempotency_key_reused" || m["run_id"] != again.RunID {
		t.Errorf("%v", m)
	}
	s.call("DELETE", "/sessions/"+first.SessionID, "").want(204)
	if g := s.retry(first.RunID, `{"parameters":{"a":2}}`, key); g.RunID != again.RunID {
		t.Errorf("got %+v, want %+v", g, again)
	}
	s.post("/runs/"+first.RunID+"/retry", `{"parameters":{"a":2}}`).want(404)
	if p := into[query.Page](s.get("/runs"), 200); len(p.Runs) != 1 {
		t.Errorf("%d runs", len(p.Runs))
	}
}

// TestASessionRetriesWhatItMaySubmit: its own runs and those below it, as its children or as turns of what is below it.
func TestASessionRetriesWhatItMaySubmit(t *testing.T) {
	t.Parallel()
	s := secure(t)
	m := think(s.stack, s.admin)
	blocking := func(header string) runs.Accepted { return m.submit(`{"agent_name":"mind","prompt":"hold"}`, header) }
	top := blocking(s.admin)
	mine := bearer(m.token(top.RunID))
	child := m.submit(`{"agent_name":"mind","prompt":"hold"}`, mine)
	grandchild := blocking(bearer(m.token(child.RunID)))
	m.token(grandchild.RunID) // it has started
	stranger := blocking(s.admin)
	for _, tt := range []struct {
		name, id, changes string
		status            int
		parent            string
	}{
		{"its own", top.RunID, "", 201, top.SessionID},
		{"its child", child.RunID, "", 201, top.SessionID},
		{"its grandchild", grandchild.RunID, "", 201, top.SessionID},
		{"its grandchild's session", grandchild.RunID, `{"in":"same_session"}`, 201, top.SessionID},
		{"its own session", top.RunID, `{"in":"same_session"}`, 403, ""},
		{"for another", child.RunID, `{"parent_session_id":"` + stranger.SessionID + `"}`, 403, ""},
		{"a stranger's", stranger.RunID, "", 403, ""},
	} {
		g := m.post("/runs/"+tt.id+"/retry", tt.changes, mine)
		if g.status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, g.status, g.body, tt.status)
			continue
		}
		if g.status != 201 {
			continue
		}
		if r := into[run.Run](m.get(g.header.Get("Location"), s.admin), 200); r.Parent != tt.parent {
			t.Errorf("%s: its parent is %s", tt.name, r.Parent)
		}
	}
	m.post("/runs/"+child.RunID+"/retry", "", s.read).want(403)
	m.post("/runs/"+child.RunID+"/retry", "", s.run).want(201)
}

// TestRetryOfATruncatedRun: the caller learns what is no longer kept, and that it has to send it again.
func TestRetryOfATruncatedRun(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome { return done(`1`) }, echo("tool"))
	some := `":"` + strings.Repeat("x", 120_000) + `"`
	run1 := s.submit(`{"agent_name":"tool","parameters":{"a":1}}`)
	large := s.submit(`{"agent_name":"tool","parameters":{"a` + some + `,"b` + some + `,"c` + some + `}}`)
	s.until(run1.RunID, run.Completed)
	s.until(large.RunID, run.Completed)
	s.call("DELETE", "/sessions/"+run1.SessionID, "").want(204)
	for name := range natstest.Payloads(t, s.bus) {
		if strings.HasPrefix(name, large.RunID) {
			if err := s.bus.DropPayload(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct{ id, code, prefix string }{
		{run1.RunID, "no_longer_kept", "The run " + run1.RunID + " is no longer kept: RUN_KEEP or RUN_RETENTION came " +
			"first, or it was deleted"},
		{large.RunID, run.CodeParametersExpired, "the parameters of run " + large.RunID + " were removed"},
	} {
		for _, changes := range []string{"", `{"parameters":{"a":2}}`, `{"in":"same_session","prompt":"x"}`} {
			m := s.post("/runs/"+tt.id+"/retry", changes).want(404)
			if message, _ := m["message"].(string); m["error"] != tt.code || m["run_id"] != tt.id ||
				!strings.HasPrefix(message, tt.prefix) {
				t.Errorf("%q: %v", changes, m)
			}
		}
	}
	if p := into[query.Page](s.get("/runs"), 200); len(p.Runs) != 1 || p.Runs[0].ID != large.RunID ||
		!p.Runs[0].ParametersOmitted {
		t.Errorf("the list has %+v", p.Runs)
	}
}

// TestRetryWaitsWholeSeconds: 1.0 is 1 here, too.
func TestRetryWaitsWholeSeconds(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"plain"}`).want(201)
	id := s.submit(`{"agent_name":"plain","prompt":"it waits for a runner"}`).RunID
	for range 2 { // a repeat, too
		began := time.Now()
		s.post("/runs/"+id+"/retry", `{"mode":"sync","wait_seconds":1.0}`, "Idempotency-Key: k").want(202)
		if d := time.Since(began); d < time.Second {
			t.Errorf("it waited for %v", d)
		}
	}
}
