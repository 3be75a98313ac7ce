package ledger

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"ao/nats/subject"
	"ao/shared/run"
)

// callbackVerifier checks callbacks and webhooks.
type callbackVerifier struct {
	*memory
	runs     *runVerifier
	webhooks map[uint32]webhookState // by run with a webhook, once there was a try
}

// webhookState is the state of a run's webhook.
type webhookState struct {
	n      int
	status string
}

// report checks a callback record: a turn of the parent reports ended children. The turn follows, or, in a history of
// an older version, comes first. A suppressed callback names an earlier claimed turn.
func (b *callbackVerifier) report(rec subject.Record, f fields) {
	parent := b.about
	name := cmp.Or(f.turn, f.run)
	turn, t := b.find(name)
	if f.next && name != "" {
		turn, t = b.run(name, rec.Session)
		b.runs.reserve(turn, t, f)
	}
	if f.turn != "" && !f.next && (t == nil || !t.is(known)) {
		b.reportAll(name, 0, parent, f) // only a deletion writes a list without its turn, of which it purges all
		return
	}
	switch {
	case name == "" || len(f.children) == 0:
		b.wrong(kindCallback, name, "Record %d (callback) names no turn, or no children", b.seq)
		return
	case t == nil || !t.is(known) && b.runs.reserved[turn] == 0:
		b.missingRun(name, name, cutOff, "Record %d (callback) names turn %s, which was never accepted", b.seq, name)
	case t.session != parent:
		b.wrong(kindCallback, name, "Record %d (callback) names turn %s, which is not of session %.80q", b.seq, name,
			rec.Session)
	}
	// Otherwise two turns could report one child (decision 0014).
	if first, e := b.find(f.children[0]); rec.Run != f.children[0] {
		b.wrong(kindCallback, name, "Record %d (callback) is named after run %s, and its first child is %.80q", b.seq,
			rec.Run, f.children[0])
	} else if first != 0 {
		misses := int(e.misses)
		if e.turn != 0 && !b.delivered(e) {
			misses++
		}
		if rec.N != misses {
			b.missingRun(name, rec.Run, cutOff, "Record %d (callback) says that %d turns reported run %s and "+
				"ended unclaimed, but %d did", b.seq, rec.N, rec.Run, misses)
		}
	}
	b.reportAll(name, turn, parent, f)
}

// reportAll checks the children of a list.
func (b *callbackVerifier) reportAll(name string, turn, parent uint32, f fields) {
	for _, id := range f.children {
		b.reportChild(name, turn, parent, id)
		if _, e := b.find(id); e != nil && f.suppressed {
			e.flags |= suppressed
		}
	}
}

// turnName parses the name of a callback record: its first child, and how many unclaimed turns reported it before.
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

// reportChild checks one child that a turn reports.
func (b *callbackVerifier) reportChild(turnID string, turn, parent uint32, id string) {
	at, e := b.find(id)
	switch {
	case e == nil || !e.is(known):
		b.missingRun(id, id, unknown, "Turn %s reports run %.80q, which was never accepted", turnID, id)
		return
	case !e.is(callsBack) || e.parent != parent:
		b.wrong(kindCallback, id, "Turn %s reports the run to a session that it does not call back", turnID)
		return
	case !e.is(final):
		b.wrong(kindCallback, id, "Turn %s reports the run, which had not ended", turnID)
	case b.delivered(e):
		b.wrong(kindTwice, id, "It was reported to its parent twice: by %s, and by turn %s",
			b.runStates.at(e.turn).id.runID(), turnID)
		return
	}
	if e.turn != 0 {
		e.misses++
	}
	e.turn = turn
	e.flags = e.flags&^suppressed | reported
	b.runStates.at(turn).flags |= callbackTurn
	delete(b.runs.ends, at)
}

// delivered reports whether a turn reports the run. A turn that ended unclaimed returned its children.
func (b *callbackVerifier) delivered(e *runState) bool {
	if e.turn == 0 {
		return e.is(reported) // by a turn that is no longer known
	}
	t := b.runStates.at(e.turn)
	return !t.is(final) || t.claims > 0
}

// missingRun notes that a callback record names an unknown run.
func (b *callbackVerifier) missingRun(id, missing string, x exemption, format string, args ...any) {
	f := violation{Wrong: Wrong{kindCallback, id, b.seq, fmt.Sprintf(format, args...)}, session: b.about, exemption: x}
	if i, ok := runIdent(missing); ok {
		f.born = bornAt(b.memory, i, 0, nil)
	} else {
		f.exemption = never
	}
	b.keep(f)
}

// notify checks a step of a run's webhook: steps are numbered, and none follows the delivery.
func (b *callbackVerifier) notify(rec subject.Record, f fields) {
	at, e := accepted(b.memory, rec, f.session, "(notified) is of")
	if e == nil {
		return
	}
	h := b.webhooks[at]
	switch {
	case f.n != rec.N:
		b.wrong(kindMismatch, rec.Run, "Record %d (notified) is step %d, its subject says %d", b.seq, f.n, rec.N)
	case e.is(known) && !e.is(hasWebhook):
		b.wrong(kindWebhook, rec.Run, "Record %d (notified): the run has no callback_url", b.seq)
	case e.is(known) && !e.is(final):
		b.wrong(kindWebhook, rec.Run, "Record %d (notified): the run had not ended", b.seq)
	case f.n != h.n+1:
		b.wrong(kindWebhook, rec.Run, "Step %d of the webhook follows step %d", f.n, h.n)
	case h.status == run.NotifyDelivered:
		b.wrong(kindWebhook, rec.Run, "Step %d of the webhook is %q although it had been delivered", f.n, f.status)
	case h.status == run.NotifyDead && f.status != run.NotifyAgain:
		b.wrong(kindWebhook, rec.Run, "Step %d of the webhook is %q although it was dead", f.n, f.status)
	}
	switch f.status {
	case run.NotifyDelivered, run.NotifyFailed, run.NotifyDead, run.NotifyAgain:
		b.webhooks[at] = webhookState{f.n, f.status}
	default:
		b.wrong(kindMismatch, rec.Run, "Step %d of the webhook has the status %.20q", f.n, f.status)
	}
}

// delete ends a session. The record has no effect if a run is open or a callback is pending.
func (b *callbackVerifier) delete(subject.Record, fields) {
	p := b.sessions.at(b.about)
	if len(b.runs.open[b.about]) > 0 {
		return
	}
	for at := p.first; at != 0; at = b.runStates.at(at).next {
		if e := b.runStates.at(at); e.is(callsBack) && !b.delivered(e) && b.obstacle(e) == "" {
			return
		}
	}
	for at := p.first; at != 0; {
		e := b.runStates.at(at)
		delete(b.byRun, e.id)
		delete(b.runs.ends, at)
		delete(b.webhooks, at)
		e.flags |= deleted
		at, e.next = e.next, 0
	}
	*p = sessionState{partition: p.partition, deleted: b.seq}
	b.lastDeleted = b.at
}

// obstacle returns why a run's parent cannot be called back; "" if it can.
func (b *callbackVerifier) obstacle(e *runState) string {
	p := b.sessions.at(e.parent)
	switch {
	case p.runs == 0:
		return "there is no such session"
	case b.runStates.at(p.first).first > e.first:
		return "the session is younger than the run"
	case p.flags&autonomous == 0:
		return "its agent cannot be resumed"
	case p.flags&everClaimed == 0 && len(b.runs.open[e.parent]) == 0:
		return "none of its runs was ever claimed"
	}
	return ""
}
