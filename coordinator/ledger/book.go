// Package ledger audits the RUNS stream: it reads every record from the first one kept to the last one there is, and tells
// whether the promises hold: what was accepted waits, runs or has ended; no attempt was begun twice or has two last words; a
// session did one thing at a time, in order; every callback owed came once, or will. It is the judge of the coordinators, so it
// has nothing in common with the fold they decide by.
package ledger

import (
	"cmp"
	"fmt"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// Rules are what a book cannot know of the records alone; the zero value has none.
type Rules struct {
	// Checked tells whether a mark is that of a coordinator that checked the result of an attempt against the run's output schema:
	// without a valid one such a run has not completed, whatever its last word says, but failed. nil: no mark is valid.
	Checked func(run string, attempt int, mark string) bool
	// Key makes the key of an attempt. A record under none of its run's keys may be written by whoever has a worker's
	// credential: it is counted, and says nothing. nil: every key counts.
	Key func(run string, attempt int) string
	// Version is the newest version of records that is read; 0: run.Version.
	Version int
}

// Book reads records one after the other; Close says what they add up to. It is for one goroutine.
//
// Not everything that is absent is wrong. Two things take records away, and leave a trace by which the book knows them:
//
//   - A deleted session. Its deleted record precedes the purge, so whatever seems wrong with a session is let go if such a
//     record follows and was to be honoured: nothing of the session was open there, and no parent was yet to be told of it.
//     A child that a callback names, and that nobody knows, may have gone that way if a session was deleted after the
//     child's id was made.
//   - Truncation, which takes whole runs that ended, and what lies between, from the front. A record that lacks what must
//     precede it is let go if its run's id (which has the time) is older than the oldest record kept, and the run has
//     ended: an open one is never cut.
//
// What contradicts itself, such as two claims of one attempt, is wrong in any case.
type Book struct {
	Rules

	records uint64
	unknown uint64
	foreign []uint64  // the first maxForeign sequences
	nobodys uint64    // how many such records there are
	first   uint64    // sequence of the first record read
	cut     time.Time // its time
	seq     uint64    // of the record being read, or read last
	at      time.Time // likewise
	about   uint32    // the session of that record, 0: not known

	runs     index
	entries  slab[entry]
	sessions index
	places   slab[place]
	open     map[uint32][]uint32 // by session: its runs that have not ended, in order of arrival
	live     map[uint32]attempt  // by run: its attempt under way, or queued
	ends     map[uint32]int64    // by run that a parent is to be told of, and was not: when it ended
	hooks    map[uint32]hook     // by run with an HTTP callback, once there was a try
	over     map[uint32]string   // by run: the key of its last attempt that a record above the attempt's version ended
	promised map[uint32]int64    // by run: when a record carried it, and it had none of its own
	unlisted map[uint32]int64    // by callback turn: when it was accepted, and its callback record was not there

	lastDeleted time.Time // the newest deletion that was honoured
	found       []finding
	dropped     int // findings beyond maxFound
}

// entry is a run. A million of them are kept, so it is small.
type entry struct {
	id      ident
	first   uint64 // sequence of its first record
	session uint32
	next    uint32 // run of the session, 0: none
	parent  uint32 // session, 0: none
	turn    uint32 // the parent's run that reports it, 0: none
	most    uint16 // attempts
	queued  uint16 // the highest attempt that was queued
	claimed uint16 // … claimed
	ended   uint16 // … that has a last word
	begins  uint16 // attempts that a runner began
	words   uint16 // of these: that have a last word
	vain    uint16 // turns that told a parent of it, and ended before they began
	flags   flags
}

type flags uint16

const (
	known     flags = 1 << iota // it was accepted or queued: its first record was read
	running                     // a runner began its attempt, which has no last word
	held                        // a coordinator claimed its attempt to end it, and has not
	final                       // it has ended
	completed                   // … and how
	failed
	stopped
	stopping // somebody wants it stopped
	calls    // mode async_callback, with a parent
	reported // a turn of the parent tells it
	hooked   // it has a callback_url
	gone     // its session was deleted
	tells    // it is a callback turn
	hushed   // its parent is not told: one of the two was stopped with its tree
	contract // it has an output schema: its result is offered, and checked
)

func (e *entry) is(f flags) bool { return e.flags&f != 0 }

// place is a session.
type place struct {
	first, last uint32 // its runs, linked
	runs        uint32
	flags       placeFlags
	idle        int64  // when a run of it ended last
	deleted     uint64 // sequence of the deletion that was honoured
}

type placeFlags uint8

const (
	autonomous placeFlags = 1 << iota
	began                 // a runner has begun a run of it
	missed                // the run that ended last was never begun
)

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

// hook is where a run's HTTP callback stands.
type hook struct {
	n      int
	status string
}

// excuse is what may explain a finding away.
type excuse uint8

const (
	never   excuse = iota // nothing but the deletion of its session, later
	cutOff                // what is missed was truncated
	late                  // likewise; or the session was deleted before: the record was under way then
	unknown               // likewise; or the run's session is not known, and was deleted
)

// finding is something wrong, unless something explains it.
type finding struct {
	Wrong
	session uint32
	run     uint32 // 0: not known
	excuse  excuse
	born    time.Time // when the id was made of the run that is missed
}

// maxFound is how many findings are kept until Close sorts out what is explained.
const maxFound = 100_000

// NewBook is an empty book.
func NewBook() *Book {
	b := &Book{
		runs: index{}, sessions: index{}, open: map[uint32][]uint32{}, live: map[uint32]attempt{}, ends: map[uint32]int64{}, hooks: map[uint32]hook{}, over: map[uint32]string{},
		promised: map[uint32]int64{}, unlisted: map[uint32]int64{},
	}
	b.entries.add(entry{}) // 0 is none
	b.places.add(place{})
	return b
}

// Enter reads the next record.
func (b *Book) Enter(m bus.Message) {
	if b.records++; b.records == 1 {
		b.first, b.cut = m.Seq, m.Time
	}
	if m.Seq <= b.seq {
		b.wrong(KindUnreadable, "", fmt.Sprintf("Record %d comes after record %d", m.Seq, b.seq))
		return
	}
	b.seq, b.at, b.about = m.Seq, m.Time, 0
	rec, err := subject.Parse(m.Subject)
	if err != nil {
		b.wrong(KindUnreadable, "", fmt.Sprintf("Record %d: %v", m.Seq, err))
		return
	}
	if rec.Kind == subject.Unknown {
		b.unknown++
		return
	}
	if rec.Kind.Keyed() && b.isForeign(rec) {
		if b.nobodys++; len(b.foreign) < maxForeign {
			b.foreign = append(b.foreign, m.Seq)
		}
		return
	}
	f, err := read(m.Body)
	if rec.Kind.Keyed() && b.overstepped(rec, f.v) {
		return
	}
	switch most := cmp.Or(b.Version, run.Version); {
	case err != nil:
		b.wrong(KindUnreadable, rec.Run, fmt.Sprintf("Record %d (%s) cannot be read: %v", m.Seq, rec.Kind, err))
		return
	case f.v < 1 || f.v > most:
		b.wrong(KindVersion, rec.Run, fmt.Sprintf("Record %d (%s) is of version %d; versions 1 to %d are known", m.Seq, rec.Kind, f.v, most))
		return
	}
	if rec.Kind == subject.CallbackKind {
		if rec.Run, rec.N, err = turnName(rec.Run); err != nil {
			b.wrong(KindUnreadable, "", fmt.Sprintf("Record %d (callback): %v", m.Seq, err))
			return
		}
	}
	for _, id := range []string{rec.Run, f.run} {
		if _, ok := runIdent(id); id != "" && !ok {
			b.wrong(KindUnreadable, "", fmt.Sprintf("Record %d (%s) is of run %.80q, which is no id that a coordinator makes", m.Seq, rec.Kind, id))
			return
		}
	}
	s := session(rec, f)
	if b.about = b.place(s); s != "" && subject.Partition(s) != rec.Partition {
		b.wrong(KindMismatch, rec.Run, fmt.Sprintf("Record %d (%s) of session %.80q lies in partition %.10s instead of %s", m.Seq, rec.Kind, s, rec.Partition, subject.Partition(s)))
	}
	switch rec.Kind {
	case subject.SessionKind:
		b.begunSession(rec, f)
	case subject.AcceptedKind, subject.QueuedKind:
		b.accept(rec, f)
	case subject.ClaimedKind:
		b.claim(rec, f)
	case subject.EndedKind:
		b.end(rec, f)
	case subject.StoppingKind:
		b.stop(rec, f)
	case subject.BoundKind:
		b.speak(rec, f)
	case subject.OfferedKind:
		b.offer(rec, f)
	case subject.CallbackKind:
		b.report(rec, f)
	case subject.NotifiedKind:
		b.notify(rec, f)
	case subject.TreeKind:
		b.tree(rec)
	case subject.DeletedKind:
		b.delete(rec)
	}
}

// wrong notes what nothing but the deletion of the run's session explains.
func (b *Book) wrong(kind, id, message string) { b.note(kind, id, never, message) }

// note notes a finding about a run; "": about none.
func (b *Book) note(kind, id string, x excuse, message string) {
	f := finding{Wrong: Wrong{Kind: kind, RunID: id, Sequence: b.seq, Message: message}, session: b.about, excuse: x}
	if i, ok := runIdent(id); ok {
		f.born = i.born()
		if at := b.runs[i]; at != 0 {
			f.session, f.run = b.entries.at(at).session, at
		}
	}
	b.keep(f)
}

func (b *Book) keep(f finding) {
	if len(b.found) == maxFound {
		b.dropped++
		return
	}
	b.found = append(b.found, f)
}

// run gives a run, and makes it where it is not known; its session is then the one that its record names.
func (b *Book) run(id, session string) (uint32, *entry) {
	i, _ := runIdent(id)
	at := b.runs[i]
	if at == 0 {
		at = b.entries.add(entry{id: i, first: b.seq, session: b.place(session)})
		b.runs[i] = at
	}
	return at, b.entries.at(at)
}

// find gives a run that is known.
func (b *Book) find(id string) (uint32, *entry) {
	i, _ := runIdent(id)
	at := b.runs[i]
	if at == 0 {
		return 0, nil
	}
	return at, b.entries.at(at)
}

// place gives a session, and makes it where it is not known.
func (b *Book) place(id string) uint32 {
	if id == "" {
		return 0
	}
	i := sessionIdent(id)
	at := b.sessions[i]
	if at == 0 {
		at = b.places.add(place{})
		b.sessions[i] = at
	}
	return at
}

// same checks that a run's record names the session that the run is of.
func (b *Book) same(rec subject.Record, e *entry, session string) bool {
	if session == "" || e.session != b.place(session) {
		b.wrong(KindMismatch, rec.Run, fmt.Sprintf("Record %d (%s) names session %.80q, which is not the run's", b.seq, rec.Kind, session))
		return false
	}
	return true
}
