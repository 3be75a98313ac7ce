package projection

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"
)

// join makes of the entries what records make: who belongs to whom, the counts, and what is to be looked at.
func (l *loading) join() error {
	for _, step := range []func() error{l.joinSessions, l.joinRows, l.joinChildren, l.wakeSessions} {
		if err := step(); err != nil {
			return err
		}
	}
	l.f.texts.sweep()
	l.f.compact()
	return nil
}

// at is the row whose first record this is; nil where it is gone.
func (l *loading) at(first uint64) *row {
	all := l.f.order
	i := sort.Search(len(all), func(i int) bool { return all[i].first >= first })
	if i == len(all) || all[i].first != first || all[i].gone {
		return nil
	}
	return all[i]
}

// rowsAt are the rows of these first records that are not gone.
func (l *loading) rowsAt(firsts []uint64) (all []*row) {
	for _, first := range firsts {
		if r := l.at(first); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// sessionAt is the session that begins with this record, where it is one that is kept.
func (l *loading) sessionAt(first uint64) *session {
	all := l.f.sorder
	i := sort.Search(len(all), func(i int) bool { return all[i].first >= first })
	if i == len(all) || all[i].first != first || l.f.sessions[all[i].id] != all[i] {
		return nil
	}
	return all[i]
}

// joinSessions has each session found by its id.
func (l *loading) joinSessions() error {
	f := l.f
	for _, s := range f.sorder {
		if s.runs == 0 {
			f.goneSess++
			continue
		}
		s.runs = 0
		if f.sessions[s.id] != nil { // link counts them
			return errors.New("a session comes twice")
		}
		f.sessions[s.id] = s
		f.trees.children.add(s)
	}
	return nil
}

// joinRows has each run found by its id, puts it into its session, and names the parent's turn that tells of it.
func (l *loading) joinRows() error {
	f := l.f
	for i, r := range f.order {
		if r.gone {
			f.goneRuns++
			continue
		}
		s := l.sessionAt(l.sessions[i])
		if s == nil || f.runs[r.id] != nil {
			return errors.New("a run comes twice, or of no session")
		}
		f.runs[r.id] = r
		link(f, r, s)
		f.texts.use(&r.text)
		f.texts.use(&r.failure)
		if of, is := l.repeats[r]; is {
			f.repeats.add(r, of.text(runPrefix))
		}
		if l.turns[i] != 0 {
			r.by = l.at(l.turns[i])
		}
		if h := f.webhooks.of[r]; h != nil && r.hook == hookOwed {
			f.webhooks.hosts.add(h)
		}
	}
	return nil
}

// joinChildren gives callback turns, begun or promised, the runs that they tell of. Then every live run stands where it waits.
func (l *loading) joinChildren() error {
	f := l.f
	for r, told := range l.told {
		r.live.children = append(r.live.children, l.rowsAt(told)...)
	}
	for id, firsts := range l.promised {
		p := f.debts.promised[id]
		p.children = append(p.children, l.rowsAt(firsts)...)
		f.debts.promised[id] = p
	}
	f.lines.lineUp(f.head)
	return nil
}

// wakeSessions gives each session its last end and the children that it is owed, and notes what is to be done for it.
func (l *loading) wakeSessions() error {
	f := l.f
	for i, s := range f.sorder {
		if f.sessions[s.id] != s {
			continue
		}
		s.lastEnded = l.at(l.lastEnded[i])
		if !s.whole() {
			return errors.New("a session without its runs")
		}
		for _, child := range l.rowsAt(l.owed[s]) {
			if child.suppressed {
				f.trees.suppressing[s] = append(f.trees.suppressing[s], child)
				continue
			}
			s.owed = append(s.owed, child)
			f.owing[s] = true
		}
		f.trees.indexBelow(s)
		f.settle(s)
		f.debts.callable(s)
	}
	return nil
}

// whole tells whether a session has runs, and as its last end one of its own that has ended.
func (s *session) whole() bool {
	end := s.lastEnded
	if end == nil {
		return len(s.live) > 0
	}
	return s.runs > 0 && end.live == nil && end.session == s
}

// link puts a row behind those before it.
func link(f *fold, r *row, s *session) {
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
		f.trees.halting[r] = true
	}
	if r.live.snap.UnverifiedSeq != 0 {
		f.offers = append(f.offers, r)
	}
	if r.live.snap.open() {
		s.open++
	}
	if r.live.snap.Claim != nil {
		f.begun++
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

// load makes a fold of a snapshot.
func load(raw []byte, identity string, key func(string, int) string) (*fold, error) {
	d := &decoder{raw: raw}
	if string(d.next(uint64(len(snapshotMagic)))) != snapshotMagic {
		return nil, errDamaged
	}
	if v := d.u(); d.bad || v != snapshotVersion {
		return nil, fmt.Errorf("its version is %d, this program's %d", v, snapshotVersion)
	}
	if len(raw) < d.at+4 || crc32.Checksum(raw[:len(raw)-4], castagnoli) != binary.LittleEndian.Uint32(raw[len(raw)-4:]) {
		return nil, errDamaged
	}
	d.raw = raw[:len(raw)-4]
	if of := d.text(); of != identity {
		return nil, errors.New("it is of another stream")
	}
	f := newFold(key)
	l := &loading{decoder: d, f: f, owed: map[*session][]uint64{}, told: map[*row][]uint64{}, promised: map[ident][]uint64{}, repeats: map[*row]ident{}}
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
	f.changes = changes{lost: f.seq} // what changed before, nobody knows
	return f, nil
}
