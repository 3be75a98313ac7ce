package ledger

import (
	"fmt"
	"testing"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// A record under no key of its run belongs to no attempt: it is counted, and is no violation.
func TestForeignRecordsAreCountedApart(t *testing.T) {
	kinds := []func(partition, run, key string) string{subject.Claimed, subject.Bound, subject.Offered, subject.Ended}
	for _, body := range []string{``, `{`, `{"v":0}`, `{"v":99}`,
		`{"v":1,"session_id":"ses_x","runner_id":"r","attempt":1,"status":"completed"}`} {
		s := newStory(t)
		a := s.run(s.session()).queued(1)
		for i, kind := range kinds {
			for _, id := range []string{a.spec.ID, s.id("run_"), "run_a", "x"} {
				s.write(kind("7", id, fmt.Sprint("k", i)), []byte(body))
				tooMany := run.MaxAttempts + run.MaxReturns + 1
				s.write(kind("7", id, keyOf(id, tooMany)), []byte(body))
			}
		}
		a.claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1")
		if r := s.close(time.Second); !r.OK || r.Foreign != 32 || len(r.ForeignSeqs) != 32 || r.ForeignSeqs[0] != 2 ||
			r.Runs.Completed != 1 ||
			r.Sessions != 1 {
			t.Errorf("%q: %+v", body, r)
		}
	}
}

// A record under a right key, in another partition than its session's, is ignored by coordinators.
func TestRecordsInAnotherPartitionAreForeign(t *testing.T) {
	s := newStory(t)
	a := s.run(s.session()).queued(1)
	for n := range 64 {
		if other := fmt.Sprint(n); other != a.part() {
			s.write(subject.Ended(other, a.spec.ID, a.key(1)), run.Ended{V: 1, SessionID: a.spec.SessionID,
				RunnerID: "rnr_1", Attempt: 1, Status: run.Failed})
		}
	}
	a.claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1")
	if r := s.close(time.Second); !r.OK || r.Foreign != 63 || r.Runs.Completed != 1 {
		t.Errorf("%+v", r)
	}
}

// A record under a right key belongs to an attempt: a missing run is a violation, as long as nothing was truncated.
func TestRightKeyWithoutItsRunIsAViolation(t *testing.T) {
	for _, n := range []int{1, 2, 100} {
		s := newStory(t)
		s.run(s.session()).claimed(n, "rnr_1")
		if r := s.close(time.Second); r.OK || r.Foreign != 0 || kinds(r) != "sum unknown_run" {
			t.Errorf("attempt %d: %+v", n, r)
		}
	}
}

// A record above the version that its attempt allows is a failed end, as for coordinators. What follows under that key
// does not count.
func TestRecordsAboveTheirAttemptsVersion(t *testing.T) {
	write := func(a *actor, kind func(partition, run, key string) string, version, n int) *actor {
		body := fmt.Sprintf(
			`{"v":%d,"session_id":%q,"runner_id":"rnr_1","attempt":%d,"status":"completed"}`,
			version,
			a.spec.SessionID,
			n,
		)
		a.s.write(kind(a.part(), a.spec.ID, a.key(n)), []byte(body))
		return a
	}
	allows := func(a *actor, version, n int) *actor {
		a.s.write(
			subject.Queued(a.part(), "autonomous._._", a.spec.ID, n),
			run.Queued{V: 1, Attempt: n, Key: a.key(n), RecordVersion: version, Spec: a.spec},
		)
		return a
	}
	for _, tt := range []struct {
		name    string
		version int // of the program
		tell    func(*story)
		ends    Runs
		wrong   string
	}{
		{"a claim", 1, func(s *story) { write(s.run(s.session()).queued(1), subject.Claimed, 2, 1) },
			Runs{Accepted: 1, Ended: 1, Failed: 1}, ""},
		{"and its end", 1, func(s *story) {
			write(write(s.run(s.session()).queued(1), subject.Claimed, 2, 1), subject.Ended, 2, 1)
		}, Runs{Accepted: 1, Ended: 1, Failed: 1}, ""},
		{"a binding, and an end as it should be", 1, func(s *story) {
			write(s.run(s.session()).queued(1).claimed(1, "rnr_1"), subject.Bound, 99, 1).ended(1, run.Completed,
				"rnr_1")
		}, Runs{Accepted: 1, Ended: 1, Failed: 1}, ""},
		{"an offer, to a newer program", 3, func(s *story) {
			write(s.run(s.session(), bindingOutput).queued(1).claimed(1, "rnr_1"), subject.Offered, 2, 1).ended(1,
				run.Failed, "")
		}, Runs{Accepted: 1, Ended: 1, Failed: 1}, ""},
		{"another attempt follows", 1, func(s *story) {
			a := s.run(s.session(), attempts(2)).queued(1).claimed(1, "rnr_1")
			write(write(a, subject.Ended, 2, 1), subject.Bound, 2, 1).queued(2).claimed(2, "rnr_1").ended(2,
				run.Completed, "rnr_1")
		}, Runs{Accepted: 1, Ended: 1, Completed: 1}, ""},
		{"what the attempt allows", 2, func(s *story) {
			write(write(allows(s.run(s.session()), 2, 1), subject.Claimed, 2, 1), subject.Ended, 2, 1)
		}, Runs{Accepted: 1, Ended: 1, Completed: 1}, ""},
		{"beyond that", 3, func(s *story) {
			write(write(allows(s.run(s.session()), 2, 1), subject.Claimed, 2, 1), subject.Ended, 3, 1)
		}, Runs{Accepted: 1, Ended: 1, Failed: 1}, ""},
		{"what it allows, and this program does not know", 1,
			func(s *story) { write(allows(s.run(s.session()), 2, 1), subject.Claimed, 2, 1) },
			Runs{Accepted: 1, Waiting: 1}, "unknown_version"},
		{"a run never queued", 3, func(s *story) { write(s.run(s.session()).accepted(), subject.Claimed, 2, 1) },
			Runs{Accepted: 1, Ended: 1, Failed: 1}, ""},
		{"after the end", 1, func(s *story) { write(s.run(s.session()).done(), subject.Bound, 2, 1) },
			Runs{Accepted: 1, Ended: 1, Completed: 1}, "unknown_version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory(t)
			s.version = tt.version
			tt.tell(s)
			if r := s.close(time.Second); r.Runs != tt.ends || kinds(r) != tt.wrong || r.Foreign != 0 {
				t.Errorf("got %+v, %q, want %+v, %q", r.Runs, kinds(r), tt.ends, tt.wrong)
			}
		})
	}
}

// TestAnEndBehindAnUnreadableRecord: an end record under the key of no attempt ends the run. It counts for nothing if
// the attempt that it names has ended.
func TestAnEndBehindAnUnreadableRecord(t *testing.T) {
	s := newStory(t)
	a := s.run(s.session()).queued(1).claimed(1, "rnr_1")
	s.write(subject.Ended(a.part(), a.spec.ID, a.key(run.NoAttempt)),
		run.Ended{V: 1, SessionID: a.spec.SessionID, Attempt: 1, Status: run.Failed})
	if r := s.close(time.Second); !r.OK || r.Foreign != 0 || r.Runs.Failed != 1 {
		t.Errorf("%+v", r)
	}

	s = newStory(t)
	a = s.run(s.session()).done()
	s.write(subject.Ended(a.part(), a.spec.ID, a.key(run.NoAttempt)),
		run.Ended{V: 1, SessionID: a.spec.SessionID, Attempt: 1, Status: run.Failed})
	if r := s.close(time.Second); !r.OK || r.Foreign != 0 || r.Runs.Completed != 1 {
		t.Errorf("after the attempt's own end: %+v", r)
	}
}
