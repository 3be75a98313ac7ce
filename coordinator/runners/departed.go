package runners

import (
	"context"
	"time"

	"ao/shared/runnerapi"
)

// Expired lists the runners that were not heard for longer than a registration is kept.
func (l *Deregistrar) Expired() (all []runnerapi.Runner) {
	for _, m := range l.Runners.list(func(m *member) bool { return m.status(l.Runners) == runnerapi.Removed }) {
		all = append(all, m.Runner)
	}
	return all
}

// Departed lists the runners whose process is gone: ended were draining and sent no heartbeat
// for a lease, over have used up their grace. The caller must have received every heartbeat for a lease.
func (l *Deregistrar) Departed(lease time.Duration) (ended, over []runnerapi.Runner) {
	for _, m := range l.Runners.list(func(m *member) bool { return m.Leaving || !m.LeftAt.IsZero() }) {
		switch {
		case m.GraceOver():
			over = append(over, m.Runner)
		case m.Leaving && m.LeftAt.IsZero() && time.Since(m.LastHeartbeat) >= lease:
			ended = append(ended, m.Runner)
		}
	}
	return ended, over
}

// ProcessGone stores that a runner's process is gone, as a coordinator found.
func (l *Deregistrar) ProcessGone(ctx context.Context, r runnerapi.Runner) error {
	return l.deregister(ctx, runnerapi.Deregistration{RunnerID: r.ID(), Instance: r.Instance}, unchecked)
}

// RemoveProcess removes a runner unless another process has taken its place.
func (l *Deregistrar) RemoveProcess(ctx context.Context, r runnerapi.Runner) error {
	return l.remove(ctx, r.ID(), sameProcess(r.Instance))
}

// RemoveDeparted removes a runner that left unless it has come back.
func (l *Deregistrar) RemoveDeparted(ctx context.Context, r runnerapi.Runner) error {
	return l.remove(ctx, r.ID(), func(now runnerapi.Runner) bool {
		return now.Instance == r.Instance && now.LeftAt.Equal(r.LeftAt)
	})
}
