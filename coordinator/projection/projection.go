// Package projection is the read model: what the RUNS stream makes of runs, sessions and queues. Nothing in it can be
// lost: every coordinator builds the same one from the same records.
//
// Package state has what a record changes. Here it stands behind its one lock, and those who wait for records are
// woken. Package follow brings it the records and keeps checkpoints. Package query answers questions.
package projection

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/run"
)

// Config configures the read model. Its zero value works.
type Config struct {
	Log *slog.Logger // default slog.Default()
	// called for every record that changed something, in stream order; must not block
	OnChange func(state.Change)
	// called when work is due, once the history is loaded; must not block
	OnEffect func(state.Effect)
	// called for every step of a run, once the history is loaded, in order; must not block
	OnStep func(state.Step)
	// attempt keys; nil: any key may end a run that was never queued
	Key func(run string, attempt int) string
	// reports whether mark is a coordinator's signature of a checked result; nil: no run with an output schema
	// completes
	ValidChecked func(run string, attempt int, mark string) bool
	// newest readable version of records, default run.Version
	Version int
	// bytes of cached records, default 8 MiB; negative: none
	Cache int
}

// Projection is the state behind its one lock, with those who wait for it and hear of changes. It knows only records;
// the Follower knows where they come from. Queries use read and change; nothing else touches the lock.
type Projection struct {
	log      *slog.Logger
	onChange func(state.Change) // Config.OnChange
	onEffect func(state.Effect) // Config.OnEffect
	onStep   func(state.Step)
	Bodies   *Bodies
	Live     atomic.Bool // everything that history held at the start has been read

	mu          sync.RWMutex
	state       *state.State
	begins      uint64 // where history begins; 0: unknown
	evicted     int64  // newest time of a truncated run, in nanoseconds; 0: none is known
	awaits      awaits
	empty       uint64                        // there is no record between the last one applied and this sequence
	ownSeq      atomic.Uint64                 // the newest record of this process
	waiters     map[state.Ident]chan struct{} // closed at the end of a run
	liveChanges liveChanges
	idle        idles
	totals      Totals
	at          time.Time // of the last record
	Former      atomic.Pointer[state.State]
}

// Clear forgets everything; it can all be built again. Whoever waits for a sequence of the old history stops waiting.
func (p *Projection) Clear() {
	p.Live.Store(false)
	p.Bodies.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.state
	KeepFormer(p, old)
	p.state, p.empty, p.begins = state.Emptied(old), 0, 0
	p.ownSeq.Store(0)
	p.awaits.clear()
}

// Restore takes over the state from a checkpoint.
func (p *Projection) Restore(f *state.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	state.Configure(f, p.state)
	p.state = f
	p.awaits.reached(p.SeqOf(p.state))
}

// Forget drops what lies before the stream's first sequence: runs whose first records are truncated.
func (p *Projection) Forget(first uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begins, p.evicted = max(p.begins, first), max(p.evicted, p.state.Forget(first))
}

// ForgetUnneeded is Forget, unless it reports true: an open run starts before first. Or what was taken for a late
// record may be another life of a run that is gone. Then nothing is dropped.
func (p *Projection) ForgetUnneeded(first uint64) (unseen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state.NeedsBefore(p.state, first) {
		return true
	}
	p.begins, p.evicted = max(p.begins, first), max(p.evicted, p.state.Forget(first))
	return false
}

// NoteGap notes that no record lies between the last one applied and end. One that comes all the same is applied.
func (p *Projection) NoteGap(end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.empty = max(p.empty, end) // never reducer.seq
	p.awaits.reached(p.SeqOf(p.state))
}

// Read returns what f finds in the state, under the read lock. f must not block.
func Read[T any](p *Projection, f func(*state.State) T) T {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return f(p.state)
}

// Read2 is read for two results.
func Read2[T, U any](p *Projection, f func(*state.State) (T, U)) (T, U) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return f(p.state)
}

// Update returns f's result, under the write lock. f must not block.
func Update[T any](p *Projection, f func(*state.State) T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f(p.state)
}

// Lag returns how many records, up to last, have not been applied, and the age of the newest applied one; zero if there
// are none.
func (p *Projection) Lag(last uint64) (records uint64, age time.Duration) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if seq := p.SeqOf(p.state); last > seq {
		records = last - seq
		if !p.at.IsZero() {
			age = max(time.Since(p.at), 0)
		}
	}
	return records, age
}

// Reading calls f under the read lock. f must not block.
func (p *Projection) Reading(f func(*state.State)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	f(p.state)
}

// Updating calls f under the write lock. f must not block.
func (p *Projection) Updating(f func(*state.State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.state)
}

// Apply applies one record, and notifies those who wait for it.
func (p *Projection) Apply(m state.Record) state.Change {
	a, err := p.reduce(m)
	if err != nil {
		p.log.Error("record is unreadable", "seq", m.Seq, "err", err) // not its subject, which may hold a key
	}
	ch := &a.ch
	if !ch.Applied {
		return *ch
	}
	if ch.Live &&
		(ch.Before == "" || ch.Kind == subject.QueuedKind || ch.Kind == subject.OfferedKind || ch.After.Final()) {
		p.Bodies.put(m.Seq, m.Body, a.spec)
	}
	if a.ended != nil { // after everything is visible
		close(a.ended)
	}
	if p.onChange != nil {
		p.onChange(*ch)
	}
	if a.step.Kind != state.None {
		p.onStep(a.step.Of(m))
	}
	p.Signal(a.effect)
	return *ch
}

// applied is what a record changed, for use after the lock is released.
type applied struct {
	ch     state.Change
	step   state.Step
	ended  chan struct{} // those who wait for the run's end
	effect state.Effect
	spec   *run.Spec
}

// reduce applies a record under the lock.
func (p *Projection) reduce(m state.Record) (a applied, err error) {
	live := p.Live.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	a.ch, err = p.state.Apply(m)
	ch := &a.ch
	ch.Live = live
	if live && ch.Applied {
		p.totals.count(*ch)
	}
	p.at = m.Time
	if live && p.onStep != nil {
		a.step = ch.Step(m.Time)
	}
	p.awaits.reached(p.SeqOf(p.state))
	if ch.Applied && ch.After.Final() && ch.RunID != "" {
		a.ended = p.waiters[ch.Ident()]
		delete(p.waiters, ch.Ident())
	}
	a.effect = state.EffectOf(p.state, ch)
	if live && ch.RunID != "" {
		a.spec = ch.Spec()
	}
	return a, err
}

// Seq returns the sequence up to which records have been applied.
func (p *Projection) Seq() uint64 {
	return Read(p, p.SeqOf)
}

// Stats counts the records read.
func (p *Projection) Stats() state.Stats { return Read(p, state.StatsOf) }

// Done waits until a run on the stream has ended, even if the projection does not know it yet. Whoever has just written
// the run needs no other check.
func (p *Projection) Done(ctx context.Context, id string) error {
	key := state.IdentOf(state.RunPrefix, id)
	p.mu.Lock()
	var ended chan struct{}
	if r := p.state.Run(id); r == nil || r.Active() != nil {
		ended = p.waiters[key]
		if ended == nil {
			ended = make(chan struct{})
			p.waiters[key] = ended
		}
	}
	p.mu.Unlock()
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

// NoteWritten notes the sequence of a record that this process wrote.
func (p *Projection) NoteWritten(seq uint64) {
	for old := p.ownSeq.Load(); old < seq && !p.ownSeq.CompareAndSwap(old, seq); old = p.ownSeq.Load() {
	}
}

// NewestWritten returns the newest sequence noted by NoteWritten.
func (p *Projection) NewestWritten() uint64 { return p.ownSeq.Load() }

// StatusOf returns the session's status: that of its runs, or idle if the last one ended well and its process lives.
// The caller holds mu.
func (p *Projection) StatusOf(s *state.Session) run.SessionStatus {
	status := run.SessionStatusOf(s.StatusRun().Status())
	if status == run.SessionFinished && len(p.idle.of) > 0 && p.idle.of[s.Ident] != "" {
		return run.SessionIdle
	}
	return status
}

// Signal reports an effect. While history is read nobody acts; HistoryConfirmed follows at the end of that.
func (p *Projection) Signal(e state.Effect) {
	if e != 0 && p.onEffect != nil &&
		p.Live.Load() { // checked after the record is applied: becoming live has its own signal
		p.onEffect(e)
	}
}

// SeqOf returns the sequence up to which records have been applied. The caller holds mu.
func (p *Projection) SeqOf(f *state.State) uint64 { return max(state.LastSeq(f), p.empty) }

// RecentChanges returns the live changes after the first heard ones, their count, and a channel that closes when there
// are more.
func (p *Projection) RecentChanges(heard uint64) (ids []string, count uint64, more <-chan struct{}) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.liveChanges.since(heard), p.liveChanges.count, p.liveChanges.more
}

// Totals counts what happened since the history was loaded.
func (p *Projection) Totals() Totals { return Read(p, func(*state.State) Totals { return p.totals }) }

// KeepFormer keeps what was known of a history that is not the stream's any more, for FormerRuns. The first one counts:
// a later one was read from what was left.
func KeepFormer(p *Projection, f *state.State) {
	if runs, _ := state.Kept(f); runs > 0 {
		p.Former.CompareAndSwap(nil, f)
	}
}

// New returns a projection of no records. follow.New fills it.
func New(cfg Config) *Projection {
	return &Projection{
		log: cmp.Or(cfg.Log, slog.Default()), onChange: cfg.OnChange, onEffect: cfg.OnEffect, onStep: cfg.OnStep,
		Bodies: newBodies(cmp.Or(cfg.Cache, 8<<20)), state: state.New(cfg.Key, cfg.ValidChecked, cfg.Version),
		waiters: map[state.Ident]chan struct{}{}, liveChanges: liveChanges{more: make(chan struct{})},
	}
}

// Truncation returns where history begins, 0 if that is unknown, and the newest time of a run that was truncated. The
// caller holds the lock.
func (p *Projection) Truncation() (begins uint64, newest time.Time) {
	return p.begins, state.Moment(p.evicted)
}

// Totals is what this projection has counted since it caught up.
type Totals struct {
	Accepted  uint64 `json:"accepted"`
	Retried   uint64 `json:"retried"` // attempts that failed and were followed by another
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Stopped   uint64 `json:"stopped"`
}

// count adds a change.
func (t *Totals) count(ch state.Change) {
	switch {
	case ch.Before == "" && ch.RunID != "":
		t.Accepted++
	case ch.Kind == subject.EndedKind && ch.After == run.Pending:
		t.Retried++
	case ch.After == run.Completed:
		t.Completed++
	case ch.After == run.Failed:
		t.Failed++
	case ch.After == run.Stopped:
		t.Stopped++
	}
}
