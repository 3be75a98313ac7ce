package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
)

// AO_STORIES_NATS=cluster runs the stories on a cluster of three NATS servers, AO_STORIES_NATS=rolling on one that
// loses a server every few seconds.
var (
	onCluster = os.Getenv("AO_STORIES_NATS") != ""
	rolling   = os.Getenv("AO_STORIES_NATS") == "rolling"
)

// isRolling reports whether this cluster loses servers during the test.
func (s *stack) isRolling() bool { return rolling && s.allServers != nil }

// retryUnavailable repeats a request that is answered with 503 while a rolling cluster has no leader.
func (s *stack) retryUnavailable(ask func() reply) reply {
	var r reply
	natstest.Poll(2*maxStall(), func() bool { r = ask(); return r.code != 503 || !s.isRolling() })
	return r
}

// checkGet requires the answer to a GET to have a status and these parts. A rolling cluster may take a while, because a
// coordinator without a leader answers from its own state.
func (s *stack) checkGet(path string, code int, parts ...string) {
	s.t.Helper()
	var r reply
	lacks := func(part string) bool { return !strings.Contains(r.text, part) }
	natstest.Poll(maxStall(), func() bool {
		r = s.get(path)
		return r.code == code && !slices.ContainsFunc(parts, lacks)
	})
	s.has(r, code, parts...)
}

// servers are all NATS servers of a stack.
type servers interface {
	Kill()
	Start()
}

// maxStall is how much longer than its limit something may take: 0, or on a rolling cluster 10 s, the longest change
// of leader. Leases expire later by that too: a coordinator that lost its connection restarts them, the other one
// does not.
func maxStall() time.Duration {
	if rolling {
		return 10 * time.Second
	}
	return 0
}

func upOnCluster(t testing.TB, env ...string) *stack {
	t.Helper()
	c := natstest.Cluster(t)
	s := upOn(t, c.URL(), append([]string{"AO_NATS_REPLICAS=3"}, env...)...)
	s.nats, s.allServers = c.Servers[0], c
	if rolling {
		r := &serverRoller{c: c}
		s.allServers = r
		r.roll(t)
	}
	return s
}

// serverRoller kills the second and the third server alternately. Stories may kill the first one, or all.
type serverRoller struct {
	c     *natstest.ClusterProcs
	mu    sync.Mutex // held while NATS as a whole is away, and while a server is killed or started
	whole int        // how often it was
}

// Kill kills all servers and pauses the roller.
func (r *serverRoller) Kill() { r.mu.Lock(); r.whole++; r.c.Kill() }

// Start starts all servers and resumes the roller.
func (r *serverRoller) Start() { r.c.Start(); r.mu.Unlock() }

// roll starts at once, also for short stories, and ends with the test.
func (r *serverRoller) roll(t testing.TB) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(stop); wg.Wait() })
	r.c.Servers[1].Kill()
	wg.Go(func() {
		tick := time.NewTicker(4 * time.Second)
		defer tick.Stop()
		wait := func() bool {
			select {
			case <-stop:
				return false
			case <-tick.C:
				return true
			}
		}
		for n, whole := 1, 0; wait(); n = 3 - n {
			if r.mu.TryLock() {
				if r.whole == whole { // else it was started with the others
					r.c.Servers[n].Start()
				}
				r.mu.Unlock()
			}
			r.c.Current()
			if !wait() {
				return
			}
			if r.mu.TryLock() {
				whole = r.whole
				r.c.Servers[3-n].Kill()
				r.mu.Unlock()
			}
		}
	})
}

func TestAClusterLosesOneServerAfterTheOther(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	s := upOn(t, c.URL(), "AO_NATS_REPLICAS=3", "RUN_LEASE=10s")
	s.agent("quick", startNote+`echo '{"ok":true}'`, "")
	s.worker()
	s.worker()
	var mu sync.Mutex
	var ids []string
	var last time.Time // when a run had ended
	var worst time.Duration
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			tick := time.NewTicker(200 * time.Millisecond) // leave the machine to the servers
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				key := fmt.Sprintf("c-%d-%d", client, n)
				id := createRun(t, key, `{"agent_name":"quick"}`, s)
				if id == "" {
					return
				}
				if !natstest.Poll(time.Minute, func() bool {
					return s.get("/runs/"+id+"/wait?timeout_seconds=20").at("status") == "completed"
				}) {
					t.Errorf("run %s was not completed within a minute", id)
					return
				}
				mu.Lock()
				ids = append(ids, id)
				now := time.Now()
				if len(ids) > 1 {
					worst = max(worst, now.Sub(last))
				}
				last = now
				mu.Unlock()
			}
		})
	}
	ended := func() int { mu.Lock(); defer mu.Unlock(); return len(ids) }
	more := func(what string) {
		t.Helper()
		n := ended() + natstest.Load(8, 20)
		s.until(what, func() bool { return ended() >= n })
	}
	for _, p := range c.Servers {
		more("runs end")
		p.Kill()
		more("runs end without it")
		p.Start()
		c.Current()
	}
	close(stop)
	wg.Wait()
	if statuses := s.verify(ids); statuses["completed"] != len(ids) {
		t.Errorf("statuses %v of %d", statuses, len(ids))
	}
	if starts := s.starts(); len(starts) != len(ids) {
		t.Errorf("%d executors were started for %d accepted runs", len(starts), len(ids))
	}
	t.Logf("%d runs; no run ended for %v at most", len(ids), worst.Round(time.Millisecond))
	if worst > 30*time.Second { // 10 s, and what this machine's other work costs: an election alone takes it 4 to 9 s
		t.Errorf("nothing ended for %v", worst)
	}
}
