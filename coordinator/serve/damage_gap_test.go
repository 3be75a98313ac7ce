package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/ledger"
	"ao/coordinator/projection/query"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// remove removes records of RUNS behind the coordinators' backs.
func (r *rotten) remove(id, session, kinds string) (n int) {
	r.t.Helper()
	js, err := r.nc.JetStream()
	if err != nil {
		r.t.Fatal(err)
	}
	part := subject.Partition(session)
	of := map[string]string{"queued": subject.QueuedOf(part, id), "claim": subject.Claimed(part, id, "*"),
		"end": subject.Ended(part, id, "*"), "accepted": subject.Accepted(part, session, id)}
	for _, kind := range strings.Fields(kinds) {
		found, err := r.bus.Records(r.t.Context(), of[kind], 0, 1)
		if err != nil || len(found) != 1 {
			r.t.Fatalf("%s of %s: %d, %v", kind, id, len(found), err)
		}
		if err := js.DeleteMsg(subject.Runs, found[0].Seq); err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	return n
}

// TestAGapInTheMiddle: a run whose end is missing fails once, though it has attempts left. Neither a coordinator that
// had read the records nor one that starts with an empty data folder lets it start again.
func TestAGapInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			t.Parallel()
			r := fill(t, 40)
			missing, damaged := 0, map[string]string{}
			for _, kinds := range []string{"claim", "end", "claim end"} {
				a := r.submit(`{"agent_name":"tool","max_attempts":3}`)
				r.until(a.RunID, run.Completed)
				damaged[a.RunID] = a.SessionID + " " + kinds
			}
			whole := r.submit(`{"agent_name":"tool","max_attempts":3}`)
			r.until(whole.RunID, run.Completed)
			r.marked(r.dir)
			if restarted {
				r.stop()
				r.dir = t.TempDir()
			}
			for id, what := range damaged {
				session, kinds, _ := strings.Cut(what, " ")
				missing += r.remove(id, session, kinds)
			}
			s := r.stack
			if restarted {
				s = start(t, r.on)
				s.work(r.starts.do, echo("tool"))
			}
			l := s.ledgerAs("the affected runs are known", resolved)
			if d := l.Damages[0]; l.OK || d.Missing != uint64(missing) || d.Failed == 0 ||
				!strings.HasSuffix(d.Message, fmt.Sprintf(": %d records are missing", missing)) {
				t.Errorf("the ledger says %+v, want %d missing records, and failed runs", l.Damages, missing)
			}
			for id, what := range damaged {
				if strings.HasSuffix(what, " claim") { // its end is left, and proves it
					s.until(id, run.Completed)
					continue
				}
				failed := s.until(id, run.Failed)
				if failed.Error == nil || failed.Error.Code != "history_damaged" || failed.Attempt > 1 {
					t.Errorf("run without its %s: attempt %d ended with %v", what, failed.Attempt, failed.Error)
				}
			}
			s.until(whole.RunID, run.Completed)
			s.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
			s.post("/ledger/accept", "").want(200)
			s.ledgerAs("the ledger is in order", func(l ledger.Report) bool { return l.OK })
			r.starts.wantOnce(t)
		})
	}
}

// TestAKeyOfALostRun: a request is repeated with the key of a run of which the history has lost all. It may have begun,
// so nothing is started until an admin accepts the loss. A run that is known is no matter.
func TestAKeyOfALostRun(t *testing.T) {
	t.Parallel()
	r := fill(t, 8)
	r.post("/agents", `{"name":"mind"}`).want(201)
	r.work(r.starts.do, echo("speaker"))
	const body, waits = `{"agent_name":"speaker"}`, `{"agent_name":"mind","prompt":"later"}`
	known := r.submit(body, "Idempotency-Key: known")
	r.until(known.RunID, run.Completed)
	waiting := r.submit(waits, "Idempotency-Key: waiting")
	r.marked(r.dir)
	r.remove(waiting.RunID, waiting.SessionID, "accepted")
	r.ledgerAs("the affected runs are known", resolved)
	natstest.Until(t, "the coordinator is ready", func() bool { return r.get("/ready").status == 200 })
	for _, key := range []string{"waiting", "new"} {
		if g := r.post("/runs", waits, "Idempotency-Key: "+key); g.status != 409 ||
			!strings.Contains(g.body, "history_damaged") {
			t.Errorf("key %s is answered with %d %s", key, g.status, g.body)
		}
	}
	if again := r.submit(body, "Idempotency-Key: known"); again.RunID != known.RunID {
		t.Errorf("the known run's request is answered with %+v, want %+v", again, known)
	}
	left := []byte(`{"agent_name":"mind","prompt":"left"}`)
	if _, err := r.p.Conn(t).Request(subject.InboxRuns, left, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	r.post("/ledger/accept", "").want(200)
	if again := r.submit(waits, "Idempotency-Key: waiting"); again.RunID != waiting.RunID {
		t.Errorf("the lost run's request is answered with %+v, want %+v", again, waiting)
	}
	r.submit(waits, "Idempotency-Key: new")
	natstest.Until(t, "the inbox's message is accepted", func() bool {
		return len(into[query.Page](r.get("/runs?q=left"), 200).Runs) == 1
	})
	r.starts.wantOnce(t)
}

// TestALostSecret: a coordinator does not start with a new secret where a history needs the old one.
func TestALostSecret(t *testing.T) {
	t.Parallel()
	r := fill(t, 8)
	r.stop()
	if err := r.bus.Bucket(subject.Secrets).Delete(t.Context(), "attempts"); err != nil {
		t.Fatal(err)
	}
	var cfg serve.Config
	r.on(&cfg)
	cfg.HTTPAddr, cfg.Log, cfg.NATS.Log = "127.0.0.1:0", natstest.Log(t), natstest.Log(t)
	err := serve.Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "lost the deployment's secret") {
		t.Errorf("the coordinator ended with %v", err)
	}
}
