package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fleet"
	"ao/shared/run"
)

// How often lanes are looked after, and history is let go of; and after NATS was away, or its history was replaced, for how long how often: it may have lost
// consumers, or got old ones back, and runs wait behind them.
const (
	tendEvery   = 30 * time.Second
	tendAnew    = 2 * time.Second
	tendAnewFor = 20 * time.Second
)

// tender looks after the lanes every 30 s, and more often for a while after NATS was away: a consumer that is missing, or past a run that
// nobody has, is made again; a lane that nobody serves and nobody needs goes. Its fields are Reconcile's alone.
type tender struct {
	c       *Coordinator
	idle    map[string]idleness
	orphans map[string]time.Time
	was     [2]uint64 // what past said last
	looked  time.Time // after all lanes
	healed  time.Time // after NATS was away
	began   time.Time // that it was
}

func newTender(c *Coordinator) *tender {
	return &tender{c: c, idle: map[string]idleness{}, orphans: map[string]time.Time{}}
}

// begin notes where it starts from, before it is asked for the first time whether the history is sure: NATS may go away in between.
func (t *tender) begin() { t.was, t.looked = t.c.past(), time.Now() }

// Reconcile looks whether NATS was away, and after the lanes where it is time.
func (t *tender) Reconcile(ctx context.Context) error {
	if now := t.c.past(); now != t.was {
		t.was, t.began, t.healed = now, time.Now(), time.Time{}
		t.c.fleet.doubtLanes()
	}
	if time.Since(t.began) < tendAnewFor && time.Since(t.healed) >= tendAnew {
		t.c.heal(ctx, 0)
		t.healed = time.Now()
	}
	if time.Since(t.looked) < tendEvery {
		return nil
	}
	t.looked = time.Now()
	t.c.heal(ctx, tendEvery)
	t.c.prune(ctx, t.idle)
	t.c.sweepLanes(ctx, t.orphans)
	return nil
}

// retention lets go of history, and of bodies, that are too old.
type retention struct {
	c     *Coordinator
	swept time.Time // bodies, last
}

// Reconcile truncates history, and looks for bodies once an hour: that lists them all.
func (r *retention) Reconcile(ctx context.Context) error {
	r.c.truncate(ctx)
	if time.Since(r.swept) > time.Hour {
		r.swept = time.Now()
		r.c.sweepPayloads(ctx, r.swept.Add(-time.Hour))
	}
	return nil
}

// History goes in steps of so many records, so that nothing waits long for the stream.
const truncateStep = 10_000

// truncate lets go of history: ended runs beyond RUN_KEEP and those older than RUN_RETENTION, never past an open one or one that
// somebody is yet to be told of. What several coordinators do at once is the same.
func (c *Coordinator) truncate(ctx context.Context) { c.truncateBy(ctx, truncateStep) }

func (c *Coordinator) truncateBy(ctx context.Context, step uint64) {
	if err := c.dropLate(ctx); err != nil {
		c.log.Warn("runs queued too late not purged; trying again", "err", err)
	}
	before := c.Journal.Prunable(c.Keep, time.Now().Add(-c.Retention), time.Now().Add(-c.Reports))
	state, err := c.bus.State(ctx)
	for at := state.First; err == nil && at < before; {
		at = min(at+step, before)
		err = c.bus.Truncate(ctx, at)
	}
	if err != nil {
		c.log.Warn("history not truncated; trying again", "before", before, "err", err)
		return
	}
	c.Journal.Forget(before)                    // another coordinator may have done the rest
	if state.First < before && state.Msgs > 0 { // an empty stream begins at 0
		c.log.Info("history truncated", "before", before)
	}
}

// dropLate purges the records that queue what is begun or over: behind a truncated claim, a worker would begin it again.
func (c *Coordinator) dropLate(ctx context.Context) error {
	for _, late := range c.Journal.Late() {
		if !c.Journal.Sure() { // another history may have that subject for a run that waits
			return nil
		}
		if err := c.bus.Purge(ctx, subject.Runs, late.Subject, late.Seq+1); err != nil {
			return err
		}
		c.Journal.Purged(late)
	}
	return nil
}

// past changes when NATS was away, or its history was replaced.
func (c *Coordinator) past() [2]uint64 { return [2]uint64{c.bus.Generation(), c.Journal.Anew()} }

// doubtLanes forgets which consumers were made: NATS may have lost them.
func (r *roster) doubtLanes() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.queues.made)
}

// doubtLane is doubtLanes for one.
func (r *roster) doubtLane(lane string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.queues.made, lane)
}

// heal makes sure that every run that was accepted so long ago, and is queued, can still be delivered. Over-delivery is harmless: the claim decides. What a lane delivers
// begins at its oldest run; where a runner has that already, at the next one.
func (c *Coordinator) heal(ctx context.Context, age time.Duration) {
	passed := map[string]uint64{} // by lane: the runs up to which need nothing
	for {
		oldest := c.oldest(passed, age)
		if len(oldest) == 0 {
			return
		}
		for lane, a := range oldest {
			passed[lane] = math.MaxUint64
			has, err := c.mend(ctx, a)
			if err != nil {
				c.log.Warn("lane not mended; trying again", "lane", lane, "err", err)
			}
			if has {
				passed[lane] = a.QueuedSeq
			}
		}
	}
}

// oldest is, by lane, the oldest run that has been queued there for a while, behind what is passed.
func (c *Coordinator) oldest(passed map[string]uint64, age time.Duration) map[string]journal.Active {
	oldest := map[string]journal.Active{}
	settled := time.Now().Add(-age)
	c.Journal.Pending(func(a journal.Active) bool {
		at, ok := oldest[a.Lane]
		if a.Lane != "" && a.QueuedSeq > passed[a.Lane] && (!ok || a.QueuedSeq < at.QueuedSeq) && !a.Spec.CreatedAt.After(settled) {
			oldest[a.Lane] = a
		}
		return true
	})
	return oldest
}

// mend makes the lane of a queued run again where its consumer is missing or past the run, unless a runner has it. a may be old: a
// worker that has begun the run since is why the consumer is past it.
func (c *Coordinator) mend(ctx context.Context, a journal.Active) (has bool, err error) {
	s, err := c.bus.LaneState(ctx, a.Lane)
	switch {
	case errors.Is(err, bus.ErrNone):
	case err != nil:
		return false, err
	case s.AckFloor >= a.QueuedSeq, s.Delivered >= a.QueuedSeq && s.AckPending == 0:
		if err := c.caughtUp(ctx); err != nil {
			return false, err
		}
		if now, ok := c.Journal.Active(a.Spec.ID); !ok || now.Claim != nil || now.Lane != a.Lane || now.QueuedSeq != a.QueuedSeq || !c.Journal.Sure() {
			return false, nil
		}
		if has, err := c.forestalled(ctx, a); err != nil || has {
			return has, err
		}
		c.log.Warn("a lane is past a run that nobody has; its consumer is made again", "lane", a.Lane, "sequence", a.QueuedSeq)
		if err := c.bus.DropLane(ctx, a.Lane); err != nil {
			return false, err
		}
	default:
		return false, nil
	}
	return false, c.bus.EnsureLane(ctx, a.Lane, a.QueuedSeq)
}

// forestalled tells whether somebody has begun a queued run that nobody has begun, by the history: NATS lost what had queued it before,
// and the claim that was on its way then stands before the record that queues it now. Where no runner has it for a lease it is given up
// like any other attempt.
func (c *Coordinator) forestalled(ctx context.Context, a journal.Active) (bool, error) {
	m, err := c.bus.Last(ctx, subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key))
	switch {
	case errors.Is(err, bus.ErrNone):
		return false, nil
	case err != nil, m.Seq > a.QueuedSeq, !c.leases.hearing.Silent(a.Key):
		return true, err
	}
	var early run.Claim
	_ = json.Unmarshal(m.Body, &early) // who nobody can read of does not have it
	a.Claim = &early
	return true, c.leases.judge(ctx, a, "no heartbeat within the lease, and its claim precedes what queues it")
}

// spare is how long a queue is kept that nobody uses, and no registered runner serves. One that is served goes when its room is needed.
const spare = 10 * time.Minute

// idleness is since when a lane's consumer has stood still, and where.
type idleness struct {
	since              time.Time
	delivered, pending uint64
}

// prune removes queues that are idle for long.
func (c *Coordinator) prune(ctx context.Context, idle map[string]idleness) {
	now := time.Now()
	spared := c.fleet.spared()
	for lane := range idle {
		if !spared[lane] {
			delete(idle, lane)
		}
	}
	for lane := range spared {
		s, err := c.bus.LaneState(ctx, lane)
		if err != nil && !errors.Is(err, bus.ErrNone) {
			continue
		}
		at, seen := idle[lane]
		if !seen || c.Journal.Waits(lane) || at.delivered != s.Delivered || at.pending != s.Pending {
			idle[lane] = idleness{now, s.Delivered, s.Pending}
			continue
		}
		if now.Sub(at.since) <= spare {
			continue
		}
		delete(idle, lane)
		if _, err := c.fleet.retire(ctx, lane); err != nil {
			c.log.Warn("idle lane not removed", "lane", lane, "err", err)
		}
	}
}

// orphaned is how long a consumer is without an entry of its queue before any coordinator removes it: who removed the entry does it
// after a second, unless it ended.
const orphaned = 5 * time.Minute

// sweepLanes removes the consumers of queues that have had no entry for long, but not over runs that wait. orphans says since when. A
// queue of type and profile alone has no entry: the registered runners are what it is there for.
func (c *Coordinator) sweepLanes(ctx context.Context, orphans map[string]time.Time) {
	lanes, err := c.bus.Lanes(ctx)
	if err != nil {
		c.log.Warn("queues not looked through; trying again", "err", err)
		return
	}
	without, base := map[string]bool{}, c.fleet.baseLanes()
	for _, lane := range lanes {
		_, entry := c.fleet.want(lane)
		without[lane] = !entry && !base[lane]
		if without[lane] && subject.BaseLane(lane) {
			c.fleet.doubtLane(lane) // any coordinator may remove its consumer
		}
	}
	maps.DeleteFunc(orphans, func(lane string, _ time.Time) bool { return !without[lane] })
	for lane, orphan := range without {
		at, seen := orphans[lane]
		switch {
		case !orphan:
		case !seen:
			orphans[lane] = time.Now()
		case time.Since(at) > orphaned:
			if err := c.fleet.closeQueue(ctx, lane); err != nil {
				c.log.Warn("consumer of no queue not removed; trying again", "lane", lane, "err", err)
				continue
			}
			delete(orphans, lane)
		}
	}
}

// baseLanes are the queues of type and profile alone that registered runners take from.
func (r *roster) baseLanes() map[string]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]bool{}
	for _, m := range r.members {
		for _, lane := range m.BaseLanes() {
			all[lane] = true
		}
	}
	return all
}

// spared are the queues that no registered runner satisfies.
func (r *roster) spared() map[string]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]bool{}
	for lane, q := range r.queues.all {
		if !slices.ContainsFunc(slices.Collect(maps.Values(r.members)), func(m *member) bool { return m.Satisfies(q.Want) }) {
			all[lane] = true
		}
	}
	return all
}

// sweepPayloads drops bodies that no run names any more: of history that was truncated, of attempts that were given up while
// they stored theirs, of creations that failed half-way. What is younger than a moment may be about to be named. A fold that begins
// anew at any moment knows of nothing: that is no reason.
func (c *Coordinator) sweepPayloads(ctx context.Context, old time.Time) {
	bound := sync.OnceValue(c.Journal.States)
	err := c.bus.DropPayloads(ctx, func(name string, at time.Time) bool {
		if !at.Before(old) || !c.Journal.Sure() {
			return false
		}
		if pointer, ok := fleet.StateOf(name); ok && bound()[pointer] { // a session goes on with it, whose run is no longer kept
			return false
		}
		id := runOf(name)
		_, open := c.Journal.Active(id)
		return !open && !c.Journal.Ended(id) && !c.Journal.IsPromised(id) && c.Journal.Sure()
	})
	if err != nil {
		c.log.Warn("payloads of no run not removed; trying again", "err", err)
	}
}
