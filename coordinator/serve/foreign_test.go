package serve_test

import (
	"fmt"
	"strings"
	"testing"

	"ao/coordinator/ledger"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"

	"github.com/nats-io/nats.go/jetstream"
)

// What a worker's credential alone can write, without the key of any attempt.
var keyless = map[string]string{
	"a newer version":  `{"v":99}`,
	"the next version": `{"v":2,"session_id":"ses_a","attempt":1,"status":"completed"}`,
	"a well-formed record": `{"v":1,"session_id":"ses_a","runner_id":"rnr_1","nonce":"n","attempt":1,` +
		`"status":"completed","executor_session_id":"m","at":"2026-01-01T00:00:00Z"}`,
	"nothing":                ``,
	"no JSON":                `{"v":`,
	"a version of no use":    `{"v":"99"}`,
	"a version without end":  `{"v":99999999999999999999999999}`,
	"the shape of an attack": `[[[[[[[[` + strings.Repeat("[", 1000),
	"a name twice":           `{"v":1,"v":99}`,
	"a large body":           `{"v":99,"x":"` + strings.Repeat("x", 20<<10) + `"}`,
}

// forge writes such records for a run and for none, of every kind that workers write, into every kind of subject.
func forge(t *testing.T, b *bus.Bus, runs ...string) (written int) {
	t.Helper()
	kinds := []func(partition, run, key string) string{subject.Claimed, subject.Bound, subject.Offered, subject.Ended}
	for _, id := range append(runs, "run_a", run.NewID(), strings.Repeat("x", 700)) {
		for _, partition := range []string{"63", "0", "999", "x"} {
			for i, kind := range kinds {
				n := 0
				for _, body := range keyless {
					n++
					key := fmt.Sprintf("k%d-%d", n, i)
					if n%3 == 0 {
						key = strings.Repeat("0", 32-len(key)) + key
					}
					if _, err := b.Append(t.Context(),
						bus.Entry{Subject: kind(partition, id, key), Body: []byte(body)}); err != nil {
						t.Fatal(err)
					}
					written++
				}
			}
		}
	}
	return written
}

// One message of any worker must not end the deployment. A record without an attempt's key belongs to no attempt,
// whatever it holds. That holds for every coordinator, also for one that starts later.
func TestRecordWithoutKeyIsIgnored(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome { return done(`{}`) }, echo("tool"))
	first := s.submit(`{"agent_name":"tool"}`)
	s.until(first.RunID, run.Completed)
	written := forge(t, s.bus, first.RunID)
	s.get("/ready").want(200)
	s.until(s.submit(`{"agent_name":"tool"}`).RunID, run.Completed)
	again := s.another()
	again.get("/ready").want(200)
	for _, at := range []*stack{s, again} {
		var r ledger.Report
		natstest.Until(t, "the ledger has all runs", func() bool {
			r = into[ledger.Report](at.get("/ledger"), 200)
			return r.Runs.Ended == 2
		})
		if !r.OK || r.Foreign > uint64(written) || r.Foreign > 100 && len(r.ForeignSeqs) != 100 {
			t.Errorf("got %+v, want at most %d foreign records, and nothing wrong", r, written)
		}
		if got := at.get("/runs/" + first.RunID).want(200)["status"]; got != string(run.Completed) {
			t.Errorf("the run is %v", got)
		}
	}
}

// What an operator may delete by hand: a foreign record while everything runs, a coordinator's record that nobody reads
// while no coordinator runs.
func TestRecordDeletedByHand(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome { return done(`{}`) }, echo("tool"))
	s.until(s.submit(`{"agent_name":"tool"}`).RunID, run.Completed)
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := js.Stream(t.Context(), subject.Runs)
	if err != nil {
		t.Fatal(err)
	}
	write := func(subj string) uint64 {
		t.Helper()
		seq, err := s.bus.Append(t.Context(), bus.Entry{Subject: subj, Body: []byte(`{"v":99}`)})
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	take := func(seq uint64) {
		t.Helper()
		if err := runs.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	take(write(subject.Ended("63", "run_a", "k")))
	s.until(s.submit(`{"agent_name":"tool"}`).RunID, run.Completed)
	r := into[ledger.Report](s.get("/ledger"), 200)
	if n := len(r.Damages); n == 1 && r.Damages[0].Missing == 1 { // the mark was there before
		s.post("/ledger/accept", "").want(200)
		r = into[ledger.Report](s.get("/ledger"), 200)
	}
	if !r.OK || r.Foreign != 0 {
		t.Errorf("the ledger: %+v", r)
	}
	newer := write(subject.Stopping("63", "run_a"))
	natstest.Until(t, "the coordinator is not ready", func() bool { return s.get("/ready").status == 503 })
	s.get("/ready").want(503)
	s.stop()
	take(newer)
	again := s.another()
	natstest.Until(t, "the coordinator is ready", func() bool { return again.get("/ready").status == 200 })
}

// A worker may write, under its attempt's key, a record of a newer version than the attempt allows. That ends the
// attempt as failed, for every coordinator and the ledger alike. All coordinators stay ready.
func TestRecordAboveItsAttemptsVersionFailsIt(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := s.another()
	s.work(func(q run.Queued) run.Outcome {
		part := subject.Partition(q.SessionID)
		for name, subj := range map[string]string{"bound": subject.Bound(part, q.ID, q.Key),
			"ended": subject.Ended(part, q.ID, q.Key), "offered": subject.Offered(part, q.ID, q.Key)} {
			if strings.Contains(string(q.Parameters), name) && q.Attempt == 1 {
				if _, err := s.bus.Append(t.Context(),
					bus.Entry{Subject: subj, Body: []byte(`{"v":2,"session_id":"` + q.SessionID + `","attempt":1,` +
						`"status":"completed"}`)}); err != nil {
					t.Error(err)
				}
			}
		}
		return done(`{}`)
	}, echo("tool"))
	for _, kind := range []string{"bound", "ended", "offered"} {
		failed := s.submit(`{"agent_name":"tool","parameters":{"x":"` + kind + `"}}`).RunID
		again := s.submit(`{"agent_name":"tool","parameters":{"x":"` + kind + `"},"max_attempts":2}`).RunID
		for _, at := range []*stack{s, other} {
			r := at.until(failed, run.Failed)
			if r.Error == nil || r.Error.Code != "record_version" {
				t.Errorf("%s: %+v", kind, r.Error)
			}
			if story := at.get("/runs/" + failed + "/explain"); story.status != 200 ||
				strings.Count(story.body, `"what":"failed"`) != 1 || strings.Contains(story.body, "follows after") {
				t.Errorf("%s: the story is %s", kind, story.body)
			}
			if r := at.until(again, run.Completed); r.Attempt != 2 {
				t.Errorf("%s: attempt %d", kind, r.Attempt)
			}
			at.get("/ready").want(200)
		}
	}
	for _, at := range []*stack{s, other} {
		if r := into[ledger.Report](at.get("/ledger"), 200); !r.OK || r.Foreign != 0 || r.Runs.Ended != 6 ||
			r.Runs.Failed != 3 || r.Attempts.Retried != 3 {
			t.Errorf("the ledger: %+v", r)
		}
	}
}
