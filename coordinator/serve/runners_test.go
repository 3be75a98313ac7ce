package serve_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/runners"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// thinker is an autonomous runner of a profile.
func thinker(profile string, tags ...string) runnerapi.Runner {
	return runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: "brain", ProjectDir: "/srv", ExecutorProfile: profile,
			ExecutorType: run.Autonomous},
		Instance: "one", Tags: tags, MaxConcurrentRuns: 4,
	}
}

// TestAgentFiles: good ones are agents, bad ones are reported by name and take nothing down, and changes are seen.
func TestAgentFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("good/agent.json", `{"name":"good","description":"from a file"}`)
	write("good/agent.system-prompt.md", "Be good.")
	write("torn/agent.json", `{"name":"torn",`)
	write("schema/agent.json", `{"name":"schema","parameters_schema":{"properties":[]}}`)
	s := start(t, func(c *serve.Config) { c.Coordinator.AgentsDirs = []string{dir} })
	if a := into[agent.Blueprint](s.get("/agents/good"), 200); a.SystemPrompt != "Be good." ||
		a.Type != run.Autonomous {
		t.Errorf("%+v", a)
	}
	broken := into[struct{ Agents []agent.BrokenFile }](s.get("/agents?status=broken"), 200)
	var names []string
	for _, b := range broken.Agents {
		names = append(names, b.Name)
		if b.Reason == "" || b.Path == "" || b.Status != agent.Broken {
			t.Errorf("%+v", b)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"schema", "torn"}) {
		t.Errorf("broken: %v", names)
	}
	s.post("/agents", `{"name":"good"}`).want(409)
	s.call("PATCH", "/agents/good", `{"description":"x"}`).want(409)
	s.call("DELETE", "/agents/good", "").want(409)
	write("torn/agent.json", `{"name":"torn"}`)
	natstest.Until(t, "the mended file is an agent", func() bool { return s.get("/agents/torn").status == 200 })
}

// TestALostWorkerEndsItsRuns: nobody sends heartbeats for them, so they are over within the lease.
func TestALostWorkerEndsItsRuns(t *testing.T) {
	t.Parallel()
	s := start(t, brief)
	do, free := blocking()
	defer free()
	w := s.work(do, echo("tool"))
	acc := s.submit(`{"agent_name":"tool"}`)
	s.until(acc.RunID, run.Running)
	next, _ := s.listen("GET", "/sse/sessions?session_id="+acc.SessionID, "")
	if e, _ := next(); e.name != "init" {
		t.Fatalf("%v", e)
	}
	w.die()
	r := s.until(acc.RunID, run.Failed)
	if r.Error.Code != "runner_disconnected" || r.Error.Message != "Runner disconnected during execution" {
		t.Errorf("%+v", r.Error)
	}
	if m := s.get("/sessions/" + acc.SessionID).want(200); m["status"] != "failed" {
		t.Errorf("%v", m)
	}
	for {
		e, ok := next()
		if !ok {
			t.Fatal("no run_failed on the stream")
		}
		if e.name == "run_failed" {
			break
		}
	}
	free() // its end record comes too late and changes nothing
	natstest.Until(t, "the worker has written its end record", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.attempts) == 0
	})
	if again := s.until(acc.RunID, run.Failed); again.Error.Code != "runner_disconnected" {
		t.Errorf("%+v", again)
	}
}

// TestNoRunnerMatches: a run that no runner could take says why it waits, and fails in time. A run that a busy runner
// could take does not fail.
func TestNoRunnerMatches(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator.NoMatch = 4 * time.Second })
	do, free := blocking()
	defer free()
	r := thinker("brain", "gpu")
	r.MaxConcurrentRuns = 1
	s.workAs(r, do)
	s.post("/agents", `{"name":"plain"}`).want(201)
	busy := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.until(busy.RunID, run.Running)
	waits := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	alone := s.submit(`{"agent_name":"plain","prompt":"x","additional_demands":{"tags":["gpu","moon"]}}`)
	if p := s.until(alone.RunID, run.Pending); p.WaitingFor != "a runner: none online matches type=autonomous "+
		"tags=[gpu moon]" {
		t.Errorf("waiting for %q", p.WaitingFor)
	}
	if p := s.until(waits.RunID, run.Pending); p.WaitingFor != "a free slot of a matching runner" {
		t.Errorf("waiting for %q", p.WaitingFor)
	}
	f := s.until(alone.RunID, run.Failed)
	if f.Error.Code != "no_matching_runner" || f.Error.Message != "No matching runner available within timeout" {
		t.Errorf("%+v", f.Error)
	}
	s.until(waits.RunID, run.Pending)
	free()
	s.until(waits.RunID, run.Completed)
}

// TestDemands: a run goes to a runner that has all it asks for, and a choosy runner takes only what has a tag in
// common.
func TestDemands(t *testing.T) {
	t.Parallel()
	s := start(t)
	var mu sync.Mutex
	by := map[string]string{}
	runner := func(r runnerapi.Runner) {
		s.workAs(r, func(q run.Queued) run.Outcome {
			mu.Lock()
			defer mu.Unlock()
			by[q.ID] = r.ExecutorProfile
			return done(`1`)
		})
	}
	runner(thinker("plain"))
	runner(thinker("fast", "gpu", "eu"))
	choosy := thinker("choosy", "gold")
	choosy.RequireMatchingTags = true
	runner(choosy)
	s.post("/agents", `{"name":"any"}`).want(201)
	s.post("/agents", `{"name":"bound","executor_profile":"fast"}`).want(201)
	s.post("/agents", `{"name":"tagged","demands":{"tags":["eu"]}}`).want(201)
	for _, tt := range []struct{ body, profile string }{
		{`{"agent_name":"any","prompt":"x","additional_demands":{"executor_profile":"plain"}}`, "plain"},
		{`{"agent_name":"any","prompt":"x","additional_demands":{"tags":["gpu"]}}`, "fast"},
		{`{"agent_name":"bound","prompt":"x"}`, "fast"},
		// the agent's demand comes first
		{`{"agent_name":"bound","prompt":"x","additional_demands":{"executor_profile":"plain"}}`, "fast"},
		{`{"agent_name":"tagged","prompt":"x","additional_demands":{"tags":["gpu"]}}`, "fast"},
		{`{"agent_name":"any","prompt":"x","additional_demands":{"tags":["gold"]}}`, "choosy"},
	} {
		acc := s.submit(tt.body)
		s.until(acc.RunID, run.Completed)
		mu.Lock()
		if by[acc.RunID] != tt.profile {
			t.Errorf("%s: done by %q, want %q", tt.body, by[acc.RunID], tt.profile)
		}
		mu.Unlock()
	}
	v := s.post("/runs/validate", `{"agent_name":"tagged","prompt":"x","additional_demands":{"tags":["moon"]}}`).
		want(200)
	if v["valid"] != true || v["runner_available"] != false {
		t.Errorf("%v", v)
	}
}

// TestTurnsOfASession: one session executes one run at a time, in the order they came, also after a failed one.
func TestTurnsOfASession(t *testing.T) {
	t.Parallel()
	s := start(t)
	var mu sync.Mutex
	var order []string
	running := 0
	gate := make(chan struct{})
	s.workAs(thinker("brain"), func(q run.Queued) run.Outcome {
		<-gate
		mu.Lock()
		defer mu.Unlock()
		if running++; running > 1 {
			t.Error("two runs of one session at a time")
		}
		order = append(order, q.ID)
		running--
		if len(order) == 1 {
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "model_error", "no")}
		}
		return done(`1`)
	})
	s.post("/agents", `{"name":"plain"}`).want(201)
	first := s.submit(`{"agent_name":"plain","prompt":"0"}`)
	s.until(first.RunID, run.Running)
	want := []string{first.RunID}
	for range 5 {
		acc := s.submit(`{"session_id":"` + first.SessionID + `","prompt":"next"}`)
		if acc.SessionID != first.SessionID {
			t.Errorf("%+v", acc)
		}
		want = append(want, acc.RunID)
		if r := s.until(acc.RunID, run.Pending); !strings.HasPrefix(r.WaitingFor, "its turn: run "+first.RunID) ||
			r.Type != run.Resume {
			t.Errorf("waiting for %q, type %s", r.WaitingFor, r.Type)
		}
	}
	close(gate)
	for _, id := range want[1:] {
		s.until(id, run.Completed)
	}
	if !slices.Equal(order, want) {
		t.Errorf("order %v\nwant  %v", order, want)
	}
	if m := s.get("/sessions/" + first.SessionID).want(200); m["status"] != "finished" || m["runs"] != 6.0 ||
		m["last_run_id"] != want[5] {
		t.Errorf("%v", m)
	}
}

// TestLimitsOfTheExecution: the agent's value is the upper bound, the profile's where it has none.
func TestLimitsOfTheExecution(t *testing.T) {
	t.Parallel()
	s := start(t)
	short := echo("short")
	short.TimeoutSeconds = 10
	s.workAs(runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: "h", ProjectDir: "/", ExecutorProfile: "bounded",
			ExecutorType: run.Procedural},
		TimeoutSeconds: 20, MaxConcurrentRuns: 1, Agents: []agent.Blueprint{short, echo("long")},
	}, parrot)
	s.work(parrot, echo("free"))
	s.post("/agents", `{"name":"plain"}`).want(201)
	for _, tt := range []struct {
		body string
		want float64
	}{
		{`{"agent_name":"short"}`, 10}, {`{"agent_name":"short","timeout_seconds":5}`, 5},
		{`{"agent_name":"short","timeout_seconds":50}`, 10},
		{`{"agent_name":"long"}`, 20}, {`{"agent_name":"long","timeout_seconds":50}`, 20},
		{`{"agent_name":"free"}`, 300}, {`{"agent_name":"free","timeout_seconds":5000}`, 5000},
		{`{"agent_name":"plain","prompt":"x"}`, 3600},
	} {
		if m := s.post("/runs/validate", tt.body).want(200); m["timeout_seconds"] != tt.want {
			t.Errorf("%s: %v, want %v", tt.body, m["timeout_seconds"], tt.want)
		}
	}
}

// TestReplicas: runners of one profile with one definition share the agent, and only they execute its runs. A second
// process cannot take a live one's identity. When one runner leaves, another one owns the agent and executes its runs.
func TestReplicas(t *testing.T) {
	t.Parallel()
	s := start(t)
	do, free := blocking()
	defer free()
	single := runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: "here", ProjectDir: "/srv", ExecutorProfile: "procedural",
			ExecutorType: run.Procedural},
		Instance: "one", MaxConcurrentRuns: 1, Agents: []agent.Blueprint{echo("tool")},
	}
	first := s.workAs(single, do)
	second, without := single, single
	second.Hostname = "there"
	s.workAs(second, do)
	without.Hostname, without.Agents = "elsewhere", []agent.Blueprint{echo("another")}
	s.workAs(without, parrot)
	if list := into[struct{ Runners []runners.View }](s.get("/runners"), 200); len(list.Runners) != 3 {
		t.Errorf("%+v", list)
	}
	var ids []string
	for range 4 {
		ids = append(ids, s.submit(`{"agent_name":"tool"}`).RunID)
	}
	s.until(ids[0], run.Running)
	s.until(ids[1], run.Running)
	s.until(ids[3], run.Pending) // the third runner is free, and does not have the agent
	free()
	for _, id := range ids {
		if r := s.until(id, run.Completed); r.RunnerID != first.id && r.RunnerID != second.ID() {
			t.Errorf("a run of the agent ended at %s, which does not have it", r.RunnerID)
		}
	}
	twin := first.runner
	twin.Instance = "two"
	raw, _ := json.Marshal(runnerapi.Registration{Runner: twin})
	_, err := s.bus.Request(t.Context(), subject.RunnerAPI(runnerapi.OpRegister), raw)
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Code != "runner_already_online" || f.Kind != fault.Conflict {
		t.Errorf("a twin: %v", err)
	}
	first.end()
	raw, _ = json.Marshal(runnerapi.Deregistration{RunnerID: first.id, Instance: "one"})
	if _, err := s.bus.Request(t.Context(), subject.RunnerAPI(runnerapi.OpDeregister), raw); err != nil {
		t.Fatal(err)
	}
	if a := s.get("/agents/tool").want(200); a["runner_id"] != second.ID() {
		t.Errorf("the heir: %v", a)
	}
	for range 4 {
		out := into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
		if out.Status != run.Completed || out.RunnerID != second.ID() {
			t.Errorf("%s at %s", out.Status, out.RunnerID)
		}
	}
}

// TestLargeParameters go around the message limit, and come back whole.
func TestLargeParameters(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"plain"}`).want(201)
	prompt := strings.Repeat("0123456789", 70_000)
	acc := s.submit(`{"agent_name":"plain","prompt":"` + prompt + `"}`)
	r := s.until(acc.RunID, run.Pending)
	if string(r.Parameters) != `{"prompt":"`+prompt+`"}` {
		t.Errorf("%d bytes came back", len(r.Parameters))
	}
	s.post("/runs/"+acc.RunID+"/stop", "").want(200)
	s.call("DELETE", "/sessions/"+acc.SessionID, "").want(204)
}
