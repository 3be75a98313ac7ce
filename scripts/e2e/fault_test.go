package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
)

// starts returns how often each run's executor started: the agents append their run id to a file (O_APPEND).
func (s *stack) starts() map[string]int {
	raw, err := os.ReadFile(filepath.Join(s.dir, "begun"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	n := map[string]int{}
	for _, id := range strings.Fields(string(raw)) {
		n[id]++
	}
	return n
}

const startNote = `echo "$AGENT_ORCHESTRATOR_RUN_ID" >> begun
`

// verify: every accepted run has ended exactly once, its end does not change, and nothing started twice.
func (s *stack) verify(ids []string) map[string]int {
	s.t.Helper()
	statuses := map[string]int{}
	for _, id := range ids {
		r := s.ended(id)
		statuses[r.at("status")]++
		if code := r.at("error.error"); r.at("status") == "failed" && code != "runner_disconnected" {
			s.t.Errorf("run %s failed with %s: %s", id, code, r.text)
		}
	}
	for id, n := range s.starts() {
		if n != 1 {
			s.t.Errorf("run %s was started %d times", id, n)
		}
	}
	return statuses
}

func TestWorkerKilledBeforeTheClaimLosesNothing(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("slow", startNote+`while [ ! -e open ]; do sleep 0.1; done; echo '{"ok":true}'`, "")
	s.write("profiles/test.json",
		`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../agents","max_concurrent_runs":1}`)
	w := s.worker()
	var ids []string
	for range 5 {
		ids = append(ids, s.run(`{"agent_name":"slow"}`))
	}
	s.status(ids[0], "running")
	w.kill() // one is started, four wait
	s.write("open", "")
	s.worker()
	statuses := s.verify(ids)
	if statuses["completed"] < 4 || s.get("/runs/"+ids[0]).at("error.error") != "runner_disconnected" {
		t.Errorf("statuses %v, the started one: %s", statuses, s.get("/runs/"+ids[0]).text)
	}
}

func TestWorkerKilledAfterTheClaimFailsItsRunWithinTheLease(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("hang", startNote+`echo $$ > pid; sleep 60`, "")
	w := s.worker()
	id := s.run(`{"agent_name":"hang"}`)
	s.status(id, "running")
	var pid []byte
	s.until("the executor has begun", func() bool {
		pid, _ = os.ReadFile(filepath.Join(s.dir, "pid"))
		return len(pid) > 0
	})
	killed, heard := time.Now(), s.coordinator.restartsOfLeases()
	w.kill()
	r := s.ended(id)
	if r.at("status") != "failed" || r.at("error.error") != "runner_disconnected" ||
		r.at("error.message") != "Runner disconnected during execution" {
		t.Errorf("got %s", r.text)
	}
	// lease 2 s plus 2 s; the rest allows for a slow machine
	if took := time.Since(killed); took > 7*time.Second+s.leaseMargin(heard, 2*time.Second)+maxStall() {
		t.Errorf("the lease of 2 s ended after %s", took)
	}
	s.until("the executor is gone with its worker", func() bool { return exited(strings.TrimSpace(string(pid))) })
	if got := s.get("/sessions/" + r.at("session_id")).at("status"); got != "failed" {
		t.Errorf("the session is %s", got)
	}
}

func TestWorkerThatComesBackIsTheSameRunnerAtOnce(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_LEASE=20s")
	s.agent("hang", startNote+`sleep 60`, "")
	s.agent("quick", startNote+`echo '{"ok":true}'`, "")
	w := s.worker()
	before := s.get("/runners").at("runners.0.runner_id")
	id := s.run(`{"agent_name":"hang"}`)
	s.status(id, "running")
	w.kill()
	w.start()
	if r := s.ended(id); r.at("error.error") != "runner_disconnected" { // long before the lease of 20 s
		t.Errorf("got %s", r.text)
	}
	if r := s.ended(s.run(`{"agent_name":"quick"}`)); r.at("status") != "completed" {
		t.Errorf("got %s", r.text)
	}
	if after := s.get("/runners").at("runners.0.runner_id"); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
}

func TestCoordinatorKilledBetweenAcceptAndAnswer(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("quick", startNote+`echo '{"ok":true}'`, "")
	s.worker()
	var mu sync.Mutex
	var ids []string
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// The client repeats the request with its key until it has an answer.
				key := fmt.Sprintf("client-%d-%d", c, i)
				id := createRun(t, key, `{"agent_name":"quick"}`, s)
				if id == "" {
					return
				}
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	accepted := func() int { mu.Lock(); defer mu.Unlock(); return len(ids) }
	for range 3 {
		n := accepted() + 20
		s.until("some more are accepted", func() bool { return accepted() >= n })
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
	}
	close(stop)
	wg.Wait()
	if statuses := s.verify(ids); statuses["completed"] != len(ids) {
		t.Errorf("statuses %v of %d", statuses, len(ids))
	}
	starts := s.starts()
	if len(starts) != len(ids) {
		t.Errorf("%d executors were started for %d accepted runs", len(starts), len(ids))
	}
}

func TestNATSKilledDuringManyRuns(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_LEASE=10s")
	s.agent("quick", startNote+`echo '{"ok":true}'`, "")
	s.worker()
	s.worker()
	all := natstest.Load(240, 1000)
	const clients = 16
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	defer wg.Wait() // also of a story that fails: its clients have their say while it lasts
	for c := range clients {
		wg.Go(func() {
			for i := range all / clients {
				key := fmt.Sprintf("n-%d-%d", c, i)
				id := createRun(t, key, `{"agent_name":"quick"}`, s)
				if id == "" {
					return
				}
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	accepted := func() int { mu.Lock(); defer mu.Unlock(); return len(ids) }
	for kill, percent := range []int{15, 50, 80} {
		s.until("more are accepted", func() bool { return accepted() >= all*percent/100 })
		s.nats.Kill()
		if kill == 1 { // reads go on while it is away
			if r := s.get("/runs?limit=5&status=pending"); r.code != 200 {
				t.Errorf("reading while NATS is away: %d %s", r.code, r.text)
			}
		}
		s.nats.Start()
	}
	wg.Wait()
	statuses := s.verify(ids)
	if len(ids) != all/clients*clients || statuses["completed"]+statuses["failed"] != len(ids) {
		t.Errorf("%d accepted, statuses %v", len(ids), statuses)
	}
	if statuses["failed"] > 0 {
		t.Logf("%d runs were lost by their lease", statuses["failed"])
	}
}

func TestAResultThatComesWhileNATSIsAwayIsDeliveredAfterwards(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_LEASE=3s")
	s.agent("slow", startNote+`sleep 2; echo '{"late":true}'`, "")
	s.worker()
	id := s.run(`{"agent_name":"slow"}`)
	s.until("its executor has begun", func() bool { return s.starts()[id] == 1 })
	s.allServers.Kill()
	away := time.Now()
	s.until("NATS as a whole was away for two leases; the run ended meanwhile",
		func() bool { return time.Since(away) > 6*time.Second })
	s.allServers.Start()
	if r := s.ended(id); r.at("status") != "completed" {
		t.Errorf("got %s", r.text)
	}
	if r := s.get("/runs/" + id + "/result"); r.at("result_data.late") != "true" {
		t.Errorf("got %s", r.text)
	}
}
