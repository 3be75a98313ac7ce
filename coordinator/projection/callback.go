package projection

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

const (
	hookNone hookState = iota
	hookOwed           // the run has not ended, or tries are left
	hookDelivered
	hookDead // all tries were in vain
)

// modes are those of runs; a row has the index.
var modes = []string{run.AsyncPoll, run.Sync, run.AsyncCallback}

func modeIndex(m string) uint8 { return uint8(max(slices.Index(modes, m), 0)) }

// parentOf is the session that a run names as its parent; nil where that does not exist any more. A session that began
// under the same id after the run is another one.
func (t *tables) parentOf(r *row) *session {
	s := t.sessions[identOf(sessionPrefix, r.parent)]
	if r.parent == "" || s == nil || s.firstRow.first > r.first {
		return nil
	}
	return s
}

// owe notes that the parent of a run that ended is to be told.
func (d *debts) owe(r *row) {
	p := d.parentOf(r)
	if !r.callback || r.told || p == nil {
		return
	}
	d.pass.touchSession(p)
	if d.trees.suppresses(r, p) {
		d.trees.suppressing[p] = append(d.trees.suppressing[p], r)
		d.trees.halted = true
		return
	}
	p.owed = append(p.owed, r)
	d.owing[p] = true
	d.trees.indexBelow(p)
	d.callable(p)
}

// callable notes a session that can be told of its children.
func (d *debts) callable(s *session) {
	if len(s.owed) > 0 && len(s.live) == 0 && !s.due {
		s.due = true
		d.due = append(d.due, s)
	}
}

// owes tells whether a parent is yet to be told of a run of the session.
func (d *debts) owes(s *session) bool {
	for r := s.firstRow; r != nil; r = r.next {
		if d.owesOf(r) {
			return true
		}
	}
	return false
}

func (d *debts) owesOf(r *row) bool {
	waits := r.told && r.by != nil && r.by.live != nil && !r.by.begun || d.isPromised(r) // its turn may give it back
	if r.live != nil || !r.callback || r.told && !waits {
		return false
	}
	p := d.parentOf(r)
	return p != nil && p.hears()
}

// report is a callback record: a turn of the parent reports these children. The turn follows; in a history of an older
// version it precedes.
func (d *debts) report(ch *Change, rec subject.Record, m Record) (int, error) {
	var c run.Callback
	if err := json.Unmarshal(m.Body, &c); err != nil || c.V > d.version {
		return c.V, err
	}
	turn := d.runs[identOf(runPrefix, c.Turn())]
	p := d.sessions[identOf(sessionPrefix, rec.Session)]
	var children []*row
	for _, id := range c.Children {
		r := d.runs[identOf(runPrefix, id)]
		if r == nil || r.told || !r.callback || r.live != nil || r.parent != rec.Session {
			continue
		}
		r.told, r.suppressed, r.by = true, c.Suppressed, turn
		r.tellings++
		if c.Suppressed {
			r.by = nil
		} else if ch.row == nil || r.ended < ch.since { // of those it tells of, the one that waited for longest
			ch.row, ch.since = r, r.ended
		}
		touched(d.tables, r)
		touched(d.tables, turn)
		ch.Applied = true
		children = append(children, r)
	}
	switch {
	case c.Suppressed: // nobody reports them
	case turn == nil:
		d.promiseRun(c.TurnID, rec.Session, c.Next, children, m)
	case turn.live != nil:
		d.list(turn, children)
		d.settle(turn.session)
	}
	if p != nil {
		d.clear(p)
	}
	if !c.Suppressed {
		d.trees.haltTurn(turn)
	}
	if n := len(d.recent); n > 0 && n == cap(d.recent) { // before it grows
		d.recent = slices.DeleteFunc(d.recent, func(r report) bool { return m.Time.Sub(r.at) > time.Hour })
	}
	d.recent = append(d.recent, report{m.Seq, m.Time})
	return c.V, nil
}

// clear takes those that are told out of what a parent is owed.
func (d *debts) clear(p *session) {
	d.pass.touchSession(p)
	p.owed = slices.DeleteFunc(p.owed, func(r *row) bool { return r.told || r.gone })
	if len(p.owed) == 0 {
		p.owed = nil
		delete(d.owing, p)
		d.trees.indexBelow(p)
	}
	if len(d.trees.suppressing[p]) > 0 {
		d.trees.dropSuppressed(p)
	}
}

// giveBack is the end of a callback turn: if no runner began it, its children are owed again, and it is a later turn's
// answer that the session's own parent is to be told of.
func (d *debts) giveBack(r *row) {
	if r.begun {
		return
	}
	back := slices.DeleteFunc(r.live.children, func(child *row) bool { return child.gone })
	if len(back) > 0 {
		r.session.misses = uint16(min(int(r.session.misses)+1, math.MaxUint16))
	}
	if len(back) > 0 || r.live.snap.Spec.IsCallbackTurn { // its list may be truncated
		r.callback = false
	}
	for _, child := range back {
		child.told, child.by = false, nil
		touched(d.tables, child)
		d.owe(child)
	}
}

// notify is a step of an HTTP callback.
func (ws *webhooks) notify(ch *Change, rec subject.Record, m Record) (int, error) {
	var n run.Notified
	if err := json.Unmarshal(m.Body, &n); err != nil || n.V > ws.version {
		return n.V, err
	}
	r := ws.runs[identOf(runPrefix, rec.Run)]
	h := ws.of[r]
	if r == nil || h == nil || rec.N <= h.n {
		return n.V, nil
	}
	ch.Applied, ch.row, ch.since = true, r, r.ended
	ws.hosts.remove(h)
	h.n, h.next = rec.N, m.Time
	if n.Status != run.NotifyAgain {
		h.tries++
		h.status, h.reason = n.HTTP, strings.Clone(n.Reason)
	}
	switch n.Status {
	case run.NotifyDelivered:
		r.hook = hookDelivered
		delete(ws.of, r)
	case run.NotifyDead:
		r.hook = hookDead
	case run.NotifyAgain:
		r.hook, h.tries = hookOwed, 0
	default:
		if n.Next != nil {
			h.next = *n.Next
		}
	}
	if r.hook == hookOwed {
		ws.hosts.add(h)
	}
	return n.V, nil
}

// bind is what an executor says of its session. The last one counts.
func (f *fold) bind(ch *Change, r *row, rec subject.Record, b run.Bound) {
	if r.live.snap.Claim == nil || r.session.bond() == (bond{b.ExecutorSessionID, b.Hostname, b.Profile}) {
		return
	}
	// another's, which this session would be given to read
	if runnerapi.IsStatePointer(b.ExecutorSessionID) && b.ExecutorSessionID != runnerapi.StatePointer(rec.Run,
		r.live.snap.Attempt) {
		return
	}
	r.session.bound = &bond{b.ExecutorSessionID, f.scan.name([]byte(b.Hostname)), f.scan.name([]byte(b.Profile))}
	ch.Applied = true
}

// reply is the parent and the mode that a session's callback turns have: those of its newest run that calls back, else
// of the newest.
func (s *session) reply() (parent, mode string) {
	for r := s.firstRow; r != nil; r = r.next {
		if r.callback || mode != run.AsyncCallback {
			parent, mode = r.parent, modes[r.mode]
		}
	}
	return parent, mode
}

// held is the sequence before which history must stay for what is yet to begin or to be told: the children that are
// owed, the HTTP callbacks with tries left, of every parent that will be told the newest run that precedes its oldest
// such child and the newest that began, which it is resumed by; and likewise of every session with a turn that no
// runner has begun.
func (f *fold) held(told time.Time) uint64 {
	k := keeping{f: f, least: f.seq + 1, oldest: map[*session]*row{}, resumed: map[*session]bool{}}
	for _, r := range f.debts.recent {
		if r.at.After(told) {
			k.least = r.seq
			break
		}
	}
	k.open()
	k.owed()
	k.resumes()
	return f.late.held(f.trees.held(k.least))
}

// keeping finds the sequence before which history must stay.
type keeping struct {
	f       *fold
	least   uint64
	oldest  map[*session]*row // child that is yet to be told of, by parent
	resumed map[*session]bool // they go on, or will
}

// child keeps a run of which its parent is yet to be told.
func (k *keeping) child(r *row) {
	if p := k.f.parentOf(r); p != nil {
		k.least = min(k.least, r.first)
		if o := k.oldest[p]; o == nil || r.first < o.first {
			k.oldest[p] = r
		}
	}
}

// open keeps what runs need that have not ended.
func (k *keeping) open() {
	for r := k.f.head; r != nil; r = r.live.next {
		if a := r.live.snap; a.Attempt == 0 || a.Claim == nil && a.Spec.Type == run.Resume {
			k.resumed[r.session] = true
		}
		if r.callback {
			k.child(r)
		}
		for _, child := range r.live.children {
			k.child(child)
		}
	}
}

// owed keeps what parents and receivers are yet to be told.
func (k *keeping) owed() {
	for p := range k.f.owing {
		for _, r := range p.owed {
			if k.f.debts.owesOf(r) {
				k.child(r)
			}
		}
	}
	for _, p := range k.f.debts.promised {
		k.least = min(k.least, p.seq)
		for _, child := range p.children {
			k.child(child)
		}
	}
	for _, to := range k.f.webhooks.hosts.first {
		for _, h := range to.owed {
			k.least = min(k.least, h.row.first)
		}
	}
}

// resumes keeps the runs that sessions go on from.
func (k *keeping) resumes() {
	for p, child := range k.oldest {
		keep := p.firstRow
		for r := p.firstRow; r != nil && r.first < child.first; r = r.next {
			keep = r
		}
		k.least = min(k.least, keep.first)
		k.resumed[p] = true
	}
	for s := range k.resumed {
		if keep := s.newestBegun(nil); keep != nil {
			k.least = min(k.least, keep.first)
		}
	}
}
