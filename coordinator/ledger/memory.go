package ledger

import (
	"fmt"
	"time"

	"ao/nats/subject"
)

// memory is what the records so far say of runs and sessions, and what was wrong with them. The parts of a Book share
// it.
type memory struct {
	first uint64    // sequence of the first record read
	cut   time.Time // its time
	seq   uint64    // of the record being read, or read last
	at    time.Time // likewise
	about uint32    // the session of that record, 0: not known

	byRun     index
	entries   slab[entry]
	bySession index
	places    slab[place]

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

// wrong notes what nothing but the deletion of the run's session explains.
func (m *memory) wrong(kind, id, message string) { m.note(kind, id, never, message) }

// note notes a finding about a run; "": about none.
func (m *memory) note(kind, id string, x excuse, message string) {
	f := finding{Wrong: Wrong{Kind: kind, RunID: id, Sequence: m.seq, Message: message}, session: m.about, excuse: x}
	if i, ok := runIdent(id); ok {
		f.born = i.born()
		if at := m.byRun[i]; at != 0 {
			f.session, f.run = m.entries.at(at).session, at
		}
	}
	m.keep(f)
}

func (m *memory) keep(f finding) {
	if len(m.found) == maxFound {
		m.dropped++
		return
	}
	m.found = append(m.found, f)
}

// run gives a run, and makes it where it is not known; its session is then the one that its record names.
func (m *memory) run(id, session string) (uint32, *entry) {
	i, _ := runIdent(id)
	at := m.byRun[i]
	if at == 0 {
		at = m.entries.add(entry{id: i, first: m.seq, session: m.place(session)})
		m.byRun[i] = at
	}
	return at, m.entries.at(at)
}

// find gives a run that is known.
func (m *memory) find(id string) (uint32, *entry) {
	i, _ := runIdent(id)
	at := m.byRun[i]
	if at == 0 {
		return 0, nil
	}
	return at, m.entries.at(at)
}

// place gives a session, and makes it where it is not known.
func (m *memory) place(id string) uint32 {
	if id == "" {
		return 0
	}
	i := sessionIdent(id)
	at := m.bySession[i]
	if at == 0 {
		at = m.places.add(place{})
		m.bySession[i] = at
	}
	return at
}

// same checks that a run's record names the session that the run is of.
func (m *memory) same(rec subject.Record, e *entry, session string) bool {
	if session == "" || e.session != m.place(session) {
		m.wrong(kindMismatch, rec.Run, fmt.Sprintf("Record %d (%s) names session %.80q, which is not the run's", m.seq,
			rec.Kind, session))
		return false
	}
	return true
}

// finding notes what is wrong with a run in the end.
func (m *memory) finding(kind string, e *entry, message string) {
	m.keep(finding{Wrong: Wrong{Kind: kind, RunID: e.id.runID(), Message: message}})
}
