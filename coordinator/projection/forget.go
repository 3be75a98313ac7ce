package projection

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"ao/nats/subject"
)

// drop takes an ended run out of the index.
func (f *fold) drop(r *row) {
	delete(f.runs, r.id)
	f.webhooks.release(r)
	delete(f.past, r)
	f.texts.drop(r.text)
	f.texts.drop(r.failure)
	f.repeats.drop(r)
	r.gone = true
	f.pass.touch(r)
	f.goneRuns++
	f.ended--
}

func (f *fold) dropSession(s *session) {
	delete(f.sessions, s.id)
	delete(f.owing, s)
	delete(f.trees.suppressing, s)
	delete(f.trees.stopped, s.id)
	s.runs = 0
	f.trees.indexBelow(s)
	f.trees.children.drop(s)
	f.goneSess++
}

// compact takes what is gone out of the lists once that is half of them. Who writes a snapshot goes along them.
func (f *fold) compact() {
	if f.pass != nil {
		return
	}
	if f.goneRuns > 64 && f.goneRuns > len(f.order)/2 {
		f.order = slices.Clip(slices.DeleteFunc(f.order, func(r *row) bool { return r.gone }))
		f.goneRuns = 0
	}
	if f.goneSess > 64 && f.goneSess > len(f.sorder)/2 {
		f.sorder = slices.Clip(slices.DeleteFunc(f.sorder, func(s *session) bool { return s.runs == 0 }))
		f.goneSess = 0
	}
}

// forget drops ended runs that who reads the stream from a sequence on would not know, and deletions before it. Of the
// others it has from then on what such a reader would have: a run that was queued later than it was accepted begins
// there. It gives the newest moment of a dropped run, in nanoseconds.
func (f *fold) forget(before uint64) (newest int64) {
	f.pass = nil // places change
	touched := map[*session]bool{}
	var later []*row
	n := 0
	for ; n < len(f.order) && f.order[n].first < before; n++ {
		r := f.order[n]
		if r.gone || r.live != nil {
			continue
		}
		touched[r.session] = true
		if r.whole >= before {
			later = append(later, r)
			continue
		}
		f.drop(r)
		r.session.runs--
		newest = max(newest, r.created, r.claimed, r.ended)
	}
	for _, r := range later {
		r.first, r.begun = r.whole, r.claim != 0 && r.runner != ""
		for _, p := range f.past[r] {
			if p.queued >= before {
				r.first, r.begun = min(r.first, p.queued), r.begun || p.begun
			}
		}
	}
	resort(f.order, n, later, func(r *row) uint64 { return r.first })
	f.leave(touched, before)
	for p := range f.owing {
		f.debts.clear(p)
	}
	f.trees.forget(before)
	for id, seq := range f.deleted {
		if seq < before {
			delete(f.deleted, id)
			delete(f.trees.parents, id)
		}
	}
	f.late.all = slices.DeleteFunc(f.late.all, func(l LateRecord) bool { return l.Seq < before })
	for id, p := range f.debts.promised {
		if p.seq < before {
			delete(f.debts.promised, id)
		}
	}
	f.compact()
	return newest
}

// leave takes dropped runs out of their sessions, and a session away with its last run. A session is what its first run
// says.
func (f *fold) leave(touched map[*session]bool, before uint64) {
	n := sort.Search(len(f.sorder), func(i int) bool { return f.sorder[i].first >= before })
	var later []*session
	for s := range touched {
		if s.runs == 0 {
			f.dropSession(s)
			continue
		}
		var kept []*row
		for r := s.firstRow; r != nil; r = r.next {
			if !r.gone {
				kept = append(kept, r)
			}
		}
		slices.SortFunc(kept, func(a, b *row) int { return cmp.Compare(a.first, b.first) })
		s.lastEnded, s.modified = nil, 0
		for i, r := range kept {
			r.next = nil
			if i > 0 {
				kept[i-1].next = r
			}
			if r.live == nil && (s.lastEnded == nil || r.end > s.lastEnded.end) {
				s.lastEnded = r
			}
			s.modified = max(s.modified, r.created, r.claimed, r.ended)
		}
		s.firstRow, s.last = kept[0], kept[len(kept)-1]
		s.agent, s.dir = s.firstRow.agent, s.firstRow.dir
		f.trees.reparent(s, s.firstRow.parent)
		if s.first != s.firstRow.first {
			later = append(later, s)
		}
	}
	for _, s := range later {
		s.first = s.firstRow.first
	}
	resort(f.sorder, n, later, func(s *session) uint64 { return s.first })
}

// resort puts those of the first n of a list whose place is later now where they belong.
func resort[T comparable](order []T, n int, later []T, place func(T) uint64) {
	if len(later) == 0 {
		return
	}
	moved := map[T]bool{}
	for _, x := range later {
		moved[x] = true
	}
	slices.SortFunc(later, func(a, b T) int { return cmp.Compare(place(a), place(b)) })
	rest := 0
	for _, x := range order[:n] {
		if !moved[x] {
			order[rest] = x
			rest++
		}
	}
	for _, x := range later { // into the gap, which moves with it
		for ; n < len(order) && place(order[n]) < place(x); n++ {
			order[rest] = order[n]
			rest++
		}
		order[rest] = x
		rest++
	}
}

// delete is the end of a session: honoured only if nothing of it runs or waits at this place in the stream, and nothing
// below it is yet to be stopped with its tree.
func (f *fold) delete(ch *Change, rec subject.Record, m Record) (version int, err error) {
	version, parent, err := scanDeleted(m.Body)
	sid := identOf(sessionPrefix, strings.Clone(rec.Session))
	ch.SessionID = sid.text(sessionPrefix)
	s := f.sessions[sid]
	if s != nil && (len(s.live) > 0 || f.debts.owes(s) || f.trees.haltsBelow(s)) {
		return version, err
	}
	f.deleted[sid] = ch.Seq
	if parent != "" {
		f.trees.parents[sid] = identOf(sessionPrefix, parent)
	}
	f.debts.breakPromises(ch.SessionID)
	ch.Applied = true
	if s == nil {
		return version, err
	}
	for r := s.firstRow; r != nil; r = r.next {
		f.drop(r)
		f.changes.add(ch.Seq, r)
	}
	f.dropSession(s)
	f.compact()
	return version, err
}
