package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
)

// auditTrail returns a coordinator's audit entries for agents of this test: the status by request.
func (s *stack) auditTrail() (statuses map[string]int, gaps int, whole bool) {
	statuses = map[string]int{}
	for cursor := ""; ; {
		r := s.get("/audit?action=agent.create&limit=7&cursor=" + cursor)
		var p struct {
			Entries []struct {
				Request string `json:"request"`
				Status  int    `json:"status"`
			} `json:"entries"`
			Gaps []json.RawMessage `json:"gaps"`
			Next string            `json:"next_cursor"`
		}
		if r.code != 200 || json.Unmarshal([]byte(r.text), &p) != nil {
			return nil, 0, false
		}
		gaps += len(p.Gaps)
		for _, e := range p.Entries {
			if _, twice := statuses[e.Request]; twice {
				s.t.Errorf("request %s is recorded twice", e.Request)
			}
			statuses[e.Request] = e.Status
		}
		cursor = p.Next
		if cursor == "" {
			return statuses, gaps, true
		}
	}
}

// TestTheAuditOutlivesAServer: if AUDIT loses its leader in a cluster, each coordinator still lists every answered
// request once, without a gap.
func TestTheAuditOutlivesAServer(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t)
	one := upOn(t, c.URL(), "AO_NATS_REPLICAS=3")
	two := upOn(t, c.URL(), "AO_NATS_REPLICAS=3")
	js, err := c.Conn(t).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	info, err := js.StreamInfo(subject.Audit)
	if err != nil || info.Config.Replicas != 3 || info.Config.MaxAge != 30*24*time.Hour ||
		info.Config.MaxBytes != 64<<20 {
		t.Fatalf("AUDIT: %+v, %v", info, err)
	}
	done := map[string]int{}
	agents := 0
	make := func(n int) {
		t.Helper()
		for range n {
			agents++
			made := false
			one.within(time.Minute, "an agent is made", func() bool {
				for _, s := range []*stack{one, two} {
					id := fmt.Sprintf("of-the-test-%d", len(done))
					r := s.once("POST", "/agents", fmt.Sprintf(`{"name":"a%d"}`, agents), "X-Request-Id", id)
					if r.err != nil {
						t.Fatal(r.err)
					}
					done[id] = r.code
					made = made || r.code == 201 || r.code == 409
				}
				return made
			})
		}
	}
	make(10)
	lost := c.Leader(subject.Audit)
	lost.Kill()
	make(10)
	recorded := func(when string) {
		t.Helper()
		for name, s := range map[string]*stack{"one": one, "the other": two} {
			s.within(time.Minute, when+": "+name+" coordinator recorded all", func() bool {
				statuses, gaps, whole := s.auditTrail()
				if gaps > 0 {
					t.Fatalf("%s: got %d gaps, want none", when, gaps)
				}
				for id, code := range done {
					if statuses[id] != code {
						return false
					}
				}
				return whole && len(statuses) == len(done)
			})
		}
	}
	recorded("without a server")
	lost.Start()
	c.Current()
	make(3)
	recorded("with all of them again")
	one.coordinator.kill()
	one.coordinator.start()
	one.ready()
	recorded("after a coordinator was killed")
}
