package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/natstest"
)

// upShipped runs scripts/up with the repository's agents in a new folder.
func upShipped(t *testing.T, nats string, env ...string) *stack {
	t.Helper()
	s := prepare(t, nats, append([]string{"AO_PROFILES=procedural,test", "AO_HOSTNAME=here", "AO_PROFILES_DIR=" +
		filepath.Join(root(), "worker/profiles"),
		"AGENT_ORCHESTRATOR_AGENTS_DIR=" + filepath.Join(root(), "worker/agents/autonomous")}, env...)...)
	s.write("file.txt", "one two three\n")
	return s
}

// When scripts/up first reports ready, it takes runs of its worker's agents.
func TestReadyTakesRunsOfItsWorkersAgents(t *testing.T) {
	t.Parallel()
	s := upShipped(t, "embed", "AO_NATS_LISTEN="+natstest.FreeAddr(t))
	p := launch(t, "allinone", s.dir, s.env)
	for start := range 3 {
		if start > 0 {
			p.stop()
			p.start()
		}
		s.ready()
		for _, body := range []string{`{"agent_name":"text-stats","parameters":{"file":"file.txt"}}`,
			`{"agent_name":"summarizer","prompt":"a text"}`} {
			s.has(s.post("/runs", body), http.StatusCreated)
		}
	}
}

// While its worker is refused, scripts/up is not ready and gives the reason, but serves all else. A drained worker
// does not affect readiness.
func TestReadySaysWhyItsWorkerDoesNotTakeRuns(t *testing.T) {
	t.Parallel()
	nats := natstest.FreeAddr(t)
	first := upShipped(t, "embed", "AO_NATS_LISTEN="+nats, "AO_PROFILES=procedural")
	launch(t, "allinone", first.dir, first.env)
	first.ready()
	second := upShipped(t, "nats://"+nats, "AO_PROFILES=procedural", "AO_PROJECT_DIR="+first.dir)
	launch(t, "allinone", second.dir, second.env)
	second.until("it says which runner is refused and why", func() bool {
		r := second.get("/ready")
		if r.code == http.StatusOK {
			t.Fatal("it is ready, and its worker has not registered")
		}
		return r.code == http.StatusServiceUnavailable && r.at("error") == "unavailable" &&
			r.header.Get("Retry-After") != "" &&
			strings.Contains(r.at("message"), "profile procedural is not registered") &&
			strings.Contains(r.at("message"), "A live process is already runner")
	})
	second.has(second.get("/runners"), http.StatusOK)
	first.has(first.do("DELETE", "/runners/"+first.get("/runners").at("runners.0.runner_id"), ""), http.StatusAccepted)
	second.ready()
	second.has(second.post("/runs", `{"agent_name":"text-stats","parameters":{"file":"file.txt"}}`), http.StatusCreated)
	first.has(first.get("/ready"), http.StatusOK)
}
