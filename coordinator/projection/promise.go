package projection

import (
	"encoding/json"
	"slices"

	"ao/nats/subject"
	"ao/shared/run"
)

// beginSession is a session that begins under its caller's own id.
func (d *debts) beginSession(rec subject.Record, m Record) (int, error) {
	var b run.SessionCreated
	if err := json.Unmarshal(m.Body, &b); err != nil || b.V > d.version {
		return b.V, err
	}
	if d.runs[identOf(runPrefix, b.RunID)] == nil {
		d.promiseRun(b.RunID, rec.Session, b.Next, nil, m)
	}
	return b.V, nil
}

// promiseRun notes a run that is to follow. What does not carry it, as records of older versions, promises nothing.
func (d *debts) promiseRun(id, session string, next []byte, children []*row, m Record) {
	q, err := run.DecodeQueued(next, nil)
	if id == "" || len(next) == 0 || err != nil || q.ID != id || q.SessionID != session {
		return
	}
	d.promised[identOf(runPrefix, q.ID)] = promise{m.Seq, q.SessionID, children}
}

// keepPromise is the first record of a run. A callback turn gets the children that its list named.
func (d *debts) keepPromise(id ident, r *row) {
	if p, ok := d.promised[id]; ok {
		delete(d.promised, id)
		d.list(r, slices.DeleteFunc(p.children, func(child *row) bool { return child.gone || !child.told || child.by != nil }))
	}
}

// list notes which children a turn that has not ended reports.
func (d *debts) list(turn *row, children []*row) {
	for _, child := range children {
		child.by = turn
		touched(d.tables, child)
	}
	touched(d.tables, turn)
	if !turn.begun {
		turn.live.children = append(turn.live.children, children...)
	}
}

// breakPromises is the end of a session.
func (d *debts) breakPromises(session string) {
	for id, p := range d.promised {
		if p.session == session {
			delete(d.promised, id)
		}
	}
}

// expects tells whether a turn of the session is promised.
func (d *debts) expects(s *session) bool {
	for _, p := range d.promised {
		if identOf(sessionPrefix, p.session) == s.id {
			return true
		}
	}
	return false
}

// isPromised tells whether a turn that reports the run is promised.
func (d *debts) isPromised(child *row) bool {
	for _, p := range d.promised {
		if slices.Contains(p.children, child) {
			return true
		}
	}
	return false
}
