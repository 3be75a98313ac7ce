package projection

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"ao/shared/run"
)

// A snapshot is a header, an entry for every session and run, further entries for those that changed while these were written
// (the last one counts), a trailer and a checksum. Rows and sessions are named by the sequence of their first record.
const (
	snapshotMagic   = "AOFOLD\r\n"
	snapshotVersion = 16 // to be raised whenever the fold makes anything else of a record, or the format changes
)

// The kinds of entry.
const (
	entrySession = 1
	entryRow     = 2
	entryTrailer = 3
	entryTexts   = 4
)

// The flags of a row's entry. A session's has the first two.
const (
	flagGone = 1 << iota
	flagParent
	flagCallback
	flagTold
	flagBegun
	flagLive
	flagHook
	flagPast
	flagOverstep
	flagSuppressed
	flagResume
	flagRepeats
)

// worthKeeping tells whether a snapshot may stand for the history: a newer version makes more of some records than this one.
func worthKeeping(f *fold) bool { return f.newer == 0 && !f.strange && f.seq != 0 }

// lastPrints are those of the last records that the fold took, in order.
func lastPrints(f *fold) (all []print) {
	for n := f.printed - min(f.printed, prints); n < f.printed; n++ {
		all = append(all, f.prints[n%prints])
	}
	return all
}

func newPass() *pass { return &pass{map[*row]bool{}, map[*session]bool{}} }

// errPassOver says that the fold was truncated, or begins anew, while a snapshot was written.
var errPassOver = errors.New("the history changed meanwhile")

// writing is a snapshot on its way: it looks at the fold for a moment at a time, and lets it go on between.
type writing struct {
	p       *Projection
	f       *fold
	pass    *pass
	e       encoder
	flush   func([]byte) error
	look    time.Duration
	few     int
	rest    func() // between two looks
	longest time.Duration
	seq     uint64 // that it is of, once it is whole
	texts   uint32 // the first block of texts that is written last
}

// A look at the fold takes about so long; the last one takes what changed since, if that is no more than a few.
const (
	look   = 2 * time.Millisecond
	few    = 1000
	rounds = 20
)

// checkpoint gives flush the bytes of a snapshot, but for its checksum. It looks at the fold for a moment at a time, calls rest
// between, and tells what the snapshot is of and the longest that the fold stood still for it.
func checkpoint(p *Projection, identity string, rest func(), flush func([]byte) error) (seq uint64, longest time.Duration, err error) {
	w := writing{p: p, look: look, few: few, rest: rest, flush: flush}
	seq, err = w.write(identity)
	return seq, w.longest, err
}

// write writes all of it and gives the sequence that it is of.
func (w *writing) write(identity string) (seq uint64, err error) {
	w.p.changing(func(f *fold) {
		w.f, w.pass = f, newPass()
		f.pass = w.pass
	})
	defer w.p.changing(func(*fold) {
		if w.f.pass == w.pass {
			w.f.pass = nil
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
	if err := w.each(func(i int) bool { return i < len(w.f.sorder) }, func(i int) { w.session(w.f.sorder[i], false) }); err != nil {
		return 0, err
	}
	if err := w.each(func(i int) bool { return i < len(w.f.order) }, func(i int) { w.row(w.f.order[i], false) }); err != nil {
		return 0, err
	}
	for round := 0; ; round++ {
		changed, err := w.last(round == rounds)
		switch {
		case err != nil:
			return 0, err
		case changed == nil:
			return w.seq, w.flush(w.e.take())
		}
		if err := w.again(changed); err != nil {
			return 0, err
		}
	}
}

// fullBlocks are the blocks of texts that do not change any more; those behind them are written last.
func (w *writing) fullBlocks() (all []uint32) {
	w.p.reading(func(*fold) {
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

// last ends the snapshot with what changed since it was begun, where that is little, or it has to be; else it gives what changed, for
// another round.
func (w *writing) last(must bool) (changed *pass, err error) {
	w.p.changing(func(f *fold) {
		begin := time.Now()
		changed = w.pass
		switch {
		case !w.stands(f):
			err = errPassOver
			return
		case !must && len(changed.rows)+len(changed.sessions) > w.few:
			w.pass = newPass()
			f.pass = w.pass
			return
		}
		f.pass = nil
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

// stands tells whether the fold is still the one that the snapshot is of.
func (w *writing) stands(f *fold) bool { return f == w.f && f.pass == w.pass }

func (p *pass) sorted() ([]*session, []*row) {
	return slices.SortedFunc(maps.Keys(p.sessions), func(a, b *session) int { return cmp.Compare(a.first, b.first) }),
		slices.SortedFunc(maps.Keys(p.rows), func(a, b *row) int { return cmp.Compare(a.first, b.first) })
}

// again writes what changed once more.
func (w *writing) again(changed *pass) error {
	sessions, rows := changed.sorted() // their places never change as long as the pass lasts
	if err := w.each(func(i int) bool { return i < len(sessions) }, func(i int) { w.session(sessions[i], true) }); err != nil {
		return err
	}
	return w.each(func(i int) bool { return i < len(rows) }, func(i int) { w.row(rows[i], true) })
}

// each calls write with 0, 1, 2 … as long as there is more, under the lock, for a moment at a time.
func (w *writing) each(more func(i int) bool, write func(i int)) error {
	for i, over := 0, false; !over; {
		stands := true
		w.p.reading(func(f *fold) {
			stands = w.stands(f)
			if !stands {
				return
			}
			begin := time.Now()
			for over = !more(i); !over; over = !more(i) {
				write(i)
				i++
				if time.Since(begin) >= w.look {
					break
				}
			}
			w.longest = max(w.longest, time.Since(begin))
		})
		if !stands {
			return errPassOver
		}
		if err := w.flush(w.e.take()); err != nil {
			return err
		}
		w.rest()
	}
	return nil
}

func (w *writing) session(s *session, again bool) {
	if s.runs > 0 || again {
		w.e.session(w.f, s)
	}
}

func (w *writing) row(r *row, again bool) {
	if !r.gone || again {
		w.e.row(w.f, r)
	}
}

func (e *encoder) session(f *fold, s *session) {
	flags := 0
	if s.runs == 0 {
		flags |= flagGone
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
	e.rows(slices.Concat(s.owed, f.trees.suppressing[s]), s.first)
	e.text(s.bond().model)
	e.name(s.bond().host)
	e.name(s.bond().profile)
	e.u(uint64(s.misses))
}

func (e *encoder) rows(rows []*row, near uint64) {
	e.u(uint64(len(rows)))
	for _, r := range rows {
		e.i(int64(r.first - near))
	}
}

// flagsOf says what of a row follows, and what it is.
func flagsOf(r *row, hooked, queued bool) (flags int) {
	for _, x := range []struct {
		set  bool
		flag int
	}{
		{r.gone, flagGone}, {r.parent != "", flagParent}, {r.callback, flagCallback}, {r.told, flagTold}, {r.begun, flagBegun},
		{r.live != nil, flagLive}, {hooked, flagHook}, {queued, flagPast}, {r.overstep, flagOverstep}, {r.suppressed, flagSuppressed}, {r.resume, flagResume},
	} {
		if x.set {
			flags |= x.flag
		}
	}
	return flags
}

func (e *encoder) row(f *fold, r *row) {
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
	if r.gone {
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
	e.i(int64(r.whole) - near)
	e.opt(int64(r.claim), near)
	e.opt(int64(r.end), near)
	e.u(r.events)
	e.i(r.created - e.created)
	e.created = r.created
	e.opt(r.claimed, r.created)
	e.opt(r.started, r.created)
	e.opt(r.ended, r.created)
	var by uint64
	if r.by != nil && !r.by.gone {
		by = r.by.first
	}
	e.opt(int64(by), near)
	e.i(int64(r.timeout))
	e.u(uint64(r.attempt))
	e.u(uint64(r.tellings))
	e.buf = append(e.buf, r.status, r.mode, byte(r.hook), r.depth)
	e.bool(r.mute)
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
			e.bool(p.begun)
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

// texts is a block of texts.
func (e *encoder) texts(no uint32, b *textBlock) {
	e.buf = append(e.buf, entryTexts)
	e.u(uint64(no))
	e.bytes(b.pack())
}

// hook is an HTTP callback of a run that was created at a time.
func (e *encoder) hook(h *hook, created int64) {
	e.i(int64(h.n))
	e.i(int64(h.tries))
	e.opt(nanos(h.next), created)
	e.i(int64(h.status))
	e.text(h.reason)
	e.name(h.host)
}

// live is what a run has that has not ended. That its executor runs is no record's word, and not in it.
func (e *encoder) live(r *row) {
	a := r.live.snap
	spec, err := run.Queued{V: run.Version, Attempt: a.Attempt, Key: a.Key, RecordVersion: a.RecordVersion, Spec: *a.Spec}.Encode()
	var claim []byte
	if err == nil && a.Claim != nil {
		claim, err = json.Marshal(a.Claim)
	}
	if err != nil {
		spec = nil // who reads it throws the snapshot away
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

func (e *encoder) trailer(f *fold) {
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
	e.u(uint64(len(f.debts.promised)))
	for id, p := range f.debts.promised {
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
	e.u(uint64(len(f.debts.recent)))
	for _, r := range f.debts.recent {
		e.u(r.seq)
		e.i(r.at.UnixNano())
	}
	e.u(uint64(len(f.late.all)))
	for _, l := range f.late.all {
		e.u(l.Seq)
		e.text(l.Subject)
		e.u(l.first)
	}
	n := min(f.printed, prints)
	e.u(n)
	for i := f.printed - n; i < f.printed; i++ {
		p := f.prints[i%prints]
		e.u(p.seq)
		e.i(p.time)
		e.u(uint64(p.sum))
	}
}
