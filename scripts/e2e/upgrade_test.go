package e2e

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"
)

// The upgrade of operating.md under load: NATS, coordinators, workers, one after the other. No request is refused, no
// run is lost or fails without a runner, each starts once.
func TestAnUpgradeRefusesNobody(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_LEASE=10s")
	other := s.another()
	define := func(schema string) {
		t.Helper()
		s.agent("tool", startNote+`sleep 0.02; echo '{"ok":true}'`,
			`"parameters_schema":{"type":"object","properties":{"n":`+schema+`}}`)
	}
	define(`{"type":"integer"}`)
	s.agent("gate", gate, "")
	one, two := s.runner("a"), s.runner("b")
	s.online("a")
	s.online("b")
	all := startCallers(t, `{"agent_name":"tool","parameters":{"n":1}}`, s, other)

	s.allServers.Kill()
	s.allServers.Start()
	all.more(s, 20)
	for _, c := range []*stack{s, other} {
		c.coordinator.stop()
		c.coordinator.start()
		c.ready()
		all.more(s, 20)
	}

	s.run(`{"agent_name":"gate","parameters":{"n":"long"},"additional_demands":{"hostname":"a"}}`)
	s.waitGate("long")
	one.signal(syscall.SIGTERM)
	for _, c := range []*stack{s, other} {
		c.until("it drains", func() bool { return c.runnerOf("a", "status") == "draining" })
		c.has(c.get("/metrics"), 200, `ao_runners{status="draining"} 1`)
	}
	s.has(s.get("/agents/gate"), 200, `"status":"active"`, `"runners":1`)
	s.openGate("long")
	if code := one.ends(s); code != 0 {
		t.Errorf("the worker: got exit code %d, want 0", code)
	}
	s.until("it is gone", func() bool { return s.runnerOf("a", "status") == "" })
	one.start()
	s.online("a")
	all.more(s, 20)
	two.stop()
	two.start()
	s.online("b")
	all.more(s, 20)

	// a definition that changes: the running worker takes it over, and so does one that starts with it
	two.stop()
	define(`{"type":"integer","maximum":9}`)
	s.until("the new definition holds", func() bool {
		return strings.Contains(s.get("/agents/tool").text, `"maximum":9`)
	})
	all.more(s, 20)
	two.start()
	s.online("b")
	s.has(s.get("/agents/tool"), 200, `"maximum":9`, `"runners":2`)
	all.more(s, 20)
	two.stop()

	one.stop() // a single worker: there is none for a while, and the next one is on another host
	all.more(s, 40)
	s.has(s.get("/agents/tool"), 200, `"status":"active"`, `"runners":0`)
	s.has(other.post("/runs/validate", `{"agent_name":"tool"}`), 200, `"valid":true`, `"runner_available":false`)
	misfit := s.run(`{"agent_name":"tool","parameters":{"n":9}}`)
	s.has(s.get("/runs/"+misfit+"/explain"), 200, `the last runner of agent \"tool\" left `)
	define(`{"type":"integer","maximum":5}`)
	s.runner("c")
	s.online("c")
	all.more(s, 20)
	ids := all.end()
	s.has(s.ended(misfit), 200, `"status":"failed"`, `"error":{"error":"parameter_validation_failed","message":"The `+
		`definition of agent \"tool\" changed while this run waited`)
	if statuses := s.verify(ids); statuses["completed"] != len(ids) {
		t.Errorf("statuses %v of %d", statuses, len(ids))
	}
	if starts := s.starts(); len(starts) != len(ids) || starts[misfit] != 0 {
		t.Errorf("%d executors were started for %d accepted runs", len(starts), len(ids))
	}
}

// backgroundCalls are callers that start one run after the other until end.
type backgroundCalls struct {
	stop chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	ids  []string
}

func startCallers(t testing.TB, body string, doors ...*stack) *backgroundCalls {
	c := &backgroundCalls{stop: make(chan struct{})}
	for who := range 4 {
		c.wg.Go(func() {
			rest := time.NewTicker(50 * time.Millisecond)
			defer rest.Stop()
			for i := 0; ; i++ {
				select {
				case <-c.stop:
					return
				case <-rest.C:
				}
				id := createRun(t, fmt.Sprintf("caller-%d-%d", who, i), body, doors[who%len(doors)],
					doors[(who+1)%len(doors)])
				if id == "" {
					return
				}
				c.mu.Lock()
				c.ids = append(c.ids, id)
				c.mu.Unlock()
			}
		})
	}
	t.Cleanup(func() { c.end() }) // also of a story that fails
	return c
}

// more waits until more runs are accepted.
func (c *backgroundCalls) more(s *stack, n int) {
	s.t.Helper()
	accepted := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.ids) }
	before, n := accepted(), natstest.Load(n/2, n)
	s.until("more runs are accepted", func() bool { return accepted() >= before+n })
}

// end stops the callers and returns the accepted runs.
func (c *backgroundCalls) end() []string {
	c.mu.Lock()
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.mu.Unlock()
	c.wg.Wait()
	return c.ids
}
