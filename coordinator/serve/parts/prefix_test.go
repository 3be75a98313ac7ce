package parts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// Of records that belong together, perhaps only the first ones are stored. Either NATS crashed while it wrote the
// batch, or their writer ended between two single ones. scripts/rules wants a test of each use of such appends
// (decision 0033).

// cuts runs a story for each beginning of what a coordinator writes, and for each that may go on from it.
func cuts(t *testing.T, members int, story func(t *testing.T, p prefix)) {
	for k := 1; k < members; k++ {
		for _, who := range []string{"left running", "new"} {
			t.Run(fmt.Sprintf("%d of %d, a coordinator %s", k, members, who), func(t *testing.T) {
				t.Parallel()
				c, end := startStoppable(t, natstest.Bus(t), Config{})
				story(t, prefix{fixture: newFixture(t, c), members: members, k: k, end: end, anew: who == "new"})
			})
		}
	}
}

// prefix is such a story: a family whose coordinator writes the first k records.
type prefix struct {
	fixture
	members, k int
	anew       bool // it ends before, and a new one goes on
	end        func()
	late       bus.Entry // what the slow writer of a session's record writes behind it
}

// write writes them, and what follows them, and gives who goes on; another one is beside it. It reports whether what
// follows came too late: a coordinator that was left running was faster.
func (p *prefix) write(all []bus.Entry, err error, following ...bus.Entry) (late bool) {
	p.Helper()
	if err != nil || len(all) != p.members {
		p.Fatalf("%d records are written together, want %d: %v", len(all), p.members, err)
	}
	b := p.c.bus
	if p.anew {
		p.end()
	}
	for i, e := range append(all[:p.k:p.k], following...) {
		_, err := b.Append(p.Context(), e)
		late = i >= p.k && !p.anew && errors.Is(err, bus.ErrTaken)
		if err != nil && !late {
			p.Fatal(err)
		}
	}
	if p.anew {
		p.c = start(p.T, b, Config{})
	}
	start(p.T, b, Config{})
	return late
}

// endsOnce waits for the end of a run, and wants it to be this one, and the only one.
func (p *prefix) endsOnce(id string, status run.Status, code string) {
	p.Helper()
	o := ended(p.T, p.c, id)
	if o.Status != status || o.Error == nil || o.Error.Code != code {
		p.Errorf("it ended as %s, %v; want %s, %s", o.Status, o.Error, status, code)
	}
	p.records(subject.Ended(subject.Partition(o.SessionID), id, "*"), 1)
	p.inOrder()
}

// records wants so many under a filter.
func (p *prefix) records(filter string, want int) []bus.Message {
	p.Helper()
	all, err := p.c.bus.Records(p.Context(), filter, 0, 100)
	if err != nil || len(all) != want {
		p.Errorf("%d records of %s, want %d: %v", len(all), filter, want, err)
	}
	return all
}

func (p *prefix) inOrder() {
	p.Helper()
	r, err := p.c.Auditor.Ledger(p.Context())
	if err != nil || !r.OK {
		p.Errorf("ledger: %+v %v", r.Wrong, err)
	}
}

// A coordinator that ends a waiting run claims it first, and the claim carries the end record. Whichever coordinator
// goes on writes that end record. The run does not wait for a lease to expire, and no worker executes it.
func TestAPrefixOfTheEndOfAWaitingRun(t *testing.T) {
	for _, tt := range []struct {
		name   string
		queued bool
		status run.Status
		f      *fault.Fault
	}{
		{"stopped in its queue", true, run.Stopped, fault.New(fault.Internal, "stopped", "Stopped before it began")},
		{"never matched", false, run.Failed, fault.New(fault.Internal, "no_matching_runner",
			"No matching runner available within timeout").With("limit", "RUN_NO_MATCH_TIMEOUT")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cuts(t, 2, func(t *testing.T, p prefix) {
				more := `,"additional_demands":{"hostname":"nowhere"}`
				if tt.queued {
					more = ""
				}
				id := p.start(more).RunID
				a := active(t, p.c, id, "is known", func(a state.Active) bool { return isQueued(a) == tt.queued })
				all, err := p.c.ends.WaitingEnd(t.Context(), a, tt.status, tt.f)
				p.write(all, err)
				p.endsOnce(id, tt.status, tt.f.Code)
			})
		})
	}
}

// A run is stopped at the moment in which it is claimed to fail: the end record that the claim carries is appended and
// delivered.
func TestAStopOfARunThatIsBeingEnded(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		id := p.start("").RunID
		a := active(t, p.c, id, "is queued", isQueued)
		all, err := p.c.ends.WaitingEnd(t.Context(), a, run.Failed, fault.New(fault.Internal, "no_matching_runner",
			"none"))
		p.write(all, err)
		natstest.Until(t, "the claim is read", func() bool {
			a, ok := p.c.History.Active(id)
			return !ok ||
				a.Claim != nil
		})
		if _, err := p.c.Stop(t.Context(), id); fault.KindOf(err) != fault.Conflict {
			t.Errorf("the stop of a run that failed: %v", err)
		}
		p.endsOnce(id, run.Failed, "no_matching_runner")
	})
}

// What a coordinator appends in an unverified result's place carries its end record: it is nobody's result, and no
// lease is waited for.
func TestAPrefixOfTheEndOfAnAttemptWithASchema(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d attempts", attempts), func(t *testing.T) {
			cuts(t, 2, func(t *testing.T, p prefix) {
				id := p.start(fmt.Sprintf(`%s,"max_attempts":%d`, mustBe, attempts)).RunID
				a := p.claim(id)
				p.write(p.c.ends.EndIfUnreported(t.Context(), a, run.Failed,
					fault.New(fault.Internal, run.CodeDisconnected,
						"gone")))
				if attempts == 1 {
					p.endsOnce(id, run.Failed, run.CodeDisconnected)
					return
				}
				second := active(t, p.c, id, "has its second attempt",
					func(a state.Active) bool { return a.Attempt == 2 && isQueued(a) })
				if second.CarriedEndSeq != 0 {
					t.Error("the second attempt is ended by what ended the first")
				}
				p.report(p.claim(id), data(`{"n":1}`))
				if o := ended(t, p.c, id); o.Status != run.Completed {
					t.Errorf("it ended as %s, %v", o.Status, o.Error)
				}
				p.inOrder()
			})
		})
	}
}

// An unverified result that comes at that moment is refused, and a failure that the worker appends itself is the one
// end.
func TestAWorkersRecordBetweenTwoRecordsOfAnEnd(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		id := p.start(mustBe).RunID
		a := p.claim(id)
		all, err := p.c.ends.EndIfUnreported(t.Context(), a, run.Failed, fault.New(fault.Internal, run.CodeDisconnected,
			"gone"))
		exit, _ := json.Marshal(run.Ended{V: run.Version, SessionID: a.Spec.SessionID, RunnerID: p.r.ID(), Nonce: "n",
			Attempt: 1, Status: run.Failed, Error: fault.New(fault.Internal, "exit", "no"), At: time.Now()})
		want := "exit"
		if p.write(all, err, bus.Entry{Subject: all[1].Subject, Body: exit}) {
			want = run.CodeDisconnected
		}
		p.endsOnce(id, run.Failed, want)
	})
}

// The record of a session whose id its caller chose carries the session's run. The id stands for that run and no other,
// and the run starts once.
func TestAPrefixOfASessionAndItsRun(t *testing.T) {
	for name, more := range map[string]string{"a runner is there": "",
		"nobody would take it": `,"additional_demands":{"hostname":"nowhere"}`,
		"it is large":          `,"parameters":{"prompt":"` + strings.Repeat("x", run.MaxInline) + `"}`} {
		t.Run(name, func(t *testing.T) {
			cuts(t, 2, func(t *testing.T, p prefix) {
				id := "ses_my-own"
				body := strings.Replace(`{"agent_name":"thinker","session_id":"`+id+`","prompt":"think"`+more+`}`,
					`"prompt":"think","parameters"`, `"parameters"`, 1)
				spec := p.beginning(body)
				for range 2 { // before it is accepted, and after
					if _, err := p.c.Submit(t.Context(), []byte(body), "another",
						""); fault.KindOf(err) != fault.Conflict {
						t.Fatalf("the same id for another run: %v", err)
					}
					natstest.Until(t, "the session is known",
						func() bool { _, err := p.c.History.Session(t.Context(), id); return err == nil })
				}
				if strings.Contains(more, "nowhere") {
					if r, err := p.c.Stop(t.Context(), spec.ID); err != nil || r.Status != run.Stopped {
						t.Errorf("%+v %v", r, err)
					}
				} else {
					p.ends(spec.ID, results("ok"))
				}
				if r, err := p.c.Show(t.Context(), spec.ID); err != nil || r.SessionID != id ||
					!strings.Contains(body, string(r.Parameters)[1:len(r.Parameters)-1]) {
					t.Errorf("%+v %v", r, err)
				}
				part := subject.Partition(id)
				p.records(subject.Claimed(part, spec.ID, "*"), 1)
				p.records(subject.Ended(part, spec.ID, "*"), 1)
				p.inOrder()
				if err := p.c.DeleteSession(t.Context(), id); err != nil {
					t.Error(err)
				}
				p.records(subject.Session(part, id), 0) // it holds what the caller sent
			})
		})
	}
}

// beginning writes a prefix of what begins a session under its caller's own id, and what follows it.
func (p *prefix) beginning(body string, following ...bus.Entry) run.Spec {
	return p.beginningAs(body, run.NewID(), "", following...)
}

// beginningAs writes a prefix of what begins the session of a run with that id.
func (p *prefix) beginningAs(body, id, hash string, following ...bus.Entry) run.Spec {
	p.Helper()
	plan, err := p.c.Check(p.Context(), []byte(body), "test")
	if err != nil {
		p.Fatal(err)
	}
	plan.Spec.ID, plan.Spec.RequestHash = id, hash
	if err := p.c.records.Offload(p.Context(), &plan.Spec); err != nil {
		p.Fatal(err)
	}
	part := subject.Partition(plan.Spec.SessionID)
	first, err := p.c.FirstRecord(p.Context(), part, plan)
	if err != nil {
		p.Fatal(err)
	}
	together, apart, err := p.c.SessionRecords(part, plan.Spec, first)
	p.late = apart[1]
	if hash != "" {
		together[0].ID = id
	}
	p.write(together, err, following...)
	return plan.Spec
}

// The writer of a session's record may be so slow that another one writes its run. That ends and is deleted: it is not
// started twice.
func TestALateRunOfADeletedSession(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		spec := p.beginning(`{"agent_name":"thinker","session_id":"ses_my-own","prompt":"think"}`)
		p.ends(spec.ID, results("ok"))
		if err := p.c.DeleteSession(t.Context(), spec.SessionID); err != nil {
			t.Fatal(err)
		}
		if _, err := p.c.bus.Append(t.Context(), p.late); err != nil {
			t.Fatal(err)
		}
		p.endsOnce(spec.ID, run.Failed, "session_deleted")
		p.records(subject.QueuedOf(subject.Partition(spec.SessionID), spec.ID), 0)
	})
}

// The caller asks again with its key at once, before anybody has finished what its first request began: one run.
func TestARepeatOfASessionWithoutItsRun(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		body := `{"agent_name":"thinker","session_id":"ses_my-own","prompt":"think"}`
		id, _ := p.c.keys.IDs("test", "k")
		sum := sha256.Sum256([]byte(body))
		spec := p.beginningAs(body, id, hex.EncodeToString(sum[:16]))
		_, err := p.c.Submit(t.Context(), []byte(strings.Replace(body, "think\"}", "other\"}", 1)), "test", "k")
		wantCode(t, err, "idempotency_key_reused")
		if got := submit(t, p.c, body, "k"); got.RunID != id || got.SessionID != spec.SessionID {
			t.Errorf("got %+v, want %+v", got, spec)
		}
		p.ends(spec.ID, results("ok"))
		p.records(subject.Claimed(subject.Partition(spec.SessionID), spec.ID, "*"), 1)
		p.inOrder()
	})
}

// A worker appends the end record of a run of which NATS has lost all but the session's record. The run is restored,
// and that end record does not block it.
func TestALateEndRecordOfASessionWithoutItsRun(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		spec := p.beginning(`{"agent_name":"thinker","session_id":"ses_my-own","prompt":"think"}`)
		own, err := run.Ended{V: run.Version, SessionID: spec.SessionID, RunnerID: p.r.ID(), Nonce: "n", Attempt: 1,
			Status: run.Completed, At: time.Now()}.Encode()
		late := bus.Entry{Body: own,
			Subject: subject.Ended(subject.Partition(spec.SessionID), spec.ID, p.c.keys.Of(spec.ID, 1))}
		// as a worker does: NATS may refuse it while a coordinator purges what is there
		_, wrong := p.c.bus.AppendAndVerify(t.Context(), late, func(b []byte) bool { return bytes.Equal(b, own) })
		if err := errors.Join(err, wrong); err != nil {
			there, _ := p.c.bus.Last(t.Context(), late.Subject)
			t.Fatalf("%v; there is %s", err, there.Body)
		}
		p.ends(spec.ID, results("ok"))
		if r, err := p.c.Show(t.Context(), spec.ID); err != nil || r.Status != run.Completed {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// What was deleted does not come back, although a program of an older version has left the session's record.
func TestASessionsRecordOutlivesItsDeletion(t *testing.T) {
	cuts(t, 2, func(t *testing.T, p prefix) {
		part := subject.Partition("ses_my-own")
		raw, err := json.Marshal(run.Deleted{V: run.Version, At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		// at once: a coordinator soon writes the run that the session's record carries
		spec := p.beginning(`{"agent_name":"thinker","session_id":"ses_my-own","prompt":"think"}`,
			bus.Entry{Subject: subject.Deleted(part, "ses_my-own"), Body: raw})
		natstest.Until(t, "nothing is reserved", func() bool {
			return p.c.History.WasDeleted(spec.SessionID) &&
				len(p.c.History.Reservations()) == 0
		})
		after := submit(t, p.c, `{"agent_name":"thinker","prompt":"think"}`, "")
		p.ends(after.RunID, results("ok"))
		_ = newCompletion(p.c).Reconcile(t.Context())
		p.records(subject.Accepted(part, spec.SessionID, "*"), 0)
	})
}

// Runs that waited for a runner are queued with one write. Each record is by itself: any coordinator queues the failed
// ones in their order.
func TestAPrefixOfQueuedRuns(t *testing.T) {
	const runs = 4
	cuts(t, runs, func(t *testing.T, p prefix) {
		r := p.r
		r.Hostname, r.Instance = "late", "late"
		var all []bus.Entry
		var ids []string
		for range runs {
			a := p.start(`,"additional_demands":{"hostname":"late"}`)
			waits := active(t, p.c, a.RunID, "waits", func(a state.Active) bool { return !isQueued(a) })
			ids = append(ids, a.RunID)
			e, err := p.c.records.Queued(subject.Partition(a.SessionID), p.c.Dispatch.Want(waits).TaskQueue(),
				*waits.Spec, 1, true)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		p.write(all, nil)
		register(t, p.c, r)
		var last uint64
		for _, id := range ids {
			a := active(t, p.c, id, "is queued", isQueued)
			if a.QueuedSeq < last {
				t.Errorf("run %s overtook one that came before", id)
			}
			last = a.QueuedSeq
			p.records(subject.QueuedOf(subject.Partition(a.Spec.SessionID), id), 1)
			p.ends(id, results("ok"))
		}
		p.inOrder()
	})
}
