package projection

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// Projection is the state behind its one lock, with those who wait for it and hear of changes. It knows only records;
// the Follower knows where they come from. Queries use read and change; nothing else touches the lock.
type Projection struct {
	log      *slog.Logger
	onChange func(Change) // Config.OnChange
	onEffect func(Effect) // Config.OnEffect
	onStep   func(Step)
	bodies   *bodies
	live     atomic.Bool // everything that history held at the start has been read

	mu          sync.RWMutex
	reducer     *reducer
	begins      uint64                  // where history begins; 0: unknown
	evicted     int64                   // newest time of a truncated run, in nanoseconds; 0: none is known
	awaits      []await                 // who waits for a sequence
	due         uint64                  // the smallest of them
	empty       uint64                  // there is no record between the last one applied and this sequence
	ownSeq      atomic.Uint64           // the newest record of this process
	waiters     map[ident]chan struct{} // closed at the end of a run
	liveChanges liveChanges
	idle        idles
	totals      Totals
	at          time.Time // of the last record
	former      atomic.Pointer[reducer]
}

// clear forgets everything; it can all be built again. Whoever waits for a sequence of the old history stops waiting.
func (p *Projection) clear() {
	p.live.Store(false)
	p.bodies.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.reducer
	keepFormer(p, old)
	p.reducer, p.empty, p.begins = newReducer(old.key), 0, 0
	p.ownSeq.Store(0)
	p.reducer.checked, p.reducer.version = old.checked, old.version
	for _, a := range p.awaits {
		close(a.done)
	}
	p.awaits = nil
}

// restore takes over the state from a checkpoint.
func (p *Projection) restore(f *reducer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.checked, f.version = p.reducer.checked, p.reducer.version
	p.reducer = f
	p.reached()
}

// Forget drops what lies before the stream's first sequence: runs whose first records are truncated.
func (p *Projection) Forget(first uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begins, p.evicted = max(p.begins, first), max(p.evicted, p.reducer.forget(first))
}

// truncated is Forget, unless it reports true: an open run starts before first. Or what was taken for a late record may
// be another life of a run that is gone. Then nothing is dropped.
func (p *Projection) truncated(first uint64) (unseen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if head := p.reducer.head; head != nil && head.First < first || p.reducer.late.lowWater(first) < first {
		return true
	}
	p.begins, p.evicted = max(p.begins, first), max(p.evicted, p.reducer.forget(first))
	return false
}

// noteGap notes that no record lies between the last one applied and end. One that comes all the same is applied.
func (p *Projection) noteGap(end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.empty = max(p.empty, end) // never reducer.seq
	p.reached()
}

// read returns what f finds in the state, under the read lock. f must not block.
func read[T any](p *Projection, f func(*reducer) T) T {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return f(p.reducer)
}

// read2 is read for two results.
func read2[T, U any](p *Projection, f func(*reducer) (T, U)) (T, U) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return f(p.reducer)
}

// change returns f's result, under the write lock. f must not block.
func change[T any](p *Projection, f func(*reducer) T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f(p.reducer)
}

// Lag returns how many records, up to last, have not been applied, and the age of the newest applied one; zero if there
// are none.
func (p *Projection) Lag(last uint64) (records uint64, age time.Duration) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if seq := max(p.reducer.seq, p.empty); last > seq {
		records = last - seq
		if !p.at.IsZero() {
			age = max(time.Since(p.at), 0)
		}
	}
	return records, age
}

// reading calls f under the read lock. f must not block.
func (p *Projection) reading(f func(*reducer)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	f(p.reducer)
}

// changing calls f under the write lock. f must not block.
func (p *Projection) changing(f func(*reducer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.reducer)
}

// apply applies one record, and notifies those who wait for it.
func (p *Projection) apply(m Record) Change {
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
		p.bodies.put(m.Seq, m.Body, a.spec)
	}
	if a.ended != nil { // after everything is visible
		close(a.ended)
	}
	if p.onChange != nil {
		p.onChange(*ch)
	}
	if a.step.Kind != None {
		p.onStep(a.step.of(m))
	}
	p.signal(a.effect)
	return *ch
}

// applied is what a record changed, for use after the lock is released.
type applied struct {
	ch     Change
	step   Step
	ended  chan struct{} // those who wait for the run's end
	effect Effect
	spec   *run.Spec
}

// reduce applies a record under the lock.
func (p *Projection) reduce(m Record) (a applied, err error) {
	live := p.live.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	a.ch, err = p.reducer.apply(m)
	ch := &a.ch
	ch.Live = live
	if live && ch.Applied {
		p.totals.count(*ch)
	}
	p.at = m.Time
	if live && p.onStep != nil {
		a.step = ch.step(m.Time)
	}
	p.reached()
	if ch.Applied && ch.After.Final() && ch.RunID != "" {
		a.ended = p.waiters[ch.row.Ident]
		delete(p.waiters, ch.row.Ident)
	}
	a.effect = effectOf(p.reducer, ch)
	if r := ch.row; live && ch.RunID != "" && r.live != nil {
		a.spec = r.live.snap.Spec
	}
	return a, err
}

// Seq returns the sequence up to which records have been applied.
func (p *Projection) Seq() uint64 {
	return read(p, func(f *reducer) uint64 { return max(f.seq, p.empty) })
}

// Stats counts the records read.
func (p *Projection) Stats() Stats { return read(p, func(f *reducer) Stats { return f.stats }) }

// Done waits until a run on the stream has ended, even if the projection does not know it yet. Whoever has just written
// the run needs no other check.
func (p *Projection) Done(ctx context.Context, id string) error {
	key := identOf(runPrefix, id)
	p.mu.Lock()
	var ended chan struct{}
	if r := p.reducer.runs[key]; r == nil || r.live != nil {
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

func (p *Projection) session(id string) (run.Session, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if s := p.reducer.session(id); s != nil {
		return p.viewOf(s), true
	}
	return run.Session{}, false
}

// lookup returns the view of a run by id.
func (p *Projection) lookup(id string) (runView, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r := p.reducer.run(id); r != nil {
		return runViewOf(p.reducer, r), true
	}
	return runView{}, false
}

// NoteWritten notes the sequence of a record that this process wrote.
func (p *Projection) NoteWritten(seq uint64) {
	for old := p.ownSeq.Load(); old < seq && !p.ownSeq.CompareAndSwap(old, seq); old = p.ownSeq.Load() {
	}
}

func (p *Projection) await(seq uint64) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	if seq <= max(p.reducer.seq, p.empty) {
		close(done)
		return done
	}
	if len(p.awaits) == 0 || seq < p.due {
		p.due = seq
	}
	p.awaits = append(p.awaits, await{seq, done})
	return done
}

// reached wakes those who wait for a sequence that has been applied. The caller holds the lock.
func (p *Projection) reached() {
	seq := max(p.reducer.seq, p.empty)
	if len(p.awaits) == 0 || seq < p.due {
		return
	}
	still := p.awaits[:0]
	p.due = 0
	for _, a := range p.awaits {
		if a.seq <= seq {
			close(a.done)
			continue
		}
		still = append(still, a)
		if p.due == 0 || a.seq < p.due {
			p.due = a.seq
		}
	}
	clear(p.awaits[len(still):])
	p.awaits = still
}

func (p *Projection) unawait(done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.awaits {
		if a.done == done {
			last := len(p.awaits) - 1
			p.awaits[i] = p.awaits[last]
			p.awaits[last] = await{}
			p.awaits = p.awaits[:last]
			return
		}
	}
}

// written returns the newest sequence noted by NoteWritten.
func (p *Projection) written() uint64 { return p.ownSeq.Load() }

// viewOf returns the session as readers see it. The caller holds mu.
func (p *Projection) viewOf(s *session) run.Session {
	v := sessionOf(p.reducer, s)
	v.Status = p.statusOf(s)
	return v
}

// statusOf returns the session's status: that of its runs, or idle if the last one ended well and its process lives.
// The caller holds mu.
func (p *Projection) statusOf(s *session) run.SessionStatus {
	status := run.SessionStatusOf(s.statusRun().shown())
	if status == run.SessionFinished && len(p.idle.of) > 0 && p.idle.of[s.Ident] != "" {
		return run.SessionIdle
	}
	return status
}

// signal reports an effect. While history is read nobody acts; HistoryConfirmed follows at the end of that.
func (p *Projection) signal(e Effect) {
	if e != 0 && p.onEffect != nil &&
		p.live.Load() { // checked after the record is applied: becoming live has its own signal
		p.onEffect(e)
	}
}

func actives(all []*Active) iter.Seq[Active] {
	return func(yield func(Active) bool) {
		for _, a := range all {
			if !yield(*a) {
				return
			}
		}
	}
}

// await is a wait for a sequence of the stream.
type await struct {
	seq  uint64
	done chan struct{}
}
