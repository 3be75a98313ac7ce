package serve_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/coordinator/agents"
	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/run"
)

// hashOf is the hash that an agent shows.
func (s *stack) hashOf(name string, headers ...string) string {
	s.t.Helper()
	v := into[agents.View](s.get("/agents/"+name, headers...), 200)
	if len(v.Hash) != 16 {
		s.t.Fatalf("agent %s has the hash %q", name, v.Hash)
	}
	return v.Hash
}

// TestRunsTellWhatTheyRan: each run shows its agent's definition as it was accepted with, from its record or a payload,
// whatever becomes of the agent. Runs of one definition can be listed. A retry says that the agent has changed.
func TestRunsTellWhatTheyRan(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"mind","description":"a <b> & c","system_prompt":"one",`+
		`"mcp_servers":{"x":{"url":"http://h/","headers":{"Authorization":"hush"}}}}`).want(201)
	s.workAs(thinker("p"), func(run.Queued) run.Outcome { return done(`{}`) })
	first := s.hashOf("mind")
	large := `{"agent_name":"mind","prompt":"` + strings.Repeat("x", 300_000) + `"}`
	small := s.submit(`{"agent_name":"mind","prompt":"x","output_schema":{"maxLength":9000000}}`)
	big := s.submit(large)

	s.call("PATCH", "/agents/mind", `{"system_prompt":"two"}`).want(200)
	second := s.hashOf("mind")
	if second == first {
		t.Fatal("a change keeps the hash")
	}
	again := s.retry(small.RunID, "", "Idempotency-Key: k")
	if repeat := s.retry(small.RunID, "", "Idempotency-Key: k"); !again.Changed || !repeat.Changed ||
		repeat.RunID != again.RunID {
		t.Errorf("a retry after the change is answered %+v, then %+v", again, repeat)
	}
	if same := s.retry(again.RunID, ""); same.Changed {
		t.Errorf("a retry of the same definition is answered %+v", same)
	}
	if bigAgain := s.retry(big.RunID, ""); !bigAgain.Changed {
		t.Errorf("a retry of a large run after the change is answered %+v", bigAgain)
	}
	s.call("DELETE", "/agents/mind", "").want(204)
	for _, tt := range []struct {
		run          runs.Accepted
		hash, prompt string
	}{{small, first, "one"}, {big, first, "one"}, {again, second, "two"}} {
		s.until(tt.run.RunID, run.Completed)
		d := into[runs.Definition](s.get("/runs/"+tt.run.RunID+"/definition"), 200)
		if d.Hash != tt.hash || d.Definition.SystemPrompt != tt.prompt || d.Definition.Name != "mind" ||
			d.Changed == nil || !*d.Changed ||
			!strings.Contains(string(d.Definition.MCPServers), "hush") || (d.Output != nil) != (tt.run != big) {
			t.Errorf("%s ran %+v", tt.run.RunID, d)
		}
		if r := into[run.Run](s.get("/runs/"+tt.run.RunID), 200); r.AgentHash != tt.hash {
			t.Errorf("%s has the hash %q, want %q", tt.run.RunID, r.AgentHash, tt.hash)
		}
	}
	p := into[query.Page](s.get("/runs?agent_hash="+first), 200)
	n := into[query.Count](s.get("/runs/count?agent_hash="+first), 200)
	if len(p.Runs) != 2 || p.Runs[0].ID != big.RunID || p.Runs[1].ID != small.RunID || n.N != 2 {
		t.Errorf("the list of the first definition has %d runs, the count is %d", len(p.Runs), n.N)
	}
	for path, want := range map[string]int{
		"/runs?agent_hash=" + strings.ToUpper(first[:15]) + "F":       400,
		"/runs?agent_hash=" + first[:15]:                              400,
		"/runs/run_00000000000000000000000000000000/definition":       404,
		"/runs/" + small.SessionID + "/definition":                    400,
		"/runs/" + small.RunID + "/definition?agent_hash=" + first:    400,
		"/sse/runs?agent_hash=x":                                      400,
		"/runs/count?agent_hash=" + strings.Repeat("0", 16):           200,
		"/runs?format=csv&agent_hash=" + first + "&status=completed":  200,
		"/runs?agent_hash=" + first + "&agent_hash=" + second:         400,
		"/sessions?agent_hash=" + first:                               400,
		"/runs?agent_hash=" + first + "%00":                           400,
		"/runs?format=ndjson&agent_hash=" + first + "&status=stopped": 200,
	} {
		if g := s.get(path); g.status != want {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	}
	s.verified()
}

// TestDefinitionsHideSecrets: a run's definition shows as much as its agent does.
func TestDefinitionsHideSecrets(t *testing.T) {
	t.Parallel()
	s := secure(t)
	s.post("/agents", `{"name":"mind","mcp_servers":{"x":{"url":"http://h/","headers":{"Authorization":"hush"}}}}`,
		s.admin).want(201)
	id := s.submit(`{"agent_name":"mind","prompt":"x"}`, s.run).RunID
	for token, want := range map[string]bool{s.admin: true, s.run: false, s.read: false} {
		g := s.get("/runs/"+id+"/definition", token)
		d := into[runs.Definition](g, 200)
		if strings.Contains(g.body, "hush") != want || *d.Changed || d.Hash != s.hashOf("mind", token) {
			t.Errorf("the definition is shown as %s", g.body)
		}
	}
}

// TestHashesAreTheSameEverywhere: of an agent's file and of a runner's agent, on two coordinators, after a restart, and
// for a second attempt.
func TestHashesAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mind.json")
	if err := os.WriteFile(file, []byte(`{"name":"mind","parameters_schema":{"maximum" : 1.0}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := func(c *serve.Config) { c.Coordinator.AgentsDirs = []string{dir} }
	s := start(t, folder)
	s.work(parrot, echo("tool"))
	ids := map[string]string{}
	for _, name := range []string{"mind", "tool"} {
		ids[name] = s.submit(`{"agent_name":"` + name + `","parameters":{}}`).RunID
	}
	other := s.another(folder)
	for name, id := range ids {
		for _, at := range []*stack{s, other} {
			d := into[runs.Definition](at.get("/runs/"+id+"/definition"), 200)
			r := into[run.Run](at.get("/runs/"+id), 200)
			if want := at.hashOf(name); d.Hash != want || r.AgentHash != want || *d.Changed {
				t.Errorf("%s shows %s, its run %s and %+v", name, want, r.AgentHash, d)
			}
		}
	}
	var v map[string]json.RawMessage
	raw := s.get("/agents/mind").body
	if err := json.Unmarshal([]byte(raw), &v); err != nil || v["agent_hash"] == nil {
		t.Errorf("the agent is shown as %s", raw)
	}
}

// TestStatusIsNoDefinition: an agent that is switched off and on is the same one.
func TestStatusIsNoDefinition(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mind.json")
	if err := os.WriteFile(file, []byte(`{"name":"mind"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, func(c *serve.Config) {
		c.Coordinator.AgentsDirs, c.Coordinator.AgentsWritable = []string{dir}, true
	})
	s.post("/agents", `{"name":"other"}`).want(201)
	for _, name := range []string{"mind", "other"} {
		before := into[agents.View](s.get("/agents/"+name), 200)
		id := s.submit(`{"agent_name":"` + name + `","prompt":"x"}`).RunID
		s.call("PATCH", "/agents/"+name, `{"status":"inactive"}`).want(200)
		off := into[agents.View](s.get("/agents/"+name), 200)
		if d := into[runs.Definition](s.get("/runs/"+id+"/definition"), 200); d.Changed == nil || *d.Changed ||
			off.Hash != before.Hash {
			t.Errorf("%s was switched off: %+v, its hash was %s and is %s", name, d, before.Hash, off.Hash)
		}
		if !off.ModifiedAt.After(*before.ModifiedAt) {
			t.Errorf("%s was switched off at %v, after %v", name, off.ModifiedAt, before.ModifiedAt)
		}
	}
	s.work(parrot, echo("tool"))
	id := s.submit(`{"agent_name":"tool","parameters":{}}`).RunID
	s.until(id, run.Completed)
	off := echo("tool")
	off.Status = agent.Inactive
	s.work(parrot, off)
	natstest.Until(t, "the tool is switched off", func() bool {
		return into[agents.View](s.get("/agents/tool"), 200).Status == agent.Inactive
	})
	if d := into[runs.Definition](s.get("/runs/"+id+"/definition"), 200); *d.Changed {
		t.Errorf("the runner's agent was switched off: %+v", d)
	}
}

// TestDefinitionsWithoutNATS: what a run ran is told while NATS does not say what its agent is now.
func TestDefinitionsWithoutNATS(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"mind"}`).want(201)
	id := s.submit(`{"agent_name":"mind","prompt":"x"}`).RunID
	s.call("DELETE", "/agents/mind", "").want(204)
	s.get("/runs/" + id + "/definition").want(200)
	s.nats.Close()
	g := s.get("/runs/" + id + "/definition")
	if d := into[runs.Definition](g, 200); d.Definition.Name != "mind" || d.Changed != nil ||
		!strings.Contains(g.body, `"agent_changed":null`) {
		t.Errorf("without NATS: %s", g.body)
	}
}
