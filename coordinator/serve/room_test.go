package serve_test

import (
	"strings"
	"testing"
	"time"

	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"

	"github.com/nats-io/nats.go/jetstream"
)

// TestFullHistoryAcceptsNoRuns: from nine tenths of its bytes or records on. Claimed runs can still be
// stopped, and with more room runs are accepted again.
func TestFullHistoryAcceptsNoRuns(t *testing.T) {
	t.Parallel()
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		fullHistory(t, func(cfg *jetstream.StreamConfig) *int64 { return &cfg.MaxBytes },
			func(s jetstream.StreamState) uint64 { return s.Bytes }, 64<<20, 40, 100<<10)
	})
	t.Run("records", func(t *testing.T) {
		t.Parallel()
		fullHistory(t, func(cfg *jetstream.StreamConfig) *int64 { return &cfg.MaxMsgs },
			func(s jetstream.StreamState) uint64 { return s.Msgs }, 10_000, 400, 1)
	})
}

func fullHistory(t *testing.T, of func(*jetstream.StreamConfig) *int64, in func(jetstream.StreamState) uint64,
	more uint64, runs, length int) {
	s := start(t)
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	s.post("/agents", `{"name":"plain","description":"of a test"}`).want(201)
	first := s.post("/runs", `{"agent_name":"plain","prompt":"x"}`).want(201)
	var before map[string]any
	for range runs { // so much that the twentieth part of it is room for what comes until the next check
		before = s.post("/runs", `{"agent_name":"plain","prompt":"`+strings.Repeat("x", length)+`"}`).want(201)
	}
	limit := func(size func(uint64) uint64) {
		t.Helper()
		stream, err := js.Stream(t.Context(), subject.Runs)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		*of(&cfg) = int64(size(in(stream.CachedInfo().State)))
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	limit(func(have uint64) uint64 { return have * 100 / 95 })
	ask := func() got { return s.post("/runs", `{"agent_name":"plain","prompt":"x"}`) }
	var last got
	var at time.Time
	natstest.Until(t, "new runs are refused", func() bool {
		if time.Since(at) > 100*time.Millisecond { // what is accepted until the next check must not fill it
			last, at = ask(), time.Now()
		}
		return last.status == 503
	})
	if m := last.want(503); !strings.Contains(m["message"].(string), "nine tenths full") ||
		last.header.Get("Retry-After") == "" {
		t.Errorf("%v", m)
	}
	if m := s.post("/runs/"+before["run_id"].(string)+"/stop", "").want(200); m["status"] != "stopped" {
		t.Errorf("%v", m)
	}
	limit(func(have uint64) uint64 { return have }) // no more fits at all: it is said, and nothing is lost
	if m := s.post("/runs/"+first["run_id"].(string)+"/stop", "").want(503); !strings.Contains(
		m["message"].(string), "The history is full") {
		t.Errorf("%v", m)
	}
	limit(func(have uint64) uint64 { return have + more })
	if m := s.post("/runs/"+first["run_id"].(string)+"/stop", "").want(200); m["status"] != "stopped" {
		t.Errorf("%v", m)
	}
	natstest.Until(t, "new runs are taken again", func() bool { return ask().status == 201 })
}

// TestOneCallerDoesNotFillTheHistory: a token's runs, ended ones too, and those of one session's tree, get their share
// of the history. Others' runs are accepted then, and deletions make room.
func TestOneCallerDoesNotFillTheHistory(t *testing.T) {
	t.Parallel()
	s := secure(t)
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	s.post("/agents", `{"name":"tool"}`, s.admin).want(201)
	wide := thinker("p")
	wide.MaxConcurrentRuns = 16
	s.workAs(wide, func(run.Queued) run.Outcome { return done(`{}`) })
	completed := func(a runs.Accepted) {
		t.Helper()
		natstest.Until(t, "a run completes", func() bool {
			return into[run.Run](s.get("/runs/"+a.RunID, s.admin), 200).Status == run.Completed
		})
	}
	parent := s.submit(`{"agent_name":"tool","prompt":"x"}`, s.run)
	completed(parent)
	limit := func(size func(have uint64) uint64, refused bool) {
		t.Helper()
		stream, err := js.Stream(t.Context(), subject.Runs)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes = int64(size(stream.CachedInfo().State.Bytes))
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		natstest.Until(t, "the limit is seen", func() bool {
			return strings.Contains(s.get("/ready").body, "nine tenths full") == refused
		})
	}
	limit(func(have uint64) uint64 { return have * 100 / 95 }, true)
	limit(func(uint64) uint64 { return 24 << 20 }, false)

	text := strings.Repeat("x", 200<<10)
	child := `{"agent_name":"tool","parent_session_id":"` + parent.SessionID + `","prompt":"` + text + `"}`
	own := `{"agent_name":"tool","prompt":"` + text + `"}`
	fill := func(body, share string) (accepted []runs.Accepted) {
		t.Helper()
		for len(accepted) < 120 {
			g := s.post("/runs", body, s.run)
			if g.status == 201 {
				accepted = append(accepted, into[runs.Accepted](g, 201))
				continue
			}
			if m := g.want(429); m["error"] != run.CodeHistoryShare || m["share"] != share ||
				g.header.Get("Retry-After") != "30" {
				t.Fatalf("%v %s", g.header, g.body)
			}
			return accepted
		}
		t.Fatalf("120 runs of 200 KiB are accepted, %s has no share", share)
		return nil
	}
	if n := len(fill(child, "session tree")); n < 60 || n > 90 {
		t.Errorf("a tree has %d runs, want about two thirds of 110", n)
	}
	if _, err := js.Publish(t.Context(), subject.InboxRuns, []byte(child)); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "a message for the full tree does not stay in the inbox", func() bool {
		refused, err := js.Stream(t.Context(), subject.Rejected)
		if err != nil {
			t.Fatal(err)
		}
		m, err := refused.GetLastMsgForSubject(t.Context(), subject.RejectedRuns)
		return err == nil && strings.Contains(m.Header.Get("Ao-Reason"), "session tree")
	})
	greedy := fill(own, "token")
	if n := len(greedy); n < 4 || n > 20 {
		t.Errorf("its caller has %d more, want about a twelfth of 110", n)
	}
	for range 5 {
		completed(into[runs.Accepted](s.post("/runs", own, s.admin), 201))
	}
	s.get("/ready").want(200)
	for _, a := range greedy {
		natstest.Until(t, "its runs can be deleted", func() bool {
			return s.call("DELETE", "/sessions/"+a.SessionID, "", s.admin).status == 204
		})
	}
	natstest.Until(t, "it has room again", func() bool { return s.post("/runs", own, s.run).status == 201 })
}
