package coordinator

import (
	"context"
	"sync"
	"time"

	"ao/coordinator/control/pool"
	"ao/coordinator/journal"
	"ao/shared/fleet"
)

// leases gives up the attempts that are silent for a lease. It judges only after one uninterrupted lease of listening (design section 4.6).
type leases struct {
	history interface {
		Active(id string) (journal.Active, bool)
		Begun(func(journal.Active) bool)
		Silent(lease time.Duration)
		Sure() bool
	}
	ends interface {
		Lose(ctx context.Context, a journal.Active, why string) error
		GoesOn(a journal.Active) bool
	}
	commands interface {
		Command(ctx context.Context, runner string, cmd fleet.Command) (fleet.CommandReply, error)
		TellStop(ctx context.Context, a journal.Active)
	}
	proven  func(runner string, reply fleet.CommandReply) bool // the answer is of the process that registered
	hearing *hearing
	told    map[string]time.Time // stop commands sent, by key: Reconcile's alone
	pool    *pool.Pool           // of judges, by key: however many attempts a runner had, none waits for another

	mu   sync.Mutex
	life context.Context // of what giveUp began
	die  context.CancelFunc
	wg   sync.WaitGroup
}

func newLeases(c *Coordinator) *leases {
	l := &leases{
		history: c.Journal, ends: c.ends, commands: c.commands, proven: c.Registry.Proven, hearing: c.hearing,
		told: map[string]time.Time{}, pool: pool.New(pool.Config{}),
	}
	l.life, l.die = context.WithCancel(context.Background())
	return l
}

// The leases are looked at so often; a look that comes so long after the one before has been late.
const (
	lookAtLeases = 250 * time.Millisecond
	lateLook     = lookAtLeases + time.Second
)

// Reconcile gives up what was silent for a lease, and repeats to runners what they are to stop. It waits for nothing: a look that comes
// late counts as an interruption.
func (l *leases) Reconcile(ctx context.Context) error {
	why := l.hearing.interrupted()
	if why == "" && !l.history.Sure() {
		why = "not connected, or the fold lags"
	}
	if why != "" {
		l.hearing.restart(why)
	}
	l.history.Silent(l.hearing.lease)
	var underway []journal.Active
	l.history.Begun(func(a journal.Active) bool {
		if a.OfferSeq == 0 && a.EndSeq == 0 { // else its worker has done its part, or has none any more
			underway = append(underway, a)
		}
		return true
	})
	lost := l.hearing.lost(underway)
	for _, a := range l.stopping(underway) {
		go l.commands.TellStop(ctx, a)
	}
	for _, a := range lost {
		l.pool.Go(ctx, a.Key, "", func(ctx context.Context) error { return l.judge(ctx, a, "no heartbeat within the lease") })
	}
	return nil
}

// stopping are those of the attempts under way whose runner is to be told again that they are to be stopped.
func (l *leases) stopping(underway []journal.Active) (all []journal.Active) {
	told := map[string]time.Time{}
	for _, a := range underway {
		if !a.Stopping {
			continue
		}
		if told[a.Key] = l.told[a.Key]; time.Since(told[a.Key]) > 2*time.Second {
			told[a.Key] = time.Now()
			all = append(all, a)
		}
	}
	l.told = told
	return all
}

// judge asks the runner once more, and gives the attempt up where it does not have it. An error: NATS did not take that.
func (l *leases) judge(ctx context.Context, a journal.Active, why string) error {
	l.hearing.heard(a.Key, time.Now().Add(2*time.Second-l.hearing.lease), false) // not twice at once; again soon if this fails
	reply, err := l.commands.Command(ctx, a.Claim.RunnerID, fleet.Command{Type: fleet.CommandProbe, RunID: a.Spec.ID, Key: a.Key})
	if ctx.Err() != nil { // who asks is ending
		return ctx.Err()
	}
	if err == nil && reply.Has && reply.Instance == a.Claim.Instance && l.proven(a.Claim.RunnerID, reply) {
		l.hearing.heard(a.Key, time.Now(), false)
		return nil
	}
	return l.ends.Lose(ctx, a, why)
}

// outright judges an attempt whose lease may go on for long. What NATS does not take, because a cluster has no leader, it says again.
func (l *leases) outright(ctx context.Context, a journal.Active, why string) {
	for l.judge(ctx, a, why) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if !l.ends.GoesOn(a) {
			return
		}
	}
}

// giveUp judges attempts outright, one after the other, beside who asks for it.
func (l *leases) giveUp(all []journal.Active, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		return
	}
	l.wg.Go(func() {
		for _, a := range all {
			l.outright(l.life, a, why)
		}
	})
}

// end ends what giveUp began.
func (l *leases) end() {
	l.mu.Lock()
	l.die()
	l.mu.Unlock()
	l.wg.Wait()
}
