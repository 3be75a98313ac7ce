package parts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Two coordinators store the same large request, each with its own lookup of the agent: the record names the body that
// belongs to it.
func TestALargeRequestThatTwoStore(t *testing.T) {
	s := natstest.Server(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thinker.json"), []byte(`{"name":"thinker"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	a := start(t, natstest.Open(t, s), Config{AgentsDirs: []string{dir}})
	at := time.Now().Add(-time.Hour) // the other one sees the file as it was at another time
	if err := os.Chtimes(filepath.Join(dir, "thinker.json"), at, at); err != nil {
		t.Fatal(err)
	}
	b := start(t, natstest.Open(t, s), Config{AgentsDirs: []string{dir}})
	body := []byte(`{"agent_name":"thinker","prompt":"` + strings.Repeat("x", run.MaxInline+1) + `"}`)
	const runID, sessionID = "run_0123456789abcdef0123456789abcdef", "ses_0123456789abcdef0123456789abcdef"
	plans := make([]*runs.Plan, 2)
	for i, c := range []*Coordinator{a, b} {
		p, err := c.Check(t.Context(), body, "test")
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Blueprint = json.RawMessage(`{"name":"thinker","created_at":"` + []string{"earlier", "later"}[i] + `"}`)
		plans[i] = p
	}
	if _, err := a.Place(t.Context(), plans[0], runID, sessionID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Place(t.Context(), plans[1], runID, sessionID); err != nil {
		t.Fatal(err)
	}
	got, err := b.Show(t.Context(), runID)
	if err != nil || len(got.Parameters) < run.MaxInline {
		t.Errorf("%d bytes of parameters, %v", len(got.Parameters), err)
	}
}

// An end record of a run came before the run. A coordinator that abandons the run does not find it in its place.
func TestALateEndRecordIsNotInTheWay(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{Lease: time.Hour}))
	p, err := f.c.Check(t.Context(), []byte(`{"agent_name":"thinker","prompt":"think"}`), "test")
	if err != nil {
		t.Fatal(err)
	}
	id, session := run.NewID(), run.NewSessionID()
	put(t, f.c.bus, subject.Ended(subject.Partition(session), id, f.c.keys.Of(id, 1)), run.Ended{V: run.Version,
		SessionID: session, RunnerID: f.r.ID(), Nonce: "n", Attempt: 1, Status: run.Completed, At: time.Now()})
	if _, err := f.c.Place(t.Context(), p, id, session); err != nil {
		t.Fatal(err)
	}
	act := f.claim(id)
	natstest.Until(t, "the run is abandoned", func() bool {
		return f.c.ends.FailLost(t.Context(), act, "test") == nil && f.c.History.Ended(id)
	})
}

// NATS lost the records between the claim of an attempt and the end record of the next one. The next attempt is claimed
// again, and its worker dies. That end record does not keep anybody from abandoning the attempt.
func TestAnEarlyEndRecordIsNotInTheWay(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{Lease: time.Hour}))
	id := f.start(`,"max_attempts":2`).RunID
	first := f.claim(id)
	putEnd := func(n int, status run.Status) {
		put(t, f.c.bus, subject.Ended(subject.Partition(first.Spec.SessionID), id, f.c.keys.Of(id, n)),
			run.Ended{V: run.Version, SessionID: first.Spec.SessionID, RunnerID: f.r.ID(), Nonce: "n", Attempt: n,
				Status: status, At: time.Now()})
	}
	putEnd(2, run.Completed)
	putEnd(1, run.Failed)
	active(t, f.c, id, "is queued again", func(a state.Active) bool { return a.Attempt == 2 && a.QueuedSeq != 0 })
	second := f.claim(id)
	natstest.Until(t, "the run is abandoned", func() bool {
		return f.c.ends.FailLost(t.Context(), second, "test") == nil && f.c.History.Ended(id)
	})
	if r, err := f.c.Show(t.Context(), id); err != nil || r.Status != run.Failed || r.Attempt != 2 {
		t.Errorf("%+v %v", r, err)
	}
}

// Nor does it keep a run from being stopped, or from being failed where no runner comes.
func TestAnEarlyEndRecordPreventsNoEnd(t *testing.T) {
	for name, claimed := range map[string]bool{"a word": false, "a claim and a word, between two attempts": true} {
		t.Run(name, func(t *testing.T) {
			c := start(t, natstest.Bus(t), Config{Lease: time.Hour})
			r := runner("one", echo("a"))
			register(t, c, r)
			id := submit(t, c, `{"agent_name":"a","max_attempts":2}`, "").RunID
			first := claim(t, c, id, r)
			part, key := subject.Partition(first.Spec.SessionID), c.keys.Of(id, 2)
			putEnd := func(key string, n int, status run.Status) {
				put(t, c.bus, subject.Ended(part, id, key), run.Ended{V: run.Version, SessionID: first.Spec.SessionID,
					RunnerID: r.ID(), Nonce: "n", Attempt: n, Status: status, At: time.Now()})
			}
			if claimed {
				put(t, c.bus, subject.Claimed(part, id, key), run.Claim{V: run.Version, SessionID: first.Spec.SessionID,
					RunnerID: r.ID(), Instance: r.Instance, Nonce: "n", Attempt: 2, At: time.Now()})
			}
			putEnd(key, 2, run.Completed)
			putEnd(first.Key, 1, run.Failed)
			active(t, c, id, "waits for its second attempt", func(a state.Active) bool {
				return a.AttemptNumber() == 2 && a.Claim == nil && (claimed || a.QueuedSeq != 0)
			})
			if got, err := c.Stop(t.Context(), id); err != nil || got.Status != run.Stopped {
				t.Errorf("%s %v", got.Status, err)
			}
			if o := ended(t, c, id); o.Status != run.Stopped {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Likewise a worker's claim of the next attempt was on its way when NATS crashed. It is stored before the record that
// queues the attempt, and counts for nothing. A worker that says it has the attempt keeps it. Otherwise the attempt is
// abandoned like any other, and it can be stopped.
func TestAnEarlyClaimIsNotInTheWay(t *testing.T) {
	for _, tt := range []struct {
		name      string
		has, stop bool
	}{{"its worker has the attempt", true, false}, {"its worker is gone", false, false},
		{"it is stopped", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, natstest.Bus(t), Config{Lease: time.Hour})
			r := runner("one", echo("a"))
			register(t, c, r)
			replies(t, c.bus, r, runnerapi.CommandReply{Instance: r.Instance, Has: tt.has})
			id := submit(t, c, `{"agent_name":"a","max_attempts":2}`, "").RunID
			first := claim(t, c, id, r)
			part, key := subject.Partition(first.Spec.SessionID), c.keys.Of(id, 2)
			putEnd := func(key string, n int, status run.Status) {
				put(t, c.bus, subject.Ended(part, id, key), run.Ended{V: run.Version, SessionID: first.Spec.SessionID,
					RunnerID: r.ID(), Nonce: "n", Attempt: n, Status: status, At: time.Now()})
			}
			put(t, c.bus, subject.Claimed(part, id, key), run.Claim{V: run.Version, SessionID: first.Spec.SessionID,
				RunnerID: r.ID(), Instance: r.Instance, Nonce: "n", Attempt: 2, At: time.Now()})
			if !tt.has {
				putEnd(key, 2, run.Completed)
			}
			putEnd(first.Key, 1, run.Failed)
			second := active(t, c, id, "is queued again", func(a state.Active) bool {
				return a.Attempt == 2 &&
					a.QueuedSeq != 0
			})
			takeUnclaimed(t, c, second)
			if tt.stop {
				if got, err := c.Stop(t.Context(), id); err != nil || got.Status != run.Stopped {
					t.Errorf("%s %v", got.Status, err)
				}
				return
			}
			recreate := func(unheard time.Duration) (has bool) {
				t.Helper()
				c.Hearing.Restart("the test says so", time.Now().Add(-unheard))
				has, err := c.QueueController.RecreateConsumer(t.Context(), second)
				if err != nil {
					t.Error(err)
				}
				return has
			}
			if !recreate(time.Minute) {
				t.Error("nobody was heard for a moment only, and its queue is made again")
			}
			if err := c.reads.CatchUp(t.Context()); err != nil || c.History.Ended(id) {
				t.Errorf("nobody was heard for a moment only, and it is abandoned: %v", err)
			}
			if !tt.has {
				natstest.Until(t, "it is abandoned",
					func() bool { recreate(2 * time.Hour); return c.History.Ended(id) })
				if got, err := c.Show(t.Context(), id); err != nil || got.Status != run.Failed || got.Attempt != 2 ||
					got.Error == nil || got.Error.Code != run.CodeDisconnected {
					t.Errorf("%+v %v", got, err)
				}
				return
			}
			if !recreate(2 * time.Hour) {
				t.Error("its worker says that it has it, and its queue is made again")
			}
			putEnd(key, 2, run.Completed)
			if o := ended(t, c, id); o.Status != run.Completed || o.Attempt != 2 {
				t.Errorf("%+v", o)
			}
		})
	}
}

// What is known of a run is in the stream: a projection that starts over at this moment has nothing.
func TestEmptyProjectionRemovesNothing(t *testing.T) {
	b := natstest.Bus(t)
	blank := New(Config{Bus: b, Log: natstest.Log(t)})
	queued, accepted, none := run.NewID(), run.NewID(), run.NewID()
	session := run.NewSessionID()
	part := subject.Partition(session)
	put(t, b, subject.Queued(part, subject.TaskQueue("x", "y", "z"), queued, 1), run.Queued{})
	put(t, b, subject.Accepted(part, session, accepted), run.Accepted{})
	for id, want := range map[string]bool{queued: true, accepted: true, none: false} {
		if got, err := blank.torn.Exists(t.Context(), id, session); got != want || err != nil {
			t.Errorf("%s exists: %t %v", id, got, err)
		}
	}
}
