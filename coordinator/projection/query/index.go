package query

import (
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/run"
)

// Index looks up one run or one session by its id.
type Index struct{ p *projection.Projection }

// ExecutorSessionID returns what the session's executor bound last; empty: nothing.
func (x *Index) ExecutorSessionID(session string) string {
	return projection.Read(x.p, func(f *state.State) string { return f.Session(session).Binding().Model })
}

// Affinity returns where the session must continue: with the profile that bound it and, if the executor keeps it on one
// host, on that host. Zero: anywhere.
func (x *Index) Affinity(session string) run.Demands {
	return projection.Read(x.p, func(f *state.State) run.Demands {
		b := f.Session(session).Binding()
		return run.Demands{Hostname: b.Host, ExecutorProfile: b.Profile}
	})
}

// UndeliveredRun returns a run of the session whose callback is pending; empty: none.
func (x *Index) UndeliveredRun(session string) string {
	return projection.Read(x.p, func(f *state.State) string {
		for r := range f.Session(session).Rows() {
			if f.Callbacks.IsPending(r) {
				return r.ID()
			}
		}
		return ""
	})
}

// IsAncestor reports whether session is parent or above it in the chain of callbacks.
func (x *Index) IsAncestor(session, parent string) bool {
	return projection.Read(x.p, func(f *state.State) bool {
		for range 1000 {
			if parent == session {
				return true
			}
			s := f.Session(parent)
			if s == nil {
				return false
			}
			var mode string
			parent, mode = s.Reply()
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
	return projection.Read(x.p, func(f *state.State) string {
		return f.Session(session).NewestClaimed(f.Run(but)).ID()
	})
}

// IsDeleted reports whether a session was deleted, and none with that id has begun since.
func (x *Index) IsDeleted(session string) bool {
	return projection.Read(x.p, func(f *state.State) bool {
		return state.DeletedAt(f, session) != 0 && f.Session(session) == nil
	})
}

// Active returns a run that has not ended.
func (x *Index) Active(id string) (state.Active, bool) {
	return projection.Read2(x.p, func(f *state.State) (state.Active, bool) {
		r := f.Run(id)
		if r == nil || r.Active() == nil {
			return state.Active{}, false
		}
		return *r.Active(), true
	})
}

// Ended reports whether a run is known and has ended.
func (x *Index) Ended(id string) bool {
	return projection.Read(x.p, func(f *state.State) bool {
		r := f.Run(id)
		return r != nil && r.Active() == nil
	})
}

// Open returns a session's runs that have not ended, in order.
func (x *Index) Open(session string) []state.Active {
	return projection.Read(x.p, func(f *state.State) []state.Active {
		s := f.Session(session)
		if s == nil {
			return nil
		}
		all := make([]state.Active, len(s.OpenRuns()))
		for i, r := range s.OpenRuns() {
			all[i] = *r.Active()
		}
		return all
	})
}

// RunsOf returns the ids of a session's runs, in order.
func (x *Index) RunsOf(session string) []string {
	return projection.Read(x.p, func(f *state.State) (ids []string) {
		for r := range f.Session(session).Rows() {
			ids = append(ids, r.ID())
		}
		return ids
	})
}

// CanResume reports whether a turn of the session may have something to resume: there is something now, or a run is
// queued or claimed.
func (x *Index) CanResume(session string) bool {
	return projection.Read(x.p, func(f *state.State) bool { return f.Session(session).CanResume() })
}

// CannotStart reports whether a run's turn has come with nothing to resume: the runs before it ended unclaimed. It is
// false while history is read, or if those runs are not kept.
func (x *Index) CannotStart(id string) bool {
	return projection.Read(x.p, func(f *state.State) bool { return x.p.Live.Load() && f.Run(id).CannotStart() })
}

// WasDeleted reports whether a session with this id was ever deleted.
func (x *Index) WasDeleted(session string) bool {
	return projection.Read(x.p, func(f *state.State) bool { return state.DeletedAt(f, session) != 0 })
}

// Truncated reports whether runs were removed for their age, as far as this process knows.
func (x *Index) Truncated() bool {
	return projection.Read(x.p, func(*state.State) bool { begins, _ := x.p.Truncation(); return begins > 1 })
}

// Ahead returns how many runs wait before this one in its queue, and since when it waits; not ok: it is in none.
func (x *Index) Ahead(id string) (n int, since time.Time, ok bool) {
	x.p.Reading(func(f *state.State) { n, since, ok = f.Run(id).Ahead() })
	return n, since, ok
}

// IsReserved reports whether another record carries the run, and it has none of its own yet.
func (x *Index) IsReserved(id string) bool {
	return projection.Read(x.p, func(f *state.State) bool {
		return f.Callbacks.IsReserved(id)
	})
}

// StatePointers returns the kept conversation states that sessions are bound to.
func (x *Index) StatePointers() map[string]bool {
	return projection.Read(x.p, state.StatePointers)
}

// DeletedAt returns the sequence of a session's deletion, 0 if there is none.
func (x *Index) DeletedAt(session string) uint64 {
	return projection.Read(x.p, func(f *state.State) uint64 { return state.DeletedAt(f, session) })
}

// Root returns the session's newest claimed run, else its first; empty: there is no such session.
func (x *Index) Root(id string) string {
	return projection.Read(x.p, func(f *state.State) string { return f.Session(id).Root().ID() })
}

// TreeStopped reports whether a session's tree is stopped, and the session has not continued.
func (x *Index) TreeStopped(session string) bool {
	return projection.Read(x.p, func(f *state.State) bool { return state.TreeStopped(f, session) })
}

// InStoppedTree reports whether a run accepted below a session is to be stopped at once.
func (x *Index) InStoppedTree(session string) bool {
	return projection.Read(x.p, func(f *state.State) bool { return f.Trees.StopAbove(session).Seq != 0 })
}

// StoppingBelow reports whether something below a session is still to be stopped with its tree.
func (x *Index) StoppingBelow(session string) bool {
	return projection.Read(x.p, func(f *state.State) bool {
		s := f.Session(session)
		return s != nil && f.Trees.StoppingBelow(s)
	})
}

// Top returns the session at the top of a session's tree.
func (x *Index) Top(session string) string {
	return projection.Read(x.p, func(f *state.State) string { return f.Trees.Top(session) })
}
