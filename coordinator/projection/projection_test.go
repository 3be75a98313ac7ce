package projection

import (
	"testing"

	"ao/coordinator/projection/recordtest"
	"ao/shared/run"
)

// TestNoWaitIsLeft: what somebody waited for is forgotten once it has come.
func TestNoWaitIsLeft(t *testing.T) {
	p := New(Config{Key: recordtest.KeyOf})
	a := recordtest.NewActor(t, run.NewID(), "ses_1", "a")
	done := make(chan error)
	p.Apply(recordtest.Message(1, a.Queued(1)))
	for range 2 {
		go func() { done <- p.Done(t.Context(), a.Spec.ID) }()
	}
	reached := p.WhenApplied(3)
	p.Apply(recordtest.Message(2, a.Claimed(1)))
	p.Apply(recordtest.Message(3, a.Ended(1, run.Completed, 0)))
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	<-reached
	if len(p.waiters) != 0 || len(p.awaits.all) != 0 {
		t.Errorf("%d and %d wait", len(p.waiters), len(p.awaits.all))
	}
}

func TestTotals(t *testing.T) {
	p := New(Config{Key: recordtest.KeyOf})
	one, two := recordtest.NewActor(t, run.NewID(), "ses_1", "a"), recordtest.NewActor(t, run.NewID(), "ses_2", "a")
	two.Spec.Attempts = 2
	p.Apply(recordtest.Message(1, one.Queued(1))) // before the history was read
	p.Live.Store(true)
	for i, e := range []recordtest.Entry{two.Queued(1), two.Claimed(1), two.Ended(1, run.Failed, 0), one.Claimed(1),
		one.Ended(1, run.Completed, 0)} {
		p.Apply(recordtest.Message(i+2, e))
	}
	if got := p.Totals(); got != (Totals{Accepted: 1, Retried: 1, Completed: 1}) {
		t.Errorf("%+v", got)
	}
}
