package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
)

// While a tree is stopped, 200 children start children, and coordinator and worker are killed. Ten seconds later none
// of them runs or waits, no run is new, and no callback was delivered.
func TestAGrowingTreeIsStoppedOverKills(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.write("profiles/mind.json", `{"type":"autonomous","command":"ao-test-exec","max_concurrent_runs":32}`)
	w := s.runner("minds", "AO_PROFILES=mind")
	s.online("minds")
	for _, name := range []string{"orchestrator", "kid"} {
		s.has(s.post("/agents", `{"name":"`+name+`"}`), 201)
	}
	grow := strings.Repeat("@child kid async_callback "+promptParams("@sleep 50ms\n@child kid async_poll "+
		promptParams("@sleep 60s")+"\n@sleep 60s")+"\n@sleep 20ms\n", 8) + "@sleep 60s"
	children := natstest.Load(80, 200)
	script := strings.Repeat("@child kid async_callback "+promptParams(grow)+"\n", children) + "@sleep 60s"
	top := s.run(`{"agent_name":"orchestrator","parameters":` + promptParams(script) + `}`)
	session := s.get("/runs/" + top).at("session_id")
	s.until("it grows in the third generation", func() bool {
		return s.runs("agent_name=kid") >= children && strings.Contains(s.get("/runs?agent_name=kid&limit=1000").text,
			`"depth":2`)
	})
	out, _, code := s.ao("stop", "--tree", session)
	if code != 0 || !strings.HasPrefix(out, session) {
		t.Fatalf("ao stop --tree: %d %s", code, out)
	}
	at := time.Now()
	s.coordinator.kill()
	w.kill()
	w.start()
	s.coordinator.start()
	s.ready()
	open := func() (n int) {
		for _, status := range []string{"pending", "claimed", "running", "stopping"} {
			n += strings.Count(s.get("/runs?limit=1000&status="+status).text, `"run_id"`)
		}
		return n
	}
	s.until("nothing of the tree is open", func() bool { return open() == 0 })
	took := time.Since(at)
	t.Logf("after %s; %d runs", took.Round(10*time.Millisecond), s.runs("agent_name=kid"))
	if took > 20*time.Second { // on a machine that does nothing else it is under ten
		t.Errorf("that took %s", took)
	}
	before := s.runs("agent_name=kid")
	s.until("nobody is owed anything",
		func() bool { return !strings.Contains(s.get("/callbacks?status=owed").text, "run_id") })
	if r := s.get("/sessions/" + session); r.at("runs") != "1" {
		t.Errorf("the top was called back: %s", r.text)
	}
	if r := s.get("/callbacks?status=delivered"); strings.Contains(r.text, "run_id") {
		t.Errorf("a parent was called back: %s", r.text)
	}
	late := s.run(fmt.Sprintf(`{"agent_name":"kid","prompt":"x","parent_session_id":"%s"}`, session))
	if r := s.ended(late); r.at("status") != "stopped" || r.at("error.stopped_with") != session {
		t.Errorf("a late child: %s", r.text)
	}
	if after := s.runs("agent_name=kid"); after != before+1 {
		t.Errorf("%d runs were new", after-before-1)
	}
	s.checkLedger()
}
