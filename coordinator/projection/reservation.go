package projection

import (
	"encoding/json"
	"maps"
	"slices"

	"ao/nats/subject"
	"ao/shared/run"
)

// applySession applies the start of a session under its caller's own id.
func (d *callbacks) applySession(rec subject.Record, m Record) (int, error) {
	var b run.SessionCreated
	if err := json.Unmarshal(m.Body, &b); err != nil || b.V > d.version {
		return b.V, err
	}
	if d.run(b.RunID) == nil {
		d.reserveRun(b.RunID, rec.Session, b.Next, nil, m)
	}
	return b.V, nil
}

// reserveRun notes a run that another record carries. Records of older versions carry none.
func (d *callbacks) reserveRun(id, session string, next []byte, children []*row, m Record) {
	q, err := run.DecodeQueued(next, nil)
	if id == "" || len(next) == 0 || err != nil || q.ID != id || q.SessionID != session {
		return
	}
	d.reserved[identOf(runPrefix, q.ID)] = reservation{m.Seq, q.SessionID, children}
}

// fillReservation handles the first record of a reserved run. A callback turn gets the children that its list named.
func (d *callbacks) fillReservation(id ident, r *row) {
	if p, ok := d.reserved[id]; ok {
		delete(d.reserved, id)
		d.attachChildren(r, slices.DeleteFunc(p.children,
			func(child *row) bool { return child.Evicted || !child.Reported || child.turn != nil }))
	}
}

// attachChildren notes which children an open turn reports.
func (d *callbacks) attachChildren(turn *row, children []*row) {
	for _, child := range children {
		child.turn = turn
		touched(d.tables, child)
	}
	touched(d.tables, turn)
	if !turn.ClaimedByRunner {
		turn.live.children = append(turn.live.children, children...)
	}
}

// cancelReservations drops the reservations of a deleted session.
func (d *callbacks) cancelReservations(session string) {
	maps.DeleteFunc(d.reserved, func(_ ident, p reservation) bool { return p.session == session })
}

// hasReservedTurn reports whether a turn of the session is reserved.
func (d *callbacks) hasReservedTurn(s *session) bool {
	for _, p := range d.reserved {
		if identOf(sessionPrefix, p.session) == s.Ident {
			return true
		}
	}
	return false
}

// inReservedTurn reports whether a reserved turn reports the run.
func (d *callbacks) inReservedTurn(child *row) bool {
	for _, p := range d.reserved {
		if slices.Contains(p.children, child) {
			return true
		}
	}
	return false
}
