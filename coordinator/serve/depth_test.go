package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"

	"github.com/nats-io/nats.go"
)

// TestDepth: an agent that starts itself comes to an end, at every entry point, over another coordinator and a restart.
func TestDepth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shallow := func(c *serve.Config) { c.Coordinator.MaxDepth, c.NATS.DataDir = 3, dir }
	s := start(t, shallow)
	m := think(s)
	top := s.submit(`{"agent_name":"mind","prompt":"hold"}`)
	at := top
	for n := 1; n <= 3; n++ {
		token := bearer(m.token(at.RunID))
		at = s.submit(`{"agent_name":"mind","prompt":"hold"}`, token)
		if r := into[run.Run](s.get("/runs/"+at.RunID), 200); r.Depth != n {
			t.Fatalf("run %d below the first has depth %d", n, r.Depth)
		}
	}
	if g := s.get("/runs/" + top.RunID); strings.Contains(g.body, `"depth"`) {
		t.Errorf("the first has a depth: %s", g.body)
	}
	if g := s.get("/runs?parent_session_id=" + top.SessionID); !strings.Contains(g.body, `"depth":1`) {
		t.Errorf("a list: %s", g.body)
	}
	token := bearer(m.token(at.RunID))
	want := fmt.Sprintf(`{"error":"too_deep","message":"Session %s is 3 levels below its root, and the limit is 3 `+
		`(AO_MAX_DEPTH); do the work here, or start it without a parent","field":"parent_session_id",`+
		`"parent_session_id":"%s","depth":4,"max_depth":3}`, at.SessionID, at.SessionID)
	below := fmt.Sprintf(`{"agent_name":"mind","prompt":"x","parent_session_id":"%s"}`, at.SessionID)
	literal(t, s.post("/runs", below), 400, want)
	literal(t, s.post("/runs/validate", below), 400, want)
	literal(t, s.post("/runs", below, "Idempotency-Key: deep"), 400, want)
	literal(t, s.post("/runs", `{"agent_name":"mind","prompt":"x"}`, token), 400, want)
	literal(t, s.request(subject.APIRunsCreate, below), 400, want)
	s.speak(versions[1], token).refused("start_agent_session", `{"agent_name":"mind","prompt":"x"}`,
		`"error":"too_deep"`)
	s.speak(versions[1], "X-Agent-Session-Id: "+at.SessionID).
		refused("start_agent_session", `{"agent_name":"mind","prompt":"x"}`, `"error":"too_deep"`)
	literal(t, s.another(shallow).post("/runs", below), 400, want)

	answers, err := s.nc.SubscribeSync("answers.deep")
	if err != nil {
		t.Fatal(err)
	}
	left := &nats.Msg{Subject: subject.InboxRuns, Data: []byte(below),
		Header: nats.Header{"Ao-Reply-To": {"answers.deep"}}}
	if _, err := s.nc.RequestMsg(left, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	answer, err := answers.NextMsg(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	literal(t, answered(t, answer), 400, want)

	// A turn of a session is no deeper than the session, whoever asks for it.
	turn := s.submit(fmt.Sprintf(`{"type":"resume_session","session_id":"%s","prompt":"hold"}`, at.SessionID))
	if r := into[run.Run](s.get("/runs/"+turn.RunID), 200); r.Depth != 3 {
		t.Errorf("a turn has depth %d, want 3", r.Depth)
	}

	s.stop()
	s = start(t, func(c *serve.Config) { c.Server = s.nats }, func(c *serve.Config) {
		c.Coordinator.MaxDepth,
			c.NATS.DataDir = 3, dir
	})
	literal(t, s.post("/runs", below), 400, want)
	if r := into[run.Run](s.get("/runs/"+turn.RunID), 200); r.Depth != 3 {
		t.Errorf("after a restart a turn has depth %d, want 3", r.Depth)
	}
	s.stop()
	s = start(t, func(c *serve.Config) { c.Server = s.nats }, func(c *serve.Config) {
		c.Coordinator.MaxDepth,
			c.NATS.DataDir = -1, t.TempDir()
	})
	natstest.Until(t, "history is read", func() bool { return s.get("/runs/"+turn.RunID).status == 200 })
	if g := s.post("/runs", fmt.Sprintf(`{"agent_name":"mind","prompt":"x","parent_session_id":"%s"}`,
		top.SessionID)); !strings.Contains(g.body, `"max_depth":0`) {
		t.Errorf("no children at all: %s", g.body)
	}
}

// TestDepthOfCallbacks: a callback turn is as deep as its session, so the limit does not cut a chain of callbacks.
func TestDepthOfCallbacks(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator.MaxDepth = 2 })
	think(s)
	top := s.submit(`{"agent_name":"mind","prompt":"x"}`)
	s.until(top.RunID, run.Completed)
	child := s.submit(fmt.Sprintf(`{"agent_name":"mind","prompt":"x","mode":"async_callback","parent_session_id":"%s"}`,
		top.SessionID))
	s.until(child.RunID, run.Completed)
	grandchild := s.submit(fmt.Sprintf(`{"agent_name":"mind","prompt":"x","mode":"async_callback",`+
		`"parent_session_id":"%s"}`, child.SessionID))
	for id, depth := range map[string]int{child.RunID: 0, grandchild.RunID: 1} {
		var r run.Run
		natstest.Until(t, "its parent is called back", func() bool {
			r = into[run.Run](s.get("/runs/"+id), 200)
			return r.Callback != nil && r.Callback.Status == run.CallbackDelivered
		})
		if turn := into[run.Run](s.get("/runs/"+r.Callback.RunID), 200); turn.Depth != depth {
			t.Errorf("the callback turn of %s has depth %d, want %d", id, turn.Depth, depth)
		}
	}
}
