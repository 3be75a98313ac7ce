package worker

import (
	"context"
	"time"

	"ao/shared/fleet"
)

// fences kills, before their lease ends, the executors of attempts that nobody answers for and whose run may be attempted
// again: from the end of the lease on another worker may have the next attempt, and two must not work at once
// (design section 4.6). Runs with a single attempt go on: should somebody answer in time, their work counts.
func (w *Worker) fences(ctx context.Context) {
	for wait(ctx, min(w.margin()/4, 250*time.Millisecond)) {
		w.fenceOnce(time.Now())
	}
}

// margin is how long before the end of the lease an attempt is fenced off.
func (w *Worker) margin() time.Duration { return min(time.Duration(w.lease.Load())/4, 2*time.Second) }

func (w *Worker) fenceOnce(now time.Time) {
	limit := time.Duration(w.lease.Load()) - w.margin()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.attempts {
		silent := now.Sub(a.heard)
		if !a.again() || a.over || a.heard.IsZero() || silent < limit || a.wanted.Err() != nil {
			continue
		}
		a.unwant()
		a.cancel(errFenced)
		a.kill()
		w.counts.fenced.Add(1)
		w.log.Warn("heartbeats are not answered, and the run may be attempted again: its executor is killed before the lease ends, and no last word said",
			"run", a, "silent", silent.Round(time.Millisecond), "lease", time.Duration(w.lease.Load()))
	}
}

// again tells whether the run may be attempted again after this attempt.
func (a *attempt) again() bool { return a.Attempts > a.Attempt }

// answered notes that a coordinator knows of these attempts. sent is when it was told of them, which cannot be later than when
// it heard.
func (w *Worker) answered(attempts []fleet.Attempt, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, named := range attempts {
		if a := w.attempts[named.Key]; a != nil && a.heard.Before(sent) {
			a.heard = sent
		}
	}
}
