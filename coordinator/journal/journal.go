// Package journal is the read model: it folds the RUNS stream into runs, sessions and queues, and answers queries and waits.
// It keeps nothing that could be lost; every coordinator has its own, and all of them say the same.
package journal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// Config is how a Journal behaves; its zero value works.
type Config struct {
	Log     *slog.Logger                                    // default slog.Default()
	Observe func(Change)                                    // hears of every record that changed something, in the order of the stream; must not block
	Due     func(Effect)                                    // hears of what there is to do since the journal is live; must not block
	Measure func(Step)                                      // hears of every step that a run goes while the journal is live, in that order; must not block
	Key     func(run string, attempt int) string            // the attempts' keys: without it any key may end a run that was never queued
	Checked func(run string, attempt int, mark string) bool // whether the mark is a coordinator's that checked the result of an attempt; without it no run with an output schema completes
	Version int                                             // the newest version of records that is read, default run.Version
	Cache   int                                             // bytes of records of runs that ended last, default 8 MiB; negative: none
	Dir     string                                          // folder of snapshots of the fold; none: every start reads the whole history
}

// Journal is the read model. Its methods may be called from many goroutines.
type Journal struct {
	bus     *bus.Bus
	records Log
	log     *slog.Logger
	tell    func(Change)

	tellDue func(Effect) // Config.Due
	measure func(Step)
	key     func(run string, attempt int) string // Config.Key

	bodies *bodies
	shelf  shelf
	live   atomic.Bool
	anew   atomic.Uint64 // how often a replaced history was read anew
	goal   atomic.Uint64 // the last record when the reading began

	lookEvery time.Duration
	doubted   atomic.Pointer[time.Time] // since when what was read seems to be lost
	probing   atomic.Bool               // somebody asks whether the tail was purged

	mu      sync.RWMutex
	fold    *fold
	evicted int64                   // the newest moment of a run that left with the beginning of the history, in nanoseconds; 0: none has, that we know
	awaits  []await                 // who waits for a sequence
	due     uint64                  // the smallest of them
	empty   uint64                  // there is no record from the last one applied up to here
	wrote   uint64                  // the newest record of this process
	waiters map[ident]chan struct{} // closed at the end of a run
	starts  starts
	idle    idles
	totals  Totals
	at      time.Time // of the last record
}

// New makes a Journal; Run makes it work.
func New(b *bus.Bus, cfg Config) *Journal {
	j := &Journal{
		bus: b, records: logOf{b}, log: cmp.Or(cfg.Log, slog.Default()), tell: cfg.Observe, tellDue: cfg.Due, measure: cfg.Measure, fold: newFold(cfg.Key), key: cfg.Key, bodies: newBodies(cmp.Or(cfg.Cache, 8<<20)),
		lookEvery: lookEvery, waiters: map[ident]chan struct{}{}, starts: starts{more: make(chan struct{})},
	}
	j.fold.checked, j.fold.version = cfg.Checked, cmp.Or(cfg.Version, run.Version)
	j.shelf.j, j.shelf.dir = j, cfg.Dir
	return j
}

// Run follows the stream until ctx ends, from a snapshot where there is one of it. It goes on by itself after any trouble with
// NATS, and begins anew where the stream is not the one that was read.
func (j *Journal) Run(ctx context.Context) error {
	j.shelf.open(ctx)
	defer j.shelf.last()
	last := j.shelf.restore(ctx)
	for {
		if err := j.read(ctx, last); !errors.Is(err, bus.ErrRewound) {
			return err
		}
		j.log.Error("NATS lost records or got older ones back; reading the history anew", "seq", j.Seq())
		last = bus.Message{}
		j.reset()
		j.shelf.drop(bus.ErrRewound)
		j.shelf.open(ctx) // perhaps it is another stream
	}
}

func (j *Journal) read(ctx context.Context, last bus.Message) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wg.Go(func() {
		if err := j.watch(ctx); errors.Is(err, bus.ErrRewound) {
			cancel(err)
		}
	})
	wg.Go(func() { j.shelf.keep(ctx) })
	err := j.bus.FollowRuns(ctx, last, j.doubt, func(m bus.Message) error {
		j.apply(Record(m))
		return nil
	})
	if errors.Is(context.Cause(ctx), bus.ErrRewound) {
		return bus.ErrRewound
	}
	return err
}

// reset forgets everything; it all can be made again (invariant 4). Who waits for a sequence of the old history waits no more.
func (j *Journal) reset() {
	j.live.Store(false)
	j.anew.Add(1)
	j.doubted.Store(nil)
	j.bodies.clear()
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.fold
	j.fold, j.empty, j.wrote = newFold(old.key), 0, 0
	j.fold.checked, j.fold.version = old.checked, old.version
	for _, a := range j.awaits {
		close(a.done)
	}
	j.awaits = nil
}

// reading calls f with the fold for looking at it alone: others look at the same time. f waits for nothing.
func (j *Journal) reading(f func(*fold)) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	f(j.fold)
}

// changing calls f with the fold for itself. f waits for nothing.
func (j *Journal) changing(f func(*fold)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(j.fold)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// apply folds one record and tells who waits for it.
func (j *Journal) apply(m Record) {
	live := j.live.Load()
	j.mu.Lock()
	ch, err := j.fold.apply(m)
	if ch.Live = live; live && ch.Moved {
		j.totals.count(ch)
	}
	j.at = m.Time
	var step Step
	if live && j.measure != nil {
		step = ch.step(m.Time)
	}
	j.reached()
	var ended chan struct{}
	if ch.Moved && ch.After.Final() && ch.RunID != "" {
		ended = j.waiters[ch.row.id]
		delete(j.waiters, ch.row.id)
	}
	effect := effectOf(j.fold, &ch)
	var spec *run.Spec
	if r := ch.row; live && ch.RunID != "" && r.live != nil {
		spec = r.live.snap.Spec
	}
	j.mu.Unlock()
	if err != nil {
		j.log.Error("record is unreadable", "seq", m.Seq, "err", err) // not its subject: it may hold a key
	}
	if !ch.Moved {
		return
	}
	if live && (ch.Before == "" || ch.Kind == subject.QueuedKind || ch.Kind == subject.OfferedKind || ch.After.Final()) {
		j.bodies.put(m.Seq, m.Body, spec)
	}
	if ended != nil { // now that they find it all
		close(ended)
	}
	if j.tell != nil {
		j.tell(ch)
	}
	if step.Kind != None {
		j.tellStep(step, m)
	}
	j.wake(effect)
}

// Ready is nil when the fold has caught up with the stream and could read all of it; else it says why not.
func (j *Journal) Ready() error {
	j.mu.RLock()
	newer, seq := j.fold.newer, j.fold.seq
	doubted := j.doubted.Load()
	j.mu.RUnlock()
	switch {
	case newer != 0:
		return fault.Newf(fault.Unavailable, "record %d was written by a newer version than this one; update this coordinator", newer)
	case !j.live.Load():
		return fault.Newf(fault.Unavailable, "the history is being read; at record %d of %d", seq, max(seq, j.goal.Load())).After(time.Second)
	case doubted != nil && time.Since(*doubted) > fleeting:
		return fault.New(fault.Unavailable, "", "NATS may have lost records; looking again").After(time.Second)
	case !j.holds():
		return fault.New(fault.Unavailable, "", "NATS was away; looking whether it still holds what was read").After(time.Second)
	}
	return nil
}

// Anew counts how often a history that was replaced was read anew.
func (j *Journal) Anew() uint64 { return j.anew.Load() }

// Sure tells whether consequences may be drawn from the fold: it is ready, and NATS, since it was away last, was seen to hold what the
// fold was made of. Else what follows from records that NATS has lost would be written behind those that it has left.
func (j *Journal) Sure() bool {
	return j.bus.Confirmed() && j.doubted.Load() == nil && j.Ready() == nil
}

// Seq is the sequence of the stream that the fold has reached.
func (j *Journal) Seq() uint64 {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return max(j.fold.seq, j.empty)
}

// Stats counts the records that were read.
func (j *Journal) Stats() Stats {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.fold.stats
}

// Forget drops what precedes the stream's first sequence: runs whose beginning is gone from it.
func (j *Journal) Forget(first uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.evicted = max(j.evicted, j.fold.forget(first))
}

// Prunable is the sequence up to which, itself not included, the history may be truncated: never past a run that has not
// ended, and leaving `keep` ended runs of those that ended after `old`; nor past a callback record that was written after `told`
// (decision 0014).
func (j *Journal) Prunable(keep int, old, told time.Time) uint64 {
	j.mu.RLock()
	defer j.mu.RUnlock()
	left, held := j.fold.ended, j.fold.held(told)
	for _, r := range j.fold.order {
		switch {
		case r.gone:
			continue
		case r.first >= held:
			return held
		case r.live != nil, left <= keep && max(r.ended, r.created) >= old.UnixNano(): // a worker's clock says when it ended
			return r.first
		}
		left--
	}
	return min(held, j.fold.seq+1)
}

// Oldest is the sequence of the first record of the oldest run that has not ended; where there is none, the one after the last.
func (j *Journal) Oldest() uint64 {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.fold.head == nil {
		return j.fold.seq + 1
	}
	return j.fold.head.first
}

// Counts are the runs that wait, that are begun, and that have ended.
func (j *Journal) Counts() (waiting, begun, ended int) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.fold.waiting, j.fold.begun, j.fold.ended
}

// Active is a run that has not ended.
func (j *Journal) Active(id string) (Active, bool) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	r := j.fold.runs[identOf(runPrefix, id)]
	if r == nil || r.live == nil {
		return Active{}, false
	}
	return *r.live.snap, true
}

// Ended tells whether a run is known and has ended.
func (j *Journal) Ended(id string) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	r := j.fold.runs[identOf(runPrefix, id)]
	return r != nil && r.live == nil
}

// Actives calls f with the runs that have not ended, in the order of the stream, until f says false. The runs are those of
// one moment; f may take its time.
func (j *Journal) Actives(f func(Active) bool) { j.each(func(*row) bool { return true }, f) }

// Pending is Actives of those that wait for a runner: queued and not begun, or to be queued since nothing precedes them in
// their session.
func (j *Journal) Pending(f func(Active) bool) {
	j.each(func(r *row) bool {
		a := r.live.snap
		return a.Claim == nil && (a.QueuedSeq != 0 || r.session.turn() == r)
	}, f)
}

// Begun is Actives of those that a runner has begun, in the order in which they were. It costs what these are, however many wait.
func (j *Journal) Begun(f func(Active) bool) {
	var all []*Active
	j.mu.RLock()
	for r := j.fold.underway.first; r != nil; r = r.live.behind {
		all = append(all, r.live.snap)
	}
	j.mu.RUnlock()
	tell(all, f)
}

func (j *Journal) each(want func(*row) bool, f func(Active) bool) {
	var all []*Active
	j.mu.RLock()
	for r := j.fold.head; r != nil; r = r.live.next {
		if want(r) {
			all = append(all, r.live.snap)
		}
	}
	j.mu.RUnlock()
	tell(all, f)
}

func tell(all []*Active, f func(Active) bool) {
	for _, a := range all {
		if !f(*a) {
			return
		}
	}
}

// Eligible are the accepted runs that have become the next turn of a session in which nothing is open, since it was asked last.
func (j *Journal) Eligible() []Active {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []Active
	for _, r := range j.fold.fresh {
		if r.live == nil {
			continue
		}
		if r.live.fresh = false; r.session.turn() == r {
			all = append(all, *r.live.snap)
		}
	}
	j.fold.fresh = nil
	return all
}

// Open are a session's runs that have not ended, in their order.
func (j *Journal) Open(session string) []Active {
	j.mu.RLock()
	defer j.mu.RUnlock()
	s := j.fold.sessions[identOf(sessionPrefix, session)]
	if s == nil {
		return nil
	}
	all := make([]Active, len(s.live))
	for i, r := range s.live {
		all[i] = *r.live.snap
	}
	return all
}

// RunsOf are the ids of a session's runs, in their order.
func (j *Journal) RunsOf(session string) (ids []string) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if s := j.fold.sessions[identOf(sessionPrefix, session)]; s != nil {
		for r := s.firstRow; r != nil; r = r.next {
			ids = append(ids, r.runID())
		}
	}
	return ids
}

// Resumes tells whether a turn of the session would have anything to resume when it comes, as far as can be known: there is
// something, or a run of the session is queued or begun.
func (j *Journal) Resumes(session string) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	s := j.fold.sessions[identOf(sessionPrefix, session)]
	return s != nil && (s.open > 0 || s.resumes())
}

// Vain tells whether a run's turn has come and there is nothing that it could resume: the runs before it ended before a runner
// began them. While history is read, or where those runs are not kept, nobody knows.
func (j *Journal) Vain(id string) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	r := j.fold.runs[identOf(runPrefix, id)]
	return j.live.Load() && r != nil && r.live != nil && r.live.snap.Spec.Type == run.Resume && r.session.turn() == r && r.session.firstRow != r && !r.session.resumes()
}

// Deleted tells whether a session of this id was deleted, and the deletion was honoured.
func (j *Journal) Deleted(session string) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.fold.deleted[identOf(sessionPrefix, session)] != 0
}

// Started notes what a runner says of its attempt: its executor runs. It shows, and decides nothing.
func (j *Journal) Started(id, key string, at time.Time) {
	j.mu.RLock()
	r := j.fold.runs[identOf(runPrefix, id)]
	known := r == nil || r.live == nil || r.live.snap.Started != nil
	j.mu.RUnlock()
	if known {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fold.startedAt(id, key, at) {
		j.starts.add(id)
	}
}

// Wait waits until a run has ended. When ctx ends before, the run comes as it is, with ctx's error.
func (j *Journal) Wait(ctx context.Context, id string) (run.Run, error) {
	if _, err := j.row(ctx, id); err != nil {
		return run.Run{}, err
	}
	if err := j.Done(ctx, id); err != nil {
		r, gone := j.Get(context.WithoutCancel(ctx), id)
		return r, cmp.Or(gone, err)
	}
	return j.Get(ctx, id)
}

// Done waits until a run has ended that stands on the stream, also if the fold has not come to it yet: who has just written
// it needs to ask nobody.
func (j *Journal) Done(ctx context.Context, id string) error {
	key := identOf(runPrefix, id)
	j.mu.Lock()
	var ended chan struct{}
	if r := j.fold.runs[key]; r == nil || r.live != nil {
		if ended = j.waiters[key]; ended == nil {
			ended = make(chan struct{})
			j.waiters[key] = ended
		}
	}
	j.mu.Unlock()
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
