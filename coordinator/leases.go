package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"ao/coordinator/control/pool"
	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
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
		if _, unread := l.c.fleet.refresh(ctx, b.RunnerID); unread == nil {
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
		Known: known || b.Draining, Superseded: superseded, Drain: r.Draining, APIURL: l.c.PublicURL, RecordVersion: l.c.versions.records.told(), EventVersion: l.c.versions.events.told(),
	}
	if known && !superseded { // of others nothing is kept but the attempts that they prove to have
		reply.Lanes = l.c.fleet.lanesOf(r)
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
		switch n := l.c.attemptOf(a, at.Key); {
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

// attemptOf is the attempt of a run that this key is of: its own one, an earlier one, or the next, of which the fold may not know
// yet. 0: it is of none.
func (c *Coordinator) attemptOf(a journal.Active, key string) int {
	if key == "" {
		return 0
	}
	if key == a.Key {
		return a.Next()
	}
	for n := a.Next() + 1; n > 0; n-- {
		if c.keys.of(a.Spec.ID, n) == key {
			return n
		}
	}
	return 0
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
		go l.c.tellStop(ctx, a)
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
	reply, err := l.c.command(ctx, a.Claim.RunnerID, fleet.Command{Type: fleet.CommandProbe, RunID: a.Spec.ID, Key: a.Key})
	if ctx.Err() != nil { // who asks is ending
		return ctx.Err()
	}
	if err == nil && reply.Has && reply.Instance == a.Claim.Instance && l.c.fleet.proven(a.Claim.RunnerID, reply) {
		l.hearing.heard(a.Key, time.Now(), false)
		return nil
	}
	return l.c.lose(ctx, a, why)
}

// outright judges an attempt whose lease may go on for long. What NATS does not take, because a cluster has no leader, it says again.
func (l *leases) outright(ctx context.Context, a journal.Active, why string) {
	for l.judge(ctx, a, why) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if !l.c.goesOn(a) {
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

// of are the attempts that a runner has begun, and not done its part of.
func (l *leases) of(runner string) (all []journal.Active) {
	l.c.Journal.Begun(func(a journal.Active) bool {
		if a.Claim.RunnerID == runner && a.OfferSeq == 0 {
			all = append(all, a)
		}
		return true
	})
	return all
}

// count is how many such attempts each runner has.
func (l *leases) count() map[string]int {
	n := map[string]int{}
	l.c.Journal.Begun(func(a journal.Active) bool {
		if a.OfferSeq == 0 {
			n[a.Claim.RunnerID]++
		}
		return true
	})
	return n
}

// errUnsure says that nothing follows from the history at the moment.
var errUnsure = fault.New(fault.Unavailable, "", "The history is not confirmed by NATS at the moment; trying again").After(time.Second)

// codeDisconnected is the code of the error of an attempt whose worker is gone.
const codeDisconnected = "runner_disconnected"

// lose ends an attempt whose worker is gone (contract section 5). One that was to be stopped is stopped by that (section 1).
func (c *Coordinator) lose(ctx context.Context, a journal.Active, why string) error {
	if moot, err := c.moot(a); moot {
		return err
	}
	if now, ok := c.Journal.Active(a.Spec.ID); ok && now.EndSeq != 0 {
		return c.endAsCarried(ctx, now)
	}
	status := run.Failed
	f := fault.New(fault.Internal, codeDisconnected, "Runner disconnected during execution").
		With("runner_id", a.Claim.RunnerID).With("detail", why)
	c.log.Warn("attempt given up", "run", a.Spec.ID, "runner", a.Claim.RunnerID, "why", why)
	if a.Stopping {
		status = run.Stopped
		f.Code, f.Message = "stopped", "Stopped; its runner disconnected before it could say so"
	}
	err := c.end(ctx, a, status, f)
	if err != nil {
		c.log.Warn("attempt not ended yet; trying again", "run", a.Spec.ID, "err", err)
	}
	return err
}

// goesOn tells whether an attempt is still under way by the claim that was looked at; NATS may have lost that, and another runner begun
// the attempt since.
func (c *Coordinator) goesOn(a journal.Active) bool {
	now, ok := c.Journal.Active(a.Spec.ID)
	return ok && now.Key == a.Key && now.ClaimSeq == a.ClaimSeq
}

// moot tells whether a last word on an attempt is not to be said: it no longer goes on, or, with an error, nobody can tell at the moment.
func (c *Coordinator) moot(a journal.Active) (bool, error) {
	if !c.Journal.Sure() {
		return true, errUnsure
	}
	return !c.goesOn(a), nil
}

// end says the last word of a begun attempt. Who came first keeps it: that it is taken is no error. One that precedes the attempt's
// own claim, or what queues it, is not of this attempt, but of one that NATS has lost and that was begun again: it goes. An attempt whose result is
// offered meanwhile is not given up: its offer is the end of its lease.
func (c *Coordinator) end(ctx context.Context, a journal.Active, status run.Status, f *fault.Fault) error {
	e, err := c.ended(ctx, a, status, f)
	if err != nil {
		return err
	}
	if a.Spec.Contract {
		return c.endUnoffered(ctx, a, e)
	}
	return c.say(ctx, a, e)
}

// shutting are the records that say a last word if nothing was offered: the first takes the offer's place, and carries
// that word.
func shutting(a journal.Active, e bus.Entry) []bus.Entry {
	return []bus.Entry{{Subject: subject.Offered(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), Body: e.Body}, e}
}

// endUnoffered says a last word if nothing was offered, so that no worker can come between.
func (c *Coordinator) endUnoffered(ctx context.Context, a journal.Active, e bus.Entry) error {
	all := shutting(a, e)
	seq, err := c.appendAll(ctx, all...)
	switch {
	case err == nil:
		c.written(seq)
		c.overFor(a, e)
		return nil
	case !errors.Is(err, bus.ErrTaken):
		return unavailable(err)
	}
	if err := c.caughtUp(ctx); err != nil {
		return err
	}
	switch now, ok := c.Journal.Active(a.Spec.ID); {
	case !ok || now.Key != a.Key || now.OfferSeq != 0:
		return nil // ended, or offered: then the check decides
	case now.EndSeq != 0: // by this coordinator or another
		return c.endAsCarried(ctx, now)
	}
	if m, err := c.bus.Last(ctx, all[0].Subject); err == nil && m.Seq < a.FirstSeq {
		if err := c.bus.Purge(ctx, subject.Runs, m.Subject, a.FirstSeq); err != nil {
			return unavailable(err)
		}
	}
	return c.say(ctx, a, e) // what stands in the offer's place is none
}

// say appends the last word of a begun attempt. Who came first keeps it.
func (c *Coordinator) say(ctx context.Context, a journal.Active, e bus.Entry) error {
	seq, err := c.bus.Append(ctx, e)
	if err == nil { // nearly always, and there is nothing more to ask
		c.written(seq)
		c.overFor(a, e)
		return nil
	}
	m, readErr := c.bus.Last(ctx, e.Subject)
	switch taken := errors.Is(err, bus.ErrTaken); {
	case readErr == nil && m.Seq >= max(a.ClaimSeq, a.QueuedSeq): // somebody's, or this one, and its answer was lost
		return nil
	case readErr == nil: // it precedes the claim
		if err := c.caughtUp(ctx); err != nil {
			return err
		}
		if moot, err := c.moot(a); moot {
			return err
		}
		if err := c.bus.Purge(ctx, subject.Runs, e.Subject, max(a.ClaimSeq, a.QueuedSeq)); err != nil {
			return unavailable(err)
		}
		return c.appendRecord(ctx, e)
	case taken && errors.Is(readErr, bus.ErrNone):
		return nil
	case taken:
		return unavailable(readErr)
	}
	return unavailable(err)
}

// ended is the coordinator's last word on an attempt. Of a begun one it names the last event, so that readers get all of them
// first; where that is not to be had the end is told without.
func (c *Coordinator) ended(ctx context.Context, a journal.Active, status run.Status, f *fault.Fault) (bus.Entry, error) {
	attempt, key := c.attempt(a)
	var events uint64
	if a.Claim != nil {
		var err error
		if events, err = c.bus.LastEvent(ctx, subject.RunEvents(a.Spec.SessionID, a.Spec.ID)); err != nil {
			c.log.Debug("the last event of a run is not known", "run", a.Spec.ID, "err", err)
		}
	}
	body, err := run.Ended{V: c.versions.of(a), SessionID: a.Spec.SessionID, Nonce: nonce(), Attempt: attempt, Status: status, Error: f, Events: events, StartedAt: a.Started, At: time.Now().UTC()}.Encode()
	return bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, key), Body: body}, err
}

// attempt is the attempt that is next or under way, with its key; any coordinator can make it, also of a run never queued.
func (c *Coordinator) attempt(a journal.Active) (int, string) {
	n := a.Next()
	return n, c.keys.of(a.Spec.ID, n)
}
