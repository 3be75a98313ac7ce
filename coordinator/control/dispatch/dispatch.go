// Package dispatch queues the runs whose turn has come, and ends those that no runner would take in time.
package dispatch

import (
	"context"
	"maps"
	"time"

	"ao/coordinator/control"
	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// deaf is how long nobody may have looked before what is seen in a row proves nothing any more.
const deaf = 5 * time.Second

// maxMove is the longest pause between two looks at a run that waits in another lane than it should.
const maxMove = 10 * time.Second

// move tells whether a run that waits in another lane is to be queued in its own now: at once, and ever more seldom
// where that changes nothing.
func (w *wait) move(now time.Time) bool {
	if now.Before(w.moves.until) {
		return false
	}
	w.moves = trouble{w.moves.times + 1, now.Add(min(run.Backoff(w.moves.times+1), maxMove))}
	return true
}

// Reconcile queues the runs whose turn has come since it was called last. Once a second, and when a runner came, it looks at all that wait.
func (c *Controller) Reconcile(ctx context.Context) error {
	c.queue(ctx, c.History.Eligible())
	changes := c.Fleet.Changes()
	c.mu.Lock()
	all := changes != c.seen || time.Since(c.swept) >= control.Sweep
	c.seen = changes
	c.mu.Unlock()
	if all {
		c.sweep(ctx)
	}
	return nil
}

// A write holds at most so many records, and bytes of them, of runs whose turn has come.
const (
	batchRuns  = 256
	batchBytes = 4 << 20
)

// queue queues, in their order and many with one write, those runs that an online runner would take: when a runner comes
// thousands may have waited for it.
func (c *Controller) queue(ctx context.Context, due []projection.Active) {
	var batch []bus.Entry
	var vain []doomed
	size := 0
	for _, a := range due {
		if f := c.inVain(a); f != nil {
			vain = append(vain, doomed{a, f})
			continue
		}
		e, f, ok := c.record(ctx, a)
		if f != nil {
			vain = append(vain, doomed{a, f})
		}
		if !ok {
			continue
		}
		if len(batch) == batchRuns || size+len(e.Body) > batchBytes {
			written := c.write(ctx, batch)
			if batch, size = batch[:0], 0; !written {
				break // those behind it would overtake it; the next sweep finds all of them
			}
		}
		batch, size = append(batch, e), size+len(e.Body)
	}
	c.write(ctx, batch)
	c.fail(ctx, vain)
}

// write writes a batch; where others had a part in it already, or it is refused as a whole, one by one. It reports false
// where NATS does not write: then what comes later has to wait, too, so that no run overtakes another.
func (c *Controller) write(ctx context.Context, batch []bus.Entry) bool {
	if !c.History.Confirmed() { // NATS went away meanwhile
		return false
	}
	if len(batch) > 1 {
		switch _, err := c.Records.AppendBatch(ctx, batch...); {
		case err == nil:
			return true
		case fault.KindOf(err) == fault.Unavailable:
			c.Log.Warn("runs not queued yet; trying again", "runs", len(batch), "err", err)
			return false
		}
	}
	for _, e := range batch {
		if err := c.Records.Put(ctx, e); err != nil {
			c.Log.Warn("run not queued yet; trying again", "subject", e.Subject, "err", err)
			if fault.KindOf(err) == fault.Unavailable {
				return false
			}
		}
	}
	return true
}

// record is a run's queued record, if an online runner would take it, or why the run fails. a may be old: what has begun since is left
// alone, and so is what is stopped with its tree (trees).
func (c *Controller) record(ctx context.Context, a projection.Active) (e bus.Entry, vain *fault.Fault, ok bool) {
	a, ok = c.History.Active(a.Spec.ID)
	if !ok || a.Claim != nil || a.TreeStop.Seq != 0 || c.stopped(ctx, a) || time.Now().Before(a.NotBefore) {
		return e, nil, false
	}
	w := c.Want(a)
	if !c.Fleet.Matches(w) {
		return e, nil, false
	}
	spec := *a.Spec
	var err error
	if k, changed := c.successor(a); changed {
		if spec, err = c.Fleet.Renewed(ctx, spec, k); err != nil && fault.KindOf(err) != fault.Unavailable {
			return e, fault.Of(err), false
		}
	}
	lane := w.TaskQueue()
	if err == nil {
		lane, err = c.Fleet.Ensure(ctx, lane, w, a.Spec.Caller, a.Queue == lane)
	}
	if err == nil {
		if spec.Type == run.Resume {
			spec.ExecutorSessionID, spec.Demands = c.History.ExecutorSessionID(spec.SessionID), c.demands(&spec)
			spec.PreviousRunID = c.History.LastClaimed(spec.SessionID, spec.ID)
		}
		e, err = c.Records.Queued(subject.Partition(spec.SessionID), lane, spec, a.AttemptNumber())
	}
	if err != nil {
		c.Log.Warn("run not queued yet; trying again", "run", a.Spec.ID, "err", err)
	}
	return e, nil, err == nil
}

// stopped ends a run whose attempt failed at the moment somebody wanted it stopped: no other follows.
func (c *Controller) stopped(ctx context.Context, a projection.Active) bool {
	if !a.Stopping {
		return false
	}
	if err := c.Records.EndWaiting(ctx, a, run.Stopped, a.StoppedError()); err != nil {
		c.Log.Info("run not stopped yet", "run", a.Spec.ID, "err", err)
	}
	return true
}

// inVain says why a turn that has come cannot begin: its session was deleted before it was accepted, or the runs before it
// ended before a runner began them.
func (c *Controller) inVain(a projection.Active) *fault.Fault {
	switch {
	case a.Stopping:
		return nil
	case c.History.WasDeleted(a.Spec.SessionID):
		return fault.New(fault.Internal, "session_deleted", "The session was deleted before this run began")
	case a.Spec.Type != run.Resume:
		return nil
	case c.History.CannotStart(a.Spec.ID):
		return fault.New(fault.Internal, "session_never_began", "The runs before this one ended before a runner began them, so there is nothing to resume; start a new session")
	}
	return nil
}

// doomed is a run that waits, with why it is to fail.
type doomed struct {
	projection.Active
	why *fault.Fault
}

// fail ends runs that nobody has begun, those of which that is so still.
func (c *Controller) fail(ctx context.Context, all []doomed) {
	if !c.History.Confirmed() {
		return
	}
	var g errgroup.Group
	g.SetLimit(16)
	for _, v := range all {
		g.Go(func() error {
			if err := c.Records.EndWaiting(ctx, v.Active, run.Failed, v.why); err != nil {
				c.Log.Info("waiting run not ended", "run", v.Spec.ID, "code", v.why.Code, "err", err)
			}
			return nil
		})
	}
	g.Wait()
}

// sweep looks at every run that waits for a runner: queues what can be, moves what its lane no longer serves, ends what
// waited too long.
func (c *Controller) sweep(ctx context.Context) {
	now := time.Now()
	c.mu.Lock()
	if now.Sub(c.swept) > deaf { // nobody looked: what is "in a row" begins anew
		clear(c.unmatch)
	}
	c.swept = now
	c.mu.Unlock()
	waits := map[string]*wait{}
	lanes := map[string]time.Time{}
	var due []projection.Active
	var expired []doomed
	c.History.Pending(func(a projection.Active) bool {
		if ctx.Err() != nil {
			return false
		}
		w, matched := c.waitOf(a, now)
		waits[a.Spec.ID] = w
		over := a.Stopping || a.QueuedSeq == 0 && c.inVain(a) != nil
		if matched || over {
			if over || a.Queue == "" || a.Queue != w.lane && w.move(now) || !c.Fleet.IsMade(w.lane) { // it may have been pruned elsewhere when the run was queued
				due = append(due, a)
			}
			return true
		}
		since := c.unmatchedSince(w.lane, now)
		lanes[w.lane] = since
		if now.Sub(since) >= c.NoMatch && now.Sub(w.since) >= c.NoMatch {
			expired = append(expired, doomed{a, c.expired(a)})
		}
		return true
	})
	c.mu.Lock()
	c.waits, c.unmatch = waits, lanes
	c.mu.Unlock()
	c.queue(ctx, due)
	c.fail(ctx, expired)
}

// waitOf is what a run waits for, and whether an online runner has it.
func (c *Controller) waitOf(a projection.Active, now time.Time) (w *wait, matched bool) {
	c.mu.Lock()
	w = c.waits[a.Spec.ID]
	c.mu.Unlock()
	if w == nil {
		want := c.Want(a)
		w = &wait{want: want, lane: want.TaskQueue(), since: now}
	}
	if c.Fleet.QueueMatches(w.lane, w.want) {
		return w, true
	}
	// Perhaps another runner has announced the agent since, beside other agents, or with another definition.
	want := c.Want(a)
	if want.TaskQueue() == w.lane {
		return w, false
	}
	w.want, w.lane, w.moves = want, want.TaskQueue(), trouble{}
	return w, c.Fleet.QueueMatches(w.lane, want)
}

// unmatchedSince is since when the sweeps have found no online runner for a lane.
func (c *Controller) unmatchedSince(lane string, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since, ok := c.unmatch[lane]; ok {
		return since
	}
	return now
}

// CodeUnmatched is the code of runs that no online runner matched for too long.
const CodeUnmatched = "no_matching_runner"

// expired is the error of a run that no online runner matched for too long.
func (c *Controller) expired(a projection.Active) *fault.Fault {
	return fault.New(fault.Internal, CodeUnmatched, "No matching runner available within timeout").
		With("timeout_seconds", c.NoMatch.Seconds()).With("timeout_by", "coordinator").With("limit", "RUN_NO_MATCH_TIMEOUT").With("demands", a.Spec.Demands)
}

// UnmatchedSince is since when no online runner matches a run that waits for one, without interruption.
func (c *Controller) UnmatchedSince(id, lane string) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, since := c.waits[id], c.unmatch[lane]
	if w == nil || since.IsZero() {
		return since, false
	}
	if w.since.After(since) {
		since = w.since
	}
	return since, true
}

// Lonely is since when no online runner matches lanes in which runs wait.
func (c *Controller) UnmatchedQueues() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.unmatch)
}
