package projection

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"
)

// join completes the state from the entries: links, counts, and the work that is due.
func (l *checkpointReader) join() error {
	for _, step := range []func() error{l.joinSessions, l.joinRows, l.joinChildren, l.wakeSessions} {
		if err := step(); err != nil {
			return err
		}
	}
	l.f.texts.sweep()
	l.f.compact()
	return nil
}

// at returns the row with this first record; nil if it is evicted.
func (l *checkpointReader) at(first uint64) *row {
	all := l.f.order
	i := sort.Search(len(all), func(i int) bool { return all[i].first >= first })
	if i == len(all) || all[i].first != first || all[i].evicted {
		return nil
	}
	return all[i]
}

// rowsAt returns the rows with these first records, without evicted ones.
func (l *checkpointReader) rowsAt(firsts []uint64) (all []*row) {
	for _, first := range firsts {
		if r := l.at(first); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// sessionAt returns the kept session with this first record.
func (l *checkpointReader) sessionAt(first uint64) *session {
	all := l.f.sorder
	i := sort.Search(len(all), func(i int) bool { return all[i].first >= first })
	if i == len(all) || all[i].first != first || l.f.sessions[all[i].id] != all[i] {
		return nil
	}
	return all[i]
}

// joinSessions indexes sessions by id.
func (l *checkpointReader) joinSessions() error {
	f := l.f
	for _, s := range f.sorder {
		if s.runs == 0 {
			f.evictedSessions++
			continue
		}
		s.runs = 0
		if f.sessions[s.id] != nil { // link counts them
			return errors.New("a session appears twice")
		}
		f.sessions[s.id] = s
		f.trees.children.add(s)
	}
	return nil
}

// joinRows indexes runs by id, links them to their sessions, and sets the turns that report them.
func (l *checkpointReader) joinRows() error {
	f := l.f
	for i, r := range f.order {
		if r.evicted {
			f.evictedRuns++
			continue
		}
		s := l.sessionAt(l.sessions[i])
		if s == nil || f.runs[r.id] != nil {
			return errors.New("a run appears twice, or without its session")
		}
		f.runs[r.id] = r
		link(f, r, s)
		f.texts.use(&r.text)
		f.texts.use(&r.failure)
		if of, is := l.repeats[r]; is {
			f.repeats.add(r, of.text(runPrefix))
		}
		if l.turns[i] != 0 {
			r.turn = l.at(l.turns[i])
		}
		if h := f.webhooks.of[r]; h != nil && r.webhook == webhookPending {
			f.webhooks.hosts.add(h)
		}
	}
	return nil
}

// joinChildren attaches children to callback turns and reservations, and puts every open run into its
// waitlist.
func (l *checkpointReader) joinChildren() error {
	f := l.f
	for r, told := range l.reported {
		r.live.children = append(r.live.children, l.rowsAt(told)...)
	}
	for id, firsts := range l.reserved {
		p := f.callbacks.reserved[id]
		p.children = append(p.children, l.rowsAt(firsts)...)
		f.callbacks.reserved[id] = p
	}
	f.waitlists.rebuild(f.head)
	return nil
}

// wakeSessions sets each session's last ended run and pending children, and notes what is due for it.
func (l *checkpointReader) wakeSessions() error {
	f := l.f
	for i, s := range f.sorder {
		if f.sessions[s.id] != s {
			continue
		}
		s.lastEnded = l.at(l.lastEnded[i])
		if !s.whole() {
			return errors.New("a session without its runs")
		}
		for _, child := range l.rowsAt(l.pending[s]) {
			if child.suppressed {
				f.trees.suppressing[s] = append(f.trees.suppressing[s], child)
				continue
			}
			s.pending = append(s.pending, child)
			f.pending[s] = true
		}
		f.trees.indexBelow(s)
		f.settle(s)
		f.callbacks.noteReady(s)
	}
	return nil
}

// whole reports whether a session has runs and its last ended run is an ended run of its own.
func (s *session) whole() bool {
	end := s.lastEnded
	if end == nil {
		return len(s.live) > 0
	}
	return s.runs > 0 && end.live == nil && end.session == s
}

// link appends a row to its session and, if open, to the list of open runs.
func link(f *reducer, r *row, s *session) {
	r.session = s
	if s.last == nil {
		s.firstRow = r
	} else {
		s.last.next = r
	}
	s.last = r
	s.runs++
	if r.live == nil {
		f.ended++
		return
	}
	s.live = append(s.live, r)
	if r.live.snap.TreeStop.Seq != 0 {
		f.trees.stopping[r] = true
	}
	if r.live.snap.UnverifiedSeq != 0 {
		f.results = append(f.results, r)
	}
	if r.live.snap.open() {
		s.open++
	}
	if r.live.snap.Claim != nil {
		f.claimed++
	} else {
		f.waiting++
	}
	r.live.prev = f.tail
	if f.tail == nil {
		f.head = r
	} else {
		f.tail.live.next = r
	}
	f.tail = r
}

// load builds the state from a checkpoint.
func load(raw []byte, identity string, key func(string, int) string) (*reducer, error) {
	d := &decoder{raw: raw}
	if string(d.next(uint64(len(snapshotMagic)))) != snapshotMagic {
		return nil, errDamaged
	}
	if v := d.u(); d.bad || v != snapshotVersion {
		return nil, fmt.Errorf("its version is %d, this program's is %d", v, snapshotVersion)
	}
	if len(raw) < d.at+4 ||
		crc32.Checksum(raw[:len(raw)-4], castagnoli) != binary.LittleEndian.Uint32(raw[len(raw)-4:]) {
		return nil, errDamaged
	}
	d.raw = raw[:len(raw)-4]
	if of := d.text(); of != identity {
		return nil, errors.New("it belongs to another stream")
	}
	f := newReducer(key)
	l := &checkpointReader{
		decoder:  d,
		f:        f,
		pending:  map[*session][]uint64{},
		reported: map[*row][]uint64{},
		reserved: map[ident][]uint64{},
		repeats:  map[*row]ident{},
	}
	for d.kind() {
		switch d.entry {
		case entrySession:
			l.session()
		case entryRow:
			l.row()
		case entryTexts:
			no := uint32(d.u())
			f.texts.put(no, bytes.Clone(d.next(d.u())))
		case entryTrailer:
			l.trailer()
		default:
			d.bad = true
		}
	}
	if d.bad || d.entry != entryTrailer || d.at != len(d.raw) {
		return nil, errDamaged
	}
	if err := l.join(); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	f.changes = changes{lost: f.seq} // earlier changes are unknown
	return f, nil
}
