package projection

import (
	"slices"
	"testing"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// returnable queues an attempt that its runner may give back.
func (a actor) returnable(attempt int) entry {
	e := a.queued(attempt)
	e.Body = body(a.t, run.Queued{V: 1, Attempt: attempt, Key: a.key(attempt), Returnable: true, Spec: a.spec})
	return e
}

// returned is the end record of a runner that gives the run back, with this status.
func (a actor) returned(attempt int, s run.Status) entry {
	return entry{Subject: subject.Ended(a.part, a.spec.ID, a.key(attempt)), Body: body(a.t, run.Ended{V: 1,
		SessionID: a.spec.SessionID, RunnerID: "rnr_1", Nonce: "n", Attempt: attempt, Status: s, Returned: true,
		At: began})}
}

// An attempt that its runner gave back is followed by another, at once, and counts as none. Only a returnable one is.
func TestReturnedAttempts(t *testing.T) {
	once, twice := newActor(t, "run_1", "ses_a", "x"), newActor(t, "run_1", "ses_a", "x")
	twice.spec.Attempts = 2
	for _, tt := range []struct {
		name    string
		records []entry
		want    string
		most    int // attempts that the run may have, while it is open
	}{
		{"given back", []entry{once.returnable(1), once.claimed(1), once.returned(1, run.Failed)}, "pending", 2},
		{"then it fails", []entry{once.returnable(1), once.claimed(1), once.returned(1, run.Failed),
			once.returnable(2), once.claimed(2), once.ended(2, run.Failed, 0)}, "failed", 0},
		{"twice given back", []entry{once.returnable(1), once.claimed(1), once.returned(1, run.Failed),
			once.returnable(2), once.claimed(2), once.returned(2, run.Failed)}, "pending", 3},
		{"the next one may not be", []entry{once.returnable(1), once.claimed(1), once.returned(1, run.Failed),
			once.queued(2), once.claimed(2), once.returned(2, run.Failed)}, "failed", 0},
		{"not returnable", []entry{once.queued(1), once.claimed(1), once.returned(1, run.Failed)}, "failed", 0},
		{"not by a coordinator", []entry{once.returnable(1), once.claimedBy(1, ""), once.returned(1, run.Failed)},
			"failed", 0},
		{"not after a stop", []entry{once.returnable(1), once.claimed(1), once.stopping(),
			once.returned(1, run.Failed)}, "failed", 0},
		{"a completed one is not given back", []entry{once.returnable(1), once.claimed(1),
			once.returned(1, run.Completed)}, "completed", 0},
		{"its attempts are as many as before", []entry{twice.returnable(1), twice.claimed(1),
			twice.returned(1, run.Failed), twice.queued(2), twice.claimed(2), twice.ended(2, run.Failed, 0)},
			"pending", 3},
		{"and no more", []entry{twice.returnable(1), twice.claimed(1), twice.returned(1, run.Failed), twice.queued(2),
			twice.claimed(2), twice.ended(2, run.Failed, 0), twice.queued(3), twice.claimed(3),
			twice.ended(3, run.Failed, 0)}, "failed", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newReducer(nil)
			for i, e := range tt.records {
				f.apply(message(i+1, e))
				agree(t, f)
			}
			r, most := f.runs[identOf(runPrefix, "run_1")], 0
			if r.live != nil {
				most = r.live.snap.Spec.Attempts
			}
			if got := string(r.shown()); got != tt.want || most != tt.most {
				t.Errorf("%s, at most %d attempts; want %s, %d", got, most, tt.want, tt.most)
			}
		})
	}
}

// Who gave a run back is known, and the next attempt has no pause.
func TestWhoGaveARunBack(t *testing.T) {
	a := newActor(t, "run_1", "ses_a", "x")
	f := reduced(t, []entry{a.returnable(1), a.claimed(1), a.returned(1, run.Failed), a.returnable(2)})
	got := f.runs[identOf(runPrefix, "run_1")].live.snap
	if want := []string{"rnr_1"}; !slices.Equal(got.ReturnedBy, want) || got.NotBefore != (time.Time{}) ||
		got.Attempt != 2 || !got.Returnable {
		t.Errorf("%+v, want it returned by %v", got, want)
	}
}
