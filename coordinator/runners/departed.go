package runners

import (
	"context"
	"time"

	"ao/shared/runnerapi"
)

// Expired are the runners that were not heard for longer than a runner is kept.
func (l *Deregistrar) Expired() (all []runnerapi.Runner) {
	for _, m := range l.Runners.list(func(m *member) bool { return m.status(l.Runners) == runnerapi.Removed }) {
		all = append(all, m.Runner)
	}
	return all
}

// Departed are those runners whose end somebody is to note: those that were told to end and are silent for a lease, and
// those whose grace is over. Who asks must have heard everything for a lease.
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

// ProcessGone notes that a runner's process is gone, as a coordinator has found.
func (l *Deregistrar) ProcessGone(ctx context.Context, r runnerapi.Runner) error {
	return l.deregister(ctx, runnerapi.Deregistration{RunnerID: r.ID(), Instance: r.Instance}, unchecked)
}

// RemoveProcess removes a runner, unless it is another process now.
func (l *Deregistrar) RemoveProcess(ctx context.Context, r runnerapi.Runner) error {
	return l.remove(ctx, r.ID(), sameProcess(r.Instance))
}

// RemoveDeparted removes a runner that left, unless it has been back since.
func (l *Deregistrar) RemoveDeparted(ctx context.Context, r runnerapi.Runner) error {
	return l.remove(ctx, r.ID(), func(now runnerapi.Runner) bool {
		return now.Instance == r.Instance &&
			now.LeftAt.Equal(r.LeftAt)
	})
}
