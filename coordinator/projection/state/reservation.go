package state

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
	if d.Run(b.RunID) == nil {
		d.reserveRun(b.RunID, rec.Session, b.Next, nil, m)
	}
	return b.V, nil
}

// reserveRun notes a run that another record carries. Records of older versions carry none.
func (d *callbacks) reserveRun(id, session string, next []byte, children []*Row, m Record) {
	q, err := run.DecodeQueued(next, nil)
	if id == "" || len(next) == 0 || err != nil || q.ID != id || q.SessionID != session {
		return
	}
	d.reserved[IdentOf(RunPrefix, q.ID)] = reservation{m.Seq, q.SessionID, children}
}

// fillReservation handles the first record of a reserved run. A callback turn gets the children that its list named.
func (d *callbacks) fillReservation(id Ident, r *Row) {
	if p, ok := d.reserved[id]; ok {
		delete(d.reserved, id)
		d.attachChildren(r, slices.DeleteFunc(p.children,
			func(child *Row) bool { return child.Evicted || !child.Reported || child.turn != nil }))
	}
}

// attachChildren notes which children an open turn reports.
func (d *callbacks) attachChildren(turn *Row, children []*Row) {
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
	maps.DeleteFunc(d.reserved, func(_ Ident, p reservation) bool { return p.session == session })
}

// hasReservedTurn reports whether a turn of the session is reserved.
func (d *callbacks) hasReservedTurn(s *Session) bool {
	for _, p := range d.reserved {
		if IdentOf(SessionPrefix, p.session) == s.Ident {
			return true
		}
	}
	return false
}

// inReservedTurn reports whether a reserved turn reports the run.
func (d *callbacks) inReservedTurn(child *Row) bool {
	for _, p := range d.reserved {
		if slices.Contains(p.children, child) {
			return true
		}
	}
	return false
}

// Reservation is a run that another record carries, and that has no record of its own yet.
type Reservation struct {
	RunID, SessionID string
	Seq              uint64 // of the record that carries it
}

// Reservations returns all runs that another record carries and that have no record of their own yet.
func (d *callbacks) Reservations() (all []Reservation) {
	for id, p := range d.reserved {
		all = append(all, Reservation{id.Text(RunPrefix), p.session, p.seq})
	}
	return all
}

// IsReserved reports whether another record carries a run, and it has none of its own yet.
func (d *callbacks) IsReserved(id string) bool {
	_, ok := d.reserved[IdentOf(RunPrefix, id)]
	return ok
}
