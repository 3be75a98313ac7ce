package query

import (
	"iter"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/run"
)

// sessionBy returns a session as readers see it.
func sessionBy(p *projection.Projection, id string) (run.Session, bool) {
	return projection.Read2(p, func(f *state.State) (run.Session, bool) {
		if s := f.Session(id); s != nil {
			return viewOf(p, f, s), true
		}
		return run.Session{}, false
	})
}

// lookup returns the view of a run by id.
func lookup(p *projection.Projection, id string) (state.View, bool) {
	return projection.Read2(p, func(f *state.State) (state.View, bool) {
		if r := f.Run(id); r != nil {
			return state.ViewOf(f, r), true
		}
		return state.View{}, false
	})
}

// viewOf returns the session as readers see it. The caller holds the lock.
func viewOf(p *projection.Projection, f *state.State, s *state.Session) run.Session {
	v := state.SessionOf(f, s)
	v.Status = p.StatusOf(s)
	return v
}

func actives(all []*state.Active) iter.Seq[state.Active] {
	return func(yield func(state.Active) bool) {
		for _, a := range all {
			if !yield(*a) {
				return
			}
		}
	}
}
