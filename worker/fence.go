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
		pause := min(w.margin()/4, 250*time.Millisecond)
		if !wait(ctx, pause) {
			return
		}
		now := time.Now()
		if lost := now.Sub(last) - pause; lost > min(frozen, time.Duration(w.lease.Load())/2) {
			w.log.Warn("this process did not run for a while: it was stopped, or its machine paused or has too much to do", "for", lost.Round(time.Millisecond), "lease", time.Duration(w.lease.Load()))
		}
		last = now
		w.fenceOnce(now)
	}
}

// frozen is how late a look may be, at most, before the process did not run.
const frozen = 3 * time.Second

// margin is how long before the end of the lease an attempt is fenced off.
func (w *Worker) margin() time.Duration { return min(time.Duration(w.lease.Load())/4, 2*time.Second) }

func (w *Worker) fenceOnce(now time.Time) {
	limit := time.Duration(w.lease.Load()) - w.margin()
	w.attempts.fence(now, limit, func(a *attempt, silent time.Duration) {
		w.counts.fenced.Add(1)
		w.log.Warn("heartbeats were not answered for nearly a lease, and the run may be attempted again: its executor is killed, and no last word said",
			"run", a, "silent", silent.Round(time.Millisecond), "lease", time.Duration(w.lease.Load()))
	})
}
