package serve_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// storeResult stores a large result's parts as a worker does.
func (s *stack) storeResult(q run.Queued, size int) error {
	name := q.ID + ".1.out"
	for n := 0; n*run.PartSize < size; n++ {
		raw, _ := json.Marshal(runnerapi.PartRequest{RunID: q.ID, SessionID: q.SessionID, Attempt: q.Attempt,
			Key: q.Key, Name: name, Part: n, Size: int64(size),
			Body: make([]byte, min(run.PartSize, size-n*run.PartSize))})
		if _, err := s.bus.Request(s.t.Context(), subject.RunnerAPI(runnerapi.OpPutPart), raw); err != nil {
			return err
		}
	}
	return nil
}

// TestResultsThatNoRecordNames: a worker stores large results, and its end records name none of them. They count to its
// runs' caller. Others' results and prompts have room.
func TestResultsThatNoRecordNames(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t, natstest.MaxStore(220<<20)) // 57 MiB of it for payloads
	s := secure(t, func(c *serve.Config) { c.NATS.URL = p.URL() })
	s.post("/agents", `{"name":"tool"}`, s.admin).want(201)
	var refused atomic.Int32
	s.workAs(thinker("p"), func(q run.Queued) run.Outcome {
		if q.Input == nil { // its prompt is a payload
			return done(`{}`)
		}
		err := s.storeResult(q, 5<<20)
		switch {
		case err != nil && strings.Contains(string(q.Parameters), "honest"):
			return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
		case err != nil:
			refused.Add(1)
		}
		return done(`{}`)
	})
	ended := func(a runs.Accepted, token string) (r run.Run) {
		natstest.Until(t, "a run ends", func() bool {
			g := s.get("/runs/"+a.RunID, token)
			if g.status == 200 {
				r = into[run.Run](g, 200)
			}
			return r.Status.Final()
		})
		return r
	}
	for range 8 {
		ended(s.submit(`{"agent_name":"tool","prompt":"bad"}`, s.run), s.run)
	}
	if n := refused.Load(); n < 2 || n > 5 {
		t.Errorf("%d of 8 results were refused, want those beyond half of the store", n)
	}
	if r := ended(s.submit(`{"agent_name":"tool","prompt":"honest"}`, s.admin), s.admin); r.Status != run.Completed {
		t.Errorf("another caller's run: %v", r.Error)
	}
	s.post("/runs", `{"agent_name":"tool","prompt":"`+strings.Repeat("x", 1<<20)+`"}`, s.admin).want(201)
}

// TestPayloadsDoNotStopAllWrites: one token sends prompts of 12 MB, more than its share, and its runs report results as
// large. It gets its share and no more. Others' runs are accepted and complete, with large prompts and results, and
// everything can be stopped and deleted.
func TestPayloadsDoNotStopAllWrites(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t, natstest.MaxStore(220<<20)) // 57 MiB of it for payloads
	s := secure(t, func(c *serve.Config) { c.NATS.URL = p.URL() })
	release := make(chan struct{})
	var refusedResult atomic.Pointer[fault.Fault]
	s.post("/agents", `{"name":"tool"}`, s.admin).want(201)
	wide := thinker("p")
	wide.MaxConcurrentRuns = 16
	s.workAs(wide, func(q run.Queued) run.Outcome {
		switch {
		case q.Input != nil && strings.Contains(string(q.Parameters), "greedy"):
			<-release
		case q.Input == nil:
			<-release
			if f, is := errors.AsType[*fault.Fault](s.storeResult(q, 15<<20)); is {
				refusedResult.Store(f)
			}
		case strings.Contains(string(q.Parameters), "large result"):
			if err := s.storeResult(q, 5<<20); err != nil {
				return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
			}
		}
		return done(`{}`)
	})

	prompt := func(size int) string {
		return `{"agent_name":"tool","prompt":"` + strings.Repeat("x", size) + `"}`
	}
	var accepted []runs.Accepted
	var refused got
	for range 4 {
		g := s.post("/runs", prompt(12<<20), s.run)
		if g.status == 201 {
			accepted = append(accepted, into[runs.Accepted](g, 201))
			continue
		}
		refused = g
		stored := natstest.Payloads(t, s.bus)
		if len(stored) != len(accepted) {
			t.Fatalf("%d runs are accepted, and %d payloads are stored", len(accepted), len(stored))
		}
	}
	if m := refused.want(429); m["error"] != run.CodePayloadShare || refused.header.Get("Retry-After") == "" ||
		!strings.Contains(refused.body, "share") || len(accepted) == 0 || len(accepted) > 3 {
		t.Fatalf("%d are accepted, then: %d %v %s", len(accepted), refused.status, refused.header, refused.body)
	}
	small := s.submit(`{"agent_name":"tool","prompt":"greedy"}`, s.run)

	honest := func(body string) {
		t.Helper()
		g := s.post("/runs", body, s.admin)
		id := into[runs.Accepted](g, 201).RunID
		natstest.Until(t, "an honest run ends", func() bool {
			r := into[run.Run](s.get("/runs/"+id, s.admin), 200)
			if r.Status == run.Failed {
				t.Fatalf("an honest run failed: %v", r.Error)
			}
			return r.Status == run.Completed
		})
	}
	for range 3 {
		honest(`{"agent_name":"tool","prompt":"small"}`)
	}
	honest(`{"agent_name":"tool","prompt":"large result"}`)
	s.get("/ready").want(200)
	if m := s.post("/runs/"+small.RunID+"/stop", "", s.run).want(200); m["status"] == nil {
		t.Errorf("stop: %v", m)
	}
	close(release)
	for _, a := range accepted {
		natstest.Until(t, "the greedy runs end", func() bool {
			g := s.get("/runs/"+a.RunID, s.run) // 503 while the machine is busy
			return g.status == 200 && into[run.Run](g, 200).Status.Final()
		})
	}
	if f := refusedResult.Load(); f == nil || f.Code != run.CodePayloadShare || f.Kind != fault.Busy {
		t.Errorf("a greedy run's result: %v", f)
	}

	// The parameters of its ended runs make room for its next ones.
	var next got
	var at time.Time
	natstest.Until(t, "it has room again", func() bool {
		if time.Since(at) > time.Second {
			next, at = s.post("/runs", prompt(12<<20), s.run), time.Now()
		}
		return next.status == 201
	})
	first := s.get("/runs/"+accepted[0].RunID, s.run)
	if m := first.want(200); m["parameters"] != nil || m["parameters_expired"] != true {
		t.Errorf("a run whose parameters were removed: %.300s", first.body)
	}
	if m := s.post("/runs/"+accepted[0].RunID+"/retry", "", s.run).want(404); m["error"] != run.CodeParametersExpired {
		t.Errorf("its retry: %v", m)
	}
	s.call("DELETE", "/sessions/"+accepted[0].SessionID, "", s.admin).want(204)
}
