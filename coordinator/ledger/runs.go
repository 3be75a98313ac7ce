package ledger

import (
	"cmp"
	"slices"

	"ao/nats/subject"
	"ao/shared/run"
)

// runVerifier checks runs and their attempts.
type runVerifier struct {
	*memory
	rules           *Rules
	open            map[uint32][]uint32 // by session: its open runs, in order of arrival
	live            map[uint32]attempt  // by run: its queued or claimed attempt
	ends            map[uint32]int64    // by run with a pending callback: when it ended
	versionExceeded map[uint32]string   // by run: the key of its last attempt that a record above the version ended
	reserved        map[uint32]int64    // by run: when a record carried it that has none of its own yet
	searches        int                 // records that were compared with all keys
}

// attempt is an attempt without an end record.
type attempt struct {
	n      int
	key    string
	runner string // who claimed it
	most   int    // the newest version that its records may have

	returnable bool // its runner may give it back

	carriedAt  int64  // when a coordinator claimed it with the end record that follows, 0: none did
	reportedAt int64  // when its result was reported, 0: it was not
	result     uint64 // the record of the result
}

// beginSession checks a session that begins under its caller's own id. The run's first record follows, or any
// coordinator writes it. Close checks that it exists.
func (b *runVerifier) beginSession(rec subject.Record, f fields) {
	if f.run == "" {
		b.wrong(kindUnreadable, "", "Record %d (session) names no run", b.seq)
		return
	}
	at, e := b.run(f.run, rec.Session)
	if e.session != b.about {
		b.wrong(kindMismatch, f.run, "Record %d (session) names run %s, which is of another session", b.seq, f.run)
	}
	b.reserve(at, e, f)
}

// accept checks the first record of a run, or one that queues it.
func (b *runVerifier) accept(rec subject.Record, f fields) {
	if f.run != rec.Run || f.session == "" || rec.Session != "" && rec.Session != f.session {
		b.wrong(kindMismatch, rec.Run, "Record %d (%s) holds run %.80q of session %.80q, which contradicts its subject",
			b.seq, rec.Kind, f.run, f.session)
		return
	}
	at, e := b.run(rec.Run, f.session)
	if !b.same(rec, e, f.session) {
		return
	}
	if !e.is(known) { // a second one is harmless: a request repeated under its idempotency key
		b.begin(at, e, f)
	}
	if rec.Kind == subject.QueuedKind {
		b.queue(at, e, rec, f)
	}
}

// reserve notes a run that a record carries: it may have no record of its own yet.
func (b *runVerifier) reserve(at uint32, e *runState, f fields) {
	if f.next && !e.is(known) {
		b.reserved[at] = b.at.UnixNano()
	}
}

func (b *runVerifier) begin(at uint32, e *runState, f fields) {
	delete(b.reserved, at)
	if e.claimed > 0 || e.ended > 0 {
		b.note(kindOrder, f.run, cutOff, "Record %d is the run's first, and the run was claimed or had ended before",
			b.seq)
		if f.attempt == int(e.ended)+1 { // then it had not ended with that attempt
			e.flags &^= final | completed | failed | stopped
		}
	}
	e.flags |= known
	if f.attempt > 1 {
		e.flags |= cutBefore
	}
	e.first = b.seq
	e.most = uint16(min(max(f.most, 1), 1<<16-1))
	if f.parent != "" {
		e.parent = b.session(f.parent)
		if f.mode == run.AsyncCallback {
			e.flags |= callsBack
		}
	}
	if f.callbackTurn {
		e.flags |= callbackTurn
	}
	if f.hasWebhook {
		e.flags |= hasWebhook
	}
	if f.hasSchema {
		e.flags |= hasSchema
	}
	p := b.sessions.at(e.session)
	p.runs++
	if p.first == 0 {
		p.first = at
		if f.agentType == run.Autonomous {
			p.flags |= autonomous
		}
	} else {
		b.runStates.at(p.last).next = at
	}
	p.last = at
	if !e.is(final) {
		b.open[e.session] = append(b.open[e.session], at)
	}
}

// queue checks a queued record. An attempt may be queued again in another queue. The record may also come late, if it
// was being written when the run was claimed or stopped.
func (b *runVerifier) queue(at uint32, e *runState, rec subject.Record, f fields) {
	n := f.attempt
	switch {
	case n != rec.N || n < 1 || f.key == "":
		b.wrong(kindMismatch, rec.Run, "Record %d queues attempt %d, its subject says %d; or it has no key", b.seq, n,
			rec.N)
		return
	case n > int(e.most):
		b.wrong(kindAttempt, rec.Run, "Attempt %d was queued; the run may have %d", n, e.most)
	case n <= int(max(e.queued, e.claimed)):
	case e.is(final) && e.ended > 0 && int(e.ended) < n:
		b.wrong(kindAttempt, rec.Run, "Attempt %d was queued although the run had ended", n)
	case n != int(e.ended)+1:
		b.note(kindAttempt, rec.Run, cutOff, "Attempt %d was queued although attempt %d has no end record", n, n-1)
		e.ended, e.claimed = uint16(n-1), uint16(n-1) // assumed from here on
	}
	l, ok := b.live[at]
	if ok && l.n == n && l.key != f.key {
		b.wrong(kindKey, rec.Run, "Attempt %d has two keys", n)
		return
	}
	e.queued = max(e.queued, uint16(min(n, 1<<16-1)))
	if !e.is(final) && n > int(e.claimed) {
		most, returnable := max(f.recordVersion, 1), f.returnable
		if l.n == n { // a worker may have been given either
			most, returnable = max(most, l.most), returnable || l.returnable
		}
		b.live[at] = attempt{n: n, key: f.key, most: most, returnable: returnable}
	}
}

// claim checks the claim of an attempt, by a runner or by a coordinator that ends it.
func (b *runVerifier) claim(rec subject.Record, f fields) {
	n := f.attempt
	if n < 1 || n >= 1<<16 {
		b.wrong(kindMismatch, rec.Run, "Record %d claims attempt %d", b.seq, n)
		return
	}
	at, e := b.run(rec.Run, f.session)
	if !b.same(rec, e, f.session) {
		return
	}
	l := b.live[at]
	switch {
	case n <= int(e.claimed):
		b.wrong(kindClaimedTwice, rec.Run, "Attempt %d was claimed twice, the second time by %s", n, who(f.runner))
		return
	case e.is(known) && e.is(final):
		b.wrong(kindAfterEnd, rec.Run, "Attempt %d was claimed by %s after the run had ended", n, who(f.runner))
	case e.is(known) && n != int(e.ended)+1:
		b.wrong(kindAttempt, rec.Run, "Attempt %d was claimed although attempt %d has no end record", n, n-1)
	case e.is(known) && f.runner != "" && n > int(e.queued):
		b.wrong(kindAttempt, rec.Run, "Attempt %d was claimed by %s although it was never queued", n, who(f.runner))
	case l.n == n && l.key != rec.Key:
		b.wrong(kindKey, rec.Run, "Attempt %d was claimed by %s with a key that is not its own", n, who(f.runner))
	}
	if !e.is(known) && f.queued != 0 {
		b.claimedFrom[at] = f.queued
	}
	e.claimed = uint16(n)
	now := attempt{n: n, key: rec.Key, runner: f.runner, most: 1}
	if l.n == n {
		now.most, now.returnable = l.most, l.returnable
	}
	l = now
	if f.next {
		l.carriedAt = b.at.UnixNano()
	}
	b.live[at] = l
	if f.runner == "" {
		e.flags |= claimedToEnd
		return
	}
	e.flags |= running
	e.claims++
	b.sessions.at(e.session).flags |= everClaimed
	b.turn(at, e, rec)
}

// turn checks that a claimed run is its session's turn: everything accepted before it has ended.
func (b *runVerifier) turn(at uint32, e *runState, rec subject.Record) {
	open := b.open[e.session]
	if len(open) == 0 || !e.is(known) || e.is(final) {
		return
	}
	for _, o := range open {
		if before := b.runStates.at(o); o != at && before.is(running) {
			b.wrong(kindTwoAtOnce, rec.Run, "The run was claimed while run %s of its session ran", before.id.runID())
			return
		}
	}
	if before := b.runStates.at(open[0]); open[0] != at {
		// its first record may be truncated, and one of a later attempt taken for it
		b.note(kindOrder, rec.Run, cutOff, "The run was claimed although run %s of its session came before it, and "+
			"had not ended", before.id.runID())
	}
}

func who(runner string) string { return cmp.Or(runner, "a coordinator") }

// endings are the flags of the final statuses.
var endings = map[run.Status]flags{run.Completed: completed, run.Failed: failed, run.Stopped: stopped}

// finish ends a run.
func (b *runVerifier) finish(at uint32, e *runState, s run.Status) {
	e.flags |= final | endings[s]
	if !e.is(known) {
		return
	}
	if open := slices.DeleteFunc(b.open[e.session], func(o uint32) bool { return o == at }); len(open) > 0 {
		b.open[e.session] = open
	} else {
		delete(b.open, e.session)
	}
	p := b.sessions.at(e.session)
	p.idleSince = b.at.UnixNano()
	p.flags &^= lastUnclaimed
	if e.claims == 0 {
		p.flags |= lastUnclaimed
	}
	if e.is(callbackTurn) && e.claims == 0 { // its children are pending again, and a later turn answers
		e.flags &^= callsBack
	}
	if e.is(callsBack) {
		b.ends[at] = b.at.UnixNano()
	}
}

// stop notes a request to stop a run. One that was on its way may come after the end.
func (b *runVerifier) stop(rec subject.Record, f fields) {
	if _, e := accepted(b.memory, rec, f.session, "stops"); e != nil && !e.is(final) {
		e.flags |= stopping
	}
}

// tree notes a request to stop what is below a session, and of its own runs the named one, or all. It has no effect if
// a runner has claimed a run of the session after the one that it is about.
func (b *runVerifier) tree(rec subject.Record, f fields) {
	_, e := accepted(b.memory, rec, rec.Session, "stops the tree of")
	if e == nil {
		return
	}
	for at := e.next; at != 0; at = b.runStates.at(at).next {
		if b.runStates.at(at).claims > 0 {
			return
		}
	}
	s := b.sessions.at(e.session)
	s.treeStopped = b.seq
	named, _ := runIdent(f.run)
	for at := s.first; at != 0; at = b.runStates.at(at).next {
		if own := b.runStates.at(at); !own.is(final) && (f.run == "" || own.id == named) {
			own.flags |= stopping
		}
	}
}

// maxDepth is how many sessions a walk upwards passes at most: truncation can make a cycle of parents.
const maxDepth = 1000

// treeStopped reports whether the tree of a session above a run was stopped since the run was accepted.
func treeStopped(m *memory, e *runState) bool {
	s := m.sessions.at(e.session)
	for range maxDepth {
		if s.first == 0 {
			return false
		}
		parent := m.runStates.at(s.first).parent
		if parent == 0 {
			return false
		}
		s = m.sessions.at(parent)
		if s.treeStopped > e.first {
			return true
		}
	}
	return false
}

// workerRecord checks a worker's record of an attempt other than its end.
func (b *runVerifier) workerRecord(rec subject.Record, f fields) {
	at, e := accepted(b.memory, rec, f.session, "("+rec.Kind.String()+") is of")
	if e == nil {
		return
	}
	switch l := b.live[at]; {
	case f.attempt > int(e.claimed):
		b.note(kindUnclaimed, rec.Run, cutOff, "Record %d (%s) is of attempt %d, which was never claimed", b.seq,
			rec.Kind, f.attempt)
	case e.is(running) && l.n == f.attempt && (l.runner != f.runner || l.key != rec.Key):
		b.wrong(kindStranger, rec.Run, "Attempt %d is %s's, and record %d (%s) is by %s", l.n, l.runner, b.seq,
			rec.Kind, who(f.runner))
	}
}

// result notes the result that a worker reports for an attempt with an output schema. A coordinator's record there
// blocks it, and its end record follows. A result that was on its way may come after the end.
func (b *runVerifier) result(rec subject.Record, f fields) {
	if f.runner != "" {
		b.workerRecord(rec, f)
	}
	at, e := b.find(rec.Run)
	if e == nil || !e.is(running) {
		return
	}
	if l := b.live[at]; l.n == f.attempt && l.reportedAt == 0 {
		l.reportedAt, l.result = b.at.UnixNano(), b.seq
		b.live[at] = l
	}
}
