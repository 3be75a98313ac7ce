package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Which runner takes which run.
func TestRunners(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_NO_MATCH_TIMEOUT=2s")
	s.agent("tool", `pwd`, "")
	s.agent("gate", gate, "")
	s.agent("picky", `pwd`, `"demands":{"tags":["gpu"]}`)
	s.write("profiles/other.json",
		`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../others","max_concurrent_runs":1}`)
	s.write("others/else/agent.json", `{"name":"else","command":"pwd"}`)
	s.write("others/slow/agent.json", `{"name":"slow","command":"./run"}`)
	s.write("others/slow/run", "#!/bin/sh\ncd "+s.dir+"\n"+gate+"\n")
	s.write("elsewhere/x", "")
	s.runner("a", "AO_TAGS=linux,gpu")
	s.runner("b", "AO_TAGS=linux,cheap")
	s.runner("c", "AO_PROFILES=other", "AO_PROJECT_DIR="+s.dir+"/elsewhere")
	runner := map[string]string{}
	for _, host := range []string{"a", "b", "c"} {
		runner[host] = s.online(host)
	}

	s.story("as the coordinator sees them", func(s *stack) {
		s.has(s.get("/runners"), 200, `"hostname":"a","project_dir":"`+s.dir+
			`","executor_profile":"test","executor_type":"procedural"`,
			`"tags":["linux","gpu"],"require_matching_tags":false,"max_concurrent_runs":8,"agents":["gate","picky",`+
				`"tool"],"status":"online"`)
	})

	s.story("a run goes where its demands send it", func(s *stack) {
		for _, tt := range []struct{ body, host string }{
			{`"agent_name":"tool","additional_demands":{"hostname":"a"}`, "a"},
			{`"agent_name":"tool","additional_demands":{"hostname":"b"}`, "b"},
			{`"agent_name":"tool","additional_demands":{"tags":["gpu"]}`, "a"},
			{`"agent_name":"tool","additional_demands":{"tags":["linux","cheap"]}`, "b"},
			{`"agent_name":"tool","additional_demands":{"tags":["cheap"],"hostname":"b","executor_profile":"test",` +
				`"executor_type":"procedural"}`, "b"},
			{`"agent_name":"picky"`, "a"},
			{`"agent_name":"picky","additional_demands":{"tags":["linux"]}`, "a"},
			{`"agent_name":"else"`, "c"},
			{`"agent_name":"else","project_dir":"` + s.dir + `/elsewhere"`, "c"},
			{`"agent_name":"else","additional_demands":{"project_dir":"` + s.dir + `/elsewhere"}`, "c"},
		} {
			for range 3 {
				r := s.post("/runs", `{"mode":"sync",`+tt.body+`}`)
				if s.has(r, 200, `"status":"completed"`); r.at("runner_id") != runner[tt.host] {
					t.Errorf("%s went to %s, not %s", tt.body, r.at("runner_id"), runner[tt.host])
				}
			}
		}
		s.same("where it worked", s.sync("else", `{}`).at("result.result_data.stdout"), s.dir+"/elsewhere\n")
		r := s.post("/runs", `{"agent_name":"picky","additional_demands":{"tags":["linux","gpu"]},"mode":"sync"}`)
		s.has(r, 200, `"demands":{"executor_profile":"test","executor_type":"procedural","tags":["gpu","linux"]}`)
	})

	s.story("nobody matches: it says what it waits for, and fails in time", func(s *stack) {
		all := s.sessions("", "")
		bodies := []string{
			`"agent_name":"tool","additional_demands":{"hostname":"z"}`,
			`"agent_name":"picky","additional_demands":{"tags":["cheap"]}`,
			`"agent_name":"tool","project_dir":"/nowhere"`,
			`"agent_name":"else","additional_demands":{"executor_profile":"test","hostname":"a"}`,
		}
		waiting := []string{
			`a runner: none online matches type=procedural profile=test hostname=z`,
			`a runner: none online matches type=procedural profile=test tags=[cheap gpu]`,
			`a runner: none online matches type=procedural profile=test project_dir=/nowhere`,
			`a runner: none online matches type=procedural profile=other hostname=a`,
		}
		var ids []string
		for i, body := range bodies {
			id := s.run("{" + body + "}")
			ids = append(ids, id)
			s.same("what it waits for", s.get("/runs/"+id).at("waiting_for"), waiting[i])
		}
		s.has(s.post("/runs/validate", "{"+bodies[0]+"}"), 200, `"runner_available":false`)
		for _, id := range ids {
			r := s.ended(id)
			s.has(r, 200, `"status":"failed"`,
				`"error":{"error":"no_matching_runner","message":"No matching runner available within timeout"`)
			s.has(s.get("/sessions/"+r.at("session_id")), 200, `"status":"failed"`)
			all.event(id, "run_failed")
			all.find("run_failed of "+
				id, func(p sseEvent) bool { return p.name == "run_failed" && p.at("run_id") == id })
		}
	})

	s.story("one that comes late still takes what waits", func(s *stack) {
		s = up(s.t) // where it has its time to come
		s.agent("tool", `echo '{}'`, "")
		s.worker()
		id := s.run(`{"agent_name":"tool","additional_demands":{"hostname":"late"}}`)
		s.runner("late")
		r := s.ended(id)
		if s.same("the run", r.at("status"), "completed"); r.at("runner_id") != s.runnerOf("late", "runner_id") {
			t.Errorf("taken by %s", r.text)
		}
	})

	s.story("waiting for a busy runner has no limit", func(s *stack) {
		first := s.run(`{"agent_name":"slow","parameters":{"n":"busy"}}`)
		s.waitGate("busy")
		second := s.run(`{"agent_name":"else"}`)
		began := time.Now()
		s.until("more than RUN_NO_MATCH_TIMEOUT is over", func() bool {
			if r := s.get("/runs/" + second); r.at("status") != "pending" ||
				r.at("waiting_for") != "a free slot of a matching runner" {
				t.Fatalf("meanwhile: %s", r.text)
			}
			return time.Since(began) > 3500*time.Millisecond
		})
		s.openGate("busy")
		s.same("the first", s.ended(first).at("status"), "completed")
		s.same("the second", s.ended(second).at("status"), "completed")
	})

	s.story("a runner that wants a tag in common", func(s *stack) {
		s.write("profiles/tagged.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../tagged"}`)
		s.write("tagged/special/agent.json", `{"name":"special","command":"pwd"}`)
		p := s.runner("d", "AO_PROFILES=tagged", "AO_TAGS=night", "AO_REQUIRE_MATCHING_TAGS=yes")
		s.online("d")
		s.has(s.post("/runs", `{"agent_name":"special","mode":"sync","additional_demands":{"tags":["night"]}}`), 200,
			`"status":"completed"`)
		id := s.run(`{"agent_name":"special"}`)
		s.has(s.ended(id), 200, `"error":"no_matching_runner"`)
		p.stop()
	})

	s.story("drained: takes no more, finishes, goes", func(s *stack) {
		p := s.runner("e")
		id := s.online("e")
		runs := s.run(`{"agent_name":"gate","parameters":{"n":"drain"},"additional_demands":{"hostname":"e"}}`)
		s.waitGate("drain")
		s.is(s.do("DELETE", "/runners/"+id, ""), 202, `{"runner_id":"`+id+`","status":"draining"}`)
		s.until("it is draining", func() bool { return s.runnerOf("e", "status") == "draining" })
		s.has(s.post("/runs/validate", `{"agent_name":"tool","additional_demands":{"hostname":"e"}}`), 200,
			`"runner_available":false`)
		s.openGate("drain")
		s.same("the run", s.ended(runs).at("status"), "completed")
		if code := p.ends(s); code != 0 {
			t.Errorf("the worker: got exit code %d, want 0", code)
		}
		s.until("it is gone", func() bool { return s.runnerOf("e", "status") == "" })
		s.has(s.sync("tool", `{}`), 200, `"status":"completed"`)
	})

	s.story("registered over HTTP", func(s *stack) {
		r := s.post("/runner/register", `{"hostname":"h","project_dir":"/p","executor_profile":"far",`+
			`"executor":{"type":"autonomous"},"tags":["x"]}`)
		s.has(r, 200, `{"runner_id":"rnr_`, `"heartbeat_interval_seconds":60,"nats":{`, s.nats.URL())
		again := s.post("/runner/register",
			`{"hostname":"h","project_dir":"/p","executor_profile":"far","executor.type":"autonomous","tags":["x"]}`)
		s.same("the same identity", again.at("runner_id"), r.at("runner_id"))
		for _, tt := range []struct{ body, want string }{
			{`{"executor_profile":"p","executor_type":"autonomous"}`, `"field":"hostname"`},
			{`{"hostname":"h","executor_type":"autonomous"}`, `"field":"executor_profile"`},
			{`{"hostname":"h","executor_profile":"p"}`, `"field":"executor_type"`},
			{`{"hostname":"h","executor_profile":"p","executor_type":"a","executor":{"type":"b"}}`,
				`executor_type and executor.type differ`},
			{`{"hostname":"h","executor_profile":"a.*","executor_type":"autonomous"}`,
				`"field":"executor_profile"`},
			{`{"hostname":"h","executor_profile":"p","executor_type":"autonomous","colour":"red"}`,
				`Unknown field \"colour\"`},
			{`{"hostname":"h","executor_profile":"p","executor_type":"autonomous","tags":[""]}`,
				`"field":"tags"`},
			{`{"hostname":"h","executor_profile":"p","executor_type":"autonomous","agents":{"name":"x"}}`,
				`"field":"agents"`},
			{`{"hostname":"h","executor_profile":"p","executor_type":"autonomous","agents":[{"name":""}]}`,
				`"field":"name"`},
		} {
			s.has(s.post("/runner/register", tt.body), 400, tt.want)
		}
		s.is(s.do("DELETE", "/runners/"+r.at("runner_id"), ""), 202, `{"runner_id":"`+r.at("runner_id")+
			`","status":"draining"}`)
		s.same("a runner that nobody is", s.runnerOf("h", "status"), "")
	})
}

// A runner without heartbeats: stale, removed with its agents and runs, and online again.
func TestRunnerWithoutHeartbeats(t *testing.T) {
	t.Parallel()
	expiry := 10*time.Second + maxStall() // so long that nobody misses that a runner is stale
	s := up(t, "RUNNER_HEARTBEAT_INTERVAL=1", "RUNNER_STALE_THRESHOLD=2",
		fmt.Sprint("RUNNER_REMOVE_THRESHOLD=", expiry), "RUN_LEASE=2s")
	s.agent("hang", startNote+`sleep 60`, "")
	s.agent("tool", `echo 1`, "")
	w := s.runner("a")
	id := s.online("a")
	live := s.sessions("", "")
	hangs := s.run(`{"agent_name":"hang"}`)
	s.status(hangs, "running")

	w.signal(syscall.SIGSTOP)
	t.Cleanup(func() { w.signal(syscall.SIGCONT) })
	s.until("it is stale", func() bool { return s.runnerOf("a", "status") == "stale" })
	r := s.ended(hangs)
	s.has(r, 200, `"status":"failed"`,
		`"error":{"error":"runner_disconnected","message":"Runner disconnected during execution"`)
	live.find("run_failed", func(p sseEvent) bool { return p.name == "run_failed" && p.at("run_id") == hangs })
	s.has(s.get("/sessions/"+r.at("session_id")), 200, `"status":"failed"`)
	s.until("it is removed", func() bool { return s.runnerOf("a", "status") == "" })
	s.is(s.get("/agents"), 200, `{"agents":[]}`)
	s.has(s.post("/runs", `{"agent_name":"tool"}`), 404)

	w.signal(syscall.SIGCONT)
	s.same("the runner", s.online("a"), id)
	s.has(s.sync("tool", `{}`), 200, `"status":"completed"`)
	s.same("the lost run", s.get("/runs/"+hangs).at("error.error"), "runner_disconnected")
	s.until("what it gave up is killed", func() bool {
		out, _ := os.ReadFile(s.dir + "/begun")
		return strings.Count(string(out), hangs) == 1 && s.runnerOf("a", "running") == "0"
	})
}
