package projection

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"

	"ao/nats/subject"
)

// drop removes an ended run from the index.
func (f *reducer) drop(r *row) {
	delete(f.runs, r.Ident)
	f.webhooks.remove(r)
	f.payloads.drop(r)
	f.usage.add(r, -1)
	delete(f.past, r)
	f.texts.drop(r.Text)
	f.texts.drop(r.Failure)
	delete(f.retryOf, r)
	r.Evicted = true
	f.dirty.add(r)
	f.evictedRuns++
	f.ended--
}

func (f *reducer) dropSession(s *session) {
	delete(f.sessions, s.Ident)
	delete(f.pending, s)
	delete(f.trees.suppressing, s)
	delete(f.trees.stopped, s.Ident)
	s.runs = 0
	f.trees.indexBelow(s)
	f.trees.children.drop(s)
	f.evictedSessions++
}

// compact removes evicted entries from the lists once they are half of them. A checkpoint in progress walks the lists,
// so it waits.
func (f *reducer) compact() {
	if f.dirty != nil {
		return
	}
	if f.evictedRuns > 64 && f.evictedRuns > len(f.order)/2 {
		f.order = slices.Clip(slices.DeleteFunc(f.order, func(r *row) bool { return r.Evicted }))
		f.evictedRuns = 0
	}
	if f.evictedSessions > 64 && f.evictedSessions > len(f.sorder)/2 {
		f.sorder = slices.Clip(slices.DeleteFunc(f.sorder, func(s *session) bool { return s.runs == 0 }))
		f.evictedSessions = 0
	}
}

// forget drops ended runs and deletions that a reader of the stream from before on would not know. Of the other runs it
// keeps what such a reader would have: a run queued later than accepted begins there. It returns the newest time of a
// dropped run, in nanoseconds.
func (f *reducer) forget(before uint64) (newest int64) {
	f.dirty = nil // positions change
	touched := map[*session]bool{}
	var later []*row
	n := 0
	for ; n < len(f.order) && f.order[n].First < before; n++ {
		r := f.order[n]
		if r.Evicted || r.live != nil {
			continue
		}
		touched[r.session] = true
		if r.Full >= before {
			later = append(later, r)
			continue
		}
		f.drop(r)
		r.session.runs--
		newest = max(newest, r.Created, r.Claimed, r.Ended)
	}
	for _, r := range later {
		r.First, r.ClaimedByRunner = r.Full, r.Claim != 0 && r.Runner != ""
		for _, p := range f.past[r] {
			if p.Queued >= before {
				r.First, r.ClaimedByRunner = min(r.First, p.Queued), r.ClaimedByRunner || p.ClaimedByRunner
			}
		}
	}
	resort(f.order, n, later, func(r *row) uint64 { return r.First })
	f.leave(touched, before)
	for p := range f.pending {
		f.callbacks.dropReported(p)
	}
	f.trees.forget(before)
	for id, seq := range f.deleted {
		if seq < before {
			delete(f.deleted, id)
			delete(f.trees.parents, id)
		}
	}
	f.late.all = slices.DeleteFunc(f.late.all, func(l LateRecord) bool { return l.Seq < before })
	f.ignored.forget(before)
	maps.DeleteFunc(f.callbacks.reserved, func(_ ident, p reservation) bool { return p.seq < before })
	f.compact()
	return newest
}

// leave removes dropped runs from their sessions, and sessions without runs. A session is described by its first run.
func (f *reducer) leave(touched map[*session]bool, before uint64) {
	n := sort.Search(len(f.sorder), func(i int) bool { return f.sorder[i].First >= before })
	var later []*session
	for s := range touched {
		if s.runs == 0 {
			f.dropSession(s)
			continue
		}
		var kept []*row
		for r := s.firstRow; r != nil; r = r.next {
			if !r.Evicted {
				kept = append(kept, r)
			}
		}
		slices.SortFunc(kept, func(a, b *row) int { return cmp.Compare(a.First, b.First) })
		s.lastEnded, s.Modified = nil, 0
		for i, r := range kept {
			r.next = nil
			if i > 0 {
				kept[i-1].next = r
			}
			if r.live == nil && (s.lastEnded == nil || r.End > s.lastEnded.End) {
				s.lastEnded = r
			}
			s.Modified = max(s.Modified, r.Created, r.Claimed, r.Ended)
		}
		s.firstRow, s.last = kept[0], kept[len(kept)-1]
		s.Agent, s.Dir = s.firstRow.Agent, s.firstRow.Dir
		f.trees.reparent(s, s.firstRow.Parent)
		if s.First != s.firstRow.First {
			later = append(later, s)
		}
	}
	for _, s := range later {
		s.First = s.firstRow.First
	}
	resort(f.sorder, n, later, func(s *session) uint64 { return s.First })
}

// resort moves those of the first n entries of a list whose place is later now to where they belong.
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
	for _, x := range later { // into the gap, which moves along
		for ; n < len(order) && place(order[n]) < place(x); n++ {
			order[rest] = order[n]
			rest++
		}
		order[rest] = x
		rest++
	}
}

// delete deletes a session, if none of its runs is open or has a pending callback and nothing below it is
// being stopped.
func (f *reducer) delete(ch *Change, rec subject.Record, m Record) (version int, err error) {
	version, parent, err := scanDeleted(m.Body)
	sid := identOf(sessionPrefix, strings.Clone(rec.Session))
	ch.SessionID = sid.text(sessionPrefix)
	s := f.sessions[sid]
	if s != nil && (len(s.live) > 0 || f.callbacks.hasPending(s) || f.trees.stoppingBelow(s)) {
		return version, err
	}
	f.deleted[sid] = ch.Seq
	if parent != "" {
		f.trees.parents[sid] = identOf(sessionPrefix, parent)
	}
	f.callbacks.cancelReservations(ch.SessionID)
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
