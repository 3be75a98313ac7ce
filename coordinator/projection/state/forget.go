package state

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"

	"ao/coordinator/projection/scan"
	"ao/nats/subject"
)

// drop removes an ended run from the index.
func (f *State) drop(r *Row) {
	delete(f.runs, r.Ident)
	f.Webhooks.remove(r)
	f.payloads.drop(r)
	f.usage.add(r, -1)
	delete(f.past, r)
	f.Texts.Drop(r.Text)
	f.Texts.Drop(r.Failure)
	delete(f.retryOf, r)
	r.Evicted = true
	f.dirty.add(r)
	f.evictedRuns++
	f.ended--
}

func (f *State) dropSession(s *Session) {
	delete(f.sessions, s.Ident)
	delete(f.pending, s)
	delete(f.Trees.suppressing, s)
	delete(f.Trees.stopped, s.Ident)
	s.runs = 0
	f.Trees.indexBelow(s)
	f.Trees.Children.drop(s)
	f.evictedSessions++
}

// compact removes evicted entries from the lists once they are half of them. A checkpoint in progress walks the lists,
// so it waits.
func (f *State) compact() {
	if f.dirty != nil {
		return
	}
	if f.evictedRuns > 64 && f.evictedRuns > len(f.order)/2 {
		f.order = slices.Clip(slices.DeleteFunc(f.order, func(r *Row) bool { return r.Evicted }))
		f.evictedRuns = 0
	}
	if f.evictedSessions > 64 && f.evictedSessions > len(f.sorder)/2 {
		f.sorder = slices.Clip(slices.DeleteFunc(f.sorder, func(s *Session) bool { return s.runs == 0 }))
		f.evictedSessions = 0
	}
}

// Forget drops ended runs and deletions that a reader of the stream from before on would not know. Of the other runs it
// keeps what such a reader would have: a run queued later than accepted begins there. It returns the newest time of a
// dropped run, in nanoseconds.
func (f *State) Forget(before uint64) (newest int64) {
	f.dirty = nil // positions change
	touched := map[*Session]bool{}
	var later []*Row
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
	resort(f.order, n, later, func(r *Row) uint64 { return r.First })
	f.leave(touched, before)
	for p := range f.pending {
		f.Callbacks.dropReported(p)
	}
	f.Trees.forget(before)
	for id, seq := range f.deleted {
		if seq < before {
			delete(f.deleted, id)
			delete(f.Trees.parents, id)
		}
	}
	f.Late.all = slices.DeleteFunc(f.Late.all, func(l LateRecord) bool { return l.Seq < before })
	f.Ignored.Forget(before)
	maps.DeleteFunc(f.Callbacks.reserved, func(_ Ident, p reservation) bool { return p.seq < before })
	f.compact()
	return newest
}

// leave removes dropped runs from their sessions, and sessions without runs. A session is described by its first run.
func (f *State) leave(touched map[*Session]bool, before uint64) {
	n := sort.Search(len(f.sorder), func(i int) bool { return f.sorder[i].First >= before })
	var later []*Session
	for s := range touched {
		if s.runs == 0 {
			f.dropSession(s)
			continue
		}
		var kept []*Row
		for r := s.firstRow; r != nil; r = r.next {
			if !r.Evicted {
				kept = append(kept, r)
			}
		}
		slices.SortFunc(kept, func(a, b *Row) int { return cmp.Compare(a.First, b.First) })
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
		f.Trees.reparent(s, s.firstRow.Parent)
		if s.First != s.firstRow.First {
			later = append(later, s)
		}
	}
	for _, s := range later {
		s.First = s.firstRow.First
	}
	resort(f.sorder, n, later, func(s *Session) uint64 { return s.First })
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
func (f *State) delete(ch *Change, rec subject.Record, m Record) (version int, err error) {
	version, parent, err := scan.Deleted(m.Body)
	sid := IdentOf(SessionPrefix, strings.Clone(rec.Session))
	ch.SessionID = sid.Text(SessionPrefix)
	s := f.sessions[sid]
	if s != nil && (len(s.live) > 0 || f.Callbacks.hasPending(s) || f.Trees.StoppingBelow(s)) {
		return version, err
	}
	f.deleted[sid] = ch.Seq
	if parent != "" {
		f.Trees.parents[sid] = IdentOf(SessionPrefix, parent)
	}
	f.Callbacks.cancelReservations(ch.SessionID)
	ch.Applied = true
	if s == nil {
		return version, err
	}
	for r := s.firstRow; r != nil; r = r.next {
		f.drop(r)
		f.Changes.add(ch.Seq, r)
	}
	f.dropSession(s)
	f.compact()
	return version, err
}
