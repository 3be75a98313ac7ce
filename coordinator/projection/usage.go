package projection

import "math"

// Used is how much of RUNS the records of kept runs take.
type Used struct{ Bytes, Records int64 }

// usage is what all of them take, and those of each caller. What the runs of a session's tree take is kept with its
// sessions.
type usage struct {
	all     Used
	callers map[uint32]*Used
}

// recordOverhead is about what a message takes beside its subject and its body, in bytes.
const recordOverhead = 80

// count counts a record of a run.
func (u *usage) count(r *row, m Record) {
	size := len(m.Subject) + len(m.Body) + recordOverhead
	if r.Records == math.MaxUint16 || int64(r.Bytes)+int64(size) > math.MaxUint32 {
		return // no run has so many
	}
	r.Bytes += uint32(size)
	r.Records++
	u.add(r, Used{int64(size), 1})
}

// drop forgets a run.
func (u *usage) drop(r *row) { u.add(r, Used{-int64(r.Bytes), -int64(r.Records)}) }

// add adds to all that a run counts to.
func (u *usage) add(r *row, more Used) {
	of := u.callers[r.Caller]
	if of == nil {
		of = &Used{}
		u.callers[r.Caller] = of
	}
	of.add(more)
	if *of == (Used{}) {
		delete(u.callers, r.Caller)
	}
	u.all.add(more)
	if r.session.tree != nil {
		r.session.tree.add(more)
	}
}

func (u *Used) add(more Used) {
	u.Bytes += more.Bytes
	u.Records += more.Records
}

// joinTree puts a new session into its parent's tree. A session without a parent and without children needs none.
func joinTree(t *tables, s *session) {
	if s.Parent == "" {
		return
	}
	above := t.session(s.Parent)
	switch {
	case above == nil: // no longer kept
		s.tree = &Used{}
	case above.tree == nil:
		above.tree = &Used{}
		for r := range above.rows() {
			above.tree.add(Used{int64(r.Bytes), int64(r.Records)})
		}
		fallthrough
	default:
		s.tree = above.tree
	}
}

// Used returns how much of RUNS the records of kept runs take. all is of all runs, mine of a caller's, and tree of
// those in a session's tree.
func (x *ActiveRuns) Used(caller, session string) (all, mine, tree Used) {
	x.p.reading(func(f *reducer) {
		all = f.usage.all
		if of := f.usage.callers[callerNumber(caller)]; of != nil {
			mine = *of
		}
		if s := f.session(session); s != nil && s.tree != nil {
			tree = *s.tree
		}
	})
	return all, mine, tree
}

// callerNumber returns the first half of a caller's hash. Two callers in four billion are one. Runs of older versions
// have none.
func callerNumber(caller string) uint32 {
	n, _ := number(caller)
	return uint32(n >> 32)
}
