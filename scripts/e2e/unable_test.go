package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// upWithReturns is up, and waits until runs may be given back: all coordinators understand that.
func upWithReturns(t *testing.T) *stack {
	t.Helper()
	s := up(t, "RUNNER_STALE_THRESHOLD=3", "RUNNER_REMOVE_THRESHOLD=4s")
	s.until("all coordinators understand returned runs", func() bool {
		return s.coordinator.line("has changed", "what=return_version", "now=2") != ""
	})
	return s
}

// Of two workers of one profile, one cannot work. No run fails, and the other one does them all. The unable one comes
// back when its file does.
func TestARunnerWithoutItsProgramTakesNothing(t *testing.T) {
	t.Parallel()
	s := up(t)
	for _, host := range []string{"well", "ill"} {
		s.write(host+"/mind.json", `{"type":"autonomous","command":"./do","max_concurrent_runs":8}`)
		s.write(host+"/do", "#!/bin/sh\n"+startNote+"cat >/dev/null; sleep 0.1; echo "+host+"\n")
		s.runner(host, "AO_PROFILES=mind", "AO_PROFILES_DIR="+filepath.Join(s.dir, host))
	}
	s.online("well")
	id := s.online("ill")
	s.has(s.post("/agents", `{"name":"a","executor_profile":"mind"}`), 201)
	program := filepath.Join(s.dir, "ill", "do")
	if err := os.Rename(program, program+".away"); err != nil {
		t.Fatal(err)
	}
	var all []string
	for range 40 {
		all = append(all, s.run(`{"agent_name":"a","prompt":"x"}`))
	}
	for _, run := range all {
		s.has(s.ended(run), 200, `"status":"completed"`)
	}
	s.verify(all)
	s.until("it says that it is unable", func() bool { return s.runnerOf("ill", "status") == "unable" })
	s.has(s.get("/runners"), 200, `"why":"command \"`, `"unable":{"error":"executor_not_found","message":"command`,
		`do does not exist`)
	s.has(s.get("/status"), 200, `"unable":1`)
	s.has(s.get("/metrics"), 200, `ao_runners{status="unable"} 1`)
	out, _, code := s.ao("doctor")
	if s.contains(out, "runners that cannot work", "does not exist", id); code == 0 {
		t.Error("ao doctor is satisfied")
	}
	out, _, _ = s.ao("runners")
	s.contains(out, "unable", "does not exist")
	there := `{"agent_name":"a","prompt":"x","additional_demands":{"hostname":"ill"}}`
	s.has(s.post("/runs/validate", there), 200, `"runner_available":false`)
	waits := s.run(there)
	s.until("explain tells why it waits", func() bool {
		e := s.get("/runs/" + waits + "/explain").text
		return strings.Contains(e, `"reason":"no_matching_runner"`) && strings.Contains(e, "does not exist")
	})
	if err := os.Rename(program+".away", program); err != nil {
		t.Fatal(err)
	}
	s.has(s.ended(waits), 200, `"status":"completed"`)
	s.online("ill")
	s.verify(append(all, waits))
}

// The folder of a runner's own agents is replaced in place, and one agent's program is not installed again. Another
// runner of the profile does the runs meanwhile, and none fails.
func TestAFolderOfAgentsIsReplaced(t *testing.T) {
	t.Parallel()
	s := upWithReturns(t)
	install := func(host string, names ...string) {
		for _, name := range names {
			s.write(host+"/agents/"+name+"/agent.json", fmt.Sprintf(`{"name":%q,"command":"./run"}`, name))
			s.write(host+"/agents/"+name+"/run", "#!/bin/sh\n"+startNote+"sleep 0.1; echo 1\n")
		}
	}
	for _, host := range []string{"well", "ill"} {
		install(host, "one", "two")
		s.write(host+"/test.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"agents",`+
			`"max_concurrent_runs":4}`)
		s.runner(host, "AO_PROFILES_DIR="+filepath.Join(s.dir, host))
		s.online(host)
	}
	var all []string
	more := func(agents ...string) {
		for range 10 {
			for _, agent := range agents {
				all = append(all, s.run(fmt.Sprintf(`{"agent_name":%q}`, agent)))
			}
		}
	}
	more("one", "two")
	for _, run := range all { // a script that is being started when it is removed fails
		s.ended(run)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "ill", "agents")); err != nil {
		t.Fatal(err)
	}
	more("one", "two")
	s.until("it is unable", func() bool { return s.runnerOf("ill", "status") == "unable" })
	install("ill", "one", "two")
	if err := os.Remove(filepath.Join(s.dir, "ill", "agents", "two", "run")); err != nil {
		t.Fatal(err)
	}
	s.online("ill")
	more("one", "two")
	for _, run := range all {
		s.has(s.ended(run), 200, `"status":"completed"`)
	}
	s.has(s.post("/runs", `{"agent_name":"one","mode":"sync","additional_demands":{"hostname":"ill"}}`), 200,
		`"status":"completed"`)
	s.verify(all)
}

// A worker whose Claude Code is logged out gives back what it took. Alone, it fails a run with that error. Beside
// another, no run fails. After the login it continues by itself.
func TestALoggedOutRunnerGivesRunsBack(t *testing.T) {
	t.Parallel()
	s := upWithReturns(t)
	const in = `{"type":"system","subtype":"init","session_id":"abc","model":"m"}`
	claude := func(host, script string) { s.write(host+"/claude", "#!/bin/sh\ncat >/dev/null\n"+script) }
	start := func(host string) *program {
		s.write(host+"/mind.json", fmt.Sprintf(`{"type":"autonomous","command":"ao-claude-code-exec",`+
			`"max_concurrent_runs":8,"config":{"claude":%q}}`, filepath.Join(s.dir, host, "claude")))
		return s.runner(host, "AO_PROFILES=mind", "AO_PROFILES_DIR="+filepath.Join(s.dir, host),
			"HOME="+filepath.Join(s.dir, host))
	}
	well := "echo '" + in + "'\necho '{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"done\"}'\n"
	claude("well", well)
	claude("ill", "echo '"+in+"'\n"+
		`echo '{"type":"assistant","error":"authentication_failed","message":{"content":[{"type":"text",`+
		`"text":"Please run /login"}]}}'
echo '{"type":"result","subtype":"success","is_error":true,"result":"Please run /login","api_error_status":401}'
exit 1
`)
	s.has(s.post("/agents", `{"name":"a","executor_profile":"mind"}`), 201)
	start("ill")
	s.online("ill")
	first := s.run(`{"agent_name":"a","prompt":"x"}`)
	s.until("it is unable", func() bool { return s.runnerOf("ill", "status") == "unable" })
	s.until("the run waits again", func() bool { return s.get("/runs/"+first).at("status") == "pending" })
	s.has(s.get("/runs/"+first+"/explain"), 200, `"what":"returned"`, "cannot work and gave the run back")
	s.has(s.ended(first), 200, `"status":"failed"`, `"error":"claude_not_logged_in"`, `"attempt":2`)

	start("well")
	s.online("well")
	var all []string
	for range 40 {
		all = append(all, s.run(`{"agent_name":"a","prompt":"x"}`))
	}
	for _, run := range all {
		s.has(s.ended(run), 200, `"status":"completed"`)
	}
	claude("ill", well)
	s.has(s.ended(s.run(`{"agent_name":"a","prompt":"x","additional_demands":{"hostname":"ill"}}`)), 200,
		`"status":"completed"`)
	s.online("ill")
	out, _, code := s.ao("verify")
	if code != 0 {
		t.Errorf("ao verify: %d %s", code, out)
	}
}

// After a lease without a heartbeat, nothing says that a runner takes runs.
func TestADeadRunnerTakesNoRuns(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("tool", `echo 1`, "")
	w := s.runner("a")
	id := s.online("a")
	s.has(s.sync("tool", `{}`), 200, `"status":"completed"`)
	w.signal(syscall.SIGKILL)
	s.until("it is not heard of", func() bool { return s.runnerOf("a", "status") == "unresponsive" })
	s.contains(s.runnerOf("a", "why"), "not heard of for ")
	s.has(s.get("/status"), 200, `"unresponsive":1`, `"slots":{"all":0,`)
	s.until("no queue is served", func() bool { return !strings.Contains(s.get("/status").text, `"served":true`) })
	s.has(s.post("/runs/validate", `{"agent_name":"tool"}`), 200, `"runner_available":false`)
	s.has(s.get("/agents/tool"), 200, `"runners":0`)
	s.has(s.get("/metrics"), 200, `ao_runners{status="unresponsive"} 1`, `ao_runners{status="online"} 0`)
	waits := s.run(`{"agent_name":"tool"}`)
	s.until("explain says it", func() bool {
		e := s.get("/runs/" + waits + "/explain").text
		return strings.Contains(e, `"reason":"no_matching_runner"`) && strings.Contains(e, "not heard of for ")
	})
	out, _, _ := s.ao("runners")
	s.contains(out, "unresponsive", "not heard of for ")
	out, _, _ = s.ao("doctor")
	s.contains(out, "no heartbeat", id)
	w = s.runner("a")
	s.has(s.ended(waits), 200, `"status":"completed"`)
	s.online("a")
	w.stop()
}
