package state

import (
	"encoding/json"
	"slices"

	"ao/nats/subject"
	"ao/shared/run"
)

// A session's tree is all sessions below it. A record of TreeKind stops a tree at its place in the stream
// (decision 0036):
//
//   - Runs that have not ended there are to be stopped.
//   - So are runs accepted below the session later, until a runner claims a run of it that was not to be stopped.
//   - So are runs accepted below a session whose own run is still to be stopped, however late.
//   - No parent inside the tree is called back for these runs, nor for runs that ended before without a callback.

// maxDepth is how many sessions a walk upwards passes at most: truncation can make a cycle of parents.
const maxDepth = 1000

// Root returns the session's newest claimed run; without one, the first; nil without a session.
func (s *Session) Root() *Row {
	if root := s.NewestClaimed(nil); root != nil || s == nil {
		return root
	}
	return s.firstRow
}

// stop applies a request to stop a run.
func (ts *trees) stop(ch *Change, rec subject.Record) {
	r := ts.Run(rec.Run)
	if r == nil || r.live == nil || r.live.snap.Stopping {
		return
	}
	ch.before(r)
	r.change().Stopping = true
	r.move(run.MoveStopping)
	ch.Applied = true
	ch.after(r)
}

// stopTree applies a request to stop a tree.
func (ts *trees) stopTree(ch *Change, rec subject.Record, m Record) (int, error) {
	var t run.TreeStop
	if err := json.Unmarshal(m.Body, &t); err != nil || t.V > ts.version {
		return t.V, err
	}
	s := ts.Session(rec.Session)
	if s == nil || s.Root().ID() != rec.Run {
		return t.V, nil
	}
	if _, stopped := ts.stopped[s.Ident]; stopped {
		return t.V, nil
	}
	h := TreeStop{m.Seq, s.ID()}
	for _, r := range s.live {
		if t.RunID == "" || r.ID() == t.RunID {
			ts.stopRun(r, h)
		}
	}
	ts.suppress(s)
	ts.descend(s, func(below *Session) {
		for _, r := range below.live {
			r.Suppressed = r.Suppressed || ts.inside(r, s)
			ts.stopRun(r, h)
		}
		ts.suppress(below)
	})
	ts.stopped[s.Ident] = tree{m.Seq, s.Root().Ident}
	ch.Applied, ch.SessionID = true, h.Session
	return t.V, nil
}

// inside reports whether the parent of a run below root is root or below it too. A parent outside may have asked for a
// turn of that session.
func (ts *trees) inside(r *Row, root *Session) (in bool) {
	if r.Parent == r.session.Parent {
		return true
	}
	ts.ancestors(r.Parent, func(s *Session) bool {
		in = s == root
		return in
	})
	return in
}

// stopRun notes that an open run is to be stopped with its tree.
func (ts *trees) stopRun(r *Row, h TreeStop) {
	a := r.change()
	if a.TreeStop.Seq == 0 {
		a.TreeStop = h
	}
	if !a.Stopping {
		a.Stopping = true
		r.move(run.MoveStopping)
	}
	ts.stopping[r] = true
	ts.changed = true
	touched(ts.tables, r)
}

// suppress turns a session's pending callbacks into suppressed ones.
func (ts *trees) suppress(s *Session) {
	if len(s.pending) == 0 {
		return
	}
	for _, r := range s.pending {
		r.Suppressed = true
		touched(ts.tables, r)
	}
	ts.suppressing[s] = append(ts.suppressing[s], s.pending...)
	s.pending = nil
	delete(ts.pending, s)
	ts.changed = true
	ts.dirty.addSession(s)
	ts.indexBelow(s)
}

// descend calls visit with the sessions below one that matter: they, or sessions below them, have open runs or pending
// children. The cost grows with these.
func (ts *trees) descend(s *Session, visit func(*Session)) {
	seen := map[*Session]bool{s: true}
	for next := []*Session{s}; len(next) > 0; {
		var more []*Session
		for _, above := range next {
			for _, below := range ts.below[above.Ident] {
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

// ancestors calls visit with a session and those above it, until visit returns true.
func (ts *trees) ancestors(id string, visit func(*Session) (enough bool)) {
	for range maxDepth {
		s := ts.Session(id)
		if id == "" || s == nil || visit(s) {
			return
		}
		id = s.Parent
	}
}

// StopAbove returns why a run accepted below a session is to be stopped; Seq 0: it is not.
func (ts *trees) StopAbove(id string) (h TreeStop) {
	if len(ts.stopped) == 0 && len(ts.stopping) == 0 {
		return h
	}
	ts.ancestors(id, func(s *Session) bool {
		if t, ok := ts.stopped[s.Ident]; ok {
			h = TreeStop{t.Seq, s.ID()}
		} else if len(s.live) > 0 { // runs to be stopped come first
			h = s.live[0].live.snap.TreeStop
		}
		return h.Seq != 0
	})
	return h
}

// checkNewRun stops a new run below a stopped tree, or a turn that reports only children with suppressed callbacks.
func (ts *trees) checkNewRun(r *Row) {
	if h := ts.StopAbove(r.session.Parent); h.Seq != 0 {
		r.Suppressed = r.Parent == r.session.Parent || ts.StopAbove(r.Parent).Seq != 0
		ts.stopRun(r, h)
		return
	}
	if len(r.live.children) > 0 {
		ts.stopTurn(r)
	}
}

// reopen ends the stop of a session's tree when a runner claims a run that was not to be stopped, or came later.
func (ts *trees) reopen(r *Row) {
	t, stopped := ts.stopped[r.session.Ident]
	if a := r.live.snap; stopped && (!a.Stopping || r.First > t.Seq && a.TreeStop.Seq != t.Seq) {
		delete(ts.stopped, r.session.Ident)
	}
}

// suppresses reports whether a parent is not called back for an ended run, because one of the two was stopped with its
// tree.
func (ts *trees) suppresses(r *Row, parent *Session) bool {
	if !r.Suppressed && ts.StopAbove(parent.ID()).Seq != 0 {
		r.Suppressed = true
		touched(ts.tables, r)
	}
	return r.Suppressed
}

// stopTurn stops a callback turn inside a stopped tree: its writer had not read the stop yet.
func (ts *trees) stopTurn(turn *Row) {
	if turn == nil || turn.live == nil || turn.ClaimedByRunner {
		return
	}
	if h := ts.StopAbove(turn.session.ID()); h.Seq != 0 {
		ts.stopRun(turn, h)
	}
}

// indexBelow updates whether a session is among its parent's sessions that matter.
func (ts *trees) indexBelow(s *Session) {
	if s.Parent == "" {
		return
	}
	id := IdentOf(SessionPrefix, s.Parent)
	matters := s.runs > 0 && (len(s.live) > 0 || ts.pending[s] || len(ts.below[s.Ident]) > 0)
	if (s.placeBelow > 0) == matters {
		return
	}
	all := ts.below[id]
	if matters {
		ts.below[id] = append(all, s)
		s.placeBelow = int32(len(all) + 1)
		if len(all) > 0 {
			return
		}
	} else {
		last := len(all) - 1
		all[s.placeBelow-1], all[last].placeBelow = all[last], s.placeBelow
		all[last], s.placeBelow = nil, 0
		ts.below[id] = all[:last]
		if last == 0 {
			delete(ts.below, id)
		}
	}
	if above := ts.sessions[id]; above != nil {
		ts.indexBelow(above)
	}
}

// reparent moves a session below another one.
func (ts *trees) reparent(s *Session, parent string) {
	if s.Parent == parent {
		return
	}
	runs := s.runs
	s.runs = 0 // as if it were evicted
	ts.indexBelow(s)
	ts.Children.drop(s)
	s.runs, s.Parent = runs, parent
	ts.indexBelow(s)
	ts.Children.add(s)
}

// StoppingBelow reports whether something below a session is still to be stopped with its tree.
func (ts *trees) StoppingBelow(s *Session) (below bool) {
	for r := range ts.stopping {
		ts.ancestors(r.session.Parent, func(above *Session) bool {
			below = below || above == s
			return below
		})
	}
	return below
}

// lowWater returns the sequence from which history is needed to know what is still to be stopped, and which callbacks
// are suppressed.
func (ts *trees) lowWater(least uint64) uint64 {
	hold := func(id string) {
		ts.ancestors(id, func(s *Session) bool {
			least = min(least, s.firstRow.First)
			return false
		})
	}
	for r := range ts.stopping {
		least = min(least, r.First, r.live.snap.TreeStop.Seq)
		hold(r.session.ID())
	}
	for p, rows := range ts.suppressing {
		if !p.canReceiveCallback() {
			continue
		}
		hold(p.ID())
		for _, r := range rows {
			least = min(least, r.First)
			hold(r.session.ID())
		}
	}
	return least
}

// forget drops what a reader of the stream from before on would not know.
func (ts *trees) forget(before uint64) {
	for id, t := range ts.stopped {
		root := ts.runs[t.Root]
		if t.Seq < before || root == nil || root.First > t.Seq ||
			!root.ClaimedByRunner && root.session.firstRow != root {
			delete(ts.stopped, id)
		}
	}
	for p := range ts.suppressing {
		ts.dropSuppressed(p)
	}
}

// dropSuppressed removes children that a record names, and evicted ones, from what is to be recorded as suppressed.
func (ts *trees) dropSuppressed(p *Session) {
	ts.dirty.addSession(p)
	left := slices.DeleteFunc(ts.suppressing[p], func(r *Row) bool { return r.Reported || r.Evicted })
	if len(left) == 0 {
		delete(ts.suppressing, p)
		return
	}
	ts.suppressing[p] = left
}

// canReceiveCallback reports whether a parent can be called back: it can be resumed, now or after its open runs.
func (s *Session) canReceiveCallback() bool {
	return s.AgentType == run.Autonomous && (len(s.live) > 0 || s.everClaimed())
}

// TreeStopped reports whether a session's tree is stopped, and the session has not continued.
func TreeStopped(f *State, session string) bool {
	_, stopped := f.Trees.stopped[IdentOf(SessionPrefix, session)]
	return stopped
}

// OpenBelow returns the sessions right below one that have open runs or pending children, or such sessions below them.
// Its order changes with the next record.
func OpenBelow(f *State, s *Session) []*Session { return f.Trees.below[s.Ident] }

// DeletedBelow returns the deleted sessions that are known, by their parent.
func DeletedBelow(f *State) (all map[Ident][]Ident) {
	if len(f.Trees.parents) > 0 {
		all = map[Ident][]Ident{}
	}
	for id, parent := range f.Trees.parents {
		all[parent] = append(all[parent], id)
	}
	return all
}

// childIndex has sessions by the parent they name, whether it exists or not, in no order.
type childIndex map[Ident][]*Session

// add puts a session among its parent's children.
func (o childIndex) add(s *Session) {
	if s.Parent == "" {
		return
	}
	id := IdentOf(SessionPrefix, s.Parent)
	s.place = int32(len(o[id]))
	o[id] = append(o[id], s)
}

// drop removes a session from its parent's children.
func (o childIndex) drop(s *Session) {
	if s.Parent == "" {
		return
	}
	id := IdentOf(SessionPrefix, s.Parent)
	all := o[id]
	last := len(all) - 1
	if last < int(s.place) || all[s.place] != s {
		return
	}
	all[s.place] = all[last]
	all[s.place].place = s.place
	all[last] = nil
	o[id] = all[:last]
	if last == 0 {
		delete(o, id)
	}
}

// Runs returns how many runs a session's children have.
func (o childIndex) Runs(s *Session) (n int) {
	for _, child := range o[s.Ident] {
		n += int(child.runs)
	}
	return n
}

// HasParent reports whether the parent that a session names exists.
func HasParent(f *State, s *Session) bool { return s.Parent != "" && f.Session(s.Parent) != nil }
