package query

import (
	"slices"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/run"
)

// widely is a session with n open runs below it, each in a session of its own. Half of these are two levels below.
func widely(t testing.TB, n int) (j *allParts, top string, oldest []string) {
	t.Helper()
	j = joined(nil, projection.Config{Key: keyOf, Cache: -1})
	a := newActor(t, run.NewID(), run.NewSessionID(), "agent")
	top = a.Spec.SessionID
	j.Apply(message(1, a.Queued(1)))
	middle := ""
	for i := range n {
		a = newActor(t, run.NewID(), run.NewSessionID(), "agent")
		a.Spec.Parent = top
		if i%2 == 1 {
			a.Spec.Parent = middle
		}
		if i == 0 {
			middle = a.Spec.SessionID
		}
		j.Apply(message(i+2, a.Queued(1)))
		oldest = append(oldest, a.Spec.ID)
	}
	return j, top, oldest
}

// writeUntil takes the write lock again and again until done is closed. It returns how often, and the longest wait.
func writeUntil(p *projection.Projection, done chan struct{}) (times int, longest time.Duration) {
	for {
		select {
		case <-done:
			return times, longest
		default:
		}
		start := time.Now()
		p.Updating(func(*state.State) { longest = max(longest, time.Since(start)) })
		times++
	}
}

func TestBelowCountsAndNamesTheOldest(t *testing.T) {
	const n = 3 * belowStep
	j, top, want := widely(t, n)
	for _, most := range []int{0, 1, 100, n, n + 1} {
		got, oldest := j.Below(top, most)
		if got != n || !slices.Equal(oldest, want[:min(most, n)]) {
			t.Errorf("%d of %d runs: %d, %.120v", most, n, got, oldest)
		}
	}
	if got, oldest := j.Below("ses_none", 5); got != 0 || oldest != nil {
		t.Errorf("no session: %d, %v", got, oldest)
	}
}

// A change gets in between the steps: it need not wait until all runs below a session are counted.
func TestBelowReleasesTheLock(t *testing.T) {
	j, top, _ := widely(t, 50*belowStep)
	for range 5 { // the writer may be late
		var times int
		done, wait := make(chan struct{}), sync.WaitGroup{}
		wait.Go(func() { times, _ = writeUntil(j.Projection, done) })
		j.Below(top, 100)
		close(done)
		wait.Wait()
		if times >= 10 {
			return
		}
	}
	t.Error("nobody could write while the runs below a session were counted")
}
