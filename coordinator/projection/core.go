package projection

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// Projection is the folded state behind its one lock, who waits for it, and who hears of it. It knows records alone:
// what they come from is the Follower's business. Nobody else touches the lock: queries look by read, and change.
type Projection struct {
	log     *slog.Logger
	tell    func(Change) // Config.Observe
	tellDue func(Effect) // Config.Due
	measure func(Step)
	bodies  *bodies
	live    atomic.Bool // all is read that history held at the beginning

	mu   sync.RWMutex
	fold *fold
	// the newest moment of a run that left with the beginning of the history, in nanoseconds; 0: none has, that we know
	evicted int64
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

// renew forgets everything; it all can be made again (invariant 4). Who waits for a sequence of the old history waits
// no more.
func (p *Projection) renew() {
	p.live.Store(false)
	p.bodies.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.fold
	p.fold, p.empty, p.wrote = newFold(old.key), 0, 0
	p.fold.checked, p.fold.version = old.checked, old.version
	for _, a := range p.awaits {
		close(a.done)
	}
	p.awaits = nil
}

// adopt takes a fold that was read from a snapshot in the place of the empty one.
func (p *Projection) adopt(f *fold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.checked, f.version = p.fold.checked, p.fold.version
	p.fold = f
	p.reached()
}

// Forget drops what precedes the stream's first sequence: runs whose beginning is gone from it.
func (p *Projection) Forget(first uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.evicted = max(p.evicted, p.fold.forget(first))
}

// truncated is Forget, unless a run that has not ended begins before that: then it says so, and nothing is dropped.
func (p *Projection) truncated(first uint64) (unseen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if head := p.fold.head; head != nil && head.first < first {
		return true
	}
	p.evicted = max(p.evicted, p.fold.forget(first))
	return false
}

// nothing notes that there is no record from the last one applied up to a sequence; what comes all the same is applied.
func (p *Projection) nothing(end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.empty = max(p.empty, end) // never fold.seq
	p.reached()
}

// read gives what f finds in the fold; others look at the same time. f waits for nothing.
func read[T any](p *Projection, f func(*fold) T) T {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return f(p.fold)
}

// read2 is read of two answers.
func read2[T, U any](p *Projection, f func(*fold) (T, U)) (T, U) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return f(p.fold)
}

// change gives what f answers that has the fold for itself. f waits for nothing.
func change[T any](p *Projection, f func(*fold) T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f(p.fold)
}

// Behind is how many records of the stream, whose last one has this sequence, the fold has not read, and how old the
// newest is that it has; nothing where it has read all.
func (p *Projection) Lag(last uint64) (records uint64, age time.Duration) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if seq := max(p.fold.seq, p.empty); last > seq {
		records = last - seq
		if !p.at.IsZero() {
			age = max(time.Since(p.at), 0)
		}
	}
	return records, age
}

// reading calls f with the fold for looking at it alone: others look at the same time. f waits for nothing.
func (p *Projection) reading(f func(*fold)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	f(p.fold)
}

// changing calls f with the fold for itself. f waits for nothing.
func (p *Projection) changing(f func(*fold)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.fold)
}

// apply folds one record and tells who waits for it.
func (p *Projection) apply(m Record) {
	a, err := p.reduce(m)
	if err != nil {
		p.log.Error("record is unreadable", "seq", m.Seq, "err", err) // not its subject: it may hold a key
	}
	ch := &a.ch
	if !ch.Applied {
		return
	}
	if ch.Live && (ch.Before == "" || ch.Kind == subject.QueuedKind || ch.Kind == subject.OfferedKind ||
		ch.After.Final()) {
		p.bodies.put(m.Seq, m.Body, a.spec)
	}
	if a.ended != nil { // now that they find it all
		close(a.ended)
	}
	if p.tell != nil {
		p.tell(*ch)
	}
	if a.step.Kind != None {
		p.measure(a.step.of(m))
	}
	p.wake(a.effect)
}

// applied is what a record has changed, for those who hear of it when the lock is free again.
type applied struct {
	ch     Change
	step   Step
	ended  chan struct{} // of those who wait for the run's end
	effect Effect
	spec   *run.Spec
}

// reduce applies a record to the fold.
func (p *Projection) reduce(m Record) (a applied, err error) {
	live := p.live.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	a.ch, err = p.fold.apply(m)
	ch := &a.ch
	ch.Live = live
	if live && ch.Applied {
		p.totals.count(*ch)
	}
	p.at = m.Time
	if live && p.measure != nil {
		a.step = ch.step(m.Time)
	}
	p.reached()
	if ch.Applied && ch.After.Final() && ch.RunID != "" {
		a.ended = p.waiters[ch.row.id]
		delete(p.waiters, ch.row.id)
	}
	a.effect = effectOf(p.fold, ch)
	if r := ch.row; live && ch.RunID != "" && r.live != nil {
		a.spec = r.live.snap.Spec
	}
	return a, err
}

// Seq is the sequence of the stream that the fold has reached.
func (p *Projection) Seq() uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return max(p.fold.seq, p.empty)
}

// Stats counts the records that were read.
func (p *Projection) Stats() Stats {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fold.stats
}

// Done waits until a run has ended that stands on the stream, also if the fold has not come to it yet: who has just
// written it needs to ask nobody.
func (p *Projection) Done(ctx context.Context, id string) error {
	key := identOf(runPrefix, id)
	p.mu.Lock()
	var ended chan struct{}
	if r := p.fold.runs[key]; r == nil || r.live != nil {
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
	if s := p.fold.sessions[identOf(sessionPrefix, id)]; s != nil {
		return p.viewOf(s), true
	}
	return run.Session{}, false
}

// look is see by id.
func (p *Projection) look(id string) (sight, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if r := p.fold.runs[identOf(runPrefix, id)]; r != nil {
		return sightOf(p.fold, r), true
	}
	return sight{}, false
}

// Wrote notes the sequence of a record that this process wrote.
func (p *Projection) NoteWritten(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote = max(p.wrote, seq)
}

func (p *Projection) await(seq uint64) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	if seq <= max(p.fold.seq, p.empty) {
		close(done)
		return done
	}
	if len(p.awaits) == 0 || seq < p.due {
		p.due = seq
	}
	p.awaits = append(p.awaits, await{seq, done})
	return done
}

// reached wakes those who wait for a sequence that the fold has now. It wants the lock.
func (p *Projection) reached() {
	seq := max(p.fold.seq, p.empty)
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

// written is the newest sequence that Wrote was told of.
func (p *Projection) written() uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.wrote
}

// viewOf is the session as readers see it. The caller holds mu.
func (p *Projection) viewOf(s *session) run.Session {
	v := sessionOf(p.fold, s)
	v.Status = p.statusOf(s)
	return v
}

// statusOf is the session's status: as its runs make it, or idle where the last of them ended well and its process
// lives. The caller holds mu.
func (p *Projection) statusOf(s *session) run.SessionStatus {
	status := run.SessionStatusOf(s.speaker().shown())
	if status == run.SessionFinished && len(p.idle.of) > 0 && p.idle.of[s.id] != "" {
		return run.SessionIdle
	}
	return status
}

// wake tells what is to be done. While history is read nobody acts: the end of that is told.
func (p *Projection) wake(e Effect) {
	if e != 0 && p.tellDue != nil && p.live.Load() { // asked behind the record: who becomes live afterwards tells that
		p.tellDue(e)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func tell(all []*Active, f func(Active) bool) {
	for _, a := range all {
		if !f(*a) {
			return
		}
	}
}

// await is somebody who waits for a sequence of the stream.
type await struct {
	seq  uint64
	done chan struct{}
}
