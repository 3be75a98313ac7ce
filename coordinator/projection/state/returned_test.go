package state

import (
	"slices"
	"testing"
	"time"

	"ao/shared/run"
)

// An attempt that its runner gave back is followed by another, at once, and counts as none. Only a returnable one is.
func TestReturnedAttempts(t *testing.T) {
	once, twice := newActor(t, "run_1", "ses_a", "x"), newActor(t, "run_1", "ses_a", "x")
	twice.Spec.Attempts = 2
	for _, tt := range []struct {
		name    string
		records []entry
		want    string
		most    int // attempts that the run may have, while it is open
	}{
		{"given back", []entry{once.Returnable(1), once.Claimed(1), once.Returned(1, run.Failed)}, "pending", 2},
		{"then it fails", []entry{once.Returnable(1), once.Claimed(1), once.Returned(1, run.Failed),
			once.Returnable(2), once.Claimed(2), once.Ended(2, run.Failed, 0)}, "failed", 0},
		{"twice given back", []entry{once.Returnable(1), once.Claimed(1), once.Returned(1, run.Failed),
			once.Returnable(2), once.Claimed(2), once.Returned(2, run.Failed)}, "pending", 3},
		{"the next one may not be", []entry{once.Returnable(1), once.Claimed(1), once.Returned(1, run.Failed),
			once.Queued(2), once.Claimed(2), once.Returned(2, run.Failed)}, "failed", 0},
		{"not returnable", []entry{once.Queued(1), once.Claimed(1), once.Returned(1, run.Failed)}, "failed", 0},
		{"not by a coordinator", []entry{once.Returnable(1), once.ClaimedBy(1, ""), once.Returned(1, run.Failed)},
			"failed", 0},
		{"not after a stop", []entry{once.Returnable(1), once.Claimed(1), once.Stopping(),
			once.Returned(1, run.Failed)}, "failed", 0},
		{"a completed one is not given back", []entry{once.Returnable(1), once.Claimed(1),
			once.Returned(1, run.Completed)}, "completed", 0},
		{"its attempts are as many as before", []entry{twice.Returnable(1), twice.Claimed(1),
			twice.Returned(1, run.Failed), twice.Queued(2), twice.Claimed(2), twice.Ended(2, run.Failed, 0)},
			"pending", 3},
		{"and no more", []entry{twice.Returnable(1), twice.Claimed(1), twice.Returned(1, run.Failed), twice.Queued(2),
			twice.Claimed(2), twice.Ended(2, run.Failed, 0), twice.Queued(3), twice.Claimed(3),
			twice.Ended(3, run.Failed, 0)}, "failed", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newReducer(nil)
			for i, e := range tt.records {
				f.Apply(message(i+1, e))
				agree(t, f)
			}
			r, most := f.runs[IdentOf(RunPrefix, "run_1")], 0
			if r.live != nil {
				most = r.live.snap.Spec.Attempts
			}
			if got := string(r.Status()); got != tt.want || most != tt.most {
				t.Errorf("%s, at most %d attempts; want %s, %d", got, most, tt.want, tt.most)
			}
		})
	}
}

// Who gave a run back is known, and the next attempt has no pause.
func TestWhoGaveARunBack(t *testing.T) {
	a := newActor(t, "run_1", "ses_a", "x")
	f := reduced(t, []entry{a.Returnable(1), a.Claimed(1), a.Returned(1, run.Failed), a.Returnable(2)})
	got := f.runs[IdentOf(RunPrefix, "run_1")].live.snap
	if want := []string{"rnr_1"}; !slices.Equal(got.ReturnedBy, want) || got.NotBefore != (time.Time{}) ||
		got.Attempt != 2 || !got.Returnable {
		t.Errorf("%+v, want it returned by %v", got, want)
	}
}
