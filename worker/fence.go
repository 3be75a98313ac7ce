package worker

import (
	"context"
	"time"
)

// fences kills, before their lease ends, the executors of attempts that nobody answers for and whose run may be attempted
// again: from the end of the lease on another worker may have the next attempt, and two must not work at once
// (design section 4.6). Runs with a single attempt go on: should somebody answer in time, their work counts.
func (w *Worker) fences(ctx context.Context) {
	for last := time.Now(); ; {
		pause := min(w.terms.margin()/4, 250*time.Millisecond)
		if !wait(ctx, pause) {
			return
		}
		now := time.Now()
		if lost := now.Sub(last) - pause; lost > min(frozen, w.terms.lease()/2) {
			w.log.Warn("this process did not run for a while: it was stopped, or its machine paused or has too much to do", "for", lost.Round(time.Millisecond), "lease", w.terms.lease())
		}
		last = now
		w.fenceOnce(now)
	}
}

// frozen is how late a look may be, at most, before the process did not run.
const frozen = 3 * time.Second

func (w *Worker) fenceOnce(now time.Time) {
	limit := w.terms.lease() - w.terms.margin()
	w.attempts.fence(now, limit, func(a *attempt, silent time.Duration) {
		w.counts.fenced.Add(1)
		w.log.Warn("heartbeats were not answered for nearly a lease, and the run may be attempted again: its executor is killed, and no last word said",
			"run", a, "silent", silent.Round(time.Millisecond), "lease", w.terms.lease())
	})
}
