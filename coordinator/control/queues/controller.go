package queues

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"time"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// How often lanes are looked after; and after NATS was away, or its history was replaced, for how long how often: it may have lost
// consumers, or got old ones back, and runs wait behind them.
const (
	tendEvery   = 30 * time.Second
	tendAnew    = 2 * time.Second
	tendAnewFor = 20 * time.Second
)

// ControllerConfig is what a Controller is made of; all of it is required.
type ControllerConfig struct {
	Log       *slog.Logger
	Table     *Table
	Consumers interface {
		ListTaskQueues(context.Context) ([]string, error)
		TaskQueueState(ctx context.Context, lane string) (bus.TaskQueueState, error)
		EnsureTaskQueue(ctx context.Context, lane string, start uint64) error
		DeleteTaskQueue(ctx context.Context, lane string) error
		Last(ctx context.Context, subj string) (bus.Message, error)
		Reconnects() uint64 // counts the times that NATS was away
	}
	History interface {
		Active(id string) (projection.Active, bool)
		Pending(f func(projection.Active) bool)
		HasWaiting(lane string) bool
		Confirmed() bool
		Rebuilds() uint64              // counts the times that it was replaced
		CatchUp(context.Context) error // waits until it has what others wrote before
	}
	Runners interface {
		SharedQueues() map[string]runnerapi.RoutingKey                      // the queues of type and profile alone that they take from
		Satisfied(runnerapi.RoutingKey) bool                                // does any, online or not
		NotHeard(key string) bool                                           // was nobody heard to have an attempt that nobody has begun
		Recheck(ctx context.Context, a projection.Active, why string) error // gives up an attempt, unless its runner has it
	}
}

// Controller looks after the lanes every 30 s, and more often for a while after NATS was away: a consumer that is missing, or past a run
// that nobody has, is made again; a lane that nobody serves and nobody needs goes. Its fields are Reconcile's alone.
type Controller struct {
	cfg ControllerConfig

	idle    map[string]idleness
	orphans map[string]time.Time
	was     [2]uint64 // what past said last
	looked  time.Time // after all lanes
	healed  time.Time // after NATS was away
	began   time.Time // that it was
}

// NewController makes a controller.
func NewController(cfg ControllerConfig) *Controller {
	return &Controller{cfg: cfg, idle: map[string]idleness{}, orphans: map[string]time.Time{}}
}

// Begin notes where it starts from, before it is asked for the first time whether the history is sure: NATS may go away in between.
func (t *Controller) Begin() { t.was, t.looked = t.past(), time.Now() }

// past changes when NATS was away, or its history was replaced.
func (t *Controller) past() [2]uint64 {
	return [2]uint64{t.cfg.Consumers.Reconnects(), t.cfg.History.Rebuilds()}
}

// Reconcile looks whether NATS was away, and after the lanes where it is time.
func (t *Controller) Reconcile(ctx context.Context) error {
	if now := t.past(); now != t.was {
		t.was, t.began, t.healed = now, time.Now(), time.Time{}
		t.cfg.Table.doubtAll()
	}
	if time.Since(t.began) < tendAnewFor && time.Since(t.healed) >= tendAnew {
		t.heal(ctx, 0)
		t.healed = time.Now()
	}
	if time.Since(t.looked) < tendEvery {
		return nil
	}
	t.looked = time.Now()
	t.heal(ctx, tendEvery)
	t.prune(ctx)
	t.sweep(ctx)
	return nil
}

// heal makes sure that every run that was accepted so long ago, and is queued, can still be delivered. Over-delivery is harmless: the claim decides. What a lane delivers
// begins at its oldest run; where a runner has that already, at the next one.
func (t *Controller) heal(ctx context.Context, age time.Duration) {
	passed := map[string]uint64{} // by lane: the runs up to which need nothing
	for {
		oldest := t.oldest(passed, age)
		if len(oldest) == 0 {
			return
		}
		for lane, a := range oldest {
			passed[lane] = math.MaxUint64
			has, err := t.RecreateConsumer(ctx, a)
			if err != nil {
				t.cfg.Log.Warn("queue not mended; trying again", "queue", lane, "err", err)
			}
			if has {
				passed[lane] = a.QueuedSeq
			}
		}
	}
}

// oldest is, by lane, the oldest run that has been queued there for a while, behind what is passed.
func (t *Controller) oldest(passed map[string]uint64, age time.Duration) map[string]projection.Active {
	oldest := map[string]projection.Active{}
	settled := time.Now().Add(-age)
	t.cfg.History.Pending(func(a projection.Active) bool {
		at, ok := oldest[a.Queue]
		if a.Queue != "" && a.QueuedSeq > passed[a.Queue] && (!ok || a.QueuedSeq < at.QueuedSeq) && !a.Spec.CreatedAt.After(settled) {
			oldest[a.Queue] = a
		}
		return true
	})
	return oldest
}

// Mend makes the lane of a queued run again where its consumer is missing or past the run, unless a runner has it. a may be old: a
// worker that has begun the run since is why the consumer is past it.
func (t *Controller) RecreateConsumer(ctx context.Context, a projection.Active) (has bool, err error) {
	s, err := t.cfg.Consumers.TaskQueueState(ctx, a.Queue)
	switch {
	case errors.Is(err, bus.ErrNotFound):
	case err != nil:
		return false, err
	case s.AckFloor >= a.QueuedSeq, s.Delivered >= a.QueuedSeq && s.AckPending == 0:
		if err := t.cfg.History.CatchUp(ctx); err != nil {
			return false, err
		}
		if now, ok := t.cfg.History.Active(a.Spec.ID); !ok || now.Claim != nil || now.Queue != a.Queue || now.QueuedSeq != a.QueuedSeq || !t.cfg.History.Confirmed() {
			return false, nil
		}
		if has, err := t.forestalled(ctx, a); err != nil || has {
			return has, err
		}
		t.cfg.Log.Warn("a queue is past a run that nobody has; its consumer is made again", "queue", a.Queue, "sequence", a.QueuedSeq)
		if err := t.cfg.Consumers.DeleteTaskQueue(ctx, a.Queue); err != nil {
			return false, err
		}
	default:
		return false, nil
	}
	return false, t.cfg.Consumers.EnsureTaskQueue(ctx, a.Queue, a.QueuedSeq)
}

// forestalled tells whether somebody has begun a queued run that nobody has begun, by the history: NATS lost what had queued it before,
// and the claim that was on its way then stands before the record that queues it now. Where no runner has it for a lease it is given up
// like any other attempt.
func (t *Controller) forestalled(ctx context.Context, a projection.Active) (bool, error) {
	m, err := t.cfg.Consumers.Last(ctx, subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key))
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return false, nil
	case err != nil, m.Seq > a.QueuedSeq, !t.cfg.Runners.NotHeard(a.Key):
		return true, err
	}
	var early run.Claim
	_ = json.Unmarshal(m.Body, &early) // who nobody can read of does not have it
	a.Claim = &early
	return true, t.cfg.Runners.Recheck(ctx, a, "no heartbeat within the lease, and its claim precedes what queues it")
}

// spare is how long a queue is kept that nobody uses, and no registered runner serves. One that is served goes when its room is needed.
const spare = 10 * time.Minute

// idleness is since when a lane's consumer has stood still, and where.
type idleness struct {
	since              time.Time
	delivered, pending uint64
}

// spared are the queues that no registered runner satisfies.
func (t *Controller) spared() map[string]bool {
	all := map[string]bool{}
	for lane, w := range t.cfg.Table.Wants() {
		if !t.cfg.Runners.Satisfied(w) {
			all[lane] = true
		}
	}
	return all
}

// prune removes queues that are idle for long.
func (t *Controller) prune(ctx context.Context) {
	now := time.Now()
	spared := t.spared()
	maps.DeleteFunc(t.idle, func(lane string, _ idleness) bool { return !spared[lane] })
	for lane := range spared {
		s, err := t.cfg.Consumers.TaskQueueState(ctx, lane)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			continue
		}
		at, seen := t.idle[lane]
		if !seen || t.cfg.History.HasWaiting(lane) || at.delivered != s.Delivered || at.pending != s.Pending {
			t.idle[lane] = idleness{now, s.Delivered, s.Pending}
			continue
		}
		if now.Sub(at.since) <= spare {
			continue
		}
		delete(t.idle, lane)
		if _, err := t.cfg.Table.retire(ctx, lane); err != nil {
			t.cfg.Log.Warn("idle queue not removed", "queue", lane, "err", err)
		}
	}
}

// orphaned is how long a consumer is without an entry of its queue before any coordinator removes it: who removed the entry does it
// after a second, unless it ended.
const orphaned = 5 * time.Minute

// sweep removes the consumers of queues that have had no entry for long, but not over runs that wait. A queue of type and profile alone
// has no entry: the registered runners are what it is there for.
func (t *Controller) sweep(ctx context.Context) {
	lanes, err := t.cfg.Consumers.ListTaskQueues(ctx)
	if err != nil {
		t.cfg.Log.Warn("queues not looked through; trying again", "err", err)
		return
	}
	without, base := map[string]bool{}, t.cfg.Runners.SharedQueues()
	for _, lane := range lanes {
		_, entry := t.cfg.Table.Want(lane)
		_, based := base[lane]
		without[lane] = !entry && !based
		if without[lane] && subject.IsBaseTaskQueue(lane) {
			t.cfg.Table.doubt(lane) // any coordinator may remove its consumer
		}
	}
	maps.DeleteFunc(t.orphans, func(lane string, _ time.Time) bool { return !without[lane] })
	for lane, orphan := range without {
		at, seen := t.orphans[lane]
		switch {
		case !orphan:
		case !seen:
			t.orphans[lane] = time.Now()
		case time.Since(at) > orphaned:
			if err := t.cfg.Table.close(ctx, lane); err != nil {
				t.cfg.Log.Warn("consumer of no queue not removed; trying again", "queue", lane, "err", err)
				continue
			}
			delete(t.orphans, lane)
		}
	}
}
