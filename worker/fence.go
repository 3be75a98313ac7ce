package worker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ao/shared/clock"
)

// fence kills, before their lease ends, the executors of attempts that no coordinator acknowledges and whose run may
// be attempted again. After the lease another worker may start the next attempt, and two must not work at once.
// Attempts that are their run's last continue: if a coordinator answers in time, their work counts.
type fence struct {
	remote   *remoteSettings
	attempts *attempts
	killed   *atomic.Uint64
	log      *slog.Logger
}

// run checks at short intervals until ctx ends.
func (f *fence) run(ctx context.Context) {
	for last := time.Now(); ; {
		pause := min(f.remote.fenceMargin()/4, 250*time.Millisecond)
		if !clock.Sleep(ctx, pause) {
			return
		}
		now := time.Now()
		if lost := now.Sub(last) - pause; lost > min(maxPause, f.remote.lease()/2) {
			f.log.Warn("this process was not scheduled for a while: it was stopped, or its machine was suspended or "+
				"is overloaded", "for", lost.Round(time.Millisecond), "lease", f.remote.lease())
		}
		last = now
		f.check(now)
	}
}

// maxPause is how late a check may be before the process counts as not scheduled.
const maxPause = 3 * time.Second

func (f *fence) check(now time.Time) {
	f.attempts.fence(now, f.remote.lease()-f.remote.fenceMargin(), func(a *attempt, silent time.Duration) {
		f.killed.Add(1)
		f.log.Warn("heartbeats were not answered for nearly a lease, and the run may be attempted again: killing its "+
			"executor, no end record", "run", a, "silent", silent.Round(time.Millisecond), "lease", f.remote.lease())
	})
}
