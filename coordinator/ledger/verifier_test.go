package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// parentAndChild returns a parent with an ended run, and a child of it that has ended and is to be reported.
func parentAndChild(s *story) (parent, kid *actor) {
	parent = s.run(s.session()).done()
	kid = s.run(s.session(), child(parent.spec.SessionID)).done()
	return parent, kid
}

func TestGoodHistoriesAreOK(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(*story)
		want  string // the counts
	}{
		{"nothing at all", func(s *story) {}, "0=0+0+0"},
		{"one run, done", func(s *story) { s.run(s.session()).done() }, "1=0+0+1 attempts 1/1"},
		{"one of each kind", func(s *story) {
			s.run(s.session()).accepted()
			s.run(s.session()).queued(1)
			s.run(s.session()).queued(1).claimed(1, "rnr_1").bound(1, "rnr_1")
			s.run(s.session()).done()
		}, "4=2+1+1 attempts 2/1"},
		{"a session under its caller's own id", func(s *story) {
			a := s.run("ses_my-own")
			s.write(subject.Session(a.part(), "ses_my-own"), run.SessionCreated{V: 1, RunID: a.spec.ID})
			a.done()
		}, "1=0+0+1 attempts 1/1"},
		{"records that another one is to follow, in a moment", func(s *story) { s.unfinished() },
			"3=1+0+2 attempts 2/2 calls 1=1+0+0"},
		{"a lost run: the end record is a coordinator's", func(s *story) {
			s.run(s.session()).queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "")
		}, "1=0+0+1 attempts 1/1"},
		{"waiting runs are stopped, queued or not; a record that was under way comes late", func(s *story) {
			s.run(s.session()).accepted().cancelled(1).queued(1)
			s.run(s.session()).queued(1).cancelled(1).stopping()
		}, "2=0+0+2 attempts 0/0"},
		{"a run that moves to another queue, also after it was claimed", func(s *story) {
			s.run(s.session()).queued(1).queuedIn("autonomous.a._", 1).claimed(1, "rnr_1").queuedIn("autonomous.b._",
				1).ended(1, run.Completed, "rnr_1").queuedIn("autonomous.c._", 1)
		}, "1=0+0+1 attempts 1/1"},
		{"a request repeated under its key is accepted beside being queued", func(s *story) {
			s.run(s.session()).queued(1).accepted().claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1")
		}, "1=0+0+1 attempts 1/1"},
		{"runs of a stopped tree get no other attempt, and their sessions go on", func(s *story) {
			ses := s.session()
			a := s.run(ses, attempts(2)).queued(1).claimed(1, "rnr_1")
			below := s.run(s.session(), attempts(2), func(spec *run.Spec) { spec.Parent = ses }).queued(1).
				claimed(1, "rnr_1")
			a.treeStopping().ended(1, run.Failed, "rnr_1").stopping()
			below.ended(1, run.Failed, "rnr_1").stopping()
			for _, over := range []*actor{a, below} {
				s.run(over.spec.SessionID).queued(1).claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1")
			}
		}, "4=0+0+4 attempts 4/4"},
		{"a session's turns in order, one of them stopped while it waited", func(s *story) {
			ses := s.session()
			a, b, c := s.run(ses), s.run(ses), s.run(ses)
			a.queued(1).claimed(1, "rnr_1")
			b.accepted()
			c.accepted()
			b.cancelled(1)
			a.stopping().ended(1, run.Stopped, "rnr_1")
			c.done()
		}, "3=0+0+3 attempts 2/2"},
		{"a second attempt after one that failed", func(s *story) {
			a := s.run(s.session(), attempts(2))
			a.queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "").queued(2).claimed(2, "rnr_2").bound(2,
				"rnr_2").ended(2, run.Completed, "rnr_2")
		}, "1=0+0+1 attempts 2/2 retried 1"},
		{"runners that gave a run back do not count", func(s *story) {
			a := s.run(s.session())
			a.returnable(1).claimed(1, "rnr_1").returned(1, "rnr_1")
			a.spec.Attempts = 2
			a.returnable(2).claimed(2, "rnr_1").returned(2, "rnr_1")
			a.spec.Attempts = 3
			a.queued(3).claimed(3, "rnr_2").ended(3, run.Failed, "rnr_2")
		}, "1=0+0+1 attempts 3/3 retried 2"},
		{"nor can a run be given back that may not be", func(s *story) {
			s.run(s.session()).queued(1).claimed(1, "rnr_1").returned(1, "rnr_1")
		}, "1=0+0+1 attempts 1/1"},
		{"a run that waits for its next attempt", func(s *story) {
			s.run(s.session(), attempts(3)).queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "rnr_1")
		}, "1=1+0+0 attempts 1/1"},
		{"one that is stopped there, before it is queued and after", func(s *story) {
			s.run(s.session(), attempts(3)).queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "").cancelled(2).queued(
				2)
			s.run(s.session(), attempts(3)).queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "").stopping().queued(
				2).cancelled(2)
		}, "2=0+0+2 attempts 2/2"},
		{"no further attempt after a stop", func(s *story) {
			s.run(s.session(), attempts(3)).queued(1).claimed(1, "rnr_1").stopping().ended(1, run.Failed, "")
		}, "1=0+0+1 attempts 1/1"},
		{"nor after one that nobody began, or that went well", func(s *story) {
			s.run(s.session(), attempts(3)).queued(1).claimed(1, "").ended(1, run.Failed, "")
			s.run(s.session(), attempts(3)).done()
		}, "2=0+0+2 attempts 1/1"},
		{"a callback turn", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).reports(p, k).done()
		}, "3=0+0+3 attempts 3/3 calls 1=1+0+0"},
		{"a callback turn that waits", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).reports(p, k)
		}, "3=1+0+2 attempts 2/2 calls 1=1+0+0"},
		{"one that ended before it began gives its children back", func(s *story) {
			p, k := parentAndChild(s)
			first := s.run(p.spec.SessionID).reports(p, k).cancelled(1)
			second := s.run(p.spec.SessionID).reports(first, k).cancelled(1)
			s.run(p.spec.SessionID).reports(second, k).done()
		}, "5=0+0+5 attempts 3/3 calls 1=1+0+0"},
		{"a busy parent is told later", func(s *story) {
			p := s.run(s.session()).queued(1).claimed(1, "rnr_1")
			s.run(s.session(), child(p.spec.SessionID)).done()
			s.run(s.session(), child(p.spec.SessionID)).accepted().cancelled(1)
		}, "3=0+1+2 attempts 2/1 calls 2=0+2+0"},
		{"parents that cannot be told", func(s *story) {
			s.run(s.session(), child(s.session())).done()
			p := s.run(s.session(), procedural).done()
			s.run(s.session(), child(p.spec.SessionID)).done()
			q := s.run(s.session()).accepted().cancelled(1)
			s.run(s.session(), child(q.spec.SessionID)).done()
		}, "5=0+0+5 attempts 4/4 calls 3=0+0+3"},
		{"a child of a deleted parent", func(s *story) {
			p, _ := parentAndChild(s)
			s.deleted(p.spec.SessionID)
		}, "1=0+0+1 attempts 1/1 calls 1=0+0+1"},
		{"HTTP callbacks: delivered, again after it was given up, yet to come, tried", func(s *story) {
			s.run(s.session(), withWebhook).done().notified(1, run.NotifyFailed).notified(2, run.NotifyDelivered)
			s.run(s.session(), withWebhook).done().notified(1, run.NotifyDead).notified(2, run.NotifyAgain).notified(3,
				run.NotifyDead)
			s.run(s.session(), withWebhook).done()
			s.run(s.session(), withWebhook).done().notified(1, run.NotifyFailed)
		}, "4=0+0+4 attempts 4/4 hooks 4=1+2+1"},
		{"results that are offered: yet to be checked, checked, refused, late; a lost run whose end record is written",
			func(s *story) {
				s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1").offered(1, "rnr_1")
				a := s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1").offered(1, "rnr_1")
				a.checked(1, signatureOf(a.spec.ID, 1))
				s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1").offered(1, "rnr_1").ended(1, run.Failed,
					"")
				s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "rnr_1").offered(1,
					"rnr_1")
				s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1").offered(1, "").ended(1, run.Failed, "")
			}, "5=0+1+4 attempts 5/4"},
		{"a completed attempt whose result nobody checked has failed: another follows", func(s *story) {
			a := s.run(s.session(), bindingOutput, attempts(2)).queued(1).claimed(1, "rnr_1").ended(1, run.Completed,
				"rnr_1").queued(2).claimed(2, "rnr_1").offered(2, "rnr_1")
			a.checked(2, signatureOf(a.spec.ID, 2))
		}, "1=0+0+1 attempts 2/2 retried 1"},
		{"a kind of a later version", func(s *story) { s.write("ao.runs.7.paused.run_1", run.Deleted{V: 1}) },
			"0=0+0+0"},
		{"a deleted session, as long as its records are there", func(s *story) {
			a := s.run(s.session()).done()
			s.run(a.spec.SessionID).accepted().cancelled(1)
			s.deleted(a.spec.SessionID)
		}, "0=0+0+0"},
		{"a run that was accepted while its session was deleted", func(s *story) {
			a := s.run(s.session()).done()
			b := s.run(a.spec.SessionID)
			s.deleted(a.spec.SessionID)
			b.accepted().claimed(1, "").ended(1, run.Failed, "")
		}, "1=0+0+1 attempts 0/0"},
		{"a deletion that comes too early is none", func(s *story) {
			a := s.run(s.session()).queued(1).claimed(1, "rnr_1")
			s.deleted(a.spec.SessionID)
			a.ended(1, run.Completed, "rnr_1")
		}, "1=0+0+1 attempts 1/1"},
		{"nor is one of a child whose parent is yet to be told", func(s *story) {
			p, k := parentAndChild(s)
			s.deleted(k.spec.SessionID)
			s.run(p.spec.SessionID).reports(p, k).done()
		}, "3=0+0+3 attempts 3/3 calls 1=1+0+0"},
		{"a parent is deleted, and its list is written again without its turn", func(s *story) {
			s.run(s.session()).done() // nothing is truncated
			p, k := parentAndChild(s)
			first := s.run(p.spec.SessionID).reports(p, k).cancelled(1)
			turn := s.run(p.spec.SessionID).reports(first, k).done()
			deletedAt := len(s.msgs)
			s.deleted(p.spec.SessionID)
			s.purge(func(m bus.Message) bool {
				return m.Seq < uint64(deletedAt+1) && strings.Contains(string(m.Body)+m.Subject, p.spec.SessionID) &&
					!strings.Contains(m.Subject, k.spec.ID+".")
			})
			s.write(subject.Callback(p.part(), p.spec.SessionID, k.spec.ID, 1),
				run.Callback{V: 1, RunID: first.spec.ID, TurnID: turn.spec.ID, Children: []string{k.spec.ID}})
		}, "2=0+0+2 attempts 2/2 calls 1=1+0+0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothOrders(t, func(t *testing.T, s *story) {
				tt.build(s)
				r := s.close(time.Second)
				if !r.OK || len(r.Wrong) > 0 {
					t.Errorf("got %v, want nothing wrong", r.Wrong)
				}
				if got := counts(r); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

func counts(r Report) string {
	s := fmt.Sprintf("%d=%d+%d+%d", r.Runs.Accepted, r.Runs.Waiting, r.Runs.Running, r.Runs.Ended)
	if r.Runs.Accepted > 0 {
		s += fmt.Sprintf(" attempts %d/%d", r.Attempts.Claimed, r.Attempts.Ended)
	}
	if r.Attempts.Retried > 0 {
		s += fmt.Sprintf(" retried %d", r.Attempts.Retried)
	}
	if c := r.Callbacks; c.Owed > 0 {
		s += fmt.Sprintf(" calls %d=%d+%d+%d", c.Owed, c.Delivered, c.Waiting, c.Undeliverable)
	}
	if c := r.Webhooks; c.Owed > 0 {
		s += fmt.Sprintf(" hooks %d=%d+%d+%d", c.Owed, c.Delivered, c.Waiting, c.Dead)
	}
	return s
}

func TestViolationsAreReported(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(*story)
		want  string // kinds, in order
	}{
		{"a claim of a run that nobody accepted", func(s *story) { s.run(s.session()).claimed(1, "rnr_1") },
			"sum unknown_run"},
		{"an end record of one",
			func(s *story) { s.run(s.session()).claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1") },
			"sum unknown_run"},
		{"a stop of one", func(s *story) { s.run(s.session()).stopping() }, "unknown_run"},
		{"what a worker says of one", func(s *story) { s.run(s.session()).bound(1, "rnr_1") }, "unknown_run"},
		{"a session whose run is missing", func(s *story) {
			a := s.run("ses_own")
			s.write(subject.Session(a.part(), "ses_own"), run.SessionCreated{V: 1, RunID: a.spec.ID})
		}, "unknown_run"},
		{"records that another one is to follow, and does not", func(s *story) {
			s.unfinished()
			s.at = s.at.Add(time.Minute)
		}, "claimed_to_end unknown_run unknown_run"},
		{"a run that was accepted after it was claimed",
			func(s *story) { s.run(s.session()).claimed(1, "rnr_1").queued(1) }, "out_of_order"},
		{"a second claim of an attempt, under another key", func(s *story) {
			s.run(s.session()).queued(1).claimed(1, "rnr_1").claimedWith(9, 1, "rnr_2").ended(1, run.Completed, "rnr_1")
		}, "begun_twice"},
		{"a second claim after the end", func(s *story) { s.run(s.session()).done().claimedWith(9, 1, "rnr_2") },
			"begun_twice"},
		{"a second end record, under another key",
			func(s *story) { s.run(s.session()).done().endedWith(9, 1, run.Failed, "") }, "two_last_words"},
		{"the end record of a further attempt after the end",
			func(s *story) { s.run(s.session()).done().ended(2, run.Failed, "") }, "two_last_words"},
		{"an end without a claim", func(s *story) { s.run(s.session()).queued(1).ended(1, run.Failed, "") },
			"ended_unclaimed"},
		{"the end of another attempt than the one that was claimed", func(s *story) {
			s.run(s.session(), attempts(2)).queued(1).claimed(1, "rnr_1").endedWith(9, 2, run.Failed, "")
		}, "ended_unclaimed"},
		{"an offer of a run that nobody accepted",
			func(s *story) { s.run(s.session(), bindingOutput).offered(1, "rnr_1") }, "unknown_run"},
		{"an offer by another runner", func(s *story) {
			s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1").offered(1, "rnr_2").ended(1, run.Failed, "")
		}, "wrong_runner"},
		{"a checked result that nobody offered", func(s *story) {
			a := s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1")
			a.checked(1, signatureOf(a.spec.ID, 1))
		}, "completed_unoffered"},
		{"an attempt after one that completed, with its mark", func(s *story) {
			a := s.run(s.session(), bindingOutput, attempts(2)).queued(1).claimed(1, "rnr_1").offered(1, "rnr_1")
			a.checked(1, signatureOf(a.spec.ID, 1)).queued(2)
		}, "attempt_out_of_turn"},
		{"an end record by another runner", func(s *story) {
			s.run(s.session()).queued(1).claimed(1, "rnr_1").ended(1, run.Completed, "rnr_2")
		}, "wrong_runner"},
		{"a runner's end record of what a coordinator took", func(s *story) {
			s.run(s.session()).queued(1).claimed(1, "").ended(1, run.Completed, "rnr_2")
		}, "wrong_runner"},
		{"a session bound by another runner",
			func(s *story) { s.run(s.session()).queued(1).claimed(1, "rnr_1").bound(1, "rnr_2") }, "wrong_runner"},
		{"one bound before it began", func(s *story) { s.run(s.session()).queued(1).bound(1, "rnr_2") },
			"ended_unclaimed"},
		{"a claim with a key that is not the attempt's", func(s *story) {
			s.run(s.session()).queued(1).claimedWith(9, 1, "rnr_1").endedWith(9, 1, run.Completed, "rnr_1")
		}, "wrong_key"},
		{"an end with one", func(s *story) {
			s.run(s.session()).queued(1).claimed(1, "rnr_1").endedWith(9, 1, run.Completed, "rnr_1")
		}, "wrong_key"},
		{"two keys for one attempt", func(s *story) {
			a := s.run(s.session()).queued(1)
			s.write(subject.Queued(a.part(), "autonomous.b._", a.spec.ID, 1),
				run.Queued{V: 1, Attempt: 1, Key: "other", Spec: a.spec})
		}, "wrong_key"},
		{"a runner's claim of a run that was never queued",
			func(s *story) { s.run(s.session()).accepted().claimed(1, "rnr_1") }, "attempt_out_of_turn"},
		{"a second attempt beside the first", func(s *story) {
			s.run(s.session(), attempts(2)).queued(1).claimed(1, "rnr_1").queued(2)
		}, "attempt_out_of_turn"},
		{"its claim", func(s *story) {
			s.run(s.session(), attempts(2)).queued(1).claimed(1, "rnr_1").claimed(2, "")
		}, "attempt_out_of_turn claimed_to_end"},
		{"a third attempt of two", func(s *story) {
			a := s.run(s.session(), attempts(2)).queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "").queued(
				2).claimed(2, "rnr_1").ended(2, run.Failed, "")
			a.queued(3)
		}, "attempt_out_of_turn"},
		{"a second attempt although nobody allowed one", func(s *story) {
			s.run(s.session()).queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "").queued(2).claimed(2, "rnr_1")
		}, "attempt_out_of_turn begun_after_end sum"},
		{"a second attempt after a stop", func(s *story) {
			s.run(s.session(), attempts(2)).queued(1).claimed(1, "rnr_1").stopping().ended(1, run.Failed, "").queued(2)
		}, "attempt_out_of_turn"},
		{"a second attempt after one that went well",
			func(s *story) { s.run(s.session(), attempts(2)).done().queued(2) }, "attempt_out_of_turn"},
		{"an attempt that is skipped", func(s *story) { s.run(s.session(), attempts(3)).queued(2) },
			"attempt_out_of_turn"},
		{"two runs of a session at once", func(s *story) {
			a := s.run(s.session()).queued(1).claimed(1, "rnr_1")
			s.run(a.spec.SessionID).queued(1).claimed(1, "rnr_2")
		}, "two_at_once"},
		{"a later turn before an earlier one", func(s *story) {
			a := s.run(s.session()).done()
			s.run(a.spec.SessionID).accepted()
			s.run(a.spec.SessionID).done()
		}, "out_of_order"},
		{"a later turn while an earlier run waits for its next attempt", func(s *story) {
			a := s.run(s.session(), attempts(2)).queued(1).claimed(1, "rnr_1").ended(1, run.Failed, "")
			s.run(a.spec.SessionID).done()
		}, "out_of_order"},
		{"a claim to end a run, and no end", func(s *story) { s.run(s.session()).queued(1).claimed(1, "") },
			"claimed_to_end"},
		{"a run of two sessions", func(s *story) {
			a := s.run(s.session()).queued(1)
			part := a.part()
			a.spec.SessionID = s.session()
			for a.part() != part {
				a.spec.SessionID = s.session()
			}
			a.claimed(1, "rnr_1")
		}, "record_mismatch"},
		{"a subject that says something else", func(s *story) {
			a := s.run(s.session())
			s.write(subject.Queued(a.part(), "autonomous._._", s.id("run_"), 1),
				run.Queued{V: 1, Attempt: 1, Key: "k", Spec: a.spec})
		}, "record_mismatch"},
		{"an attempt number that says something else", func(s *story) {
			a := s.run(s.session())
			s.write(subject.Queued(a.part(), "autonomous._._", a.spec.ID, 1),
				run.Queued{V: 1, Attempt: 2, Key: "k", Spec: a.spec})
		}, "record_mismatch"},
		{"another partition", func(s *story) {
			a := s.run(s.session())
			s.write("ao.runs.64.accepted."+a.spec.SessionID+"."+a.spec.ID, run.Accepted{V: 1, Spec: a.spec})
		}, "record_mismatch"},
		{"a claim of no attempt", func(s *story) { s.run(s.session()).queued(1).claimedWith(1, 0, "rnr_1") },
			"record_mismatch"},
		{"an end record that is none",
			func(s *story) { s.run(s.session()).queued(1).claimed(1, "rnr_1").ended(1, run.Running, "rnr_1") },
			"record_mismatch"},
		{"a record that is no JSON", func(s *story) {
			a := s.run(s.session()).queued(1)
			s.write(subject.Claimed(a.part(), a.spec.ID, a.key(1)), []byte(`{"v":1,`))
		}, "unreadable_record"},
		{"a record with more behind it", func(s *story) {
			a := s.run(s.session())
			s.write(subject.Stopping(a.part(), a.spec.ID), []byte(`{"v":1} x`))
		}, "unreadable_record"},
		{"a subject that cannot be read", func(s *story) { s.write("ao.runs.7.claimed.x", run.Claim{V: 1}) },
			"unreadable_record"},
		{"an id that no coordinator makes", func(s *story) {
			a := s.run(s.session())
			a.spec.ID = "run_mine"
			a.queued(1)
		}, "unreadable_record"},
		{"a later version, and none", func(s *story) {
			a := s.run(s.session()).queued(1)
			s.write(subject.Stopping(a.part(), a.spec.ID), run.Stop{V: 2})
			s.write(subject.Claimed(a.part(), a.spec.ID, a.key(1)), run.Claim{})
		}, "unknown_version unknown_version"},
		{"a child that is reported twice", func(s *story) {
			p, k := parentAndChild(s)
			first := s.run(p.spec.SessionID).reports(p, k).done()
			s.run(p.spec.SessionID).reports(first, k).done()
		}, "callback_twice"},
		{"twice by one turn", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).reports(p, k, k).done()
		}, "callback_twice"},
		{"a child that had not ended", func(s *story) {
			p := s.run(s.session()).done()
			k := s.run(s.session(), child(p.spec.SessionID)).queued(1).claimed(1, "rnr_1")
			s.run(p.spec.SessionID).reports(p, k).done()
			k.ended(1, run.Completed, "rnr_1")
		}, "callback_wrong"},
		{"one that waits for its next attempt", func(s *story) {
			p := s.run(s.session()).done()
			k := s.run(s.session(), child(p.spec.SessionID), attempts(2)).queued(1).claimed(1, "rnr_1").ended(1,
				run.Failed, "")
			s.run(p.spec.SessionID).reports(p, k).done()
		}, "callback_wrong"},
		{"the child of another", func(s *story) {
			p, _ := parentAndChild(s)
			k := s.run(s.session(), child(s.session())).done()
			s.run(p.spec.SessionID).reports(p, k).done()
		}, "callback_wrong"},
		{"a child that asked for no callback", func(s *story) {
			p := s.run(s.session()).done()
			k := s.run(s.session(), func(r *run.Spec) { r.Parent = p.spec.SessionID }).done()
			s.run(p.spec.SessionID).reports(p, k).done()
		}, "callback_wrong"},
		{"a child that nobody knows", func(s *story) {
			p := s.run(s.session()).done()
			s.run(p.spec.SessionID).reports(p, s.run(s.session()))
		}, "callback_wrong"},
		{"a turn that was not accepted", func(s *story) {
			p, k := parentAndChild(s)
			s.older = true // else it is to follow
			s.run(p.spec.SessionID).lists(p, k)
		}, "callback_wrong"},
		{"a turn with an id that is none", func(s *story) {
			p, k := parentAndChild(s)
			s.write(subject.Callback(p.part(), p.spec.SessionID, k.spec.ID, 0),
				run.Callback{V: 1, RunID: p.spec.ID, TurnID: "run_x", Children: []string{k.spec.ID}})
		}, "unreadable_record"},
		{"a turn of another session", func(s *story) {
			p, k := parentAndChild(s)
			s.older = true
			s.run(s.session()).reports(p, k)
		}, "callback_wrong"},
		{"likewise, behind its list", func(s *story) {
			p, k := parentAndChild(s)
			s.older = false
			s.run(s.session()).reports(p, k)
		}, "record_mismatch"},
		{"a turn that is not named after its first child", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).accepted().names(p, p, 0, k)
		}, "callback_wrong"},
		{"a turn that counts turns in vain that were none", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).accepted().names(p, k, 1, k)
		}, "callback_wrong"},
		{"one that does not count them", func(s *story) {
			p, k := parentAndChild(s)
			first := s.run(p.spec.SessionID).reports(p, k).cancelled(1)
			s.run(p.spec.SessionID).accepted().names(first, k, 0, k)
		}, "callback_wrong"},
		{"a turn with a name that is none", func(s *story) {
			p, k := parentAndChild(s)
			s.write(subject.Callback(p.part(), p.spec.SessionID, k.spec.ID+"-x", 0),
				run.Callback{V: 1, RunID: p.spec.ID, Children: []string{k.spec.ID}})
		}, "unreadable_record"},
		{"a turn that reports nobody", func(s *story) {
			p := s.run(s.session()).done()
			s.run(p.spec.SessionID).reports(p)
		}, "callback_wrong"},
		{"a step of an HTTP callback that is left out",
			func(s *story) { s.run(s.session(), withWebhook).done().notified(2, run.NotifyDelivered) },
			"webhook_wrong"},
		{"one after it was delivered", func(s *story) {
			s.run(s.session(), withWebhook).done().notified(1, run.NotifyDelivered).notified(2, run.NotifyDelivered)
		}, "webhook_wrong"},
		{"one after it was given up", func(s *story) {
			s.run(s.session(), withWebhook).done().notified(1, run.NotifyDead).notified(2, run.NotifyFailed)
		}, "webhook_wrong"},
		{"one of a run that runs",
			func(s *story) { s.run(s.session(), withWebhook).queued(1).notified(1, run.NotifyDelivered) },
			"webhook_wrong"},
		{"one that nobody asked for", func(s *story) { s.run(s.session()).done().notified(1, run.NotifyDelivered) },
			"webhook_wrong"},
		{"a session's record that names no run, or another session's", func(s *story) {
			a := s.run(s.session()).queued(1)
			s.write(subject.Session(subject.Partition("ses_x"), "ses_x"), run.SessionCreated{V: 1})
			s.write(subject.Session(subject.Partition("ses_y"), "ses_y"), run.SessionCreated{V: 1, RunID: a.spec.ID})
		}, "record_mismatch unreadable_record"},
		{"one with another number than its subject", func(s *story) {
			a := s.run(s.session(), withWebhook).done()
			s.write(subject.Notified(a.part(), a.spec.ID, 1), run.Notified{V: 1, SessionID: a.spec.SessionID, N: 2,
				Status: run.NotifyDead})
		}, "record_mismatch"},
		{"one with a status of its own", func(s *story) { s.run(s.session(), withWebhook).done().notified(1, "maybe") },
			"record_mismatch"},
		{"a record that comes twice", func(s *story) {
			s.run(s.session()).queued(1)
			s.msgs = append(s.msgs, s.msgs[0])
		}, "unreadable_record"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothOrders(t, func(t *testing.T, s *story) {
				s.run(s.session()).done() // another run, beside
				tt.build(s)
				r := s.close(time.Second)
				if got := kinds(r); got != tt.want || r.OK || r.Count != len(r.Wrong) {
					t.Errorf("got %q, ok %v, %d, want %q: %v", got, r.OK, r.Count, tt.want, r.Wrong)
				}
			})
		})
	}
}

// kinds are the kinds of what is wrong, sorted.
func kinds(r Report) string {
	var all []string
	for _, w := range r.Wrong {
		all = append(all, w.Kind)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestACallbackIsOverdue(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(*story)
		after time.Duration
		want  string
	}{
		{"not yet", func(s *story) { parentAndChild(s) }, overdue, ""},
		{"now", func(s *story) { parentAndChild(s) }, overdue + time.Second, kindOverdue},
		{"the parent became idle later", func(s *story) {
			p, _ := parentAndChild(s)
			s.run(p.spec.SessionID).done()
		}, overdue, ""},
		{"it is busy", func(s *story) {
			p, _ := parentAndChild(s)
			s.run(p.spec.SessionID).queued(1)
		}, time.Hour, ""},
		{"it was told", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).reports(p, k).done()
		}, time.Hour, ""},
		{"a turn that never began: the next one takes its time", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).reports(p, k).cancelled(1)
		}, overdueMissed, ""},
		{"but comes", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).reports(p, k).cancelled(1)
		}, overdueMissed + time.Second, kindOverdue},
		{"the child waits for its next attempt", func(s *story) {
			p := s.run(s.session()).done()
			s.run(s.session(), child(p.spec.SessionID), attempts(2)).queued(1).claimed(1, "rnr_1").ended(1, run.Failed,
				"")
		}, time.Hour, ""},
		{"the parent is gone", func(s *story) {
			p, _ := parentAndChild(s)
			s.deleted(p.spec.SessionID)
		}, time.Hour, ""},
		{"so is the child", func(s *story) {
			p, k := parentAndChild(s)
			s.run(p.spec.SessionID).reports(p, k).done()
			s.deleted(k.spec.SessionID)
		}, time.Hour, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothOrders(t, func(t *testing.T, s *story) {
				tt.build(s)
				if r := s.close(tt.after); kinds(r) != tt.want {
					t.Errorf("got %v, want %q", r.Wrong, tt.want)
				}
			})
		})
	}
}

// TestDeletedSessionsCauseNoViolation purges a session's records one after the other, as the coordinator does, and
// verifies the log after every step. A crash may leave a purge at any of these steps.
func TestDeletedSessionsCauseNoViolation(t *testing.T) {
	build := func(t *testing.T) (s *story, mine map[uint64]bool) {
		s = newStory(t)
		s.run(s.session()).done()
		p := s.run(s.session()).done()
		from, ses := s.seq, "ses_own"
		a := s.run(ses, child(p.spec.SessionID), attempts(2), withWebhook)
		s.write(subject.Session(a.part(), ses), run.SessionCreated{V: 1, RunID: a.spec.ID})
		a.queued(1).
			claimed(1, "rnr_1").
			ended(1, run.Failed, "").
			queued(2).
			claimed(2, "rnr_1").
			bound(2, "rnr_1").
			ended(2, run.Completed, "rnr_1").
			notified(1, run.NotifyDelivered)
		b := s.run(ses).accepted().done()
		s.run(ses).accepted().cancelled(1)
		s.run(ses).accepted().queued(1).claimed(1, "rnr_1").stopping().ended(1, run.Stopped, "rnr_1")
		mine = map[uint64]bool{}
		for _, m := range s.msgs[from:] {
			mine[m.Seq] = true
		}
		s.run(p.spec.SessionID).reports(p, a).done()
		s.deleted(ses)
		b.bound(1, "rnr_1") // it was under way
		a.stopping()
		return s, mine
	}
	whole, mine := build(t)
	for _, kinds := range [][]string{
		{"accepted", "queued", "claimed", "ended", "stopping", "bound", "notified", "session"},
		{"session", "notified", "bound", "accepted", "queued", "claimed", "ended"},
		{"claimed"}, {"queued"}, {"bound"},
	} {
		s, _ := build(t)
		for _, kind := range kinds { // of each run: what it began with goes before its end
			for _, m := range slices.Clone(s.msgs) {
				if !mine[m.Seq] || !strings.Contains(m.Subject, "."+kind+".") {
					continue
				}
				s.purge(func(o bus.Message) bool { return o.Seq == m.Seq })
				if r := s.close(time.Second); !r.OK {
					t.Fatalf("%v, without %s and so on: %v", kinds, m.Subject, r.Wrong)
				}
			}
		}
	}
	whole.purge(func(m bus.Message) bool {
		return strings.Contains(m.Subject, ".deleted.") || strings.Contains(m.Subject, ".queued.") && mine[m.Seq]
	})
	if whole.close(time.Second).OK {
		t.Error("without the deletion nothing is wrong, want the missing records")
	}
}

// TestAHalfDeletedParent purges a parent's records one after the other, once its callback was written again without the
// turn. A coordinator that crashed meanwhile leaves it so.
func TestAHalfDeletedParent(t *testing.T) {
	s := newStory(t)
	s.run(s.session()).done() // nothing is truncated
	p, k := parentAndChild(s)
	from := s.seq
	turn := s.run(p.spec.SessionID).reports(p, k).done()
	mine := slices.Clone(s.msgs[from+1:])
	s.deleted(p.spec.SessionID)
	name := subject.Callback(p.part(), p.spec.SessionID, k.spec.ID, 0)
	s.purge(func(m bus.Message) bool { return m.Subject == name })
	s.write(name, run.Callback{V: 1, RunID: p.spec.ID, TurnID: turn.spec.ID, Children: []string{k.spec.ID}})
	for _, m := range mine {
		if r := s.close(time.Hour); !r.OK || r.Callbacks.Delivered != 1 {
			t.Fatalf("before %s is purged: %v, %d delivered", m.Subject, r.Wrong, r.Callbacks.Delivered)
		}
		s.purge(func(o bus.Message) bool { return o.Seq == m.Seq })
	}
	// The session was resumed after its deletion, and is deleted again: the first deletion's record goes first.
	s.purge(func(m bus.Message) bool { return strings.Contains(m.Subject, ".deleted.") })
	if r := s.close(time.Hour); !r.OK || r.Callbacks.Delivered != 1 {
		t.Errorf("between two deletions: %v, %d delivered", r.Wrong, r.Callbacks.Delivered)
	}
}

// TestALateEndOfADeletedRun: an end record was on its way while another one was written, and the session deleted.
func TestALateEndOfADeletedRun(t *testing.T) {
	s := newStory(t)
	s.run(s.session()).done()
	a := s.run(s.session()).queued(1).claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1")
	s.deleted(a.spec.SessionID)
	s.purge(func(m bus.Message) bool { return strings.Contains(m.Subject, a.spec.ID) })
	a.ended(1, run.Failed, "")
	if r := s.close(time.Hour); !r.OK || r.Runs.Accepted != 1 {
		t.Errorf("got %v, %d accepted", r.Wrong, r.Runs.Accepted)
	}
}

// TestTruncationCausesNoViolation cuts a history at every place up to its first open run.
func TestTruncationCausesNoViolation(t *testing.T) {
	s := newStory(t)
	a, b := s.run(s.session(), attempts(2)), s.run(s.session(), withWebhook)
	a.accepted()
	b.queued(1)
	s.run("ses_own").done()
	a.queued(1).claimed(1, "rnr_1").bound(1, "rnr_1")
	b.claimed(1, "rnr_1").stopping()
	a.ended(1, run.Failed, "").queued(2).queuedIn("autonomous.b._", 2).claimed(2, "rnr_2").ended(2, run.Failed, "rnr_2")
	b.ended(1, run.Completed, "rnr_1").notified(1, run.NotifyFailed).notified(2, run.NotifyDelivered)
	s.run(s.session(), attempts(2)).
		queued(1).
		claimed(1, "rnr_1").
		queuedIn("autonomous.b._", 1).
		bound(1, "rnr_1").
		ended(1, run.Failed, "").
		queued(2).
		claimed(2, "rnr_1").
		ended(2, run.Completed, "rnr_1")
	p, k := parentAndChild(s)
	turn := s.run(p.spec.SessionID).reports(p, k).cancelled(1)
	s.run(p.spec.SessionID).reports(turn, k).done()
	s.at = s.at.Add(time.Minute)
	open := s.run(s.session()).queued(1)
	n := len(s.msgs)
	open.claimed(1, "rnr_1")
	s.run(s.session()).done()
	for cut := 0; cut < n; cut++ {
		s.truncate(uint64(cut))
		if r := s.close(time.Second); !r.OK || r.Before != uint64(cut)+1 {
			t.Errorf("without the first %d records, before %d: %v", cut, r.Before, r.Wrong)
		}
	}
	s.truncate(uint64(n))
	if r := s.close(time.Second); kinds(r) != "sum unknown_run" {
		t.Errorf("an open run was cut: got %v, want it to be reported", r.Wrong)
	}
}

// TestATruncatedRunKeepsItsPlace: of a run with several attempts, the first records are truncated. What is left begins
// behind the next run of the session.
func TestATruncatedRunKeepsItsPlace(t *testing.T) {
	s := newStory(t)
	a := s.run(s.session(), attempts(2)).queued(1).claimed(1, "rnr_1")
	b := s.run(a.spec.SessionID).accepted()
	a.ended(1, run.Failed, "rnr_1").queued(2).claimed(2, "rnr_1").ended(2, run.Completed, "rnr_1")
	b.done()
	for cut := range uint64(5) {
		s.truncate(cut)
		if r := s.close(time.Second); !r.OK {
			t.Errorf("without the first %d records: %v", cut, r.Wrong)
		}
	}
}

func TestAYoungRunIsNotExcusedByTruncation(t *testing.T) {
	s := newStory(t)
	s.run(s.session()).done()
	s.run(s.session()).done()
	s.truncate(3)
	s.at = s.at.Add(time.Minute)
	s.run(s.session()).claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1")
	if r := s.close(time.Second); kinds(r) != "sum unknown_run" {
		t.Errorf("got %v, want an unknown run", r.Wrong)
	}
}

// An id that follows from an idempotency key does not tell its time. The claim names the record that it followed.
func TestAKeyedRunWithoutItsFirstRecord(t *testing.T) {
	const anyTime, truncated, lost = 0, 2, 8
	for name, tt := range map[string]struct {
		from    uint64
		damaged uint64 // what an accepted damage had reached
		queued  int    // the attempt that a record queues which is there
		twice   bool   // it is claimed a second time
		want    string
	}{
		"an older worker does not say":  {from: anyTime},
		"truncated":                     {from: truncated},
		"lost":                          {from: lost, want: "sum unknown_run"},
		"lost before a damage":          {from: lost, damaged: 8},
		"lost after a damage":           {from: lost, damaged: 7, want: "unknown_run"},
		"accepted after a damage":       {queued: 1, damaged: 6, twice: true, want: kindClaimedTwice},
		"accepted before a damage":      {queued: 1, damaged: 20, twice: true},
		"its first attempt is cut off":  {queued: 2},
		"claimed twice, nothing is cut": {queued: 1, twice: true, want: kindClaimedTwice},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.run(s.session()).done()
			s.run(s.session()).done()
			s.truncate(3)
			s.at = s.at.Add(time.Minute)
			r := s.run(s.session())
			r.spec.ID, r.from = run.KeyedID(strings.Repeat("f", 32)), tt.from
			n := max(tt.queued, 1)
			if tt.queued > 0 {
				r.spec.Attempts = 3
				r.queued(n)
			}
			s.seq++ // the record that is lost
			r.claimed(n, "rnr_1")
			if tt.twice {
				r.claimed(n, "rnr_2")
			}
			r.ended(n, run.Completed, "rnr_1")
			b := s.read()
			if tt.damaged > 0 {
				b.Damaged.At, b.Damaged.Seq = s.at, tt.damaged
			}
			if got := b.Close(s.at.Add(time.Second), b.seq); kinds(got) != tt.want {
				t.Errorf("got %v, want %s", got.Wrong, tt.want)
			}
		})
	}
}

func TestDeletionExcusesNoLaterRecord(t *testing.T) {
	s := newStory(t)
	a := s.run(s.session()).done()
	s.deleted(a.spec.SessionID)
	s.run(a.spec.SessionID).claimed(1, "rnr_1")
	if r := s.close(time.Second); kinds(r) != "sum unknown_run" {
		t.Errorf("got %v, want an unknown run", r.Wrong)
	}
}

func TestALongListIsCut(t *testing.T) {
	s := newStory(t)
	for range 150 {
		s.run(s.session()).stopping()
	}
	if r := s.close(0); r.OK || r.Count != 150 || len(r.Wrong) != maxWrong {
		t.Errorf("got %d of %d, ok %v", len(r.Wrong), r.Count, r.OK)
	}
}

// TestReportIsRepeatable: what was overdue is not counted twice, and not once it was done.
func TestReportIsRepeatable(t *testing.T) {
	s := newStory(t)
	a := s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1").offered(1, "rnr_1")
	b := s.read()
	for range 2 {
		if r := b.Close(s.at.Add(time.Hour), 3); r.Count != 1 || r.Wrong[0].Kind != kindUnchecked {
			t.Errorf("got %+v", r.Wrong)
		}
	}
	a.checked(1, signatureOf(a.spec.ID, 1))
	b.Add(s.msgs[len(s.msgs)-1])
	if r := b.Close(s.at.Add(time.Hour), 4); !r.OK {
		t.Errorf("got %+v", r.Wrong)
	}
}

// TestEveryLostRecordIsSeen takes any one record of a history of ended runs away that others build on.
func TestEveryLostRecordIsSeen(t *testing.T) {
	build := func() *story {
		s := newStory(t)
		s.run(s.session()).done()
		a := s.run(s.session(), attempts(2)).
			queued(1).
			claimed(1, "rnr_1").
			ended(1, run.Failed, "").
			queued(2).
			claimed(2, "rnr_1").
			ended(2, run.Completed, "rnr_1")
		s.run(a.spec.SessionID).queued(1).claimed(1, "rnr_2").ended(1, run.Completed, "rnr_2")
		p, k := parentAndChild(s)
		s.run(p.spec.SessionID).reports(p, k)
		return s
	}
	n := len(build().msgs)
	// the first stands for truncation; without its list the turn reports nobody, and is pending for a moment
	for i := 1; i < n-2; i++ {
		s := build()
		lost := s.msgs[i]
		s.purge(func(m bus.Message) bool { return m.Seq == lost.Seq })
		if r := s.close(time.Second); r.OK && r.Runs.Running == 0 && r.Runs.Waiting == 1 {
			t.Errorf("record %d (%s) is lost, and nothing is wrong", lost.Seq, lost.Subject)
		}
	}
}

// TestAnUnverifiedResultMayWaitAMoment: it is a violation only if it stays.
func TestAnUnverifiedResultMayWaitAMoment(t *testing.T) {
	s := newStory(t)
	a := s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1").offered(1, "rnr_1")
	if r := s.close(overdueResult); !r.OK {
		t.Errorf("got %v", r.Wrong)
	}
	r := s.close(overdueResult + time.Second)
	if len(r.Wrong) != 1 || r.Wrong[0].Kind != kindUnchecked || r.Wrong[0].RunID != a.spec.ID ||
		r.Wrong[0].Sequence != 3 {
		t.Errorf("got %+v", r.Wrong)
	}
}

// TestUncheckedResultHasFailed, also where signatures cannot be checked.
func TestUncheckedResultHasFailed(t *testing.T) {
	s := newStory(t)
	a := s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1")
	a.checked(1, signatureOf(a.spec.ID, 2))
	if r := s.close(time.Second); !r.OK || r.Runs.Failed != 1 || r.Runs.Completed != 0 {
		t.Errorf("got %+v %v", r.Runs, r.Wrong)
	}
}
