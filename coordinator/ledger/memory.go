package ledger

import (
	"fmt"
	"strconv"
	"time"

	"ao/nats/subject"
)

// memory has the runs, sessions and violations of the records so far. All parts of a verifier share it.
type memory struct {
	first uint64    // sequence of the first record read
	cut   time.Time // its time
	seq   uint64    // of the record being read, or read last
	at    time.Time // likewise
	about uint32    // the session of that record, 0: unknown

	byRun     index
	runStates slab[runState]
	bySession index
	sessions  slab[sessionState]

	claimedFrom map[uint32]uint64 // by unknown run: the queued record that its claim names

	lastDeleted time.Time // the newest valid deletion
	violations  []violation
	dropped     int // violations beyond maxViolations
}

// runState is a run. It is small, since there may be a million of them.
type runState struct {
	id      ident
	first   uint64 // sequence of its first record
	session uint32
	next    uint32 // run of the session, 0: none
	parent  uint32 // session, 0: none
	turn    uint32 // the parent's run that reports it, 0: none
	most    uint16 // allowed attempts
	queued  uint16 // the highest queued attempt
	claimed uint16 // the highest claimed attempt
	ended   uint16 // the highest ended attempt
	claims  uint16 // attempts that a runner claimed
	ends    uint16 // of these: ended ones
	misses  uint16 // turns that reported it and ended unclaimed
	flags   flags
}

type flags uint16

const (
	known        flags = 1 << iota // its first record was read
	running                        // a runner claimed its attempt, which has not ended
	claimedToEnd                   // a coordinator claimed its attempt to end it, and has not
	final                          // it has ended
	completed                      // and how
	failed
	stopped
	stopping     // it is to be stopped
	callsBack    // mode async_callback, with a parent
	reported     // a turn of the parent reports it
	hasWebhook   // it has a callback_url
	deleted      // its session was deleted
	callbackTurn // it is a callback turn
	suppressed   // without a callback: it or its parent was stopped with its tree
	hasSchema    // it has an output schema: its result is reported, and checked
	cutBefore    // its first record read is of a later attempt
)

func (e *runState) is(f flags) bool { return e.flags&f != 0 }

// sessionState is a session.
type sessionState struct {
	first, last uint32 // its runs, linked
	runs        uint32
	flags       placeFlags
	partition   uint8
	idleSince   int64  // when a run of it last ended
	deleted     uint64 // sequence of the valid deletion
	treeStopped uint64 // sequence of the last request to stop what is below it
}

type placeFlags uint8

const (
	autonomous    placeFlags = 1 << iota
	everClaimed              // a runner has claimed a run of it
	lastUnclaimed            // the run that ended last was never claimed
)

// exemption is what may explain a violation.
type exemption uint8

const (
	never   exemption = iota // only a later deletion of its session
	cutOff                   // what is missing was truncated
	late                     // likewise, or the session was deleted while the record was on its way
	unknown                  // likewise, or the run's session is unknown and was deleted
)

// violation is something wrong, unless something explains it.
type violation struct {
	Wrong
	session   uint32
	run       uint32 // 0: unknown
	exemption exemption
	born
}

// born is when a run was accepted, as far as that is known.
type born struct {
	madeAt time.Time // when its id was made; zero: the id does not tell
	seq    uint64    // then its first record, or one that queued it; 0: unknown
}

// before reports whether a run may be from before a time and a sequence.
func (b born) before(at time.Time, seq uint64) bool {
	if b.madeAt.IsZero() {
		return b.seq < seq
	}
	return b.madeAt.Before(at)
}

// bornAt returns when a run was accepted. e is its state; nil: nothing is known of it.
func bornAt(m *memory, id ident, at uint32, e *runState) born {
	b := born{madeAt: id.madeAt()}
	switch {
	case e == nil || e.is(cutBefore):
	case e.is(known):
		b.seq = e.first
	default:
		b.seq = m.claimedFrom[at]
	}
	return b
}

// maxViolations is how many violations are kept until Close removes the exempt ones.
const maxViolations = 100_000

// wrong notes a violation that only a deletion of the run's session explains.
func (m *memory) wrong(kind, id, format string, args ...any) {
	m.note(kind, id, never, format, args...)
}

// note notes a violation about a run; "": about none.
func (m *memory) note(kind, id string, x exemption, format string, args ...any) {
	f := violation{Wrong: Wrong{kind, id, m.seq, fmt.Sprintf(format, args...)}, session: m.about, exemption: x}
	if i, ok := runIdent(id); ok {
		f.born = bornAt(m, i, 0, nil)
		if at := m.byRun[i]; at != 0 {
			e := m.runStates.at(at)
			f.session, f.run, f.born = e.session, at, bornAt(m, i, at, e)
			if kind == kindOrder { // an earlier record may have given it its place
				f.born.seq = 0
			}
		}
	}
	m.keep(f)
}

func (m *memory) keep(f violation) {
	if len(m.violations) == maxViolations {
		m.dropped++
		return
	}
	m.violations = append(m.violations, f)
}

// run returns a run, and creates it if it is unknown, in the session that its record names.
func (m *memory) run(id, session string) (uint32, *runState) {
	i, _ := runIdent(id)
	at := m.byRun[i]
	if at == 0 {
		at = m.runStates.add(runState{id: i, first: m.seq, session: m.session(session)})
		m.byRun[i] = at
	}
	return at, m.runStates.at(at)
}

// find returns a known run.
func (m *memory) find(id string) (uint32, *runState) {
	i, _ := runIdent(id)
	at := m.byRun[i]
	if at == 0 {
		return 0, nil
	}
	return at, m.runStates.at(at)
}

// accepted returns the run that a record does something to; nil: it was never accepted, or is of another session, which
// is noted.
func accepted(m *memory, rec subject.Record, session, does string) (uint32, *runState) {
	at, e := m.find(rec.Run)
	if e == nil {
		m.note(kindUnknownRun, rec.Run, late, "Record %d %s a run that was never accepted", m.seq, does)
	} else if !m.same(rec, e, session) {
		e = nil
	}
	return at, e
}

// session returns a session, and creates it if it is unknown.
func (m *memory) session(id string) uint32 {
	if id == "" {
		return 0
	}
	i := sessionIdent(id)
	at := m.bySession[i]
	if at == 0 {
		at = m.sessions.add(sessionState{partition: partition(id)})
		m.bySession[i] = at
	}
	return at
}

// partition is that of a session's records.
func partition(session string) uint8 {
	n, _ := strconv.ParseUint(subject.Partition(session), 10, 8)
	return uint8(n)
}

// same checks that a record names its run's session.
func (m *memory) same(rec subject.Record, e *runState, session string) bool {
	if session == "" || e.session != m.session(session) {
		m.wrong(kindMismatch, rec.Run, "Record %d (%s) names session %.80q, which is not the run's", m.seq, rec.Kind,
			session)
		return false
	}
	return true
}

// violation notes what is wrong with a run at the end.
func (m *memory) violation(kind string, e *runState, format string, args ...any) {
	m.keep(violation{Wrong: Wrong{kind, e.id.runID(), 0, fmt.Sprintf(format, args...)},
		born: bornAt(m, e.id, m.byRun[e.id], e)})
}
