package coordinator

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/control"
	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// turns queues the runs whose turn has come, and ends those that no runner would take in time. It acts on what the fold says,
// not on messages: no wake-up can be lost, and what several coordinators do at once, compare-and-set decides.
type turns struct {
	history interface {
		Active(id string) (journal.Active, bool)
		Eligible() []journal.Active // whose turn has come since the last call
		Pending(func(journal.Active) bool)
		Sure() bool
		Deleted(session string) bool
		Vain(run string) bool
		Home(session string) run.Demands
		Model(session string) string
		LastBegun(session, before string) string
	}
	records interface {
		Queued(part, lane string, s run.Spec, attempt int) (bus.Entry, error)
		Put(ctx context.Context, e bus.Entry) error
		AppendAll(ctx context.Context, entries ...bus.Entry) (uint64, error)
		EndWaiting(ctx context.Context, a journal.Active, status run.Status, f *fault.Fault) error
	}
	runners interface {
		Matches(w fleet.Want) bool
		LaneMatches(lane string, w fleet.Want) bool
	}
	queues interface {
		Ensure(ctx context.Context, lane string, w fleet.Want, caller string, again bool) (string, error)
		IsMade(lane string) bool
	}
	changes func() uint64                                                      // how often registrations have changed
	agent   func(name string) (agents.Resolved, bool)                          // as it is now
	renew   func(context.Context, run.Spec, agents.Resolved) (run.Spec, error) // with another definition of its agent
	noMatch time.Duration                                                      // how long a run waits for a runner at most
	log     *slog.Logger

	mu      sync.Mutex
	waits   map[string]*wait     // by run
	unmatch map[string]time.Time // by lane: since when no online runner matches
	swept   time.Time            // the last look at everything
	seen    uint64               // how often registrations had changed then
}

// wait is a run that waits for a runner.
type wait struct {
	want  fleet.Want
	lane  string
	since time.Time // its turn has come, or it is queued
	moves trouble   // into that lane from another one: it may have been there before, and is not queued there again
}

// trouble is what came to nothing: how often in a row, and when to try again.
type trouble struct {
	times int
	until time.Time
}

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
func (t *turns) Reconcile(ctx context.Context) error {
	t.queue(ctx, t.history.Eligible())
	changes := t.changes()
	t.mu.Lock()
	all := changes != t.seen || time.Since(t.swept) >= control.Sweep
	t.seen = changes
	t.mu.Unlock()
	if all {
		t.sweep(ctx)
	}
	return nil
}

// demands are the run's; one that resumes goes where its session is, which is sure only when its turn has come.
func (t *turns) demands(s *run.Spec) run.Demands {
	if s.Type != run.Resume {
		return s.Demands
	}
	return run.Merge(t.history.Home(s.SessionID), s.Demands)
}

// A write holds at most so many records, and bytes of them, of runs whose turn has come.
const (
	batchRuns  = 256
	batchBytes = 4 << 20
)

// queue queues, in their order and many with one write, those runs that an online runner would take: when a runner comes
// thousands may have waited for it.
func (t *turns) queue(ctx context.Context, due []journal.Active) {
	var batch []bus.Entry
	var vain []doomed
	size := 0
	for _, a := range due {
		if f := t.inVain(a); f != nil {
			vain = append(vain, doomed{a, f})
			continue
		}
		e, f, ok := t.record(ctx, a)
		if f != nil {
			vain = append(vain, doomed{a, f})
		}
		if !ok {
			continue
		}
		if len(batch) == batchRuns || size+len(e.Body) > batchBytes {
			t.write(ctx, batch)
			batch, size = batch[:0], 0
		}
		batch, size = append(batch, e), size+len(e.Body)
	}
	t.write(ctx, batch)
	t.fail(ctx, vain)
}

// write writes a batch; where others had a part in it already, or it is refused as a whole, one by one.
func (t *turns) write(ctx context.Context, batch []bus.Entry) {
	if !t.history.Sure() { // NATS went away meanwhile
		return
	}
	if len(batch) > 1 {
		switch _, err := t.records.AppendAll(ctx, batch...); {
		case err == nil:
			return
		case fault.KindOf(err) == fault.Unavailable:
			t.log.Warn("runs not queued yet; trying again", "runs", len(batch), "err", err)
			return
		}
	}
	for _, e := range batch {
		if err := t.records.Put(ctx, e); err != nil {
			t.log.Warn("run not queued yet; trying again", "subject", e.Subject, "err", err)
		}
	}
}

// record is a run's queued record, if an online runner would take it, or why the run fails. a may be old: what has begun since is left
// alone, and so is what is stopped with its tree (trees).
func (t *turns) record(ctx context.Context, a journal.Active) (e bus.Entry, vain *fault.Fault, ok bool) {
	a, ok = t.history.Active(a.Spec.ID)
	if !ok || a.Claim != nil || a.Halt.Seq != 0 || t.stopped(ctx, a) || time.Now().Before(a.NotBefore) {
		return e, nil, false
	}
	w := t.want(a)
	if !t.runners.Matches(w) {
		return e, nil, false
	}
	spec := *a.Spec
	var err error
	if k, changed := t.successor(a); changed {
		if spec, err = t.renew(ctx, spec, k); err != nil && fault.KindOf(err) != fault.Unavailable {
			return e, fault.Of(err), false
		}
	}
	lane := w.Lane()
	if err == nil {
		lane, err = t.queues.Ensure(ctx, lane, w, a.Spec.Caller, a.Lane == lane)
	}
	if err == nil {
		if spec.Type == run.Resume {
			spec.Model, spec.Demands = t.history.Model(spec.SessionID), t.demands(&spec)
			spec.After = t.history.LastBegun(spec.SessionID, spec.ID)
		}
		spec.Tells = nil // its callback record stands
		e, err = t.records.Queued(subject.Partition(spec.SessionID), lane, spec, a.Next())
	}
	if err != nil {
		t.log.Warn("run not queued yet; trying again", "run", a.Spec.ID, "err", err)
	}
	return e, nil, err == nil
}

// stopped ends a run whose attempt failed at the moment somebody wanted it stopped: no other follows.
func (t *turns) stopped(ctx context.Context, a journal.Active) bool {
	if !a.Stopping {
		return false
	}
	if err := t.records.EndWaiting(ctx, a, run.Stopped, a.Unbegun()); err != nil {
		t.log.Info("run not stopped yet", "run", a.Spec.ID, "err", err)
	}
	return true
}

// inVain says why a turn that has come cannot begin: its session was deleted before it was accepted, or the runs before it
// ended before a runner began them.
func (t *turns) inVain(a journal.Active) *fault.Fault {
	switch {
	case a.Stopping:
		return nil
	case t.history.Deleted(a.Spec.SessionID):
		return fault.New(fault.Internal, "session_deleted", "The session was deleted before this run began")
	case a.Spec.Type != run.Resume:
		return nil
	case t.history.Vain(a.Spec.ID):
		return fault.New(fault.Internal, "session_never_began", "The runs before this one ended before a runner began them, so there is nothing to resume; start a new session")
	}
	return nil
}

// doomed is a run that waits, with why it is to fail.
type doomed struct {
	journal.Active
	why *fault.Fault
}

// fail ends runs that nobody has begun, those of which that is so still.
func (t *turns) fail(ctx context.Context, all []doomed) {
	if !t.history.Sure() {
		return
	}
	var g errgroup.Group
	g.SetLimit(16)
	for _, v := range all {
		g.Go(func() error {
			if err := t.records.EndWaiting(ctx, v.Active, run.Failed, v.why); err != nil {
				t.log.Info("waiting run not ended", "run", v.Spec.ID, "code", v.why.Code, "err", err)
			}
			return nil
		})
	}
	g.Wait()
}

// sweep looks at every run that waits for a runner: queues what can be, moves what its lane no longer serves, ends what
// waited too long.
func (t *turns) sweep(ctx context.Context) {
	now := time.Now()
	t.mu.Lock()
	if now.Sub(t.swept) > deaf { // nobody looked: what is "in a row" begins anew
		clear(t.unmatch)
	}
	t.swept = now
	t.mu.Unlock()
	waits := map[string]*wait{}
	lanes := map[string]time.Time{}
	var due []journal.Active
	var expired []doomed
	t.history.Pending(func(a journal.Active) bool {
		if ctx.Err() != nil {
			return false
		}
		t.mu.Lock()
		w := t.waits[a.Spec.ID]
		t.mu.Unlock()
		if w == nil {
			want := t.want(a)
			w = &wait{want: want, lane: want.Lane(), since: now}
		}
		waits[a.Spec.ID] = w
		matched := t.runners.LaneMatches(w.lane, w.want)
		if !matched {
			// Perhaps another runner has announced the agent since, beside other agents, or with another definition.
			if want := t.want(a); want.Lane() != w.lane {
				w.want, w.lane, w.moves = want, want.Lane(), trouble{}
				matched = t.runners.LaneMatches(w.lane, want)
			}
		}
		over := a.Stopping || a.QueuedSeq == 0 && t.inVain(a) != nil
		if matched || over {
			if over || a.Lane == "" || a.Lane != w.lane && w.move(now) || !t.queues.IsMade(w.lane) { // it may have been pruned elsewhere when the run was queued
				due = append(due, a)
			}
			return true
		}
		t.mu.Lock()
		since, ok := t.unmatch[w.lane]
		t.mu.Unlock()
		if !ok {
			since = now
		}
		lanes[w.lane] = since
		if now.Sub(since) >= t.noMatch && now.Sub(w.since) >= t.noMatch {
			expired = append(expired, doomed{a, t.expired(a)})
		}
		return true
	})
	t.mu.Lock()
	t.waits, t.unmatch = waits, lanes
	t.mu.Unlock()
	t.queue(ctx, due)
	t.fail(ctx, expired)
}

// codeUnmatched is the code of runs that no online runner matched for too long.
const codeUnmatched = "no_matching_runner"

// expired is the error of a run that no online runner matched for too long (contract section 5).
func (t *turns) expired(a journal.Active) *fault.Fault {
	return fault.New(fault.Internal, codeUnmatched, "No matching runner available within timeout").
		With("timeout_seconds", t.noMatch.Seconds()).With("timeout_by", "coordinator").With("limit", "RUN_NO_MATCH_TIMEOUT").With("demands", a.Spec.Demands)
}

// unmatchedSince is since when no online runner matches a run that waits for one, without interruption.
func (t *turns) unmatchedSince(id, lane string) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, since := t.waits[id], t.unmatch[lane]
	if w == nil || since.IsZero() {
		return since, false
	}
	if w.since.After(since) {
		since = w.since
	}
	return since, true
}

// lonely is since when no online runner matches lanes in which runs wait.
func (t *turns) lonely() map[string]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.unmatch)
}
