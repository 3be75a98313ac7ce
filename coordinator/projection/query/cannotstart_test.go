package query

import (
	"slices"
	"testing"
	"time"

	"ao/coordinator/projection"
	"ao/nats/subject"
	"ao/shared/run"
)

// What a turn resumes stays for as long as no runner has claimed that turn, wherever the turn waits.
func TestHistoryKeepsWhatAWaitingTurnResumes(t *testing.T) {
	first, next := newActor(t, "run_1", "ses_a", "x"), newActor(t, "run_2", "ses_a", "x")
	next.Spec.Type = run.Resume
	j := joined(nil, projection.Config{})
	n := 0
	for _, tt := range []struct {
		name string
		e    entry
		want uint64
	}{
		{"it waits for a runner", first.Queued(1), 1},
		{"it runs", first.Claimed(1), 1},
		{"it has ended", first.Ended(1, run.Completed, 0), 4},
		{"a turn is accepted", next.Accepted(), 1},
		{"the turn is queued", next.Queued(1), 1},
		{"the turn runs", next.Claimed(1), 4},
	} {
		n++
		j.Apply(message(n, tt.e))
		if got := j.Prunable(100, began.Add(time.Hour), began.Add(time.Hour)); got != tt.want {
			t.Errorf("%s: history may go up to %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A further attempt of which NATS has lost all but the end record is counted. So is the attempt before it that failed
// without a claim.
func TestPartlyLostAttempts(t *testing.T) {
	a := newActor(t, "run_1", "ses_a", "x")
	a.Spec.Attempts = 2
	for name, records := range map[string][]entry{
		"its claim": {a.Queued(1), a.Claimed(1), a.Ended(1, run.Failed, 0), a.Queued(2),
			a.Ended(2, run.Failed, 0)},
		"its claim and what queued it": {a.Queued(1), a.Claimed(1), a.Ended(1, run.Failed, 0),
			a.Ended(2, run.Failed, 0)},
		"the claim of the one before": {a.Queued(1), a.Ended(1, run.Failed, 0), a.Queued(2), a.Claimed(2),
			a.Ended(2, run.Failed, 0)},
		"all but the end records of both": {a.Accepted(), a.Ended(1, run.Failed, 0), a.Ended(2, run.Failed, 0)},
		"nothing": {a.Queued(1), a.Claimed(1), a.Ended(1, run.Failed, 0), a.Queued(2),
			a.Claimed(2), a.Ended(2, run.Failed, 0)},
		"the claims, and end records come late": {a.Queued(1), a.Ended(1, run.Failed, 0), a.Claimed(1), a.Queued(2),
			a.Ended(2, run.Failed, 0), a.Ended(1, run.Completed, 0)},
	} {
		j := joined(nil, projection.Config{Key: keyOf})
		j.Live.Store(true)
		for i, e := range records {
			j.Apply(message(i+1, e))
		}
		s, _ := lookup(j.Projection, "run_1")
		if got := j.Totals(); s.Status != run.Failed || s.Attempt != 2 ||
			got != (projection.Totals{Accepted: 1, Retried: 1, Failed: 1}) {
			t.Errorf("%s: %s with attempt %d, %+v", name, s.Status, s.Attempt, got)
		}
	}
}

// A turn cannot start only if all runs before it are known, and no runner claimed any of them.
func TestTurnCannotStart(t *testing.T) {
	first, next := newActor(t, "run_1", "ses_a", "x"), newActor(t, "run_2", "ses_a", "x")
	next.Spec.Type = run.Resume
	cancelled := []entry{
		{
			Subject: subject.Claimed(first.Part, "run_1", first.Key(1)),
			Body:    body(t, run.Claim{V: 1, SessionID: "ses_a", Nonce: "n", Attempt: 1, At: began}),
		},
		{
			Subject: subject.Ended(first.Part, "run_1", first.Key(1)),
			Body: body(
				t,
				run.Ended{V: 1, SessionID: "ses_a", Nonce: "n", Attempt: 1, Status: run.Stopped, At: began},
			),
		},
	}
	reported := first.Ended(1, run.Completed, 0)
	reported.Body = body(
		t,
		run.Ended{
			V:         1,
			SessionID: "ses_a",
			RunnerID:  "rnr_1",
			Nonce:     "n",
			Attempt:   1,
			Status:    run.Completed,
			At:        began,
		},
	)
	for _, tt := range []struct {
		name    string
		records []entry
		dead    bool   // history is still read
		forget  uint64 // what is before is not kept
		want    bool
	}{
		{name: "the first run is queued", records: []entry{first.Queued(1), next.Accepted()}},
		{name: "it runs", records: []entry{first.Queued(1), next.Accepted(), first.Claimed(1)}},
		{name: "it has ended", records: []entry{first.Queued(1), next.Accepted(), first.Claimed(1),
			first.Ended(1, run.Failed, 0)}},
		{name: "it was cancelled", records: append([]entry{first.Queued(1), next.Accepted()}, cancelled...),
			want: true},
		{name: "it was cancelled, and that is read", records: append([]entry{first.Queued(1), next.Accepted()},
			cancelled...), dead: true},
		{name: "it is not kept", records: slices.Concat([]entry{first.Queued(1)}, cancelled, []entry{next.Accepted()}),
			forget: 4},
		{name: "its claim is lost", records: []entry{first.Queued(1), next.Accepted(), reported}},
		{name: "the turn is queued", records: slices.Concat([]entry{first.Queued(1), next.Accepted()}, cancelled,
			[]entry{next.Queued(1)})},
	} {
		j := joined(nil, projection.Config{})
		j.Live.Store(!tt.dead)
		for i, e := range tt.records {
			j.Apply(message(i+1, e))
		}
		j.Forget(tt.forget)
		if got := j.CannotStart("run_2"); got != tt.want || j.CannotStart("run_1") || j.CannotStart("run_3") {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
