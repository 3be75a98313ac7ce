package journal

import "slices"

// drop takes an ended run out of the index.
func (f *fold) drop(r *row) {
	delete(f.runs, r.id)
	delete(f.hooks, r)
	r.gone = true
	f.goneRuns++
	f.ended--
}

func (f *fold) dropSession(s *session) {
	delete(f.sessions, s.id)
	delete(f.owing, s)
	s.runs = 0
	f.goneSess++
}

// compact takes what is gone out of the lists once that is half of them.
func (f *fold) compact() {
	if f.goneRuns > 64 && f.goneRuns > len(f.order)/2 {
		f.order = slices.Clip(slices.DeleteFunc(f.order, func(r *row) bool { return r.gone }))
		f.goneRuns = 0
	}
	if f.goneSess > 64 && f.goneSess > len(f.sorder)/2 {
		f.sorder = slices.Clip(slices.DeleteFunc(f.sorder, func(s *session) bool { return s.runs == 0 }))
		f.goneSess = 0
	}
}

// forget drops ended runs that who reads the stream from a sequence on would not know, and deletions before it.
func (f *fold) forget(before uint64) {
	for _, r := range f.order {
		if r.first >= before {
			break
		}
		if r.gone || r.live != nil || r.whole >= before {
			continue
		}
		s := r.session
		f.drop(r)
		s.runs--
		f.leave(s, r)
	}
	for p := range f.owing {
		f.clear(p)
	}
	for id, seq := range f.deleted {
		if seq < before {
			delete(f.deleted, id)
		}
	}
	f.compact()
}

// leave takes a dropped run out of its session, and the session away with its last run.
func (f *fold) leave(s *session, r *row) {
	if s.runs == 0 {
		f.dropSession(s)
		return
	}
	for s.firstRow != nil && s.firstRow.gone {
		s.firstRow = s.firstRow.next
	}
	for o := s.firstRow; o != nil; o = o.next {
		for o.next != nil && o.next.gone {
			o.next = o.next.next
		}
		s.last = o
	}
	if s.lastEnded == r {
		s.lastEnded = nil
		for o := s.firstRow; o != nil; o = o.next {
			if o.live == nil && (s.lastEnded == nil || o.end > s.lastEnded.end) {
				s.lastEnded = o
			}
		}
	}
}
