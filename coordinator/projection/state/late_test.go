package state

import (
	"testing"
	"time"

	"ao/shared/run"
)

// A queued record is late if its attempt no longer waits. Until it is purged, truncation keeps the claim that refuses
// it. That also holds for a projection that starts from a checkpoint.
func TestLateRecordsKeepTheirClaims(t *testing.T) {
	a := newActor(t, "run_1", "ses_a", "x")
	a.Spec.Attempts = 2
	queued, claimed, failed, done := a.Queued(1), a.Claimed(1), a.Ended(1, run.Failed, 0), a.Ended(1, run.Completed, 0)
	late := a.Elsewhere(1, "procedural.x.other")
	for name, tt := range map[string]struct {
		records []entry
		late    uint64 // its sequence; 0: none is
	}{
		"the run has ended":    {[]entry{queued, claimed, done, late}, 4},
		"the attempt is begun": {[]entry{queued, claimed, late, done}, 3},
		"the attempt is over": {
			[]entry{queued, claimed, failed, late, a.Queued(2), a.Claimed(2), a.Ended(2, run.Failed, 0)}, 4},
		"another attempt waits": {
			[]entry{queued, claimed, failed, a.Queued(2), late, a.Claimed(2), a.Ended(2, run.Failed, 0)}, 5},
		"the run is accepted once more": {[]entry{queued, claimed, done, a.Accepted()}, 4},
		"while it is open":              {[]entry{queued, a.Accepted(), claimed, done}, 2},
		"the attempt moves in time":     {[]entry{queued, late, claimed, done}, 0},
		"its session is deleted, then":  {[]entry{queued, claimed, done, late, a.Deleted()}, 4},
		"it was cancelled": {[]entry{a.Accepted(), a.ClaimedBy(1, ""), a.Ended(1, run.Stopped, 0), late},
			4},
		"it moved, and again too late": {[]entry{queued, late, a.Claimed(1), a.Elsewhere(1, "procedural.x.third"),
			done}, 4},
	} {
		j := joined(keyOf, nil)
		for i, e := range tt.records {
			j.Apply(message(i+1, e))
		}
		f, err := load(snap(t, j, func() {}), keyOf)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := uint64(len(tt.records) + 1)
		for _, j := range []*asked{j, over(f)} {
			cut := func() uint64 { return j.Prunable(0, began.Add(time.Hour), began.Add(time.Hour)) }
			lates := j.LateRecords()
			if tt.late == 0 {
				if len(lates) > 0 || cut() != all {
					t.Errorf("%s: late are %v, history may go up to %d", name, lates, cut())
				}
				continue
			}
			if len(lates) != 1 || lates[0].Seq != tt.late || lates[0].Subject != tt.records[tt.late-1].Subject ||
				cut() != 1 {
				t.Errorf("%s: late are %v, history may go up to %d", name, lates, cut())
				continue
			}
			j.ForgetLate(LateRecord{Seq: tt.late, Subject: "of a history that was replaced"})
			if len(j.LateRecords()) != 1 {
				t.Errorf("%s: another record was purged, and this one is held for gone", name)
			}
			j.ForgetLate(lates[0])
			if len(j.LateRecords()) != 0 || cut() != all {
				t.Errorf("%s: when it is purged, late are %v, history may go up to %d", name, j.LateRecords(), cut())
			}
		}
	}
}
