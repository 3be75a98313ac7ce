package queues

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"math"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// How often consumers are checked, and how often and how long after NATS was away or its history was replaced. NATS may
// then have lost consumers, or restored old ones, while runs wait.
const (
	reconcileEvery = 30 * time.Second
	recheckEvery   = 2 * time.Second
	recheckFor     = 20 * time.Second
)

// ControllerConfig is what a Controller works with. All of it is required.
type ControllerConfig struct {
	Log       *slog.Logger
	Table     *Table
	Consumers interface {
		ListTaskQueues(context.Context) ([]string, error)
		TaskQueueState(ctx context.Context, name string) (bus.TaskQueueState, error)
		EnsureTaskQueue(ctx context.Context, name string, start uint64) error
		DeleteTaskQueue(ctx context.Context, name string) error
		Last(ctx context.Context, subj string) (bus.Message, error)
		Reconnects() uint64 // counts the times NATS was away
	}
	History interface {
		Active(id string) (state.Active, bool)
		Pending() iter.Seq[state.Active]
		HasWaiting(name string) bool
		Confirmed() bool
		Rebuilds() uint64              // counts the times it was replaced
		CatchUp(context.Context) error // until it has what others wrote before
	}
	Runners interface {
		// queues of type and profile only, which need no entry
		SharedQueues() map[string]runnerapi.RoutingKey
		Satisfied(runnerapi.RoutingKey) bool // by any registered runner, online or not
		// no heartbeat named an attempt that is unclaimed in the projection
		NotHeard(key string) bool
		Recheck(ctx context.Context, a state.Active, why string) error // fails an attempt unless its runner has it
		// Affects reports whether records after that one may have been lost, and FailDamaged then fails a run.
		Affects(seq uint64) bool
		FailDamaged(ctx context.Context, a state.Active, evidence string) error
	}
}

// Controller checks the queues' consumers every 30 s, and more often after NATS was away. A consumer that is missing,
// or past a run that nobody has, is created again. A queue that nobody serves or needs is removed. The fields are
// Reconcile's alone.
type Controller struct {
	cfg ControllerConfig

	idle         map[string]idleness
	orphans      map[string]time.Time
	seen         [2]uint64 // the last result of outages
	reconciledAt time.Time // of all queues
	recheckedAt  time.Time // after NATS was away
	outageAt     time.Time // when NATS was last seen to have been away
}

// NewController returns a Controller.
func NewController(cfg ControllerConfig) *Controller {
	return &Controller{cfg: cfg, idle: map[string]idleness{}, orphans: map[string]time.Time{}}
}

// Begin notes the state to start from. Call it before the first check of Confirmed: NATS may go away in between.
func (t *Controller) Begin() { t.seen, t.reconciledAt = t.outages(), time.Now() }

// outages changes when NATS was away or its history was replaced.
func (t *Controller) outages() [2]uint64 {
	return [2]uint64{t.cfg.Consumers.Reconnects(), t.cfg.History.Rebuilds()}
}

// Reconcile checks the consumers if NATS was away or it is time.
func (t *Controller) Reconcile(ctx context.Context) error {
	if now := t.outages(); now != t.seen {
		t.seen, t.outageAt, t.recheckedAt = now, time.Now(), time.Time{}
		t.cfg.Table.forgetAllMade()
	}
	if time.Since(t.outageAt) < recheckFor && time.Since(t.recheckedAt) >= recheckEvery {
		t.reconcileConsumers(ctx, 0)
		t.recheckedAt = time.Now()
	}
	if time.Since(t.reconciledAt) < reconcileEvery {
		return nil
	}
	t.reconciledAt = time.Now()
	t.reconcileConsumers(ctx, reconcileEvery)
	t.prune(ctx)
	t.sweep(ctx)
	return nil
}

// reconcileConsumers makes sure that every queued run accepted at least age ago can still be delivered. Delivering it
// twice is harmless, because the claim decides. A recreated consumer starts at the queue's oldest run, or at the next
// one if a runner has that already.
func (t *Controller) reconcileConsumers(ctx context.Context, age time.Duration) {
	skip := map[string]uint64{} // by queue: sequence up to which all is well
	for {
		oldest := t.oldest(skip, age)
		if len(oldest) == 0 {
			return
		}
		for name, a := range oldest {
			skip[name] = math.MaxUint64
			has, err := t.RecreateConsumer(ctx, a)
			if err != nil {
				t.cfg.Log.Warn("consumer of a queue not recreated, retrying", "queue", name, "err", err)
			}
			if has {
				skip[name] = a.QueuedSeq
			}
		}
	}
}

// oldest returns, by queue, the oldest run that was accepted at least age ago and is beyond skip.
func (t *Controller) oldest(skip map[string]uint64, age time.Duration) map[string]state.Active {
	oldest := map[string]state.Active{}
	settled := time.Now().Add(-age)
	for a := range t.cfg.History.Pending() {
		at, ok := oldest[a.Queue]
		if a.Queue != "" && a.QueuedSeq > skip[a.Queue] && (!ok || a.QueuedSeq < at.QueuedSeq) &&
			!a.Spec.CreatedAt.After(settled) {
			oldest[a.Queue] = a
		}
	}
	return oldest
}

// RecreateConsumer creates the consumer of a queued run again if it is missing or past the run, unless a runner has the
// run. a may be outdated: a consumer may be past a run because a worker has claimed it since.
func (t *Controller) RecreateConsumer(ctx context.Context, a state.Active) (has bool, err error) {
	s, err := t.cfg.Consumers.TaskQueueState(ctx, a.Queue)
	switch {
	case errors.Is(err, bus.ErrNotFound):
	case err != nil:
		return false, err
	case s.AckFloor >= a.QueuedSeq, s.Delivered >= a.QueuedSeq && s.AckPending == 0:
		if err := t.cfg.History.CatchUp(ctx); err != nil {
			return false, err
		}
		if now, ok := t.cfg.History.Active(a.Spec.ID); !ok || now.Claim != nil || now.Queue != a.Queue ||
			now.QueuedSeq != a.QueuedSeq || !t.cfg.History.Confirmed() {
			return false, nil
		}
		if has, err := t.claimedUnknown(ctx, a); err != nil || has {
			return has, err
		}
		if t.cfg.Runners.Affects(a.QueuedSeq) {
			return true, t.cfg.Runners.FailDamaged(ctx, a, "its queue has an acknowledgement for it")
		}
		t.cfg.Log.Warn("consumer has passed a run that still waits; recreating it", "queue", a.Queue,
			"sequence", a.QueuedSeq)
		if err := t.cfg.Consumers.DeleteTaskQueue(ctx, a.Queue); err != nil {
			return false, err
		}
	default:
		return false, nil
	}
	return false, t.cfg.Consumers.EnsureTaskQueue(ctx, a.Queue, a.QueuedSeq)
}

// claimedUnknown reports whether a claim exists for a run that is unclaimed in the projection. NATS lost the record
// that queued the run before, and the claim of that time is older than the record that queues it now. Without
// heartbeats for a lease the attempt fails like any other.
func (t *Controller) claimedUnknown(ctx context.Context, a state.Active) (bool, error) {
	m, err := t.cfg.Consumers.Last(ctx, subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key))
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return false, nil
	case err != nil, m.Seq > a.QueuedSeq, !t.cfg.Runners.NotHeard(a.Key):
		return true, err
	}
	var claim run.Claim
	_ = json.Unmarshal(m.Body, &claim) // an unreadable claim belongs to nobody
	a.Claim = &claim
	return true, t.cfg.Runners.Recheck(ctx, a,
		"no heartbeat within the lease, and its claim is older than its queued record")
}

// idleLimit is how long an unused queue is kept that no registered runner serves. A served one goes when its place is
// needed.
const idleLimit = 10 * time.Minute

// idleness is since when a consumer has not moved, and where it stood.
type idleness struct {
	since              time.Time
	delivered, pending uint64
}

// unserved returns the queues that no registered runner meets.
func (t *Controller) unserved() map[string]bool {
	all := map[string]bool{}
	for name, w := range t.cfg.Table.Wants() {
		if !t.cfg.Runners.Satisfied(w) {
			all[name] = true
		}
	}
	return all
}

// prune removes queues that were unserved and unused for idleLimit.
func (t *Controller) prune(ctx context.Context) {
	now := time.Now()
	unserved := t.unserved()
	maps.DeleteFunc(t.idle, func(name string, _ idleness) bool { return !unserved[name] })
	for name := range unserved {
		s, err := t.cfg.Consumers.TaskQueueState(ctx, name)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			continue
		}
		at, seen := t.idle[name]
		if !seen || t.cfg.History.HasWaiting(name) || at.delivered != s.Delivered || at.pending != s.Pending {
			t.idle[name] = idleness{now, s.Delivered, s.Pending}
			continue
		}
		if now.Sub(at.since) <= idleLimit {
			continue
		}
		delete(t.idle, name)
		if err := t.cfg.Table.retire(ctx, name); err != nil {
			t.cfg.Log.Warn("idle queue not removed", "queue", name, "err", err)
		}
	}
}

// orphanLimit is how long a consumer may exist without its queue's entry before any coordinator removes it. The one
// that removed the entry does so after a second, unless it ended.
const orphanLimit = 5 * time.Minute

// sweep removes the consumers of queues that had no entry for orphanLimit and have no waiting runs. A queue of type and
// profile only has no entry; it exists for the registered runners.
func (t *Controller) sweep(ctx context.Context) {
	names, err := t.cfg.Consumers.ListTaskQueues(ctx)
	if err != nil {
		t.cfg.Log.Warn("queues not listed, retrying", "err", err)
		return
	}
	without, base := map[string]bool{}, t.cfg.Runners.SharedQueues()
	for _, name := range names {
		_, entry := t.cfg.Table.Want(name)
		_, based := base[name]
		without[name] = !entry && !based
		if without[name] && subject.IsBaseTaskQueue(name) {
			t.cfg.Table.forgetMade(name) // any coordinator may remove its consumer
		}
	}
	maps.DeleteFunc(t.orphans, func(name string, _ time.Time) bool { return !without[name] })
	for name, orphan := range without {
		at, seen := t.orphans[name]
		switch {
		case !orphan:
		case !seen:
			t.orphans[name] = time.Now()
		case time.Since(at) > orphanLimit:
			if err := t.cfg.Table.close(ctx, name); err != nil {
				t.cfg.Log.Warn("consumer without a queue not removed, retrying", "queue", name, "err", err)
				continue
			}
			delete(t.orphans, name)
		}
	}
}
