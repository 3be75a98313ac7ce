package ledger

import (
	"fmt"

	"ao/nats/subject"
	"ao/shared/run"
)

// isForeign tells whether a record stands under none of its run's keys. Nothing else of it is looked at: a run that
// nobody accepted, a body that cannot be read and a newer version are wrong only where the key is right.
func (b *runsBook) isForeign(rec subject.Record) bool {
	if b.rules.Key == nil {
		return false
	}
	if at, _ := b.find(rec.Run); at != 0 && b.live[at].key == rec.Key { // a coordinator has said so
		return false
	}
	for n := 1; n <= run.MaxAttempts; n++ {
		if b.rules.Key(rec.Run, n) == rec.Key {
			return false
		}
	}
	return true
}

// overstepped tells whether a record is above the version that its attempt allows, which is a failed end of that, or
// follows such an end: then it says nothing more. An attempt that was never queued allows version 1.
func (b *runsBook) overstepped(rec subject.Record, version int) bool {
	at, e := b.find(rec.Run)
	if e == nil {
		return false
	}
	if b.over[at] == rec.Key {
		return true
	}
	n, most := int(e.ended)+1, 1
	if l, ok := b.live[at]; ok {
		if l.key != rec.Key {
			return false
		}
		n, most = l.n, l.most
	} else if b.rules.Key == nil || b.rules.Key(rec.Run, n) != rec.Key {
		return false
	}
	if !e.is(known) || e.is(final) || version <= most {
		return false
	}
	b.over[at] = rec.Key
	b.close(at, e, n, run.Failed)
	return true
}

// close is the end of an attempt, and of its run unless another one follows.
func (b *runsBook) close(at uint32, e *entry, n int, s run.Status) {
	byRunner := e.is(running)
	if byRunner {
		e.words++
	}
	byRunner = byRunner || n > int(e.claimed) // its claim may have been truncated
	e.ended, e.claimed = uint16(n), max(e.claimed, uint16(n))
	e.flags &^= running | held
	delete(b.live, at)
	if s == run.Failed && byRunner && n < int(e.most) && !e.is(stopping) {
		return // another attempt follows
	}
	b.finish(at, e, s)
}

// end is the last word of an attempt.
func (b *runsBook) end(rec subject.Record, f fields) {
	n := f.attempt
	s := run.Status(f.status)
	if n < 1 || n >= 1<<16 || endings[s] == 0 {
		b.wrong(kindMismatch, rec.Run, fmt.Sprintf("Record %d is the last word of attempt %d, with status %.20q", b.seq,
			n, f.status))
		return
	}
	at, e := b.run(rec.Run, f.session)
	if !b.same(rec, e, f.session) {
		return
	}
	l := b.live[at]
	switch {
	case n <= int(e.ended):
		b.wrong(kindTwoLastWords, rec.Run, fmt.Sprintf("Attempt %d has a second last word: %s, by %s", n, s,
			who(f.runner)))
		return
	case e.is(known) && e.is(final):
		b.wrong(kindTwoLastWords, rec.Run,
			fmt.Sprintf("The run had ended when its attempt %d got a last word: %s, by %s", n, s, who(f.runner)))
		return
	case e.is(known) && n > int(e.claimed):
		b.note(kindUnclaimed, rec.Run, cutOff, fmt.Sprintf("Attempt %d ended although nobody had claimed it", n))
	case e.is(running|held) && l.key != rec.Key:
		b.wrong(kindKey, rec.Run, fmt.Sprintf("Attempt %d was ended by %s with a key that is not its own", n,
			who(f.runner)))
	case e.is(running|held) && f.runner != "" && f.runner != l.runner:
		b.wrong(kindStranger, rec.Run, fmt.Sprintf("Attempt %d was claimed by %s, and its last word is by %s", n,
			who(l.runner), f.runner))
	}
	if s == run.Completed && e.is(contract) && (b.rules.Checked == nil || !b.rules.Checked(rec.Run, n, f.checked)) {
		s = run.Failed // that is what every coordinator makes of it
	} else if s == run.Completed && e.is(contract) && l.offered == 0 {
		b.note(kindUnoffered, rec.Run, cutOff,
			fmt.Sprintf("Attempt %d completed with a checked result that nobody had offered", n))
	}
	b.close(at, e, n, s)
}
