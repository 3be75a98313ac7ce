package serve_test

import (
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"

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
