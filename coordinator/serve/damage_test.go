package serve_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/ledger"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// starts counts how often each run was started.
type starts struct {
	mu   sync.Mutex
	of   map[string]int
	then func(run.Queued) // what a run does; nil: nothing
}

func (b *starts) do(q run.Queued) run.Outcome {
	b.mu.Lock()
	b.of[q.ID]++
	then := b.then
	b.mu.Unlock()
	if then != nil {
		then(q)
	}
	return done(`"done"`)
}

// does sets what runs do from now on.
func (b *starts) does(then func(run.Queued)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.then = then
}

func (b *starts) wantOnce(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, n := range b.of {
		if n != 1 {
			t.Errorf("run %s was started %d times", id, n)
		}
	}
}

// rotten is a deployment with a NATS process whose files can be damaged.
type rotten struct {
	*stack
	p      *natstest.Process
	starts *starts
	dir    string
}

// on makes a coordinator use the process, and a data folder.
func (r *rotten) on(c *serve.Config) {
	c.NATS.URL, c.NATS.DataDir, c.NATS.Sync, c.Coordinator.Lease = r.p.URL(), r.dir, "always", 2*time.Second
}

// fill makes a history of n ended runs.
func fill(t *testing.T, n int) *rotten {
	t.Helper()
	r := &rotten{p: natstest.Proc(t, natstest.SyncAlways), starts: &starts{of: map[string]int{}}, dir: t.TempDir()}
	r.stack = start(t, r.on)
	r.work(r.starts.do, echo("tool"))
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range n / 8 {
				r.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":1}}`).want(200)
			}
		})
	}
	g.Wait()
	r.marked(r.dir)
	return r
}

// marked waits until the mark in a folder has reached the end of the history.
func (r *rotten) marked(dir string) {
	r.t.Helper()
	natstest.Until(r.t, "the mark has the last record", func() bool {
		s, err := r.bus.State(r.t.Context())
		raw, _ := os.ReadFile(dir + "/highwater.json")
		return err == nil && strings.Contains(string(raw), fmt.Sprintf(`"sequence":%d,"durable"`, s.Last))
	})
}

// ledgerAs waits for a ledger whose damages are as ok wants them.
func (s *stack) ledgerAs(what string, ok func(ledger.Report) bool) (r ledger.Report) {
	s.t.Helper()
	natstest.Until(s.t, what, func() bool {
		g := s.get("/ledger")
		if g.status != 200 {
			return false
		}
		r = into[ledger.Report](g, 200)
		return ok(r)
	})
	return r
}

func resolved(r ledger.Report) bool { return len(r.Damages) > 0 && r.Damages[0].ResolvedAt != nil }

// TestAFlippedBit: a crashed server cuts the history at a flipped bit. Two coordinators and the ledger report it, and
// no run starts twice. New runs are accepted again once the affected ones are known. An admin accepts the damage. A cut
// between two runs fails none: TestAGapInTheMiddle cuts where one fails.
func TestAFlippedBit(t *testing.T) {
	t.Parallel()
	r := fill(t, 640)
	other := r.another(func(c *serve.Config) { r.on(c); c.NATS.DataDir = t.TempDir() })
	before, err := r.bus.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.p.Kill()
	r.p.FlipBit(subject.Runs, 0.5)
	r.p.Start()
	report := r.ledgerAs("the affected runs are known", resolved)
	d := report.Damages[0]
	want := fmt.Sprintf("the stream ends at %d, it had reached %d: %d records are missing", d.Ends, before.Last,
		before.Last-d.Ends)
	if report.OK || d.Message != want || report.Wrong[0].Kind != "history_damaged" || report.Wrong[0].Message != want ||
		d.Missing < 500 || d.Lost == 0 || len(d.Runs) == 0 {
		t.Errorf("the ledger says %+v, want %q", d, want)
	}
	for _, one := range d.Runs {
		if one.Evidence == "a coordinator had read it" { // lost
			continue
		}
		failed := r.until(one.ID, run.Failed)
		if failed.Error == nil || failed.Error.Code != "history_damaged" {
			t.Errorf("run %s ended with %v", one.ID, failed.Error)
		}
	}
	natstest.Until(t, "the coordinator is ready", func() bool { return r.get("/ready").status == 200 })
	r.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
	r.sums(map[string]float64{"ao_history_missing_records": float64(d.Missing)})
	if g := r.get("/doctor"); !strings.Contains(g.body, `"verdict":"fail","what":"`+want) {
		t.Errorf("the doctor says %s", g.body)
	}
	r.post("/ledger/accept", "").want(200)
	r.sums(map[string]float64{"ao_history_missing_records": 0})
	if g := r.get("/doctor"); !strings.Contains(g.body, "no records are missing") {
		t.Errorf("the doctor says %s", g.body)
	}
	for _, s := range []*stack{r.stack, other} {
		s.ledgerAs("the ledger is in order", func(l ledger.Report) bool { return l.OK && len(l.Damages) == 1 })
	}
	natstest.Until(t, "both coordinators show the same", func() bool {
		one, two := r.get("/runs?limit=1000"), other.get("/runs?limit=1000")
		return one.status == 200 && one.body == two.body
	})
	r.starts.wantOnce(t)
}

// TestAnEmptyFolderAndAnEmptyBucket: without the file the bucket has the mark, and without the bucket the file.
func TestAnEmptyFolderAndAnEmptyBucket(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"file", "bucket"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			r := fill(t, 80)
			r.stop()
			if lost == "file" {
				r.dir = t.TempDir()
			} else if err := r.bus.Bucket(subject.HighWater).Delete(t.Context(), "runs"); err != nil {
				t.Fatal(err)
			}
			r.p.Kill()
			r.p.FlipBit(subject.Runs, 0.5)
			r.p.Start()
			again := start(t, r.on)
			again.work(r.starts.do, echo("tool"))
			if l := again.ledgerAs("the affected runs are known", resolved); l.OK {
				t.Error("the ledger is in order")
			}
			again.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
			r.starts.wantOnce(t)
		})
	}
}

// sessions returns the ids of all sessions.
func (s *stack) sessions() (ids []string) {
	s.t.Helper()
	for cursor := ""; ; {
		m := s.get("/sessions?limit=200" + cursor).want(200)
		for _, one := range m["sessions"].([]any) {
			ids = append(ids, one.(map[string]any)["session_id"].(string))
		}
		next, more := m["next_cursor"].(string)
		if !more || next == "" {
			return ids
		}
		cursor = "&cursor=" + next
	}
}

// TestDeletionsAreNoDamage: while several coordinators delete sessions, none of them and no ledger misses anything,
// also after a restart.
func TestDeletionsAreNoDamage(t *testing.T) {
	t.Parallel()
	r := fill(t, natstest.Load(120, 1000))
	other := r.another(func(c *serve.Config) { r.on(c); c.NATS.DataDir = t.TempDir() })
	ids := r.sessions()
	var g sync.WaitGroup
	for i, s := range []*stack{r.stack, other} {
		g.Go(func() {
			for n := i; n < len(ids); n += 2 {
				s.call("DELETE", "/sessions/"+ids[n], "").want(204)
				if n%40 < 2 {
					s.ledgerAs("the ledger answers", func(l ledger.Report) bool {
						if len(l.Damages) > 0 {
							t.Errorf("a deletion is a damage: %+v", l.Damages)
						}
						return true
					})
				}
			}
		})
	}
	g.Wait()
	r.stop()
	r.p.Kill()
	r.p.Start()
	again := start(t, r.on)
	again.ledgerAs("nothing is missing", func(l ledger.Report) bool { return l.OK && len(l.Damages) == 0 })
}

// rotInTheMiddle ends all cleanly, and flips a bit in the body of a record with others around it. In a record's head
// the bit could cost the server more than that record.
func (r *rotten) rotInTheMiddle() {
	r.t.Helper()
	all := into[struct{ Runs []run.Run }](r.get("/runs?limit=50"), 200).Runs
	one := all[len(all)/2]
	r.rot(subject.Runs, r.record(subject.Ended(subject.Partition(one.SessionID), one.ID, "*")))
}

// TestAnUnreadableRecord: after a clean end the server loses the one record alone, and counts it all the same.
func TestAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	r := fill(t, 80)
	r.rotInTheMiddle()
	again := start(t, r.on)
	again.work(r.starts.do, echo("tool"))
	l := again.ledgerAs("the affected runs are known", resolved)
	if l.OK || !strings.HasSuffix(l.Damages[0].Message, "and 1 of them cannot be read") {
		t.Errorf("the ledger says %+v", l.Damages)
	}
	again.post("/ledger/accept", "").want(200)
	again.ledgerAs("the ledger is in order", func(l ledger.Report) bool { return l.OK })
	again.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
	r.starts.wantOnce(t)
}

// TestAnUnreadableRecordIsReported: a coordinator that reads the whole history finds it by itself.
func TestAnUnreadableRecordIsReported(t *testing.T) {
	t.Parallel()
	r := fill(t, 80)
	r.rotInTheMiddle()
	r.dir = t.TempDir()
	again := start(t, r.on)
	again.work(r.starts.do, echo("tool"))
	again.sums(map[string]float64{"ao_history_missing_records": 1})
	natstest.Until(t, "the coordinator is ready", func() bool { return again.get("/ready").status == 200 })
	again.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
	r.starts.wantOnce(t)
}

// TestAnotherNATS: an empty NATS in the place of the one before is a damage, and what is new works.
func TestAnotherNATS(t *testing.T) {
	t.Parallel()
	r := fill(t, 8)
	r.post("/agents", `{"name":"mind"}`).want(201)
	r.submit(`{"agent_name":"mind","prompt":"it is the last record"}`)
	end, err := r.bus.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.stop() // marks the last record
	r.p = natstest.Proc(t, natstest.SyncAlways)
	again := start(t, r.on)
	l := again.ledgerAs("the damage is known", resolved)
	if l.OK || !strings.HasSuffix(l.Damages[0].Message, fmt.Sprint("the one before had reached ", end.Last)) {
		t.Errorf("the ledger says %+v", l.Damages)
	}
	again.work(r.starts.do, echo("tool"))
	again.post("/runs", `{"agent_name":"tool","mode":"sync","parameters":{"a":2}}`).want(200)
	again.post("/ledger/accept", "").want(200)
	again.ledgerAs("the ledger is in order", func(l ledger.Report) bool { return l.OK })
}
