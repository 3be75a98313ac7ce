package worker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// fence kills, before their lease ends, the executors of attempts that nobody answers for and whose run may be attempted
// again: from the end of the lease on another worker may have the next attempt, and two must not work at once.
// Runs with a single attempt go on: should somebody answer in time, their work counts.
type fence struct {
	terms    *terms
	attempts *attempts
	killed   *atomic.Uint64
	log      *slog.Logger
}

// run looks again and again until ctx ends.
func (f *fence) run(ctx context.Context) {
	for last := time.Now(); ; {
		pause := min(f.terms.margin()/4, 250*time.Millisecond)
		if !wait(ctx, pause) {
			return
		}
		now := time.Now()
		if lost := now.Sub(last) - pause; lost > min(frozen, f.terms.lease()/2) {
			f.log.Warn("this process did not run for a while: it was stopped, or its machine paused or has too much to do", "for", lost.Round(time.Millisecond), "lease", f.terms.lease())
		}
		last = now
		f.look(now)
	}
}

// frozen is how late a look may be, at most, before the process did not run.
const frozen = 3 * time.Second

func (f *fence) look(now time.Time) {
	f.attempts.fence(now, f.terms.lease()-f.terms.margin(), func(a *attempt, silent time.Duration) {
		f.killed.Add(1)
		f.log.Warn("heartbeats were not answered for nearly a lease, and the run may be attempted again: its executor is killed, and no last word said",
			"run", a, "silent", silent.Round(time.Millisecond), "lease", f.terms.lease())
	})
}
