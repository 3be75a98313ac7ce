package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
)

func TestAClusterLosesOneServerAfterTheOther(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	s := upon(t, c.URL(), "AO_NATS_REPLICAS=3", "RUN_LEASE=10s")
	s.agent("quick", note+`echo '{"ok":true}'`, "")
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
				id := insist(t, key, `{"agent_name":"quick"}`, s)
				if id == "" {
					return
				}
				for end := time.Now().Add(time.Minute); s.get("/runs/"+id+"/wait?timeout_seconds=20").at("status") != "completed"; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(end) {
						t.Errorf("run %s does not end", id)
						return
					}
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
		n := ended() + 20
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
	if statuses := s.judge(ids); statuses["completed"] != len(ids) {
		t.Errorf("statuses %v of %d", statuses, len(ids))
	}
	if begun := s.begun(); len(begun) != len(ids) {
		t.Errorf("%d executors were begun for %d accepted runs", len(begun), len(ids))
	}
	t.Logf("%d runs; no run ended for %v at most", len(ids), worst.Round(time.Millisecond))
	if worst > 15*time.Second { // 10 s, and what this machine's other work costs
		t.Errorf("nothing ended for %v", worst)
	}
}
