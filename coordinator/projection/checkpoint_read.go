package projection

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"
	"time"

	"ao/nats/stream"
	"ao/shared/run"
)

// errDamaged says that a checkpoint is not what was written.
var errDamaged = errors.New("it is damaged")

// decoder reads what an encoder wrote. Anything impossible sets bad; then everything else reads as zero.
type decoder struct {
	raw           []byte
	at            int
	bad           bool
	entry         byte
	names         []string
	first, before uint64
	created, last int64
}

// kind reads the kind of the next entry; false: there is none.
func (d *decoder) kind() bool {
	if d.bad || d.entry == entryTrailer || d.at >= len(d.raw) {
		return false
	}
	d.entry = d.byte()
	return true
}

func (d *decoder) next(n uint64) []byte {
	if d.bad || n > uint64(len(d.raw)-d.at) {
		d.bad = true
		return nil
	}
	b := d.raw[d.at : d.at+int(n)]
	d.at += int(n)
	return b
}

func (d *decoder) byte() byte {
	if b := d.next(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u() uint64 {
	if d.bad {
		return 0
	}
	v, n := binary.Uvarint(d.raw[d.at:])
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) i() int64 {
	v := d.u()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) opt(near int64) int64 {
	v := d.u()
	if v == 0 {
		return 0
	}
	v--
	return near + (int64(v>>1) ^ -int64(v&1))
}

func (d *decoder) text() string { return string(d.next(d.u())) }

func (d *decoder) id() (i ident) {
	i.odd = d.text()
	if i.odd == "" {
		copy(i.made[:], d.next(uint64(len(i.made))))
	}
	return i
}

func (d *decoder) instant(near int64) time.Time {
	if ns := d.opt(near); ns != 0 {
		return moment(ns)
	}
	return time.Time{}
}

func (d *decoder) firsts(near uint64) (all []uint64) {
	n := d.u()
	if n > uint64(len(d.raw)-d.at) { // each takes at least a byte
		d.bad = true
		return nil
	}
	for range n {
		all = append(all, near+uint64(d.i()))
	}
	return all
}

// checkpointReader is a state being read. References between entries are resolved at the end.
type checkpointReader struct {
	*decoder
	f         *reducer
	lastEnded []uint64 // of each session
	sessions  []uint64 // of each row
	turns     []uint64 // of each row: the parent's turn that reports it
	pending   map[*session][]uint64
	reported  map[*row][]uint64
	reserved  map[ident][]uint64
	repeats   map[*row]ident
}

// name reads a text that came before or comes now.
func (l *checkpointReader) name() string {
	n := l.u()
	if n == 0 {
		s := l.f.scan.name(l.next(l.u()))
		if len(l.names) < maxNames {
			l.names = append(l.names, s)
		}
		return s
	}
	if n > uint64(len(l.names)) {
		l.bad = true
		return ""
	}
	return l.names[n-1]
}

func (l *checkpointReader) session() {
	flags := l.byte()
	l.before += uint64(l.i())
	s := &session{first: l.before}
	var lastEnded uint64
	if flags&flagEvicted == 0 {
		s.id = l.id()
		s.agent, s.agentType, s.dir = l.name(), l.name(), l.name()
		if flags&flagParent != 0 {
			s.parent = l.id().text(sessionPrefix)
		}
		l.last += l.i()
		s.modified = l.last
		lastEnded = uint64(l.opt(int64(s.first)))
		l.pending[s] = l.firsts(s.first)
		if len(l.pending[s]) == 0 {
			delete(l.pending, s)
		}
		if b := (binding{l.text(), l.name(), l.name()}); b != (binding{}) {
			s.bound = &b
		}
		s.misses = uint16(min(l.u(), math.MaxUint16))
		s.runs = 1 // it is kept
	}
	all := l.f.sorder
	i := sort.Search(len(all), func(i int) bool { return all[i].first >= s.first })
	switch {
	case i == len(all) && s.runs > 0:
		l.f.sorder, l.lastEnded = append(all, s), append(l.lastEnded, lastEnded)
	case i < len(all) && all[i].first == s.first:
		all[i], l.lastEnded[i] = s, lastEnded
	case s.runs > 0:
		l.bad = true
	}
}

func (l *checkpointReader) row() {
	flags := l.u()
	l.first += uint64(l.i())
	r := &row{first: l.first, evicted: flags&flagEvicted != 0}
	var of, by uint64
	if !r.evicted {
		of, by = l.body(r, flags)
		if !r.plausible() {
			l.bad = true
			return
		}
		if r.live != nil {
			r.show()
		}
	}
	l.place(r, of, by)
}

// body reads a row that is not evicted, and the first records of its session and of the turn that reports it.
func (l *checkpointReader) body(r *row, flags uint64) (of, by uint64) {
	near := int64(r.first)
	r.callback, r.reported, r.claimedByRunner, r.versionExceeded = flags&flagCallback != 0, flags&flagReported != 0,
		flags&flagClaimedByRunner != 0, flags&flagVersionExceeded != 0
	r.suppressed, r.resume = flags&flagSuppressed != 0, flags&flagResume != 0
	r.id = l.id()
	of = r.first - uint64(l.i())
	r.agent, r.runner, r.dir = l.name(), l.name(), l.name()
	if flags&flagParent != 0 {
		r.parent = l.id().text(sessionPrefix)
	}
	r.full, r.claim, r.end = uint64(near+l.i()), uint64(l.opt(near)), uint64(l.opt(near))
	r.events = l.u()
	l.created += l.i()
	r.created = l.created
	r.claimed, r.started, r.ended = l.opt(r.created), l.opt(r.created), l.opt(r.created)
	by = uint64(l.opt(near))
	r.timeout, r.attempt, r.deliveries = int32(l.i()), uint16(l.u()), uint16(l.u())
	r.status, r.mode, r.webhook, r.depth = l.byte(), l.byte(), webhookState(l.byte()), l.byte()
	r.eventsUnknown, r.proven = l.byte() == 1, l.byte() == 1
	r.text, r.failure = refOf(l.decoder), refOf(l.decoder)
	if flags&flagRepeats != 0 {
		l.repeats[r] = l.id()
	}
	if flags&flagWebhook != 0 {
		l.f.webhooks.of[r] = &webhook{
			row:    r,
			n:      int(l.i()),
			tries:  int(l.i()),
			next:   l.instant(r.created),
			status: int(l.i()),
			reason: l.text(),
			host:   l.name(),
		}
	}
	if flags&flagPast != 0 {
		for n := l.u(); n > 0 && !l.bad; n-- {
			l.f.past[r] = append(l.f.past[r], past{uint64(near + l.i()), l.byte() == 1})
		}
	}
	if flags&flagLive != 0 {
		l.live(r)
	}
	return of, by
}

// plausible reports whether a row can be shown: its numbers are valid, and it is either open or has ended.
func (r *row) plausible() bool {
	return int(r.status) < len(run.Statuses) && int(r.mode) < len(modes) && r.webhook <= webhookDead &&
		r.base().Final() == (r.live == nil)
}

// place inserts a row by its first record. A later entry of the same row replaces the earlier one.
func (l *checkpointReader) place(r *row, of, by uint64) {
	all := l.f.order
	i := sort.Search(len(all), func(i int) bool { return all[i].first >= r.first })
	switch {
	case i == len(all) && !r.evicted:
		l.f.order, l.sessions, l.turns = append(all, r), append(l.sessions, of), append(l.turns, by)
	case i < len(all) && all[i].first == r.first:
		delete(l.f.webhooks.of, all[i])
		delete(l.f.past, all[i])
		delete(l.reported, all[i])
		all[i], l.sessions[i], l.turns[i] = r, of, by
	case !r.evicted:
		l.bad = true
	}
}

func (l *checkpointReader) live(r *row) {
	raw := slices.Clone(l.next(l.u())) // the parameters remain parts of it
	q, err := run.DecodeQueued(raw, l.f.scan.name)
	l.bad = l.bad || err != nil || q.ID == ""
	if l.bad {
		return
	}
	a := &Active{Spec: &q.Spec, FirstSeq: r.first, Attempt: q.Attempt, Key: q.Key, RecordVersion: q.RecordVersion}
	if claim := l.next(l.u()); len(claim) > 0 {
		c, err := l.f.scan.claim(claim)
		l.bad = l.bad || err != nil
		a.Claim = &c
	}
	for _, seq := range []*uint64{&a.QueuedSeq, &a.ClaimSeq, &a.UnverifiedSeq, &a.CarriedEndSeq} {
		*seq = uint64(l.opt(int64(r.first)))
	}
	a.Queue, a.Stopping, a.TreeStop, a.NotBefore = l.name(), l.byte() == 1, TreeStop{
		l.u(),
		l.name(),
	}, l.instant(
		r.created,
	)
	r.live = &live{snap: a}
	if told := l.firsts(r.first); len(told) > 0 {
		l.reported[r] = told
	}
}

func (l *checkpointReader) trailer() {
	l.f.seq = l.u()
	for n := l.u(); n > 0 && !l.bad; n-- {
		id := l.id()
		l.f.deleted[id] = l.u()
		if l.byte() == 1 {
			l.f.trees.parents[id] = l.id()
		}
	}
	for n := l.u(); n > 0 && !l.bad; n-- {
		id, seq := l.id(), l.u()
		l.f.callbacks.reserved[id] = reservation{seq: seq, session: l.text()}
		l.reserved[id] = l.firsts(seq)
	}
	for n := l.u(); n > 0 && !l.bad; n-- {
		id := l.id()
		l.f.trees.stopped[id] = tree{l.u(), l.id()}
	}
	for n := l.u(); n > 0 && !l.bad; n-- {
		l.f.callbacks.recent = append(l.f.callbacks.recent, report{l.u(), moment(l.i())})
	}
	for n := l.u(); n > 0 && !l.bad; n-- {
		l.f.late.all = append(l.f.late.all, LateRecord{l.u(), l.text(), l.u()})
	}
	for n := l.u(); n > 0 && !l.bad; n-- {
		p := stream.Fingerprint{Seq: l.u(), Time: l.i(), Sum: uint32(l.u())}
		l.f.fingerprints[l.f.fingerprinted%maxFingerprints] = p
		l.f.fingerprinted++
	}
}
