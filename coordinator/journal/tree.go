package journal

import (
	"encoding/json"
	"slices"

	"ao/nats/subject"
	"ao/shared/run"
)

// A session's tree is the sessions below it: those that name it as their parent, and those below these. A record of TreeKind stops a
// tree at its place in the stream (decision 0036):
//
//   - what has not ended there is to be stopped;
//   - what is accepted later below the session is, too, until a runner begins a run of it that was not to be stopped;
//   - what is accepted below a session whose own run is yet to be stopped so is, too, however late;
//   - of what is stopped so, and of what had ended and was not told yet, no parent inside the tree is told.

// Halt is why a run is to be stopped: it belongs to a tree that was stopped.
type Halt struct {
	Seq     uint64 // of the record that says so; 0: there is none
	Session string // whose tree it is
}

// tree is a session whose tree is stopped.
type tree struct {
	seq  uint64
	root ident // the run that was the session's newest begun one then
}

// generations is how many sessions a look upwards passes at most: truncation can make a circle of parents.
const generations = 1000

// root is the run of a session that was begun last; where none was, the first.
func (s *session) root() *row {
	root := s.firstRow
	for r := s.firstRow; r != nil; r = r.next {
		if r.begun {
			root = r
		}
	}
	return root
}

// stop is the wish to stop a run.
func (f *fold) stop(ch *Change, rec subject.Record) {
	r := f.runs[identOf(runPrefix, rec.Run)]
	if r == nil || r.live == nil || r.live.snap.Stopping {
		return
	}
	ch.before(r)
	f.change(r).Stopping = true
	f.move(r, run.MoveStopping)
	ch.Moved = true
	ch.after(r)
}

// stopTree is the wish to stop a tree.
func (f *fold) stopTree(ch *Change, rec subject.Record, m Record) (int, error) {
	var t run.TreeStop
	if err := json.Unmarshal(m.Body, &t); err != nil || t.V > f.version {
		return t.V, err
	}
	s := f.sessions[identOf(sessionPrefix, rec.Session)]
	if s == nil || s.root().runID() != rec.Run {
		return t.V, nil
	}
	if _, stopped := f.trees[s.id]; stopped {
		return t.V, nil
	}
	h := Halt{m.Seq, s.sessionID()}
	for _, r := range s.live {
		if t.RunID == "" || r.runID() == t.RunID {
			f.halt(r, h)
		}
	}
	f.suppress(s)
	f.descend(s, func(below *session) {
		for _, r := range below.live {
			r.suppressed = r.suppressed || f.inside(r, s)
			f.halt(r, h)
		}
		f.suppress(below)
	})
	f.trees[s.id] = tree{m.Seq, s.root().id}
	ch.Moved, ch.SessionID = true, h.Session
	return t.V, nil
}

// inside tells whether who is to be told of a run of a session below root is root, or below it, too: who is not may have asked for a
// turn of that session.
func (f *fold) inside(r *row, root *session) (in bool) {
	if r.parent == r.session.parent {
		return true
	}
	f.ancestors(r.parent, func(s *session) bool {
		in = s == root
		return in
	})
	return in
}

// halt notes that a run that has not ended is to be stopped with its tree.
func (f *fold) halt(r *row, h Halt) {
	a := f.change(r)
	if a.Halt.Seq == 0 {
		a.Halt = h
	}
	if !a.Stopping {
		a.Stopping = true
		f.move(r, run.MoveStopping)
	}
	f.halting[r] = true
	f.halted = true
	f.touch(r)
}

// suppress takes what a session is owed out of its debts: those callbacks are suppressed.
func (f *fold) suppress(s *session) {
	if len(s.owed) == 0 {
		return
	}
	for _, r := range s.owed {
		r.suppressed = true
		f.touch(r)
	}
	f.suppressing[s] = append(f.suppressing[s], s.owed...)
	s.owed = nil
	delete(f.owing, s)
	f.halted = true
	f.touchSession(s)
	f.indexBelow(s)
}

// descend calls visit with the sessions below one that matter: they have runs that have not ended or children to be told of, or some
// below them have. It costs what these are.
func (f *fold) descend(s *session, visit func(*session)) {
	seen := map[*session]bool{s: true}
	for next := []*session{s}; len(next) > 0; {
		var more []*session
		for _, above := range next {
			for below := range f.below[above.id] {
				if !seen[below] {
					seen[below] = true
					more = append(more, below)
				}
			}
		}
		for _, below := range more {
			visit(below)
		}
		next = more
	}
}

// ancestors calls visit with a session and those above it, until visit says that it has seen enough.
func (f *fold) ancestors(id string, visit func(*session) (enough bool)) {
	for range generations {
		s := f.sessions[identOf(sessionPrefix, id)]
		if id == "" || s == nil || visit(s) {
			return
		}
		id = s.parent
	}
}

// covering is why whatever is accepted below a session is to be stopped; Seq 0: it is not.
func (f *fold) covering(id string) (h Halt) {
	if len(f.trees) == 0 && len(f.halting) == 0 {
		return h
	}
	f.ancestors(id, func(s *session) bool {
		if t, ok := f.trees[s.id]; ok {
			h = Halt{t.seq, s.sessionID()}
		} else if len(s.live) > 0 { // those to be stopped precede the others
			h = s.live[0].live.snap.Halt
		}
		return h.Seq != 0
	})
	return h
}

// born looks whether a new run is below a tree that is stopped, or tells its session of what nobody is to be told of.
func (f *fold) born(r *row) {
	if h := f.covering(r.session.parent); h.Seq != 0 {
		r.suppressed = r.parent == r.session.parent || f.covering(r.parent).Seq != 0
		f.halt(r, h)
		return
	}
	if r.live.snap.Spec.Tells != nil || len(r.live.children) > 0 {
		f.haltTurn(r)
	}
}

// reopen is a session that goes on: a runner has begun a run of it that was not to be stopped then, or came later.
func (f *fold) reopen(r *row) {
	t, stopped := f.trees[r.session.id]
	if a := r.live.snap; stopped && (!a.Stopping || r.first > t.seq && a.Halt.Seq != t.seq) {
		delete(f.trees, r.session.id)
	}
}

// suppresses tells whether a parent is not to be told of a run that ended, since one of the two was stopped with its tree.
func (f *fold) suppresses(r *row, parent *session) bool {
	if !r.suppressed && f.covering(parent.sessionID()).Seq != 0 {
		r.suppressed = true
		f.touch(r)
	}
	return r.suppressed
}

// haltTurn stops a callback turn inside a stopped tree: who wrote it had not read the stop yet.
func (f *fold) haltTurn(turn *row) {
	if turn == nil || turn.live == nil || turn.begun {
		return
	}
	if h := f.covering(turn.session.sessionID()); h.Seq != 0 {
		f.halt(turn, h)
	}
}

// indexBelow keeps a session among those that matter of its parent, or takes it out.
func (f *fold) indexBelow(s *session) {
	if s.parent == "" {
		return
	}
	id := identOf(sessionPrefix, s.parent)
	matters := s.runs > 0 && (len(s.live) > 0 || f.owing[s] || len(f.below[s.id]) > 0)
	if f.below[id][s] == matters {
		return
	}
	switch {
	case !matters:
		if delete(f.below[id], s); len(f.below[id]) == 0 {
			delete(f.below, id)
		}
	case f.below[id] == nil:
		f.below[id] = map[*session]bool{s: true}
	default:
		f.below[id][s] = true
		return
	}
	if above := f.sessions[id]; above != nil {
		f.indexBelow(above)
	}
}

// reparent moves a session below another one.
func (f *fold) reparent(s *session, parent string) {
	if s.parent == parent {
		return
	}
	runs := s.runs
	s.runs = 0 // as if it were gone
	f.indexBelow(s)
	s.runs, s.parent = runs, parent
	f.indexBelow(s)
}

// haltsBelow tells whether something below a session is yet to be stopped with its tree.
func (f *fold) haltsBelow(s *session) (below bool) {
	for r := range f.halting {
		f.ancestors(r.session.parent, func(above *session) bool {
			below = below || above == s
			return below
		})
	}
	return below
}

// heldByTrees is the sequence before which history must stay, so that who reads it from there knows what is yet to be stopped, and
// whom nobody is to be told of.
func (f *fold) heldByTrees(least uint64) uint64 {
	hold := func(id string) {
		f.ancestors(id, func(s *session) bool {
			least = min(least, s.firstRow.first)
			return false
		})
	}
	for r := range f.halting {
		least = min(least, r.first, r.live.snap.Halt.Seq)
		hold(r.session.sessionID())
	}
	for p, rows := range f.suppressing {
		if !p.hears() {
			continue
		}
		hold(p.sessionID())
		for _, r := range rows {
			least = min(least, r.first)
			hold(r.session.sessionID())
		}
	}
	return least
}

// forgetTrees drops what who reads the stream from a sequence on would not know.
func (f *fold) forgetTrees(before uint64) {
	for id, t := range f.trees {
		root := f.runs[t.root]
		if t.seq < before || root == nil || root.first > t.seq || !root.begun && root.session.firstRow != root {
			delete(f.trees, id)
		}
	}
	for p := range f.suppressing {
		f.dropSuppressed(p)
	}
}

// dropSuppressed takes what a record says nobody is told of, and what is gone, out of what is yet to be said so.
func (f *fold) dropSuppressed(p *session) {
	f.touchSession(p)
	left := slices.DeleteFunc(f.suppressing[p], func(r *row) bool { return r.told || r.gone })
	if len(left) == 0 {
		delete(f.suppressing, p)
		return
	}
	f.suppressing[p] = left
}
