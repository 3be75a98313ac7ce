package serve_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"ao/coordinator/ledger"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// record returns the subject of a run's only record of a kind.
func (r *rotten) record(filter string) (subj string) {
	r.t.Helper()
	natstest.Until(r.t, "there is a record "+filter, func() bool {
		found, err := r.bus.Records(r.t.Context(), filter, 0, 1)
		if err != nil || len(found) != 1 {
			return false
		}
		subj = found[0].Subject
		return true
	})
	return subj
}

// rot ends the coordinator and NATS cleanly, flips a bit in a record, and starts NATS again.
func (r *rotten) rot(stream, subj string) {
	r.t.Helper()
	r.stop()
	r.p.Stop()
	r.p.FlipRecord(stream, subj)
	r.p.Start()
}

// TestAnUnreadableEndOrClaim: NATS neither gives a record nor takes another one in its place. The run fails all the
// same, once, for every coordinator, and it is not started again.
func TestAnUnreadableEndOrClaim(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind     string
		attempts int
	}{{"end", 1}, {"end", 3}, {"claim", 1}, {"claim", 3}, {"claim of a living attempt", 3}} {
		t.Run(fmt.Sprint(tt.kind, " ", tt.attempts), func(t *testing.T) {
			t.Parallel()
			r := fill(t, 8)
			w := r.work(r.starts.do, echo("tool"))
			hang := make(chan struct{})
			done := sync.OnceFunc(func() { close(hang) })
			t.Cleanup(done)
			if tt.kind != "end" {
				r.starts.does(func(q run.Queued) {
					w.message(q, "here")
					<-hang
				})
			}
			a := r.submit(fmt.Sprintf(`{"agent_name":"tool","max_attempts":%d}`, tt.attempts))
			part, flipped := subject.Partition(a.SessionID), ""
			if tt.kind != "end" {
				flipped = r.record(subject.Claimed(part, a.RunID, "*"))
				natstest.Until(t, "the run has events", func() bool {
					seq, err := r.bus.LastEvent(t.Context(), subject.RunEvents(a.SessionID, a.RunID))
					return err == nil && seq > 0
				})
				if tt.kind == "claim" {
					w.die()
				}
			} else {
				r.until(a.RunID, run.Completed)
				flipped = r.record(subject.Ended(part, a.RunID, "*"))
			}
			r.marked(r.dir)
			r.rot(subject.Runs, flipped)
			r.starts.does(nil)
			r.dir = t.TempDir()
			again := start(t, r.on)
			again.work(r.starts.do, echo("tool"))
			failed := again.until(a.RunID, run.Failed)
			if failed.Error == nil || failed.Error.Code != "history_damaged" || failed.Attempt > 1 {
				t.Errorf("attempt %d ended with %v", failed.Attempt, failed.Error)
			}
			done() // a living worker's end comes too late
			natstest.Until(t, "the worker has written its end record", func() bool { return w.free() })
			again.post("/ledger/accept", "").want(200)
			again.ledgerAs("the ledger is in order", func(l ledger.Report) bool { return l.OK })
			other := again.another(func(c *serve.Config) { r.on(c); c.NATS.DataDir = t.TempDir() })
			if got := fmt.Sprint(into[run.Run](other.get("/runs/"+a.RunID), 200)); got != fmt.Sprint(failed) {
				t.Errorf("another coordinator shows %s, want %v", got, failed)
			}
			again.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
			r.starts.wantOnce(t)
		})
	}
}

// TestAnUnreadableKeyOfABucket: a coordinator that waits for what NATS does not give says so, over HTTP and in its log,
// and what helps. A bucket with deleted keys is no reason.
func TestAnUnreadableKeyOfABucket(t *testing.T) {
	t.Parallel()
	for bucket, helps := range map[string]string{subject.Agents: "ao restore",
		subject.Runners: "nats stream purge KV_runners", subject.TaskQueues: "nats stream purge KV_lanes"} {
		t.Run(bucket, func(t *testing.T) {
			t.Parallel()
			r := fill(t, 8)
			for _, name := range []string{"kept", "deleted", "other"} {
				r.post("/agents", `{"name":"`+name+`","description":"an agent"}`).want(201)
			}
			r.call("DELETE", "/agents/deleted", "").want(204)
			waits := into[run.Run](r.post("/runs", `{"agent_name":"tool","parameters":{"a":1},
				"additional_demands":{"tags":["later"]}}`), 201)
			keys, _, err := r.bus.Bucket(bucket).Keys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			key := slices.Sorted(slices.Values(keys))[0]
			if got, err := r.bus.Bucket(bucket).Unreadable(t.Context()); err != nil || got != nil {
				t.Fatalf("unreadable before: %q, %v", got, err)
			}
			r.rot("KV_"+bucket, "$KV."+bucket+"."+key)
			c := r.starting()
			logged := func(text string) bool {
				return strings.Contains(text, "bucket "+bucket) && strings.Contains(text, key) &&
					strings.Contains(text, helps)
			}
			natstest.Until(t, "GET /ready says why", func() bool {
				status, body := c.ready()
				return status == http.StatusServiceUnavailable && logged(body)
			})
			natstest.Until(t, "the log says so", func() bool {
				return c.log.has("NATS cannot read what it has of the bucket " + bucket)
			})
			if bucket == subject.Agents {
				return
			}
			purge(t, r.p.Conn(t), "KV_"+bucket)
			natstest.Until(t, "it has started", func() bool { status, _ := c.ready(); return status == http.StatusOK })
			c.end()
			again := start(t, r.on)
			again.workAs(runnerapi.Runner{Identity: runnerapi.Identity{Hostname: "here", ProjectDir: "/later",
				ExecutorProfile: "procedural", ExecutorType: run.Procedural}, Instance: "two", MaxConcurrentRuns: 8,
				Tags: []string{"later"}, Agents: []agent.Blueprint{echo("tool")}}, r.starts.do)
			again.get("/runs/" + waits.ID + "/wait?timeout_seconds=60").want(200)
			r.starts.wantOnce(t)
		})
	}
}

// purge empties a stream, as an operator does.
func purge(t *testing.T, nc *nats.Conn, name string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), name)
	if err == nil {
		err = s.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// starting is a coordinator that may not start.
type starting struct {
	at  string
	log logBuffer
	end func() // ends it, and waits for that
}

// starting starts another coordinator, and does not wait until it serves.
func (r *rotten) starting() *starting {
	c := &starting{at: natstest.FreeAddr(r.t)}
	cfg := serve.Config{HTTPAddr: c.at, Log: slog.New(slog.NewTextHandler(&c.log, nil))}
	r.on(&cfg)
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := serve.Run(ctx, cfg); err != nil {
			r.t.Error(err)
		}
	}()
	c.end = func() {
		cancel()
		<-ended
	}
	r.t.Cleanup(c.end)
	return c
}

// ready is the answer of GET /ready; 0: there was none.
func (c *starting) ready() (status int, body string) {
	res, err := http.Get("http://" + c.at + "/ready")
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(raw)
}

// TestAnUnreadableMark: a coordinator writes the high-water mark again, with a data folder and without. Until then NATS
// would write that bucket never again.
func TestAnUnreadableMark(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"the same", "empty"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			r := fill(t, 8)
			r.rot("KV_"+subject.HighWater, "$KV."+subject.HighWater+".runs")
			if folder == "empty" {
				r.dir = t.TempDir()
			}
			again := start(t, r.on)
			again.work(r.starts.do, echo("tool"))
			again.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
			r.marked(r.dir)
			again.call("GET", "/ready", "").want(200)
			again.ledgerAs("nothing is missing", func(l ledger.Report) bool { return l.OK })
			body, _, err := r.bus.Bucket(subject.HighWater).Get(t.Context(), "runs")
			if err != nil || len(body) == 0 {
				t.Errorf("the mark in NATS: %q, %v", body, err)
			}
			if n := again.bus.Reconnects(); n != 0 {
				t.Errorf("NATS was restarted %d times", n)
			}
		})
	}
}
