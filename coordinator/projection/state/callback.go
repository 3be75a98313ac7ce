package state

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
	WebhookNone    webhookState = iota
	webhookPending              // the run has not ended, or tries are left
	webhookDelivered
	webhookDead // all tries failed
)

// modes are the modes of runs; a row has the index.
var modes = []string{run.AsyncPoll, run.Sync, run.AsyncCallback}

func modeIndex(m string) uint8 { return uint8(max(slices.Index(modes, m), 0)) }

// parentOf returns the session that a run names as its parent; nil if it does not exist any more. A session with the
// same id that is younger than the run is another one.
func (t *tables) parentOf(r *Row) *Session {
	s := t.Session(r.Parent)
	if r.Parent == "" || s == nil || s.firstRow.First > r.First {
		return nil
	}
	return s
}

// addPending notes that the parent of an ended run is to be called back.
func (d *callbacks) addPending(r *Row) {
	p := d.parentOf(r)
	if !r.Callback || r.Reported || p == nil {
		return
	}
	d.dirty.addSession(p)
	if d.trees.suppresses(r, p) {
		d.trees.suppressing[p] = append(d.trees.suppressing[p], r)
		d.trees.changed = true
		return
	}
	p.pending = append(p.pending, r)
	d.pending[p] = true
	d.trees.indexBelow(p)
	d.noteReady(p)
}

// noteReady notes a session that can be called back now.
func (d *callbacks) noteReady(s *Session) {
	if len(s.pending) > 0 && len(s.live) == 0 && !s.due {
		s.due = true
		d.due = append(d.due, s)
	}
}

// hasPending reports whether a parent has yet to be called back for a run of the session.
func (d *callbacks) hasPending(s *Session) bool {
	for r := s.firstRow; r != nil; r = r.next {
		if d.IsPending(r) {
			return true
		}
	}
	return false
}

// IsPending reports whether a parent has yet to be called back for a run, or may have to be.
func (d *callbacks) IsPending(r *Row) bool {
	waits := r.Reported && r.turn != nil && r.turn.live != nil && !r.turn.ClaimedByRunner ||
		d.inReservedTurn(r) // the turn may return it
	if r.live != nil || !r.Callback || r.Reported && !waits {
		return false
	}
	p := d.parentOf(r)
	return p != nil && p.canReceiveCallback()
}

// applyCallback applies a callback record: a turn of the parent reports these children. The turn follows; in a history
// of an older version it comes first.
func (d *callbacks) applyCallback(ch *Change, rec subject.Record, m Record) (int, error) {
	var c run.Callback
	if err := json.Unmarshal(m.Body, &c); err != nil || c.V > d.version {
		return c.V, err
	}
	turn := d.Run(c.Turn())
	p := d.Session(rec.Session)
	var children []*Row
	for _, id := range c.Children {
		r := d.Run(id)
		if r == nil || r.Reported || !r.Callback || r.live != nil || r.Parent != rec.Session {
			continue
		}
		r.Reported, r.Suppressed, r.turn = true, c.Suppressed, turn
		r.Deliveries++
		if c.Suppressed {
			r.turn = nil
		} else if ch.row == nil || r.Ended < ch.since { // of its children, the one that waited longest
			ch.row, ch.since = r, r.Ended
		}
		touched(d.tables, r)
		touched(d.tables, turn)
		ch.Applied = true
		children = append(children, r)
	}
	switch {
	case c.Suppressed: // no turn reports them
	case turn == nil:
		d.reserveRun(c.TurnID, rec.Session, c.Next, children, m)
	case turn.live != nil:
		d.attachChildren(turn, children)
		d.settle(turn.session)
	}
	if p != nil {
		d.dropReported(p)
	}
	if !c.Suppressed {
		d.trees.stopTurn(turn)
	}
	if n := len(d.recent); n > 0 && n == cap(d.recent) { // before it grows
		d.recent = slices.DeleteFunc(d.recent, func(r report) bool { return m.Time.Sub(r.At) > time.Hour })
	}
	d.recent = append(d.recent, report{m.Seq, m.Time})
	return c.V, nil
}

// dropReported removes reported children from what is pending for a parent.
func (d *callbacks) dropReported(p *Session) {
	d.dirty.addSession(p)
	p.pending = slices.DeleteFunc(p.pending, func(r *Row) bool { return r.Reported || r.Evicted })
	if len(p.pending) == 0 {
		p.pending = nil
		delete(d.pending, p)
		d.trees.indexBelow(p)
	}
	if len(d.trees.suppressing[p]) > 0 {
		d.trees.dropSuppressed(p)
	}
}

// returnChildren ends a callback turn. If it was never claimed its children are pending again, and a later turn answers
// to the session's own parent.
func (d *callbacks) returnChildren(r *Row) {
	if r.ClaimedByRunner {
		return
	}
	back := slices.DeleteFunc(r.live.children, func(child *Row) bool { return child.Evicted })
	if len(back) > 0 {
		r.session.Misses = uint16(min(int(r.session.Misses)+1, math.MaxUint16))
	}
	if len(back) > 0 || r.live.snap.Spec.IsCallbackTurn { // its list may be truncated
		r.Callback = false
	}
	for _, child := range back {
		child.Reported, child.turn = false, nil
		touched(d.tables, child)
		d.addPending(child)
	}
}

// applyNotified applies a step of a webhook.
func (ws *webhooks) applyNotified(ch *Change, rec subject.Record, m Record) (int, error) {
	var n run.Notified
	if err := json.Unmarshal(m.Body, &n); err != nil || n.V > ws.version {
		return n.V, err
	}
	r := ws.Run(rec.Run)
	h := ws.of[r]
	if r == nil || h == nil || rec.N <= h.N {
		return n.V, nil
	}
	ch.Applied, ch.row, ch.since = true, r, r.Ended
	ws.Hosts.remove(h)
	h.N, h.Next = rec.N, m.Time
	if n.Status != run.NotifyAgain {
		h.Tries++
		h.Status, h.Reason = n.HTTP, strings.Clone(n.Reason)
	}
	switch n.Status {
	case run.NotifyDelivered:
		r.Webhook = webhookDelivered
		delete(ws.of, r)
	case run.NotifyDead:
		r.Webhook = webhookDead
	case run.NotifyAgain:
		r.Webhook, h.Tries = webhookPending, 0
	default:
		if n.Next != nil {
			h.Next = *n.Next
		}
	}
	if r.Webhook == webhookPending {
		ws.Hosts.add(h)
	}
	return n.V, nil
}

// applyBound applies an executor's binding of its session. The last one counts.
func (f *State) applyBound(ch *Change, r *Row, rec subject.Record, b run.Bound) {
	if r.live.snap.Claim == nil || r.session.Binding() == (binding{b.ExecutorSessionID, b.Hostname, b.Profile}) {
		return
	}
	if runnerapi.IsStatePointer(b.ExecutorSessionID) &&
		b.ExecutorSessionID != runnerapi.StatePointer(rec.Run, r.live.snap.Attempt) {
		return // the state of another run, which this session must not read
	}
	r.session.Bound = &binding{b.ExecutorSessionID, f.scan.Name([]byte(b.Hostname)), f.scan.Name([]byte(b.Profile))}
	ch.Applied = true
}

// Reply returns the parent and mode of a session's callback turns: those of its newest run that calls back, else of the
// newest run.
func (s *Session) Reply() (parent, mode string) {
	for r := s.firstRow; r != nil; r = r.next {
		if r.Callback || mode != run.AsyncCallback {
			parent, mode = r.Parent, r.Mode()
		}
	}
	return parent, mode
}
