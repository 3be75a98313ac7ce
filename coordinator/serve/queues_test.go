package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// procedural is a runner of a profile on a host.
func proceduralOf(profile, host string, tags ...string) runnerapi.Runner {
	return runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: host, ProjectDir: "/srv", ExecutorProfile: profile,
			ExecutorType: run.Procedural},
		Instance: "one", Tags: tags, MaxConcurrentRuns: 4,
	}
}

// One caller asks for ever other demands, one worker registers ever other runners, and neither stops. Workers of other
// profiles still register, and other callers' runs with demands are taken.
func TestOneCallerAndOneWorkerDoNotUseUpTheQueues(t *testing.T) {
	t.Parallel()
	s := secure(t, func(c *serve.Config) { c.Coordinator.MaxQueues = natstest.Load(64, 256) })
	busy := proceduralOf("busy", "b", "0", "1", "2", "3", "4", "5", "6", "7", "8")
	do, free := blocking()
	defer free()
	busy.Agents = []agent.Blueprint{echo("slow")}
	s.workAs(busy, do)

	attack, stop := context.WithCancel(context.Background())
	var attackers sync.WaitGroup
	defer attackers.Wait()
	defer stop()
	var refused [2]atomic.Int64
	attackers.Go(func() { // 511 subsets of nine tags
		for i := 1; attack.Err() == nil; i = i%511 + 1 {
			var tags []string
			for bit := range 9 {
				if i&(1<<bit) != 0 {
					tags = append(tags, fmt.Sprintf("%q", fmt.Sprint(bit)))
				}
			}
			g := s.post("/runs", `{"agent_name":"slow","additional_demands":{"tags":[`+strings.Join(tags, ",")+`]}}`,
				s.run)
			if g.status == 201 {
				continue
			}
			if refused[0].Add(1) == 1 && (g.status != 429 || g.header.Get("Retry-After") == "" ||
				!strings.Contains(g.body, "AO_MAX_QUEUES") || !strings.Contains(g.body, "share")) {
				t.Errorf("the refusal is %d %v %s", g.status, g.header, g.body)
			}
		}
	})
	attackers.Go(func() {
		for i := 0; attack.Err() == nil; i = (i + 1) % 2500 {
			r := proceduralOf("made-up", fmt.Sprint("host", i))
			r.Agents = []agent.Blueprint{echo(fmt.Sprint("made-up-", i))}
			raw, _ := json.Marshal(runnerapi.Registration{Runner: r})
			if _, err := s.bus.Request(attack, subject.RunnerAPI(runnerapi.OpRegister), raw); err != nil &&
				attack.Err() == nil {
				if refused[1].Add(1) == 1 && !strings.Contains(err.Error(), "profile") {
					t.Errorf("the refusal is %v", err)
				}
			}
		}
	})
	// with the race detector on a loaded machine it takes longer than one wait
	for _, n := range []int64{1, 50, 100} {
		natstest.Until(t, fmt.Sprint("the caller has been refused ", n, " times"),
			func() bool { return refused[0].Load() >= n })
	}
	natstest.Until(t, "the worker has had its share", func() bool { return refused[1].Load() > 20 })

	for i := range natstest.Load(3, 8) {
		r := proceduralOf(fmt.Sprint("honest", i), "h", "gpu", "fast", "eu")
		r.Agents = []agent.Blueprint{echo(fmt.Sprint("tool", i))}
		s.workAs(r, func(run.Queued) run.Outcome { return done(`{}`) })
		for _, tags := range []string{`["gpu"]`, `["fast"]`, `["eu","gpu"]`} {
			var acc struct {
				RunID string `json:"run_id"`
			}
			g := s.post("/runs", fmt.Sprintf(`{"agent_name":"tool%d","additional_demands":{"tags":%s}}`, i, tags),
				s.admin)
			if g.status != 201 || json.Unmarshal([]byte(g.body), &acc) != nil {
				t.Fatalf("an honest caller's run: %d %s", g.status, g.body)
			}
			natstest.Until(t, "an honest caller's run is done", func() bool {
				var v struct{ Status run.Status }
				return json.Unmarshal([]byte(s.get("/runs/"+acc.RunID, s.admin).body), &v) == nil &&
					v.Status == run.Completed
			})
		}
	}
}
