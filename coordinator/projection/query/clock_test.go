package query

import (
	"testing"
	"time"

	"ao/coordinator/projection"
	"ao/shared/run"
)

// A worker's clock may be wrong by years; how long history is kept does not depend on it.
func TestAWorkersClockDoesNotShortenHistory(t *testing.T) {
	a := newActor(t, "run_1", "ses_a", "x")
	wrong := a.Ended(1, run.Completed, 0)
	wrong.Body = body(
		t,
		run.Ended{
			V:         1,
			SessionID: "ses_a",
			Nonce:     "n",
			Attempt:   1,
			Status:    run.Completed,
			At:        began.AddDate(-10, 0, 0),
		},
	)
	j := joined(nil, projection.Config{})
	for i, e := range []entry{a.Queued(1), a.Claimed(1), wrong} {
		j.Apply(message(i+1, e))
	}
	if got := j.Prunable(100, began.Add(-time.Hour), began.Add(time.Hour)); got != 1 {
		t.Errorf("a fresh run may be truncated: up to %d", got)
	}
	if got := j.Prunable(100, began.Add(time.Hour), began.Add(time.Hour)); got != 4 {
		t.Errorf("an old run may not: up to %d", got)
	}
}
