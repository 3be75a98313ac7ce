package ledger

import (
	"ao/nats/subject"
	"ao/shared/run"
)

// isForeign tells whether a record stands under none of its run's keys. Nothing else of it is looked at: a run that nobody
// accepted, a body that cannot be read and a newer version are wrong only where the key is right.
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
