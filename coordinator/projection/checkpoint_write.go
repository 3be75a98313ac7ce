package projection

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"ao/nats/stream"
	"ao/shared/run"
)

// A checkpoint is a header, an entry for every session and run, entries again for those that changed meanwhile (the
// last one counts), a trailer and a checksum. Rows and sessions are identified by the sequence of their first record.
const (
	snapshotMagic   = "AOFOLD\r\n"
	snapshotVersion = 16 // raise it when the reducer treats a record differently, or the format changes
)

// The kinds of entries.
const (
	entrySession = 1
	entryRow     = 2
	entryTrailer = 3
	entryTexts   = 4
)

// The flags of a row's entry. A session's entry has the first two.
const (
	flagEvicted = 1 << iota
	flagParent
	flagCallback
	flagReported
	flagClaimedByRunner
	flagLive
	flagWebhook
	flagPast
	flagVersionExceeded
	flagSuppressed
	flagResume
	flagRepeats
)

// canCheckpoint reports whether a checkpoint may replace the history. A newer version may understand more of
// its records.
func canCheckpoint(f *reducer) bool { return f.newer == 0 && !f.unknownKinds && f.seq != 0 }

// lastFingerprints returns the fingerprints of the last records, in order.
func lastFingerprints(f *reducer) (all []stream.Fingerprint) {
	for n := f.fingerprinted - min(f.fingerprinted, maxFingerprints); n < f.fingerprinted; n++ {
		all = append(all, f.fingerprints[n%maxFingerprints])
	}
	return all
}

func newDirtySet() *dirtySet { return &dirtySet{map[*row]bool{}, map[*session]bool{}} }

// errInterrupted says that the history was truncated or replaced during a checkpoint.
var errInterrupted = errors.New("the history changed meanwhile")

// checkpointWriter writes a checkpoint. It holds the lock for a moment at a time.
type checkpointWriter struct {
	p        *Projection
	f        *reducer
	dirty    *dirtySet
	e        encoder
	flush    func([]byte) error
	lockTime time.Duration
	maxFinal int
	rest     func() // called between two locks
	longest  time.Duration
	seq      uint64 // of the finished checkpoint
	texts    uint32 // the first block of texts that is written last
}

// The writer holds the lock for about lockTime. The final hold writes what changed since, if that is at most
// maxFinal.
const (
	lockTime  = 2 * time.Millisecond
	maxFinal  = 1000
	maxRounds = 20
)

// writeCheckpoint passes the bytes of a checkpoint, without its checksum, to flush. It returns the checkpoint's
// sequence and the longest time that it held the lock.
func writeCheckpoint(
	p *Projection,
	identity string,
	rest func(),
	flush func([]byte) error,
) (seq uint64, longest time.Duration, err error) {
	w := checkpointWriter{p: p, lockTime: lockTime, maxFinal: maxFinal, rest: rest, flush: flush}
	seq, err = w.write(identity)
	return seq, w.longest, err
}

// write writes everything and returns the sequence.
func (w *checkpointWriter) write(identity string) (seq uint64, err error) {
	w.p.changing(func(f *reducer) {
		w.f, w.dirty = f, newDirtySet()
		f.dirty = w.dirty
	})
	defer w.p.changing(func(*reducer) {
		if w.f.dirty == w.dirty {
			w.f.dirty = nil
		}
	})
	w.e.header(identity)
	blocks := w.fullBlocks()
	if err := w.each(func(i int) bool { return i < len(blocks) }, func(i int) {
		if b := w.f.texts.blocks[blocks[i]]; b != nil {
			w.e.texts(blocks[i], b)
		}
	}); err != nil {
		return 0, err
	}
	if err := w.each(func(i int) bool { return i < len(w.f.sorder) },
		func(i int) { w.session(w.f.sorder[i], false) }); err != nil {
		return 0, err
	}
	if err := w.each(func(i int) bool { return i < len(w.f.order) },
		func(i int) { w.row(w.f.order[i], false) }); err != nil {
		return 0, err
	}
	for round := 0; ; round++ {
		changed, err := w.finish(round == maxRounds)
		switch {
		case err != nil:
			return 0, err
		case changed == nil:
			return w.seq, w.flush(w.e.take())
		}
		if err := w.writeChanged(changed); err != nil {
			return 0, err
		}
	}
}

// fullBlocks returns the blocks of texts that no longer change. Later ones are written last.
func (w *checkpointWriter) fullBlocks() (all []uint32) {
	w.p.reading(func(*reducer) {
		w.texts = w.f.texts.last
		for no := range w.f.texts.blocks {
			if no < w.texts {
				all = append(all, no)
			}
		}
	})
	slices.Sort(all)
	return all
}

// finish ends the checkpoint with what changed since it began, if that is little or must is set. Otherwise it returns
// the changes for another round.
func (w *checkpointWriter) finish(must bool) (changed *dirtySet, err error) {
	w.p.changing(func(f *reducer) {
		begin := time.Now()
		changed = w.dirty
		switch {
		case !w.current(f):
			err = errInterrupted
			return
		case !must && len(changed.rows)+len(changed.sessions) > w.maxFinal:
			w.dirty = newDirtySet()
			f.dirty = w.dirty
			return
		}
		f.dirty = nil
		sessions, rows := changed.sorted()
		for _, s := range sessions {
			w.session(s, true)
		}
		for _, r := range rows {
			w.row(r, true)
		}
		w.seq = f.seq
		for no := w.texts; no <= f.texts.last; no++ {
			if b := f.texts.blocks[no]; b != nil {
				w.e.texts(no, b)
			}
		}
		w.e.trailer(f)
		w.longest = max(w.longest, time.Since(begin))
		changed = nil
	})
	return changed, err
}

// current reports whether the state is still the one being written.
func (w *checkpointWriter) current(f *reducer) bool { return f == w.f && f.dirty == w.dirty }

func (p *dirtySet) sorted() ([]*session, []*row) {
	return slices.SortedFunc(maps.Keys(p.sessions), func(a, b *session) int { return cmp.Compare(a.first, b.first) }),
		slices.SortedFunc(maps.Keys(p.rows), func(a, b *row) int { return cmp.Compare(a.first, b.first) })
}

// writeChanged writes entries again.
func (w *checkpointWriter) writeChanged(changed *dirtySet) error {
	sessions, rows := changed.sorted() // their positions do not change during a checkpoint
	if err := w.each(func(i int) bool { return i < len(sessions) },
		func(i int) { w.session(sessions[i], true) }); err != nil {
		return err
	}
	return w.each(func(i int) bool { return i < len(rows) }, func(i int) { w.row(rows[i], true) })
}

// each calls write with 0, 1, 2 … while more reports true. It releases the lock after every lockTime.
func (w *checkpointWriter) each(more func(i int) bool, write func(i int)) error {
	for i, over := 0, false; !over; {
		stands := true
		w.p.reading(func(f *reducer) {
			stands = w.current(f)
			if !stands {
				return
			}
			begin := time.Now()
			for over = !more(i); !over; over = !more(i) {
				write(i)
				i++
				if time.Since(begin) >= w.lockTime {
					break
				}
			}
			w.longest = max(w.longest, time.Since(begin))
		})
		if !stands {
			return errInterrupted
		}
		if err := w.flush(w.e.take()); err != nil {
			return err
		}
		w.rest()
	}
	return nil
}

func (w *checkpointWriter) session(s *session, again bool) {
	if s.runs > 0 || again {
		w.e.session(w.f, s)
	}
}

func (w *checkpointWriter) row(r *row, again bool) {
	if !r.evicted || again {
		w.e.row(w.f, r)
	}
}

func (e *encoder) session(f *reducer, s *session) {
	flags := 0
	if s.runs == 0 {
		flags |= flagEvicted
	}
	if s.parent != "" {
		flags |= flagParent
	}
	e.buf = append(e.buf, entrySession, byte(flags))
	e.i(int64(s.first - e.before))
	e.before = s.first
	if s.runs == 0 {
		return
	}
	e.id(s.id)
	e.name(s.agent)
	e.name(s.agentType)
	e.name(s.dir)
	if s.parent != "" {
		e.id(identOf(sessionPrefix, s.parent))
	}
	e.i(s.modified - e.last)
	e.last = s.modified
	var lastEnded uint64
	if s.lastEnded != nil {
		lastEnded = s.lastEnded.first
	}
	e.opt(int64(lastEnded), int64(s.first))
	e.rows(slices.Concat(s.pending, f.trees.suppressing[s]), s.first)
	e.text(s.binding().model)
	e.name(s.binding().host)
	e.name(s.binding().profile)
	e.u(uint64(s.misses))
}

func (e *encoder) rows(rows []*row, near uint64) {
	e.u(uint64(len(rows)))
	for _, r := range rows {
		e.i(int64(r.first - near))
	}
}

// flagsOf returns the flags of a row.
func flagsOf(r *row, hooked, queued bool) (flags int) {
	for _, x := range []struct {
		set  bool
		flag int
	}{
		{r.evicted, flagEvicted}, {r.parent != "", flagParent}, {r.callback, flagCallback}, {r.reported, flagReported},
		{r.claimedByRunner, flagClaimedByRunner},
		{r.live != nil, flagLive}, {hooked, flagWebhook}, {queued, flagPast}, {r.versionExceeded, flagVersionExceeded},
		{r.suppressed, flagSuppressed}, {r.resume, flagResume},
	} {
		if x.set {
			flags |= x.flag
		}
	}
	return flags
}

func (e *encoder) row(f *reducer, r *row) {
	h, queued := f.webhooks.of[r], f.past[r]
	e.buf = append(e.buf, entryRow)
	of, repeats := f.repeats.of[r]
	flags := flagsOf(r, h != nil, len(queued) > 0)
	if repeats {
		flags |= flagRepeats
	}
	e.u(uint64(flags))
	e.i(int64(r.first - e.first))
	e.first = r.first
	if r.evicted {
		return
	}
	near := int64(r.first)
	e.id(r.id)
	e.i(int64(r.first - r.session.first))
	e.name(r.agent)
	e.name(r.runner)
	e.name(r.dir)
	if r.parent != "" {
		e.id(identOf(sessionPrefix, r.parent))
	}
	e.i(int64(r.full) - near)
	e.opt(int64(r.claim), near)
	e.opt(int64(r.end), near)
	e.u(r.events)
	e.i(r.created - e.created)
	e.created = r.created
	e.opt(r.claimed, r.created)
	e.opt(r.started, r.created)
	e.opt(r.ended, r.created)
	var by uint64
	if r.turn != nil && !r.turn.evicted {
		by = r.turn.first
	}
	e.opt(int64(by), near)
	e.i(int64(r.timeout))
	e.u(uint64(r.attempt))
	e.u(uint64(r.deliveries))
	e.buf = append(e.buf, r.status, r.mode, byte(r.webhook), r.depth)
	e.bool(r.eventsUnknown)
	e.bool(r.proven)
	e.textRef(r.text)
	e.textRef(r.failure)
	if repeats {
		e.id(of)
	}
	if h != nil {
		e.hook(h, r.created)
	}
	if len(queued) > 0 {
		e.u(uint64(len(queued)))
		for _, p := range queued {
			e.i(int64(p.queued) - near)
			e.bool(p.claimedByRunner)
		}
	}
	if r.live != nil {
		e.live(r)
	}
}

func (e *encoder) textRef(at textRef) {
	e.u(uint64(at.block))
	e.buf = append(e.buf, at.no)
}

// texts writes a block of texts.
func (e *encoder) texts(no uint32, b *textBlock) {
	e.buf = append(e.buf, entryTexts)
	e.u(uint64(no))
	e.bytes(b.pack())
}

// hook writes the webhook of a run that was created at a time.
func (e *encoder) hook(h *webhook, created int64) {
	e.i(int64(h.n))
	e.i(int64(h.tries))
	e.opt(nanos(h.next), created)
	e.i(int64(h.status))
	e.text(h.reason)
	e.name(h.host)
}

// live writes what only an open run has. That its executor runs is in no record, and is left out.
func (e *encoder) live(r *row) {
	a := r.live.snap
	spec, err := run.Queued{
		V:             run.Version,
		Attempt:       a.Attempt,
		Key:           a.Key,
		RecordVersion: a.RecordVersion,
		Spec:          *a.Spec,
	}.Encode()
	var claim []byte
	if err == nil && a.Claim != nil {
		claim, err = json.Marshal(a.Claim)
	}
	if err != nil {
		spec = nil // the reader discards the checkpoint
	}
	e.bytes(spec)
	e.bytes(claim)
	e.opt(int64(a.QueuedSeq), int64(r.first))
	e.opt(int64(a.ClaimSeq), int64(r.first))
	e.opt(int64(a.UnverifiedSeq), int64(r.first))
	e.opt(int64(a.CarriedEndSeq), int64(r.first))
	e.name(a.Queue)
	e.bool(a.Stopping)
	e.u(a.TreeStop.Seq)
	e.name(a.TreeStop.Session)
	e.opt(nanos(a.NotBefore), r.created)
	e.rows(r.live.children, r.first)
}

func (e *encoder) trailer(f *reducer) {
	e.buf = append(e.buf, entryTrailer)
	e.u(f.seq)
	e.u(uint64(len(f.deleted)))
	for id, seq := range f.deleted {
		e.id(id)
		e.u(seq)
		parent, known := f.trees.parents[id]
		e.bool(known)
		if known {
			e.id(parent)
		}
	}
	e.u(uint64(len(f.callbacks.reserved)))
	for id, p := range f.callbacks.reserved {
		e.id(id)
		e.u(p.seq)
		e.text(p.session)
		e.rows(p.children, p.seq)
	}
	e.u(uint64(len(f.trees.stopped)))
	for id, t := range f.trees.stopped {
		e.id(id)
		e.u(t.seq)
		e.id(t.root)
	}
	e.u(uint64(len(f.callbacks.recent)))
	for _, r := range f.callbacks.recent {
		e.u(r.seq)
		e.i(r.at.UnixNano())
	}
	e.u(uint64(len(f.late.all)))
	for _, l := range f.late.all {
		e.u(l.Seq)
		e.text(l.Subject)
		e.u(l.first)
	}
	n := min(f.fingerprinted, maxFingerprints)
	e.u(n)
	for i := f.fingerprinted - n; i < f.fingerprinted; i++ {
		p := f.fingerprints[i%maxFingerprints]
		e.u(p.Seq)
		e.i(p.Time)
		e.u(uint64(p.Sum))
	}
}
