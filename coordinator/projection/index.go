package projection

import (
	"time"

	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Index looks up one run or one session by its id.
type Index struct{ p *Projection }

// ExecutorSessionID returns what the session's executor bound last; empty: nothing.
func (x *Index) ExecutorSessionID(session string) string {
	return read(x.p, func(f *reducer) string { return f.session(session).binding().Model })
}

// Affinity returns where the session must continue: with the profile that bound it and, if the executor keeps it on one
// host, on that host. Zero: anywhere.
func (x *Index) Affinity(session string) run.Demands {
	return read(x.p, func(f *reducer) run.Demands {
		b := f.session(session).binding()
		return run.Demands{Hostname: b.Host, ExecutorProfile: b.Profile}
	})
}

// UndeliveredRun returns a run of the session whose callback is pending; empty: none.
func (x *Index) UndeliveredRun(session string) string {
	return read(x.p, func(f *reducer) string {
		for r := range f.session(session).rows() {
			if f.callbacks.isPending(r) {
				return r.runID()
			}
		}
		return ""
	})
}

// IsAncestor reports whether session is parent or above it in the chain of callbacks.
func (x *Index) IsAncestor(session, parent string) bool {
	return read(x.p, func(f *reducer) bool {
		for range 1000 {
			if parent == session {
				return true
			}
			s := f.session(parent)
			if s == nil {
				return false
			}
			var mode string
			parent, mode = s.reply()
			if mode != run.AsyncCallback || parent == "" {
				return false
			}
		}
		return true // too long to be intended
	})
}

// LastClaimed returns the session's newest claimed run, except but; empty: none is known. A worker compares it with the
// process it keeps for the session.
func (x *Index) LastClaimed(session, but string) string {
	return read(x.p, func(f *reducer) string { return f.session(session).newestClaimed(f.run(but)).runID() })
}

// IsDeleted reports whether a session was deleted, and none with that id has begun since.
func (x *Index) IsDeleted(session string) bool {
	return read(x.p, func(f *reducer) bool {
		id := identOf(sessionPrefix, session)
		return f.deleted[id] != 0 && f.sessions[id] == nil
	})
}

// Active returns a run that has not ended.
func (x *Index) Active(id string) (Active, bool) {
	return read2(x.p, func(f *reducer) (Active, bool) {
		r := f.run(id)
		if r == nil || r.live == nil {
			return Active{}, false
		}
		return *r.live.snap, true
	})
}

// Ended reports whether a run is known and has ended.
func (x *Index) Ended(id string) bool {
	return read(x.p, func(f *reducer) bool {
		r := f.run(id)
		return r != nil && r.live == nil
	})
}

// Open returns a session's runs that have not ended, in order.
func (x *Index) Open(session string) []Active {
	return read(x.p, func(f *reducer) []Active {
		s := f.session(session)
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

// RunsOf returns the ids of a session's runs, in order.
func (x *Index) RunsOf(session string) []string {
	return read(x.p, func(f *reducer) (ids []string) {
		for r := range f.session(session).rows() {
			ids = append(ids, r.runID())
		}
		return ids
	})
}

// CanResume reports whether a turn of the session may have something to resume: there is something now, or a run is
// queued or claimed.
func (x *Index) CanResume(session string) bool {
	return read(x.p, func(f *reducer) bool {
		s := f.session(session)
		return s != nil && (s.open > 0 || s.resumes())
	})
}

// CannotStart reports whether a run's turn has come with nothing to resume: the runs before it ended unclaimed. It is
// false while history is read, or if those runs are not kept.
func (x *Index) CannotStart(id string) bool {
	return read(x.p, func(f *reducer) bool {
		r := f.run(id)
		return x.p.live.Load() && r != nil && r.live != nil && r.live.snap.Spec.Type == run.Resume &&
			r.session.turn() == r && r.session.firstRow != r && !r.session.resumes()
	})
}

// WasDeleted reports whether a session with this id was ever deleted.
func (x *Index) WasDeleted(session string) bool {
	return read(x.p, func(f *reducer) bool { return f.deleted[identOf(sessionPrefix, session)] != 0 })
}

// Truncated reports whether runs were removed for their age, as far as this process knows.
func (x *Index) Truncated() bool {
	return read(x.p, func(*reducer) bool { return x.p.begins > 1 })
}

// Ahead returns how many runs wait before this one in its queue, and since when it waits; not ok: it is in none.
func (x *Index) Ahead(id string) (n int, since time.Time, ok bool) {
	x.p.reading(func(f *reducer) {
		r := f.run(id)
		ok = r != nil && r.live != nil && r.live.in.queue != ""
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

// IsReserved reports whether another record carries the run, and it has none of its own yet.
func (x *Index) IsReserved(id string) bool {
	return read(x.p, func(f *reducer) bool {
		_, ok := f.callbacks.reserved[identOf(runPrefix, id)]
		return ok
	})
}

// StatePointers returns the kept conversation states that sessions are bound to.
func (x *Index) StatePointers() map[string]bool {
	return read(x.p, func(f *reducer) map[string]bool {
		all := map[string]bool{}
		for _, s := range f.sessions {
			if runnerapi.IsStatePointer(s.binding().Model) {
				all[s.binding().Model] = true
			}
		}
		return all
	})
}

// DeletedAt returns the sequence of a session's deletion, 0 if there is none.
func (x *Index) DeletedAt(session string) uint64 {
	return read(x.p, func(f *reducer) uint64 { return f.deleted[identOf(sessionPrefix, session)] })
}

// Root returns the session's newest claimed run, else its first; empty: there is no such session.
func (x *Index) Root(id string) string {
	return read(x.p, func(f *reducer) string { return f.session(id).root().runID() })
}

// TreeStopped reports whether a session's tree is stopped, and the session has not continued.
func (x *Index) TreeStopped(session string) bool {
	return read(x.p, func(f *reducer) bool {
		_, stopped := f.trees.stopped[identOf(sessionPrefix, session)]
		return stopped
	})
}

// InStoppedTree reports whether a run accepted below a session is to be stopped at once.
func (x *Index) InStoppedTree(session string) bool {
	return read(x.p, func(f *reducer) bool { return f.trees.stopAbove(session).Seq != 0 })
}

// StoppingBelow reports whether something below a session is still to be stopped with its tree.
func (x *Index) StoppingBelow(session string) bool {
	return read(x.p, func(f *reducer) bool {
		s := f.session(session)
		return s != nil && f.trees.stoppingBelow(s)
	})
}

// Totals counts what happened since the history was loaded.
func (p *Projection) Totals() Totals { return read(p, func(*reducer) Totals { return p.totals }) }
