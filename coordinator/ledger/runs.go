package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"ao/nats/subject"
	"ao/shared/run"
)

// runsBook is how runs, and their attempts, came and went.
type runsBook struct {
	*memory
	rules    *Rules
	open     map[uint32][]uint32 // by session: its runs that have not ended, in order of arrival
	live     map[uint32]attempt  // by run: its attempt under way, or queued
	ends     map[uint32]int64    // by run that a parent is to be told of, and was not: when it ended
	over     map[uint32]string   // by run: the key of its last attempt that a record above the attempt's version ended
	promised map[uint32]int64    // by run: when a record carried it, and it had none of its own
}

// attempt is what is known of an attempt that has no last word.
type attempt struct {
	n      int
	key    string
	runner string // who began it
	most   int    // the newest version that its records may have

	carried int64  // when a coordinator claimed it with the last word that is to follow, 0: none did
	offered int64  // when its result was, 0: it was not
	offer   uint64 // the record that did
}

// begunSession is a session that begins under its caller's own id; its run's first record follows, or is written by
// whoever finds none. That there is one is seen at the end.
func (b *runsBook) begunSession(rec subject.Record, f fields) {
	if f.run == "" {
		b.wrong(kindUnreadable, "", fmt.Sprintf("Record %d (session) names no run", b.seq))
		return
	}
	at, e := b.run(f.run, rec.Session)
	if e.session != b.about {
		b.wrong(kindMismatch, f.run, fmt.Sprintf("Record %d (session) names run %s, which is of another session", b.seq,
			f.run))
	}
	b.promise(at, e, f)
}

// accept is the first record of a run, or one that queues it.
func (b *runsBook) accept(rec subject.Record, f fields) {
	if f.run != rec.Run || f.session == "" || rec.Session != "" && rec.Session != f.session {
		b.wrong(kindMismatch, rec.Run,
			fmt.Sprintf("Record %d (%s) holds run %.80q of session %.80q, which is not what its subject says", b.seq,
				rec.Kind, f.run, f.session))
		return
	}
	at, e := b.run(rec.Run, f.session)
	if !b.same(rec, e, f.session) {
		return
	}
	if !e.is(known) { // a second one is harmless: a request that was repeated under its idempotency key
		b.begin(at, e, f)
	}
	if rec.Kind == subject.QueuedKind {
		b.queue(at, e, rec, f)
	}
}

// promise notes a run that a record carries: it may have none of its own yet.
func (b *runsBook) promise(at uint32, e *entry, f fields) {
	if f.next && !e.is(known) {
		b.promised[at] = b.at.UnixNano()
	}
}

func (b *runsBook) begin(at uint32, e *entry, f fields) {
	delete(b.promised, at)
	if e.claimed > 0 || e.ended > 0 {
		b.note(kindOrder, f.run, cutOff,
			fmt.Sprintf("Record %d is the run's first, and the run was claimed or had ended before", b.seq))
		if f.attempt == int(e.ended)+1 { // then it had not ended with that attempt
			e.flags &^= final | completed | failed | stopped
		}
	}
	e.flags |= known
	e.first = b.seq
	e.most = uint16(min(max(f.most, 1), 1<<16-1))
	if f.parent != "" {
		e.parent = b.place(f.parent)
		if f.mode == run.AsyncCallback {
			e.flags |= calls
		}
	}
	if f.reports {
		e.flags |= tells
	}
	if f.hooked {
		e.flags |= hooked
	}
	if f.contract {
		e.flags |= contract
	}
	p := b.places.at(e.session)
	p.runs++
	if p.first == 0 {
		p.first = at
		if f.agentType == run.Autonomous {
			p.flags |= autonomous
		}
	} else {
		b.entries.at(p.last).next = at
	}
	p.last = at
	if !e.is(final) {
		b.open[e.session] = append(b.open[e.session], at)
	}
}

// queue is an attempt that may be taken. One that was queued before may be so again, in another lane, and a record that
// was under way when the run was taken or stopped may come late.
func (b *runsBook) queue(at uint32, e *entry, rec subject.Record, f fields) {
	n := f.attempt
	switch {
	case n != rec.N || n < 1 || f.key == "":
		b.wrong(kindMismatch, rec.Run, fmt.Sprintf("Record %d queues attempt %d, its subject says %d; or it has no key",
			b.seq, n, rec.N))
		return
	case n > int(e.most):
		b.wrong(kindAttempt, rec.Run, fmt.Sprintf("Attempt %d was queued; the run may have %d", n, e.most))
	case n <= int(max(e.queued, e.claimed)):
	case e.is(final) && e.ended > 0 && int(e.ended) < n:
		b.wrong(kindAttempt, rec.Run, fmt.Sprintf("Attempt %d was queued although the run had ended", n))
	case n != int(e.ended)+1:
		b.note(kindAttempt, rec.Run, cutOff, fmt.Sprintf("Attempt %d was queued although attempt %d has no last word",
			n, n-1))
		e.ended, e.claimed = uint16(n-1), uint16(n-1) // as if, and from here on
	}
	l, ok := b.live[at]
	if ok && l.n == n && l.key != f.key {
		b.wrong(kindKey, rec.Run, fmt.Sprintf("Attempt %d has two keys", n))
		return
	}
	e.queued = max(e.queued, uint16(min(n, 1<<16-1)))
	if !e.is(final) && n > int(e.claimed) {
		most := max(f.bound, 1)
		if l.n == n { // a worker may have been handed either
			most = max(most, l.most)
		}
		b.live[at] = attempt{n: n, key: f.key, most: most}
	}
}

// claim is the beginning of an attempt, or a coordinator's, to end it.
func (b *runsBook) claim(rec subject.Record, f fields) {
	n := f.attempt
	if n < 1 || n >= 1<<16 {
		b.wrong(kindMismatch, rec.Run, fmt.Sprintf("Record %d claims attempt %d", b.seq, n))
		return
	}
	at, e := b.run(rec.Run, f.session)
	if !b.same(rec, e, f.session) {
		return
	}
	l := b.live[at]
	switch {
	case n <= int(e.claimed):
		b.wrong(kindBegunTwice, rec.Run, fmt.Sprintf("Attempt %d was claimed twice, the second time by %s", n,
			who(f.runner)))
		return
	case e.is(known) && e.is(final):
		b.wrong(kindAfterEnd, rec.Run, fmt.Sprintf("Attempt %d was claimed by %s after the run had ended", n,
			who(f.runner)))
	case e.is(known) && n != int(e.ended)+1:
		b.wrong(kindAttempt, rec.Run, fmt.Sprintf("Attempt %d was claimed although attempt %d has no last word", n,
			n-1))
	case e.is(known) && f.runner != "" && n > int(e.queued):
		b.wrong(kindAttempt, rec.Run, fmt.Sprintf("Attempt %d was claimed by %s although nobody had queued it", n,
			who(f.runner)))
	case l.n == n && l.key != rec.Key:
		b.wrong(kindKey, rec.Run, fmt.Sprintf("Attempt %d was claimed by %s with a key that is not its own", n,
			who(f.runner)))
	}
	e.claimed = uint16(n)
	most := 1
	if l.n == n {
		most = l.most
	}
	l = attempt{n: n, key: rec.Key, runner: f.runner, most: most}
	if f.next {
		l.carried = b.at.UnixNano()
	}
	b.live[at] = l
	if f.runner == "" {
		e.flags |= held
		return
	}
	e.flags |= running
	e.begins++
	b.places.at(e.session).flags |= began
	b.turn(at, e, rec)
}

// turn checks that what a runner begins is its session's turn: all that was accepted before it has ended.
func (b *runsBook) turn(at uint32, e *entry, rec subject.Record) {
	open := b.open[e.session]
	if len(open) == 0 || !e.is(known) || e.is(final) {
		return
	}
	for _, o := range open {
		if before := b.entries.at(o); o != at && before.is(running) {
			b.wrong(kindTwoAtOnce, rec.Run, fmt.Sprintf("The run was begun while run %s of its session ran",
				before.id.runID()))
			return
		}
	}
	if before := b.entries.at(open[0]); open[0] != at {
		b.wrong(kindOrder, rec.Run,
			fmt.Sprintf("The run was begun although run %s of its session came before it, and had not ended",
				before.id.runID()))
	}
}

func who(runner string) string { return cmp.Or(runner, "a coordinator") }

// endings are the statuses of last words.
var endings = map[run.Status]flags{run.Completed: completed, run.Failed: failed, run.Stopped: stopped}

// finish is the end of a run.
func (b *runsBook) finish(at uint32, e *entry, s run.Status) {
	e.flags |= final | endings[s]
	if !e.is(known) {
		return
	}
	if open := slices.DeleteFunc(b.open[e.session], func(o uint32) bool { return o == at }); len(open) > 0 {
		b.open[e.session] = open
	} else {
		delete(b.open, e.session)
	}
	p := b.places.at(e.session)
	p.idle = b.at.UnixNano()
	p.flags &^= missed
	if e.begins == 0 {
		p.flags |= missed
	}
	if e.is(tells) && e.begins == 0 { // its children are owed again, and a later turn answers
		e.flags &^= calls
	}
	if e.is(calls) {
		b.ends[at] = b.at.UnixNano()
	}
}

// stop is the wish to stop a run. One that was under way may come after its end.
func (b *runsBook) stop(rec subject.Record, f fields) {
	_, e := b.find(rec.Run)
	if e == nil {
		b.note(kindUnknownRun, rec.Run, late, fmt.Sprintf("Record %d stops a run that nobody accepted", b.seq))
		return
	}
	if b.same(rec, e, f.session) && !e.is(final) {
		e.flags |= stopping
	}
}

// tree is the wish to stop what is below a session; it names the session's run that was begun last.
func (b *runsBook) tree(rec subject.Record, _ fields) {
	if _, e := b.find(rec.Run); e == nil {
		b.note(kindUnknownRun, rec.Run, late, fmt.Sprintf("Record %d stops the tree of a run that nobody accepted",
			b.seq))
	} else {
		b.same(rec, e, rec.Session)
	}
}

// speak is what a worker says of an attempt beside its last word.
func (b *runsBook) speak(rec subject.Record, f fields) {
	at, e := b.find(rec.Run)
	if e == nil {
		b.note(kindUnknownRun, rec.Run, late, fmt.Sprintf("Record %d (%s) is of a run that nobody accepted", b.seq,
			rec.Kind))
		return
	}
	if !b.same(rec, e, f.session) {
		return
	}
	switch l := b.live[at]; {
	case f.attempt > int(e.claimed):
		b.note(kindUnclaimed, rec.Run, cutOff, fmt.Sprintf("Record %d (%s) is of attempt %d, which nobody had claimed",
			b.seq, rec.Kind, f.attempt))
	case e.is(running) && l.n == f.attempt && (l.runner != f.runner || l.key != rec.Key):
		b.wrong(kindStranger, rec.Run, fmt.Sprintf("Attempt %d is %s's, and record %d (%s) is by %s", l.n, l.runner,
			b.seq, rec.Kind, who(f.runner)))
	}
}

// offer is what a worker has as the result of an attempt with an output schema; a coordinator's own shuts the door, and
// its last word stands right behind. One that was under way may come after the last word.
func (b *runsBook) offer(rec subject.Record, f fields) {
	if f.runner != "" {
		b.speak(rec, f)
	}
	at, e := b.find(rec.Run)
	if e == nil || !e.is(running) {
		return
	}
	if l := b.live[at]; l.n == f.attempt && l.offered == 0 {
		l.offered, l.offer = b.at.UnixNano(), b.seq
		b.live[at] = l
	}
}
