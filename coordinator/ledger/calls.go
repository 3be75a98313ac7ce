package ledger

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"ao/nats/subject"
	"ao/shared/run"
)

// callsBook is what parents were told of their children, and callers over HTTP.
type callsBook struct {
	*memory
	runs  *runsBook
	hooks map[uint32]hook // by run with an HTTP callback, once there was a try
}

// hook is where a run's HTTP callback stands.
type hook struct {
	n      int
	status string
}

// report is a callback record: a turn of the parent reports children that have ended. The turn follows, or,
// in a history of an older version, precedes. One that is suppressed names a turn that was
// begun before, and nobody is told.
func (b *callsBook) report(rec subject.Record, f fields) {
	parent := b.about
	name := cmp.Or(f.turn, f.run)
	turn, t := b.find(name)
	if f.next && name != "" {
		turn, t = b.run(name, rec.Session)
		b.runs.promise(turn, t, f)
	}
	if t == nil && f.turn != "" && !f.next && b.places.at(parent).deleted != 0 { // what a deletion left of a list
		b.tellAll(name, turn, parent, f)
		return
	}
	switch {
	case name == "" || len(f.children) == 0:
		b.wrong(kindCallback, name, fmt.Sprintf("Record %d (callback) names no turn, or no children", b.seq))
		return
	case t == nil || !t.is(known) && b.runs.promised[turn] == 0:
		b.missing(name, name, cutOff, fmt.Sprintf("Record %d (callback) names turn %s, which nobody had accepted",
			b.seq, name))
	case t.session != parent:
		b.wrong(kindCallback, name, fmt.Sprintf("Record %d (callback) names turn %s, which is not of session %.80q",
			b.seq, name, rec.Session))
	}
	// Or two turns could tell of one child (decision 0014).
	if first, e := b.find(f.children[0]); rec.Run != f.children[0] {
		b.wrong(kindCallback, name,
			fmt.Sprintf("Record %d (callback) is named after run %s, and its first child is %.80q", b.seq, rec.Run,
				f.children[0]))
	} else if first != 0 {
		vain := int(e.vain)
		if e.turn != 0 && !b.told(e) {
			vain++
		}
		if rec.N != vain {
			b.missing(name, rec.Run, cutOff,
				fmt.Sprintf("Record %d (callback) says that %d turns told of run %s in vain, and %d did", b.seq, rec.N,
					rec.Run, vain))
		}
	}
	b.tellAll(name, turn, parent, f)
}

// tellAll is what a list names.
func (b *callsBook) tellAll(name string, turn, parent uint32, f fields) {
	for _, id := range f.children {
		b.tell(name, turn, parent, id)
		if _, e := b.find(id); e != nil && f.suppressed {
			e.flags |= hushed
		}
	}
}

// turnName is what the name of a callback record says: its first child, and how many turns told of that before, in
// vain.
func turnName(name string) (first string, n int, err error) {
	first, rest, numbered := strings.Cut(name, "-")
	if numbered {
		n, err = strconv.Atoi(rest)
		if err != nil || n < 1 {
			return "", 0, fmt.Errorf("its name ends in %.20q", rest)
		}
	}
	return first, n, nil
}

// tell is one child that a turn reports.
func (b *callsBook) tell(turnID string, turn, parent uint32, id string) {
	at, e := b.find(id)
	switch {
	case e == nil || !e.is(known):
		b.missing(id, id, unknown, fmt.Sprintf("Turn %s reports run %.80q, which nobody had accepted", turnID, id))
		return
	case !e.is(calls) || e.parent != parent:
		b.wrong(kindCallback, id, fmt.Sprintf("Turn %s reports the run to a session that is not to be told of it",
			turnID))
		return
	case !e.is(final):
		b.wrong(kindCallback, id, fmt.Sprintf("Turn %s reports the run, which had not ended", turnID))
	case b.told(e):
		b.wrong(kindTwice, id, fmt.Sprintf("Its parent was told of it before (%s), and again by turn %s",
			b.entries.at(e.turn).id.runID(), turnID))
		return
	}
	if e.turn != 0 {
		e.vain++
	}
	e.turn = turn
	e.flags = e.flags&^hushed | reported
	b.entries.at(turn).flags |= tells
	delete(b.runs.ends, at)
}

// told tells whether a turn reports the run; one that ended before a runner began it gave its children back.
func (b *callsBook) told(e *entry) bool {
	if e.turn == 0 {
		return e.is(reported) // by a turn that is not known any more
	}
	t := b.entries.at(e.turn)
	return !t.is(final) || t.begins > 0
}

// missing notes that a callback record names a run that is not known.
func (b *callsBook) missing(id, missing string, x excuse, message string) {
	f := finding{Wrong: Wrong{Kind: kindCallback, RunID: id, Sequence: b.seq, Message: message}, session: b.about,
		excuse: x}
	if i, ok := runIdent(missing); ok {
		f.born = i.born()
	} else {
		f.excuse = never
	}
	b.keep(f)
}

// notify is a step of a run's HTTP callback: one after the other, and none after it was delivered.
func (b *callsBook) notify(rec subject.Record, f fields) {
	at, e := b.find(rec.Run)
	if e == nil {
		b.note(kindUnknownRun, rec.Run, late, fmt.Sprintf("Record %d (notified) is of a run that nobody accepted",
			b.seq))
		return
	}
	if !b.same(rec, e, f.session) {
		return
	}
	h := b.hooks[at]
	switch {
	case f.n != rec.N:
		b.wrong(kindMismatch, rec.Run, fmt.Sprintf("Record %d (notified) is step %d, its subject says %d", b.seq, f.n,
			rec.N))
	case e.is(known) && !e.is(hooked):
		b.wrong(kindWebhook, rec.Run, fmt.Sprintf("Record %d (notified): nobody asked for an HTTP callback of the run",
			b.seq))
	case e.is(known) && !e.is(final):
		b.wrong(kindWebhook, rec.Run, fmt.Sprintf("Record %d (notified): the run had not ended", b.seq))
	case f.n != h.n+1:
		b.wrong(kindWebhook, rec.Run, fmt.Sprintf("Step %d of the HTTP callback follows step %d", f.n, h.n))
	case h.status == run.NotifyDelivered:
		b.wrong(kindWebhook, rec.Run, fmt.Sprintf("Step %d of the HTTP callback is %q although it had been delivered",
			f.n, f.status))
	case h.status == run.NotifyDead && f.status != run.NotifyAgain:
		b.wrong(kindWebhook, rec.Run, fmt.Sprintf("Step %d of the HTTP callback is %q although it was given up", f.n,
			f.status))
	}
	switch f.status {
	case run.NotifyDelivered, run.NotifyFailed, run.NotifyDead, run.NotifyAgain:
		b.hooks[at] = hook{f.n, f.status}
	default:
		b.wrong(kindMismatch, rec.Run, fmt.Sprintf("Step %d of the HTTP callback has the status %.20q", f.n, f.status))
	}
}

// delete is the end of a session, if nothing of it is open and no parent is to be told of it; else it is not honoured.
func (b *callsBook) delete(subject.Record, fields) {
	p := b.places.at(b.about)
	if len(b.runs.open[b.about]) > 0 {
		return
	}
	for at := p.first; at != 0; at = b.entries.at(at).next {
		if e := b.entries.at(at); e.is(calls) && !b.told(e) && b.obstacle(e) == "" {
			return
		}
	}
	for at := p.first; at != 0; {
		e := b.entries.at(at)
		delete(b.byRun, e.id)
		delete(b.runs.ends, at)
		delete(b.hooks, at)
		e.flags |= gone
		at, e.next = e.next, 0
	}
	*p = place{deleted: b.seq}
	b.lastDeleted = b.at
}

// obstacle is why the parent of a run cannot be told of it; "": it can.
func (b *callsBook) obstacle(e *entry) string {
	p := b.places.at(e.parent)
	switch {
	case p.runs == 0:
		return "there is no such session"
	case b.entries.at(p.first).first > e.first:
		return "the session is younger than the run"
	case p.flags&autonomous == 0:
		return "its agent cannot be resumed"
	case p.flags&began == 0 && len(b.runs.open[e.parent]) == 0:
		return "it never began"
	}
	return ""
}
