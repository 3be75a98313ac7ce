package state

import "math"

// Used is what the records of kept runs take of RUNS.
type Used struct {
	Bytes   int64
	Records int64 // of a caller or a tree: those beyond what each run needs
}

// usage is what all of them take, and those of each caller. What the runs of a session's tree take is kept with its
// sessions.
type usage struct {
	all     Used
	callers map[uint32]*Used
}

const (
	recordOverhead = 80 // what a message takes beside its subject and its body, about, in bytes
	neededRecords  = 4  // of a run; further attempts make more
)

// count counts a record of a run.
func (u *usage) count(r *Row, m Record) {
	size := len(m.Subject) + len(m.Body) + recordOverhead
	if r.Records == math.MaxUint16 || int64(r.Bytes)+int64(size) > math.MaxUint32 {
		return // no run has so many
	}
	r.Bytes += uint32(size)
	r.Records++
	one := Used{int64(size), 1}
	u.all.add(one, 1)
	if r.Records <= neededRecords {
		one.Records = 0
	}
	u.share(r, one, 1)
}

// used returns what a run counts for in a share.
func (r *Row) used() Used { return Used{int64(r.Bytes), max(0, int64(r.Records)-neededRecords)} }

// add adds a run; n is -1 to take it away.
func (u *usage) add(r *Row, n int64) {
	u.all.add(Used{int64(r.Bytes), int64(r.Records)}, n)
	u.share(r, r.used(), n)
}

// share adds to the shares that a run counts to.
func (u *usage) share(r *Row, more Used, n int64) {
	of := u.callers[r.Caller]
	if of == nil {
		of = &Used{}
		u.callers[r.Caller] = of
	}
	of.add(more, n)
	if *of == (Used{}) {
		delete(u.callers, r.Caller)
	}
	if r.session.tree != nil {
		r.session.tree.add(more, n)
	}
}

func (u *Used) add(more Used, n int64) {
	u.Bytes += n * more.Bytes
	u.Records += n * more.Records
}

// joinTree puts a session into its parent's tree. A parent that has none yet joins its own parent's first, up to depth
// times. A session without a parent and without children needs no tree.
func joinTree(t *tables, s *Session, depth int) {
	if s.Parent == "" || s.tree != nil {
		return
	}
	above := t.Session(s.Parent)
	if above == nil { // no longer kept
		s.enter(&Used{})
		return
	}
	if above.tree == nil && depth > 0 {
		joinTree(t, above, depth-1)
	}
	if above.tree == nil {
		above.enter(&Used{})
	}
	s.enter(above.tree)
}

// enter adds what a session has to its tree's.
func (s *Session) enter(tree *Used) {
	s.tree = tree
	for r := range s.Rows() {
		tree.add(r.used(), 1)
	}
}

// callerNumber returns the first half of a caller's hash. Two callers in four billion are one. Runs of older versions
// have none.
func callerNumber(caller string) uint32 {
	n, _ := number(caller)
	return uint32(n >> 32)
}

// UsedBy returns what the records of kept runs take: of all, of a caller's, and of those in a session's tree.
func UsedBy(f *State, caller, session string) (all, mine, tree Used) {
	if of := f.usage.callers[callerNumber(caller)]; of != nil {
		mine = *of
	}
	if s := f.Session(session); s != nil && s.tree != nil {
		tree = *s.tree
	}
	return f.usage.all, mine, tree
}
