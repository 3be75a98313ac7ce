package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ao/nats/natstest"
)

// parentScript is the program of parents: it stores its invocations.
const parentScript = `#!/bin/sh
cat >> "told-$AGENT_SESSION_ID"
echo >> "told-$AGENT_SESSION_ID"
echo noted
`

// startParentWorker starts a worker for parents and children and creates their agents.
func (s *stack) startParentWorker() *program {
	s.t.Helper()
	s.write("profiles/boss", parentScript)
	s.write("profiles/boss.json", `{"type":"autonomous","command":"./boss"}`)
	s.write("profiles/think", simulatedAgent)
	s.write("profiles/think.json", `{"type":"autonomous","command":"./think","max_concurrent_runs":8}`)
	p := s.runner("family", "AO_PROFILES=think,boss")
	s.until("both runners are online",
		func() bool { return strings.Count(s.get("/runners").text, `"hostname":"family"`) == 2 })
	s.has(s.post("/agents", `{"name":"boss","executor_profile":"boss"}`), 201)
	s.has(s.post("/agents", `{"name":"plain","executor_profile":"think"}`), 201)
	return p
}

// startParent starts a session that waits for its children.
func (s *stack) startParent() string {
	s.t.Helper()
	r := s.ended(s.run(`{"agent_name":"boss","prompt":"begin"}`))
	if r.at("status") != "completed" {
		s.t.Fatalf("the parent: %s", r.text)
	}
	return r.at("session_id")
}

func (s *stack) startChild(parent, prompt string) string {
	s.t.Helper()
	return s.run(fmt.Sprintf(`{"agent_name":"plain","prompt":%q,"mode":"async_callback","parent_session_id":%q}`,
		prompt, parent))
}

// parentTurns returns the invocations of a parent's turns as JSON documents, without the prompt, which is in the
// parameters.
func (s *stack) parentTurns(parent string) []string {
	raw, err := os.ReadFile(filepath.Join(s.dir, "told-"+parent))
	if err != nil {
		s.t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(string(raw), "\n"), func(line string) bool { return line == "" })
	for i, line := range lines {
		head, rest, _ := strings.Cut(line, `,"prompt":`)
		if _, tail, ok := strings.Cut(rest, `","attempt":`); ok {
			lines[i] = head + `,"attempt":` + tail
		}
	}
	return lines
}

// Everything is killed and restarted between the end of a child and the delivery of its callback.
func TestACallbackSurvivesARestartOfEverything(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.startParentWorker()
	parent := s.startParent()
	child := s.startChild(parent, "wait-dark")
	s.status(child, "running")
	session := s.get("/runs/" + child).at("session_id")
	s.coordinator.kill()
	s.write("open-wait-dark", "")
	s.until("the child has answered", func() bool {
		return strings.Contains(strings.Join(s.lines("turns"), " "), "end:"+
			session)
	})
	s.allServers.Kill()
	s.allServers.Start()
	s.coordinator.start()
	s.ready()
	s.until("the parent is called back", func() bool { return len(s.parentTurns(parent)) == 2 })
	if got := s.parentTurns(parent)[1]; strings.Count(got, `<agent-callback session=\"`+session+
		`\" status=\"completed\">`) != 1 || !strings.Contains(got, "answer to wait-dark") || !strings.Contains(got,
		`"mode":"resume"`) {
		t.Errorf("the parent was called back with %s", got)
	}
	s.until("nothing is under way", func() bool { return s.get("/sessions/"+parent).at("status") == "finished" })
	r := s.get("/runs/" + child)
	if r.at("callback.status") != "delivered" || r.at("callback.callback_run_id") != s.get("/sessions/"+
		parent).at("last_run_id") {
		t.Errorf("the child says %s", r.text)
	}
	s.checkLedger()
	out, _, code := s.ao("callbacks")
	if code != 0 || !strings.Contains(out, child) || !strings.Contains(out, "delivered") {
		t.Errorf("ao callbacks: %d\n%s", code, out)
	}
}

// checkLedger requires 'ao verify' to find no violation.
func (s *stack) checkLedger() {
	s.t.Helper()
	if out, errs, code := s.ao("verify"); code != 0 {
		s.t.Errorf("ao verify: exit code %d\n%s%s", code, out, errs)
	}
}

// Lost and stopped children are delivered too, and a worker that dies in a parent's turn causes no second delivery.
func TestCallbacksOfLostAndStoppedChildren(t *testing.T) {
	t.Parallel()
	s := up(t)
	w := s.startParentWorker()
	parent := s.startParent()
	lost, stopped, failed := s.startChild(parent, "wait-lost"), s.startChild(parent, "wait-stopped"),
		s.startChild(parent, "fail-soon")
	s.status(lost, "running")
	s.status(stopped, "running")
	s.has(s.post("/runs/"+stopped+"/stop", ""), 200)
	for _, id := range []string{stopped, failed} {
		s.until("the parent is called back for "+id, func() bool {
			return strings.Contains(strings.Join(s.parentTurns(parent), "\n"), s.get("/runs/"+id).at("session_id"))
		})
	}
	s.until("the parent has nothing under way",
		func() bool { return s.get("/sessions/"+parent).at("status") == "finished" })
	w.kill()
	w.start()
	s.until("the parent is called back for the lost one", func() bool {
		return strings.Contains(strings.Join(s.parentTurns(parent), "\n"), "Runner disconnected during execution")
	})
	s.until("nothing is under way", func() bool { return s.get("/sessions/"+parent).at("status") == "finished" })
	all := strings.Join(s.parentTurns(parent), "\n")
	for _, id := range []string{lost, stopped, failed} {
		if n := strings.Count(all, s.get("/runs/"+id).at("session_id")); n != 1 {
			t.Errorf("the parent was called back %d times for %s", n, id)
		}
	}
	s.checkLedger()
}

// Another process retries a failed HTTP callback, and a dead one is redelivered on request.
func TestHTTPCallbacks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	var ids []string
	addr := natstest.FreeAddr(t)
	s := up(t, "AO_CALLBACK_HOSTS=127.0.0.1", "AO_CALLBACK_NETWORKS=127.0.0.0/8",
		"AO_CALLBACK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	s.agent("quick", `echo '{"ok":true}'`, "")
	s.worker()
	s.has(s.post("/runs", `{"agent_name":"quick","callback_url":"https://elsewhere.example/"}`), 400,
		`"field":"callback_url"`, "AO_CALLBACK_HOSTS")
	id := s.run(`{"agent_name":"quick","callback_url":"http://` + addr + `/hook"}`)
	s.until("the first try has failed", func() bool { return s.get("/runs/"+id).at("http_callback.tries") == "1" })
	s.coordinator.kill()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	receiver := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies, ids = append(bodies, string(body)), append(ids, r.Header.Get("webhook-id"))
	})}
	go receiver.Serve(l)
	t.Cleanup(func() { receiver.Close() })
	s.coordinator.start()
	s.ready()
	s.until("it is delivered", func() bool { return s.get("/runs/"+id).at("http_callback.status") == "delivered" })
	mu.Lock()
	defer mu.Unlock()
	if len(bodies) != 1 || !strings.Contains(bodies[0], `"type":"run.completed"`) ||
		!strings.Contains(bodies[0], `"result_data":{"ok":true}`) || ids[0] != "msg_"+strings.TrimPrefix(id, "run_") {
		t.Errorf("the receiver got %q %q", ids, bodies)
	}
	if _, errs, code := s.ao("callbacks", "redeliver", id); code != 1 ||
		!strings.Contains(errs, "no HTTP callback that failed") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	s.checkLedger()
}
