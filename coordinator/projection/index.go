package projection

import (
	"cmp"
	"slices"
	"time"

	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Index answers what is known of one run or one session, by its id.
type Index struct{ p *Projection }

// Model is what the session's executor bound last; empty: nothing.
func (x *Index) ExecutorSessionID(session string) string {
	return read(x.p, func(f *fold) string {
		if s := f.sessions[identOf(sessionPrefix, session)]; s != nil {
			return s.bond().model
		}
		return ""
	})
}

// Home is where alone the session can go on: with the profile that has begun it and, where the executor has it there,
// on that host. Empty: anywhere.
func (x *Index) Affinity(session string) run.Demands {
	return read(x.p, func(f *fold) run.Demands {
		if s := f.sessions[identOf(sessionPrefix, session)]; s != nil {
			return run.Demands{Hostname: s.bond().host, ExecutorProfile: s.bond().profile}
		}
		return run.Demands{}
	})
}

// Owes names a run of the session whose parent is yet to be told of it; empty: there is none.
func (x *Index) UndeliveredRun(session string) string {
	return read(x.p, func(f *fold) string {
		if s := f.sessions[identOf(sessionPrefix, session)]; s != nil {
			for r := s.firstRow; r != nil; r = r.next {
				if f.debts.owesOf(r) {
					return r.runID()
				}
			}
		}
		return ""
	})
}

// Above tells whether a session is above another one, or is that: it would be told, in the end, by what it is told of.
func (x *Index) IsAncestor(session, parent string) bool {
	return read(x.p, func(f *fold) bool {
		for range 1000 {
			if parent == session {
				return true
			}
			s := f.sessions[identOf(sessionPrefix, parent)]
			if s == nil {
				return false
			}
			var mode string
			parent, mode = s.reply()
			if mode != run.AsyncCallback || parent == "" {
				return false
			}
		}
		return true // too long to be meant
	})
}

// LastBegun is the run of the session that a runner has begun last, beside the one given; empty: none is known. A
// worker knows by it whether the process that it keeps for the session did the turn before.
func (x *Index) LastClaimed(session, but string) string {
	return read(x.p, func(f *fold) string {
		s := f.sessions[identOf(sessionPrefix, session)]
		if s == nil {
			return ""
		}
		last := s.newestBegun(f.runs[identOf(runPrefix, but)])
		if last == nil {
			return ""
		}
		return last.runID()
	})
}

// Gone tells whether a session was deleted, and none of that id has begun since.
func (x *Index) IsDeleted(session string) bool {
	return read(x.p, func(f *fold) bool {
		id := identOf(sessionPrefix, session)
		return f.deleted[id] != 0 && f.sessions[id] == nil
	})
}

// Active is a run that has not ended.
func (x *Index) Active(id string) (Active, bool) {
	return read2(x.p, func(f *fold) (Active, bool) {
		r := f.runs[identOf(runPrefix, id)]
		if r == nil || r.live == nil {
			return Active{}, false
		}
		return *r.live.snap, true
	})
}

// Ended tells whether a run is known and has ended.
func (x *Index) Ended(id string) bool {
	return read(x.p, func(f *fold) bool {
		r := f.runs[identOf(runPrefix, id)]
		return r != nil && r.live == nil
	})
}

// Open are a session's runs that have not ended, in their order.
func (x *Index) Open(session string) []Active {
	return read(x.p, func(f *fold) []Active {
		s := f.sessions[identOf(sessionPrefix, session)]
		if s == nil {
			return nil
		}
		all := make([]Active, len(s.live))
		for i, r := range s.live {
			all[i] = *r.live.snap
		}
		return all
	})
}

// RunsOf are the ids of a session's runs, in their order.
func (x *Index) RunsOf(session string) []string {
	return read(x.p, func(f *fold) (ids []string) {
		if s := f.sessions[identOf(sessionPrefix, session)]; s != nil {
			for r := s.firstRow; r != nil; r = r.next {
				ids = append(ids, r.runID())
			}
		}
		return ids
	})
}

// Resumes tells whether a turn of the session would have anything to resume when it comes, as far as can be known:
// there is something, or a run of the session is queued or begun.
func (x *Index) CanResume(session string) bool {
	return read(x.p, func(f *fold) bool {
		s := f.sessions[identOf(sessionPrefix, session)]
		return s != nil && (s.open > 0 || s.resumes())
	})
}

// Vain tells whether a run's turn has come and there is nothing that it could resume: the runs before it ended before a
// runner began them. While history is read, or where those runs are not kept, nobody knows.
func (x *Index) CannotStart(id string) bool {
	return read(x.p, func(f *fold) bool {
		r := f.runs[identOf(runPrefix, id)]
		return x.p.live.Load() && r != nil && r.live != nil && r.live.snap.Spec.Type == run.Resume &&
			r.session.turn() == r && r.session.firstRow != r && !r.session.resumes()
	})
}

// Deleted tells whether a session of this id was deleted, and the deletion was honoured.
func (x *Index) WasDeleted(session string) bool {
	return read(x.p, func(f *fold) bool {
		return f.deleted[identOf(sessionPrefix, session)] != 0
	})
}

// Ahead is how many runs wait before this one in its lane, and since when it waits there; not ok: it is in none.
func (x *Index) Ahead(id string) (n int, since time.Time, ok bool) {
	x.p.reading(func(f *fold) {
		r := f.runs[identOf(runPrefix, id)]
		ok = r != nil && r.live != nil && r.live.in.lane != ""
		if !ok {
			return
		}
		for b := r.live.before; b != nil; b = b.live.before {
			n++
		}
		since = moment(r.live.since)
	})
	return n, since, ok
}

// IsPromised tells whether a run still is.
func (x *Index) IsReserved(id string) bool {
	return read(x.p, func(f *fold) bool {
		_, ok := f.debts.promised[identOf(runPrefix, id)]
		return ok
	})
}

// States are the pointers to kept conversations that sessions are bound to.
func (x *Index) StatePointers() map[string]bool {
	return read(x.p, func(f *fold) map[string]bool {
		all := map[string]bool{}
		for _, s := range f.sessions {
			if runnerapi.IsStatePointer(s.bond().model) {
				all[s.bond().model] = true
			}
		}
		return all
	})
}

// DeletedAt is the sequence of a session's deletion, 0 where there is none that was honoured.
func (x *Index) DeletedAt(session string) uint64 {
	return read(x.p, func(f *fold) uint64 {
		return f.deleted[identOf(sessionPrefix, session)]
	})
}

// Below counts the runs below a session that have not ended, and names the oldest, so many at most.
func (x *Index) Below(id string, most int) (n int, oldest []string) {
	return read2(x.p, func(f *fold) (n int, oldest []string) {
		s := f.sessions[identOf(sessionPrefix, id)]
		if s == nil {
			return 0, nil
		}
		var all []*row
		f.trees.descend(s, func(below *session) { all = append(all, below.live...) })
		slices.SortFunc(all, func(a, b *row) int { return cmp.Compare(a.first, b.first) })
		for _, r := range all[:min(len(all), most)] {
			oldest = append(oldest, r.runID())
		}
		return len(all), oldest
	})
}

// Root is the run of a session that was begun last, else its first; empty: there is no such session.
func (x *Index) Root(id string) string {
	return read(x.p, func(f *fold) string {
		if s := f.sessions[identOf(sessionPrefix, id)]; s != nil {
			return s.root().runID()
		}
		return ""
	})
}

// TreeStopped tells whether a session's tree is stopped, and the session has not gone on.
func (x *Index) TreeStopped(session string) bool {
	return read(x.p, func(f *fold) bool {
		_, stopped := f.trees.stopped[identOf(sessionPrefix, session)]
		return stopped
	})
}

// Covered tells whether a run that is accepted below a session is to be stopped at once.
func (x *Index) InStoppedTree(session string) bool {
	return read(x.p, func(f *fold) bool {
		return f.trees.covering(session).Seq != 0
	})
}

// HaltsBelow tells whether something below a session is yet to be stopped with its tree.
func (x *Index) StoppingBelow(session string) bool {
	return read(x.p, func(f *fold) bool {
		s := f.sessions[identOf(sessionPrefix, session)]
		return s != nil && f.trees.haltsBelow(s)
	})
}

// Totals counts what happened since the history was read.
func (p *Projection) Totals() Totals {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.totals
}
