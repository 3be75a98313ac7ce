package serve_test

import (
	"fmt"
	"strings"
	"testing"

	"ao/coordinator/ledger"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
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
	}{{"end", 1}, {"end", 3}, {"claim", 1}, {"claim", 3}} {
		t.Run(fmt.Sprint(tt.kind, " ", tt.attempts), func(t *testing.T) {
			t.Parallel()
			r := fill(t, 8)
			w := r.work(r.starts.do, echo("tool"))
			hang := make(chan struct{})
			t.Cleanup(func() { close(hang) })
			if tt.kind == "claim" {
				r.starts.does(func(q run.Queued) {
					w.say(q, "here")
					<-hang
				})
			}
			a := r.submit(fmt.Sprintf(`{"agent_name":"tool","max_attempts":%d}`, tt.attempts))
			part, flipped := subject.Partition(a.SessionID), ""
			if tt.kind == "claim" {
				flipped = r.record(subject.Claimed(part, a.RunID, "*"))
				natstest.Until(t, "the run has events", func() bool {
					seq, err := r.bus.LastEvent(t.Context(), subject.RunEvents(a.SessionID, a.RunID))
					return err == nil && seq > 0
				})
				w.silence()
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

// TestAnUnreadableKey: NATS counts a key of a bucket, and does not give it. A coordinator starts without it, the doctor
// says so, runs go on, and what was lost can be stored again.
func TestAnUnreadableKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ bucket, key string }{
		{subject.Agents, "mind"}, {subject.Schemas, "answer"}, {subject.Runners, ""}, {subject.TaskQueues, ""},
		{subject.HighWater, "runs"}, {subject.Idempotency, ""},
	} {
		t.Run(tt.bucket, func(t *testing.T) {
			t.Parallel()
			r := fill(t, 8)
			mind, answer := `{"name":"mind"}`, `{"name":"answer","schema":{"type":"object"}}`
			r.post("/agents", mind).want(201)
			r.post("/agents", `{"name":"other"}`).want(201)
			r.post("/schemas", answer).want(201)
			key := "Idempotency-Key: one"
			keyed := r.submit(`{"agent_name":"tool"}`, key)
			r.until(keyed.RunID, run.Completed)
			r.marked(r.dir)
			r.rot("KV_"+tt.bucket, "$KV."+tt.bucket+"."+tt.key)
			again := start(t, r.on)
			again.work(r.starts.do, echo("tool"))
			natstest.Until(t, "the coordinator is ready", func() bool { return again.get("/ready").status == 200 })
			again.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
			again.get("/agents/other").want(200)
			want := "bucket " + tt.bucket + " has lost keys that NATS could not read: " + tt.key
			natstest.Until(t, "the doctor says that "+want, func() bool {
				return strings.Contains(again.get("/doctor").body, want)
			})
			switch tt.bucket {
			case subject.Agents:
				again.get("/agents/mind").want(404)
				again.post("/agents", mind).want(201)
				again.get("/agents/mind").want(200)
			case subject.Schemas:
				again.post("/schemas", answer).want(201)
			case subject.Idempotency: // its run is lost to the key, and another one starts
				again.submit(`{"agent_name":"tool"}`, key)
			default:
				if id := again.submit(`{"agent_name":"tool"}`, key).RunID; id != keyed.RunID {
					t.Errorf("the repeated request got run %s, want %s", id, keyed.RunID)
				}
			}
			again.ledgerAs("the ledger is in order", func(l ledger.Report) bool { return l.OK })
			r.starts.wantOnce(t)
			again.stop()
			third := start(t, r.on)
			if says := third.get("/doctor").body; strings.Contains(says, "could not read") {
				t.Errorf("the doctor says %s", says)
			}
		})
	}
}
