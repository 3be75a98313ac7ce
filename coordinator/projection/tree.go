package projection

import (
	"encoding/json"
	"slices"

	"ao/nats/subject"
	"ao/shared/run"
)

// A session's tree is the sessions below it: those that name it as their parent, and those below these. A record of
// TreeKind stops a tree at its place in the stream (decision 0036):
//
//   - what has not ended there is to be stopped;
//   - what is accepted later below the session is, too, until a runner begins a run of it that was not to be stopped;
//   - what is accepted below a session whose own run is yet to be stopped so is, too, however late;
//   - of what is stopped so, and of what had ended and was not told yet, no parent inside the tree is told.

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
func (ts *trees) stop(ch *Change, rec subject.Record) {
	r := ts.runs[identOf(runPrefix, rec.Run)]
	if r == nil || r.live == nil || r.live.snap.Stopping {
		return
	}
	ch.before(r)
	r.change().Stopping = true
	r.move(run.MoveStopping)
	ch.Applied = true
	ch.after(r)
}

// stopTree is the wish to stop a tree.
func (ts *trees) stopTree(ch *Change, rec subject.Record, m Record) (int, error) {
	var t run.TreeStop
	if err := json.Unmarshal(m.Body, &t); err != nil || t.V > ts.version {
		return t.V, err
	}
	s := ts.sessions[identOf(sessionPrefix, rec.Session)]
	if s == nil || s.root().runID() != rec.Run {
		return t.V, nil
	}
	if _, stopped := ts.stopped[s.id]; stopped {
		return t.V, nil
	}
	h := TreeStop{m.Seq, s.sessionID()}
	for _, r := range s.live {
		if t.RunID == "" || r.runID() == t.RunID {
			ts.halt(r, h)
		}
	}
	ts.suppress(s)
	ts.descend(s, func(below *session) {
		for _, r := range below.live {
			r.suppressed = r.suppressed || ts.inside(r, s)
			ts.halt(r, h)
		}
		ts.suppress(below)
	})
	ts.stopped[s.id] = tree{m.Seq, s.root().id}
	ch.Applied, ch.SessionID = true, h.Session
	return t.V, nil
}

// inside tells whether who is to be told of a run of a session below root is root, or below it, too: who is not may
// have asked for a turn of that session.
func (ts *trees) inside(r *row, root *session) (in bool) {
	if r.parent == r.session.parent {
		return true
	}
	ts.ancestors(r.parent, func(s *session) bool {
		in = s == root
		return in
	})
	return in
}

// halt notes that a run that has not ended is to be stopped with its tree.
func (ts *trees) halt(r *row, h TreeStop) {
	a := r.change()
	if a.TreeStop.Seq == 0 {
		a.TreeStop = h
	}
	if !a.Stopping {
		a.Stopping = true
		r.move(run.MoveStopping)
	}
	ts.halting[r] = true
	ts.halted = true
	touched(ts.tables, r)
}

// suppress takes what a session is owed out of its debts: those callbacks are suppressed.
func (ts *trees) suppress(s *session) {
	if len(s.owed) == 0 {
		return
	}
	for _, r := range s.owed {
		r.suppressed = true
		touched(ts.tables, r)
	}
	ts.suppressing[s] = append(ts.suppressing[s], s.owed...)
	s.owed = nil
	delete(ts.owing, s)
	ts.halted = true
	ts.pass.touchSession(s)
	ts.indexBelow(s)
}

// descend calls visit with the sessions below one that matter: they have runs that have not ended or children to be
// told of, or some below them have. It costs what these are.
func (ts *trees) descend(s *session, visit func(*session)) {
	seen := map[*session]bool{s: true}
	for next := []*session{s}; len(next) > 0; {
		var more []*session
		for _, above := range next {
			for below := range ts.below[above.id] {
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
func (ts *trees) ancestors(id string, visit func(*session) (enough bool)) {
	for range generations {
		s := ts.sessions[identOf(sessionPrefix, id)]
		if id == "" || s == nil || visit(s) {
			return
		}
		id = s.parent
	}
}

// covering is why whatever is accepted below a session is to be stopped; Seq 0: it is not.
func (ts *trees) covering(id string) (h TreeStop) {
	if len(ts.stopped) == 0 && len(ts.halting) == 0 {
		return h
	}
	ts.ancestors(id, func(s *session) bool {
		if t, ok := ts.stopped[s.id]; ok {
			h = TreeStop{t.seq, s.sessionID()}
		} else if len(s.live) > 0 { // those to be stopped precede the others
			h = s.live[0].live.snap.TreeStop
		}
		return h.Seq != 0
	})
	return h
}

// born looks whether a new run is below a tree that is stopped, or tells its session of what nobody is to be told of.
func (ts *trees) born(r *row) {
	if h := ts.covering(r.session.parent); h.Seq != 0 {
		r.suppressed = r.parent == r.session.parent || ts.covering(r.parent).Seq != 0
		ts.halt(r, h)
		return
	}
	if len(r.live.children) > 0 {
		ts.haltTurn(r)
	}
}

// reopen is a session that goes on: a runner has begun a run of it that was not to be stopped then, or came later.
func (ts *trees) reopen(r *row) {
	t, stopped := ts.stopped[r.session.id]
	if a := r.live.snap; stopped && (!a.Stopping || r.first > t.seq && a.TreeStop.Seq != t.seq) {
		delete(ts.stopped, r.session.id)
	}
}

// suppresses tells whether a parent is not to be told of a run that ended, since one of the two was stopped with its
// tree.
func (ts *trees) suppresses(r *row, parent *session) bool {
	if !r.suppressed && ts.covering(parent.sessionID()).Seq != 0 {
		r.suppressed = true
		touched(ts.tables, r)
	}
	return r.suppressed
}

// haltTurn stops a callback turn inside a stopped tree: who wrote it had not read the stop yet.
func (ts *trees) haltTurn(turn *row) {
	if turn == nil || turn.live == nil || turn.begun {
		return
	}
	if h := ts.covering(turn.session.sessionID()); h.Seq != 0 {
		ts.halt(turn, h)
	}
}

// indexBelow keeps a session among those that matter of its parent, or takes it out.
func (ts *trees) indexBelow(s *session) {
	if s.parent == "" {
		return
	}
	id := identOf(sessionPrefix, s.parent)
	matters := s.runs > 0 && (len(s.live) > 0 || ts.owing[s] || len(ts.below[s.id]) > 0)
	if ts.below[id][s] == matters {
		return
	}
	switch {
	case !matters:
		delete(ts.below[id], s)
		if len(ts.below[id]) == 0 {
			delete(ts.below, id)
		}
	case ts.below[id] == nil:
		ts.below[id] = map[*session]bool{s: true}
	default:
		ts.below[id][s] = true
		return
	}
	if above := ts.sessions[id]; above != nil {
		ts.indexBelow(above)
	}
}

// reparent moves a session below another one.
func (ts *trees) reparent(s *session, parent string) {
	if s.parent == parent {
		return
	}
	runs := s.runs
	s.runs = 0 // as if it were gone
	ts.indexBelow(s)
	ts.children.drop(s)
	s.runs, s.parent = runs, parent
	ts.indexBelow(s)
	ts.children.add(s)
}

// haltsBelow tells whether something below a session is yet to be stopped with its tree.
func (ts *trees) haltsBelow(s *session) (below bool) {
	for r := range ts.halting {
		ts.ancestors(r.session.parent, func(above *session) bool {
			below = below || above == s
			return below
		})
	}
	return below
}

// held is the sequence before which history must stay, so that who reads it from there knows what is yet to be stopped,
// and whom nobody is to be told of.
func (ts *trees) held(least uint64) uint64 {
	hold := func(id string) {
		ts.ancestors(id, func(s *session) bool {
			least = min(least, s.firstRow.first)
			return false
		})
	}
	for r := range ts.halting {
		least = min(least, r.first, r.live.snap.TreeStop.Seq)
		hold(r.session.sessionID())
	}
	for p, rows := range ts.suppressing {
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

// forget drops what who reads the stream from a sequence on would not know.
func (ts *trees) forget(before uint64) {
	for id, t := range ts.stopped {
		root := ts.runs[t.root]
		if t.seq < before || root == nil || root.first > t.seq || !root.begun && root.session.firstRow != root {
			delete(ts.stopped, id)
		}
	}
	for p := range ts.suppressing {
		ts.dropSuppressed(p)
	}
}

// dropSuppressed takes what a record says nobody is told of, and what is gone, out of what is yet to be said so.
func (ts *trees) dropSuppressed(p *session) {
	ts.pass.touchSession(p)
	left := slices.DeleteFunc(ts.suppressing[p], func(r *row) bool { return r.told || r.gone })
	if len(left) == 0 {
		delete(ts.suppressing, p)
		return
	}
	ts.suppressing[p] = left
}

// hears tells whether a parent can be told: it can be resumed, now or after what it has under way.
func (s *session) hears() bool {
	return s.agentType == run.Autonomous && (len(s.live) > 0 || s.began())
}
