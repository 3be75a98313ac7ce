// Package dispatch queues the runs whose turn has come, and fails those that no runner takes in time.
package dispatch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"ao/coordinator/control"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"golang.org/x/sync/errgroup"
)

// maxGap is the longest pause between sweeps that still counts as uninterrupted.
const maxGap = 5 * time.Second

// maxMovePause is the longest pause between two attempts to move a run into its queue.
const maxMovePause = 10 * time.Second

// mayMove reports whether a run in another queue is to be queued in its own now. It backs off while that
// changes nothing.
func (w *waitState) mayMove(now time.Time) bool {
	if now.Before(w.moveBackoff.until) {
		return false
	}
	n := w.moveBackoff.times + 1
	w.moveBackoff = backoffState{n, now.Add(min(run.Backoff(n), maxMovePause))}
	return true
}

// Reconcile queues the runs whose turn has come since the last call. Once a second, and after changes of registrations,
// it looks at all waiting runs.
func (c *Controller) Reconcile(ctx context.Context) error {
	c.queue(ctx, c.History.Eligible())
	changes := c.Fleet.Changes()
	c.mu.Lock()
	all := changes != c.seenChanges || time.Since(c.sweptAt) >= control.Sweep
	c.seenChanges = changes
	c.mu.Unlock()
	if all {
		c.sweep(ctx)
	}
	return nil
}

// The most records, and bytes, that one batch of queued runs may have.
const (
	batchRuns  = 256
	batchBytes = 4 << 20
)

// queue queues, in order and in batches, the runs that an online runner would take. Thousands may have waited for one.
func (c *Controller) queue(ctx context.Context, due []state.Active) {
	var batch []bus.Entry
	var failing []unplaceable
	size := 0
	for _, a := range due {
		if f := c.cannotStart(a); f != nil {
			failing = append(failing, unplaceable{a, f})
			continue
		}
		e, f, ok := c.queuedRecord(ctx, a)
		if f != nil {
			failing = append(failing, unplaceable{a, f})
		}
		if !ok {
			continue
		}
		if len(batch) == batchRuns || size+len(e.Body) > batchBytes {
			written := c.write(ctx, batch)
			batch, size = batch[:0], 0
			if !written {
				break // later runs would overtake it; the next sweep finds them all
			}
		}
		batch, size = append(batch, e), size+len(e.Body)
	}
	c.write(ctx, batch)
	c.fail(ctx, failing)
}

// write writes a batch, or record by record where the batch is refused. It reports false if NATS does not write: then
// later runs have to wait too, so that none overtakes another.
func (c *Controller) write(ctx context.Context, batch []bus.Entry) bool {
	if !c.History.Confirmed() { // NATS went away meanwhile
		return false
	}
	if len(batch) > 1 {
		switch _, err := c.Records.AppendBatch(ctx, batch...); {
		case err == nil:
			return true
		case fault.KindOf(err) == fault.Unavailable:
			c.Log.Warn("runs not queued yet, retrying", "runs", len(batch), "err", err)
			return false
		}
	}
	for _, e := range batch {
		err := c.Records.Append(ctx, e)
		if errors.Is(err, bus.ErrTaken) { // it is queued already
			err = c.failUncounted(ctx, e)
		}
		if err != nil {
			c.Log.Warn("run not queued yet, retrying", "subject", e.Subject, "err", err)
			if fault.KindOf(err) == fault.Unavailable {
				return false
			}
		}
	}
	return true
}

// failUncounted fails a run of a damaged history whose queued record is there and does not count. NATS cannot read it,
// or it precedes the end that it would have to follow. No worker starts it.
func (c *Controller) failUncounted(ctx context.Context, queued bus.Entry) error {
	rec, err := subject.Parse(queued.Subject)
	if err != nil || !c.Records.Affects(1) { // another record may carry the run: its first one may be of after a damage
		return err
	}
	if passed, _, err := c.Records.Passed(ctx, queued.Subject); err != nil || !passed {
		return err
	}
	before := c.History.Confirmed()
	a, ok := c.History.Active(rec.Run)
	if !ok || a.Claim != nil || a.QueuedSeq != 0 || a.AttemptNumber() != rec.N || !before || !c.History.Confirmed() {
		return nil
	}
	return c.Records.FailDamaged(ctx, a, "its queued record does not count")
}

// queuedRecord returns a run's queued record if an online runner would take it, or why the run fails.
// a may be outdated: what was claimed since is left alone, and so is what a tree stop covers.
func (c *Controller) queuedRecord(ctx context.Context, a state.Active,
) (e bus.Entry, failing *fault.Fault, ok bool) {
	a, ok = c.History.Active(a.Spec.ID)
	if !ok || a.Claim != nil || a.TreeStop.Seq != 0 || c.endStopped(ctx, a) || time.Now().Before(a.NotBefore) {
		return e, nil, false
	}
	w := c.Want(a)
	if !c.Fleet.Matches(w) {
		return e, nil, false
	}
	spec := *a.Spec
	var err error
	if k, changed := c.successor(a); changed {
		spec, err = c.Fleet.Renewed(ctx, spec, k)
		if err != nil && !fault.Retryable(err) { // there may be no room for it just now
			return e, fault.Of(err), false
		}
	}
	queue := w.TaskQueue()
	if err == nil {
		queue, err = c.Fleet.Ensure(ctx, queue, w, a.Spec.Caller, a.Queue == queue)
	}
	if err == nil {
		if spec.Type == run.Resume {
			spec.ExecutorSessionID, spec.Demands = c.History.ExecutorSessionID(spec.SessionID), c.demands(&spec)
			spec.PreviousRunID = c.History.LastClaimed(spec.SessionID, spec.ID)
		}
		e, err = c.Records.Queued(subject.Partition(spec.SessionID), queue, spec, a.AttemptNumber(), c.returnable(a, w))
	}
	if err != nil {
		c.Log.Warn("run not queued yet, retrying", "run", a.Spec.ID, "err", err)
	}
	return e, nil, err == nil
}

// returnable reports whether the runner of the next attempt may give it back. It may not if that has been done too
// often, or by every runner that matches. Then the run ends with the runner's error.
func (c *Controller) returnable(a state.Active, w runnerapi.RoutingKey) bool {
	untried := func(id string) bool { return !slices.Contains(a.ReturnedBy, id) }
	return len(a.ReturnedBy) == 0 || len(a.ReturnedBy) < run.MaxReturns &&
		slices.ContainsFunc(c.Fleet.OnlineMatches(w), untried)
}

// endStopped ends a run whose attempt failed while it was being stopped: no other attempt follows.
func (c *Controller) endStopped(ctx context.Context, a state.Active) bool {
	if !a.Stopping {
		return false
	}
	if err := c.Records.EndWaiting(ctx, a, run.Stopped, a.StoppedError()); err != nil {
		c.Log.Info("run not stopped yet", "run", a.Spec.ID, "err", err)
	}
	return true
}

// cannotStart returns why a run whose turn has come cannot start. Either its session was deleted before it was
// accepted, or the runs before it ended unclaimed.
func (c *Controller) cannotStart(a state.Active) *fault.Fault {
	switch {
	case a.Stopping:
		return nil
	case c.History.WasDeleted(a.Spec.SessionID):
		return fault.New(fault.Internal, "session_deleted", "The session was deleted before this run started")
	case a.Spec.Type != run.Resume:
		return nil
	case c.History.CannotStart(a.Spec.ID):
		return fault.New(fault.Internal, "session_never_began",
			"The runs before this one ended before a runner claimed them, so there is nothing to resume; "+
				"start a new session")
	}
	return nil
}

// unplaceable is a waiting run, with why it is to fail.
type unplaceable struct {
	state.Active
	why *fault.Fault
}

// fail ends those of the runs that are still unclaimed.
func (c *Controller) fail(ctx context.Context, all []unplaceable) {
	if !c.History.Confirmed() {
		return
	}
	var g errgroup.Group
	g.SetLimit(16)
	for _, v := range all {
		g.Go(func() error {
			if v.why.Code == CodeUnmatched && c.Fleet.Matches(c.Want(v.Active)) {
				return nil // a runner has come meanwhile
			}
			if err := c.Records.EndWaiting(ctx, v.Active, run.Failed, v.why); err != nil {
				c.Log.Info("waiting run not ended", "run", v.Spec.ID, "code", v.why.Code, "err", err)
			}
			return nil
		})
	}
	g.Wait()
}

// sweep looks at every run that waits for a runner. It queues what can be queued, moves runs whose queue is no longer
// served, and fails those that waited too long.
func (c *Controller) sweep(ctx context.Context) {
	now := time.Now()
	c.mu.Lock()
	if now.Sub(c.sweptAt) > maxGap { // a gap: "without interruption" starts over
		clear(c.unmatched)
	}
	c.sweptAt = now
	c.mu.Unlock()
	waits := map[string]*waitState{}
	queues := map[string]time.Time{}
	var due []state.Active
	var expired []unplaceable
	for a := range c.History.Pending() {
		if ctx.Err() != nil {
			break
		}
		w, matched := c.waitOf(a, now)
		waits[a.Spec.ID] = w
		over := a.Stopping || a.QueuedSeq == 0 && c.cannotStart(a) != nil
		if matched || over {
			if over || a.Queue == "" || a.Queue != w.queue && w.mayMove(now) ||
				!c.Fleet.IsMade(w.queue) { // its queue may have been removed elsewhere when the run was queued
				due = append(due, a)
			}
			continue
		}
		since := c.unmatchedSince(w.queue, now)
		queues[w.queue] = since
		if now.Sub(since) >= c.NoMatch && now.Sub(w.since) >= c.NoMatch {
			expired = append(expired, unplaceable{a, c.expired(a)})
		}
	}
	c.mu.Lock()
	c.waits, c.unmatched = waits, queues
	c.mu.Unlock()
	c.queue(ctx, due)
	c.fail(ctx, expired)
}

// waitOf returns what a run waits for, and whether an online runner matches.
func (c *Controller) waitOf(a state.Active, now time.Time) (w *waitState, matched bool) {
	c.mu.Lock()
	w = c.waits[a.Spec.ID]
	c.mu.Unlock()
	if w == nil {
		want := c.Want(a)
		w = &waitState{want: want, queue: want.TaskQueue(), since: now}
	}
	if c.Fleet.QueueMatches(w.queue, w.want) {
		return w, true
	}
	// Perhaps another runner has announced the agent since, among other agents or with another definition.
	want := c.Want(a)
	if want.TaskQueue() == w.queue {
		return w, false
	}
	w.want, w.queue, w.moveBackoff = want, want.TaskQueue(), backoffState{}
	return w, c.Fleet.QueueMatches(w.queue, want)
}

// unmatchedSince returns since when the sweeps have found no online runner for a queue.
func (c *Controller) unmatchedSince(queue string, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since, ok := c.unmatched[queue]; ok {
		return since
	}
	return now
}

// CodeUnmatched is the error code of runs that no online runner matched for too long.
const CodeUnmatched = "no_matching_runner"

// expired returns the error of a run that no online runner matched for too long.
func (c *Controller) expired(a state.Active) *fault.Fault {
	return fault.New(fault.Internal, CodeUnmatched, "No matching runner available within timeout").
		With("timeout_seconds", c.NoMatch.Seconds()).
		With("timeout_by", "coordinator").With("limit", "RUN_NO_MATCH_TIMEOUT").With("demands", a.Spec.Demands)
}

// UnmatchedSince returns since when, without interruption, no online runner matches a waiting run.
func (c *Controller) UnmatchedSince(id, queue string) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, since := c.waits[id], c.unmatched[queue]
	if w == nil || since.IsZero() {
		return since, false
	}
	if w.since.After(since) {
		since = w.since
	}
	return since, true
}

// UnmatchedQueues returns the queues with waiting runs and no matching online runner, and since when.
func (c *Controller) UnmatchedQueues() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.unmatched)
}
