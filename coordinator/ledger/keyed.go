package ledger

import (
	"strconv"

	"ao/nats/subject"
	"ao/shared/run"
)

// isForeign reports whether a record has none of its run's keys, or another partition than its session. Nothing else of
// such a record is checked: an unknown run, an unreadable body or a newer version are wrong only under a valid key.
//
// Keys take time to make, and anybody with a worker's credential can write such records. The first ones are compared
// with all keys that there can be. Of more, only with that of the attempt which the record says, those of attempts that
// its run has had, and the next one's.
func (b *runVerifier) isForeign(rec subject.Record, attempt int) bool {
	if b.rules.Key == nil {
		return false
	}
	const most = run.MaxAttempts + run.MaxReturns
	last := 1
	if at, e := b.find(rec.Run); at != 0 {
		if s := b.sessions.at(e.session); e.session != 0 && rec.Partition != strconv.Itoa(int(s.partition)) {
			return true
		}
		if b.live[at].key == rec.Key { // a coordinator's record names this key
			return false
		}
		last += int(max(e.queued, e.claimed, e.ended))
	}
	if behindUnreadable(b.rules, rec) {
		return false
	}
	if b.searches < maxSearches {
		last = most
	}
	if attempt > last && attempt <= most && b.rules.Key(rec.Run, attempt) == rec.Key {
		return false
	}
	for n := min(last, most); n > 0; n-- {
		if b.rules.Key(rec.Run, n) == rec.Key {
			return false
		}
	}
	b.searches++
	return true
}

// maxSearches is how many records without a key are compared with all keys.
const maxSearches = 1000

// exceedsVersion reports whether a record is above its attempt's version (a failed end), or follows such an end.
// An attempt that was never queued allows version 1.
func (b *runVerifier) exceedsVersion(rec subject.Record, version int) bool {
	at, e := b.find(rec.Run)
	if e == nil {
		return false
	}
	if b.versionExceeded[at] == rec.Key {
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
	b.versionExceeded[at] = rec.Key
	b.close(at, e, n, run.Ended{Status: run.Failed})
	return true
}

// close ends an attempt, and its run unless another attempt follows.
func (b *runVerifier) close(at uint32, e *runState, n int, end run.Ended) {
	s, byRunner := end.Status, e.is(running)
	by, before := run.ClaimedByCoordinator, run.Claimed
	if byRunner {
		by = run.ClaimedByRunner
	}
	if e.is(stopping) || treeStopped(b.memory, e) {
		before = run.Stopping
	}
	returned := end.WillReturn(b.live[at].returnable, by, before)
	if byRunner {
		e.ends++
	}
	byRunner = byRunner || n > int(e.claimed) // its claim may have been truncated
	e.ended, e.claimed = uint16(n), max(e.claimed, uint16(n))
	e.flags &^= running | claimedToEnd
	delete(b.live, at)
	if returned { // it does not count
		e.most++
	}
	if s == run.Failed && byRunner && n < int(e.most) && before != run.Stopping {
		return // another attempt follows
	}
	b.finish(at, e, s)
}

// end checks the end record of an attempt.
func (b *runVerifier) end(rec subject.Record, f fields) {
	n := f.attempt
	s := run.Status(f.status)
	if n < 1 || n >= 1<<16 || endings[s] == 0 {
		b.wrong(kindMismatch, rec.Run, "Record %d is the end record of attempt %d, with status %.20q", b.seq, n,
			f.status)
		return
	}
	at, e := b.run(rec.Run, f.session)
	if !b.same(rec, e, f.session) {
		return
	}
	l := b.live[at]
	switch {
	case n <= int(e.ended) && behindUnreadable(b.rules, rec):
		return
	case n <= int(e.ended):
		b.wrong(kindTwoEnds, rec.Run, "Attempt %d has a second end record: %s, by %s", n, s, who(f.runner))
		return
	case e.is(known) && e.is(final):
		b.wrong(kindTwoEnds, rec.Run, "The run had ended when its attempt %d got an end record: %s, by %s", n, s,
			who(f.runner))
		return
	case e.is(known) && n > int(e.claimed):
		b.note(kindUnclaimed, rec.Run, cutOff, "Attempt %d ended although it was never claimed", n)
	case e.is(running|claimedToEnd) && l.key != rec.Key && !behindUnreadable(b.rules, rec):
		b.wrong(kindKey, rec.Run, "Attempt %d was ended by %s with a key that is not its own", n, who(f.runner))
	case e.is(running|claimedToEnd) && f.runner != "" && f.runner != l.runner:
		b.wrong(kindStranger, rec.Run, "Attempt %d was claimed by %s, and its end record is by %s", n, who(l.runner),
			f.runner)
	}
	if s == run.Completed && e.is(hasSchema) && (b.rules.Checked == nil || !b.rules.Checked(rec.Run, n, f.checked)) {
		s = run.Failed // as in every coordinator
	} else if s == run.Completed && e.is(hasSchema) && l.reportedAt == 0 {
		b.note(kindUnreported, rec.Run, cutOff, "Attempt %d completed with a checked result that was never reported", n)
	}
	b.close(at, e, n, run.Ended{Status: s, Returned: f.returned})
	if !e.is(final) && behindUnreadable(b.rules, rec) {
		b.finish(at, e, s)
	}
}

// behindUnreadable reports whether an end record has the key of no attempt. It ends the run: the record in its place
// cannot be read (decision 0045).
func behindUnreadable(rules *Rules, rec subject.Record) bool {
	return rules.Key != nil && rec.Kind == subject.EndedKind && rules.Key(rec.Run, run.NoAttempt) == rec.Key
}
