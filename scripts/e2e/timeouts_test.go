package e2e

import (
	"strings"
	"testing"
	"time"
)

// Run timeout, no-match timeout, sync wait: each names the limit and its source.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_NO_MATCH_TIMEOUT=1500ms")
	s.agent("hang", `sleep 60`, "")
	s.agent("short", `sleep 60`, `"timeout_seconds":1`)
	s.agent("gate", gate, "")
	s.write("profiles/hasty.json",
		`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../hasty","timeout_seconds":1}`)
	s.write("hasty/late/agent.json", `{"name":"late","command":"./run"}`)
	s.write("hasty/late/run", "#!/bin/sh\nsleep 60\n")
	s.write("hasty/later/agent.json", `{"name":"later","command":"./run","timeout_seconds":20}`)
	s.write("hasty/later/run", "#!/bin/sh\nsleep 60\n")
	s.simulatedWorker("one")
	s.runner("two", "AO_PROFILES=hasty")
	s.online("two")
	s.has(s.post("/agents", `{"name":"quick","timeout_seconds":1}`), 201)

	s.story("of a run: the agent's, the profile's, the request's", func(s *stack) {
		ids, all := []string{}, []struct{ body, by string }{
			{`"agent_name":"short"`, "agent"},
			{`"agent_name":"short","timeout_seconds":30`, "agent"}, // the upper bound
			{`"agent_name":"late"`, "profile"},
			{`"agent_name":"late","timeout_seconds":30`, "profile"},
			{`"agent_name":"later"`, "profile"}, // the shorter one holds
			{`"agent_name":"hang","timeout_seconds":1`, "request"},
			{`"agent_name":"quick","prompt":"wait-long"`, "agent"},
			{`"agent_name":"plain","prompt":"wait-long","timeout_seconds":1`, "request"},
		}
		for _, tt := range all {
			ids = append(ids, s.run(`{`+tt.body+`}`))
		}
		for i, tt := range all {
			r := s.ended(ids[i])
			s.has(r, 200, `"status":"failed"`, `"error":"timeout"`, `timed out after 1 second"`,
				`"timeout_seconds":1,"timeout_by":"`+tt.by+`"`)
			if took := s.between(r, "started_at", "completed_at"); took < 990*time.Millisecond ||
				took > 10*time.Second {
				s.t.Errorf("%s: got %s, want about 1 s", tt.body, took)
			}
			s.has(s.get("/sessions/"+r.at("session_id")), 200, `"status":"failed"`)
		}
	})

	s.story("nobody set one", func(s *stack) {
		s.has(s.post("/runs/validate", `{"agent_name":"hang"}`), 200, `"timeout_seconds":300`)
		s.has(s.post("/runs/validate", `{"agent_name":"plain","prompt":"x"}`), 200, `"timeout_seconds":3600`)
		s.has(s.post("/runs/validate", `{"agent_name":"hang","timeout_seconds":20}`), 200, `"timeout_seconds":20`)
		s.has(s.post("/runs/validate", `{"agent_name":"short","timeout_seconds":20}`), 200, `"timeout_seconds":1`)
		s.has(s.post("/runs/validate", `{"agent_name":"hang","timeout_seconds":0}`), 400, `"field":"timeout_seconds"`)
		id := s.run(`{"agent_name":"hang"}`)
		s.status(id, "running")
		if d := s.between(s.get("/runs/"+id), "started_at", "timeout_at"); d != 300*time.Second {
			s.t.Errorf("%s, not 5 minutes", d)
		}
		s.has(s.post("/runs/"+id+"/stop", ""), 200)
	})

	s.story("no runner that matches", func(s *stack) {
		id := s.run(`{"agent_name":"hang","additional_demands":{"tags":["gold"]}}`)
		s.has(s.ended(id), 200, `"status":"failed"`, `"error":{"error":"no_matching_runner","message":"No matching `+
			`runner available within timeout","timeout_seconds":1.5,"timeout_by":"coordinator",`+
			`"limit":"RUN_NO_MATCH_TIMEOUT"`)
	})

	s.story("of a caller that waits: 202, and the run goes on", func(s *stack) {
		r := s.post("/runs", `{"agent_name":"gate","parameters":{"n":"goes"},"mode":"sync","wait_seconds":1}`)
		id := r.at("run_id")
		s.is(r, 202, `{"run_id":"`+id+`","session_id":"`+r.at("session_id")+
			`","status":"pending","limit":"wait_seconds","timeout_seconds":1,"timeout_by":"request"}`)
		s.status(id, "running")
		s.has(s.get("/runs/"+id+"/wait?timeout_seconds=1"), 202, `"status":"running"`)
		st := s.openStream("POST", "/runs",
			`{"agent_name":"gate","parameters":{"n":"goes"},"mode":"sync","wait_seconds":1}`)
		last := st.find("the end of the wait", func(p sseEvent) bool { return p.name == "timeout" })
		s.contains(last.data, `"limit":"wait_seconds","timeout_seconds":1,"timeout_by":"request"`)
		s.openGate("goes")
		for _, id := range []string{id, last.at("run_id")} {
			s.has(s.ended(id), 200, `"status":"completed"`)
			if strings.Contains(s.get("/runs/"+id).text, "timeout_seconds") {
				s.t.Errorf("the caller's limit is reported as the run's: %s", s.get("/runs/"+id).text)
			}
		}
	})
}

// between returns the time between two timestamps of a run.
func (s *stack) between(r reply, from, to string) time.Duration {
	s.t.Helper()
	var at [2]time.Time
	for i, name := range []string{from, to} {
		var err error
		at[i], err = time.Parse(time.RFC3339Nano, r.at(name))
		if err != nil {
			s.t.Errorf("%s: %v: %s", name, err, r.text)
		}
	}
	return at[1].Sub(at[0])
}
