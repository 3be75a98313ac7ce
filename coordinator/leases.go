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
	c       *Coordinator
	hearing *hearing
	told    map[string]time.Time // stop commands sent, by key: Reconcile's alone
	pool    *pool.Pool           // of judges, by key: however many attempts a runner had, none waits for another

	mu   sync.Mutex
	life context.Context // of what giveUp began
	die  context.CancelFunc
	wg   sync.WaitGroup
}

func newLeases(c *Coordinator) *leases {
	h := &hearing{connection: c.bus, lease: c.Lease, log: c.log, seen: map[string]time.Time{}, early: map[string]time.Time{}}
	l := &leases{c: c, hearing: h, told: map[string]time.Time{}, pool: pool.New(pool.Config{})}
	l.life, l.die = context.WithCancel(context.Background())
	return l
}

// beat notes the attempts alive, and tells the worker what it does not know. Who only says to be that worker is refused.
func (l *leases) beat(ctx context.Context, b fleet.Beat) (fleet.BeatReply, error) {
	now := time.Now()
	r, known, superseded, err := l.c.fleet.beat(ctx, b)
	if superseded { // or it is the successor, and that is not known here yet: who is sent away wrongly ends
		if _, unread := l.c.registered.refresh(ctx, b.RunnerID); unread == nil {
			r, known, superseded, err = l.c.fleet.beat(ctx, b)
		} else {
			superseded = false
		}
	}
	if err != nil {
		return fleet.BeatReply{}, err
	}
	if known && !superseded {
		l.c.fleet.tick(b.RunnerID, b.At)
	}
	reply := fleet.BeatReply{
		Known: known || b.Draining, Superseded: superseded, Drain: r.Draining, APIURL: l.c.PublicURL, RecordVersion: l.c.versions.Told(), EventVersion: l.c.versions.EventsTold(),
	}
	if known && !superseded { // of others nothing is kept but the attempts that they prove to have
		reply.Lanes = l.c.queues.of(r)
		l.c.Journal.Idle(b.RunnerID, b.Idle)
		for _, session := range b.Idle {
			if l.c.Journal.Gone(session) {
				reply.Forget = append(reply.Forget, session)
			}
		}
	}
	current := sync.OnceValue(func() bool { // has the fold what NATS has?
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return l.c.caughtUp(ctx) == nil
	})
	for _, at := range b.Attempts {
		a, ok := l.c.Journal.Active(at.RunID)
		if !ok {
			if l.c.Journal.Ended(at.RunID) {
				reply.GivenUp = append(reply.GivenUp, at.Key)
			}
			continue
		}
		switch n := l.c.ends.AttemptOf(a, at.Key); {
		case n > 0 && n < a.Next(), l.another(at, b.Instance, current):
			reply.GivenUp = append(reply.GivenUp, at.Key)
		case n == 0: // a key that nobody was handed: nothing is kept of it
		default:
			l.hearing.heard(at.Key, now, a.Claim == nil)
			if at.StartedAt != nil {
				l.c.Journal.Started(at.RunID, at.Key, *at.StartedAt)
			}
			if a.Stopping && a.OfferSeq == 0 {
				reply.Stop = append(reply.Stop, at.Key)
			}
		}
	}
	return reply, nil
}

// another tells whether a run has been begun under another key, or by another process, by the history as NATS has it now: a fold that is
// behind may not have read yet what a worker has begun.
func (l *leases) another(at fleet.Attempt, instance string, current func() bool) bool {
	is := func() bool {
		a, ok := l.c.Journal.Active(at.RunID)
		return ok && a.Claim != nil && (a.Key != at.Key || a.Claim.Instance != instance)
	}
	return is() && current() && is() && l.c.Journal.Sure()
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
	if why == "" && !l.c.Journal.Sure() {
		why = "not connected, or the fold lags"
	}
	if why != "" {
		l.hearing.restart(why)
	}
	l.c.Journal.Silent(l.c.Lease)
	var underway []journal.Active
	l.c.Journal.Begun(func(a journal.Active) bool {
		if a.OfferSeq == 0 && a.EndSeq == 0 { // else its worker has done its part, or has none any more
			underway = append(underway, a)
		}
		return true
	})
	lost := l.hearing.lost(underway)
	for _, a := range l.stopping(underway) {
		go l.c.commands.TellStop(ctx, a)
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
	l.hearing.heard(a.Key, time.Now().Add(2*time.Second-l.c.Lease), false) // not twice at once; again soon if this fails
	reply, err := l.c.commands.Command(ctx, a.Claim.RunnerID, fleet.Command{Type: fleet.CommandProbe, RunID: a.Spec.ID, Key: a.Key})
	if ctx.Err() != nil { // who asks is ending
		return ctx.Err()
	}
	if err == nil && reply.Has && reply.Instance == a.Claim.Instance && l.c.fleet.proven(a.Claim.RunnerID, reply) {
		l.hearing.heard(a.Key, time.Now(), false)
		return nil
	}
	return l.c.ends.Lose(ctx, a, why)
}

// outright judges an attempt whose lease may go on for long. What NATS does not take, because a cluster has no leader, it says again.
func (l *leases) outright(ctx context.Context, a journal.Active, why string) {
	for l.judge(ctx, a, why) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if !l.c.ends.GoesOn(a) {
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
