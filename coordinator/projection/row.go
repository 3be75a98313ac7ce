package projection

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"ao/shared/run"
)

// ident is an id in little room: the ids that coordinators make are a prefix and 32 hexadecimal digits.
type ident struct {
	made [16]byte
	odd  string // a caller's own id, whole
}

const (
	runPrefix     = "run_"
	sessionPrefix = "ses_"
)

func identOf(prefix, id string) (i ident) {
	digits, ok := strings.CutPrefix(id, prefix)
	if ok && len(digits) == 32 && strings.IndexFunc(digits, notHex) < 0 {
		hex.Decode(i.made[:], []byte(digits))
		return i
	}
	return ident{odd: id}
}

func notHex(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') }

func (i ident) text(prefix string) string {
	if i.odd != "" {
		return i.odd
	}
	return prefix + hex.EncodeToString(i.made[:])
}

// Active is a run that has not ended, as the fold has it: a snapshot that never changes.
type Active struct {
	Spec      *run.Spec  // as accepted
	Status    run.Status // running is an overlay of the beats
	FirstSeq  uint64     // of the run's first record
	QueuedSeq uint64     // of its current attempt's queued record; 0: accepted and not yet queued
	ClaimSeq  uint64     // of the claim of its current attempt; 0: nobody has begun it
	OfferSeq  uint64     // of what its worker has offered as the result: its lease is over, a coordinator checks that; 0: nothing
	EndSeq    uint64     // of a coordinator's claim, or what it put in an offer's place, which carries the attempt's last word; 0: none does
	Lane      string     // where it is queued
	Attempt   int        // the current one, from 1; 0: not yet queued
	Key       string     // the current attempt's
	// RecordVersion is the newest version that records under the current attempt's key may have; 0: 1.
	RecordVersion int
	Claim         *run.Claim // nil: nobody has begun it
	Stopping      bool       // somebody wants it stopped
	Halt          Halt       // … with its tree; Seq 0: not so
	NotBefore     time.Time  // an attempt failed and another is left: when it may be queued; zero: at once
	Started       *time.Time // its executor runs since, as its runner says
}

// Next is the attempt that is queued or under way, else the one that will be.
func (a *Active) Next() int {
	if a.Key == "" {
		return a.Attempt + 1
	}
	return a.Attempt
}

// MostVersion is the newest version that records under the current attempt's key may have; of one that is not queued, whose
// records are coordinators' alone, 1.
func (a *Active) MostVersion() int { return max(a.RecordVersion, 1) }

// open tells whether the run is its session's turn already.
func (a *Active) open() bool { return a.QueuedSeq != 0 || a.ClaimSeq != 0 }

// row is a run in the index: all that is kept of an ended one. The rest is read from the stream, by these sequences.
type row struct {
	id      ident
	session *session
	next    *row // of the session
	agent   string
	runner  string
	parent  string
	dir     string // project directory

	first      uint64 // sequence of its first record
	whole      uint64 // of its newest record that holds all of it: the current attempt's queued, else the first
	claim, end uint64 // of the claim that counts, and of the last word
	events     uint64 // sequence in EVENTS of its last event; 0: not known, or none

	created, claimed, started, ended int64 // nanoseconds since 1970; 0: not yet

	by *row // the parent's turn that reports it; nil: none, or it is not known any more

	timeout    int32
	attempt    uint16
	tellings   uint16 // how often a callback record reported it
	status     uint8  // index in run.Statuses, without the overlay
	mode       uint8  // index in modes
	depth      uint8  // how many sessions are above its own; 0 also in records of older versions
	hook       hookState
	callback   bool // its parent session is to be told of its end
	told       bool // a callback record reports it
	begun      bool // a runner has begun one of its attempts
	overstep   bool // end is a record above its attempt's version, of whatever kind; it is not read
	gone       bool // no longer in the index
	proven     bool // the events of all its attempts are proven
	mute       bool // its end does not say which event was its last
	suppressed bool // its parent is not told of its end: one of the two was stopped with its tree

	live *live // nil: ended
}

// live is what a run has as long as it has not ended.
type live struct {
	snap       *Active
	prev, next *row // all of them, by first
	fresh      bool // noted as eligible

	in             *line // where it stands, between these, since then (nanoseconds since 1970)
	before, behind *row
	since          int64

	children []*row // of a callback turn that nobody has begun: what it reports
	unlisted bool   // a callback turn whose callback record is not there: it is not queued before that
}

// reach notes that the run has come to its attempt n.
func (r *row) reach(n int) { r.attempt = max(r.attempt, uint16(min(n, 1<<16-1))) }

// renew gives a run that nobody has begun the definition of its agent that it is queued with, where that is another than it was accepted
// with (decision 0032).
func (r *row) renew(a *Active, s *run.Spec) {
	if s.Owner == a.Spec.Owner {
		return
	}
	s.ID, s.SessionID = a.Spec.ID, a.Spec.SessionID
	a.Spec, r.timeout = s, int32(min(s.Timeout, 1<<30))
}

func (r *row) runID() string { return r.id.text(runPrefix) }

func (r *row) base() run.Status { return run.Statuses[r.status] }

// shown is the status that readers see.
func (r *row) shown() run.Status {
	if r.live != nil {
		return r.live.snap.Status
	}
	return r.base()
}

// session is a session in the index.
type session struct {
	id             ident
	agent          string
	agentType      string
	parent         string
	dir            string
	first          uint64 // sequence of its first run's first record
	modified       int64
	firstRow, last *row // its runs, linked in the order of the stream
	lastEnded      *row
	live           []*row // those that have not ended, in that order
	owed           []*row // ended children that it is yet to be told of, in the order of their ends
	bound          *bond  // what its executor bound last, nil: nothing
	open           int32  // how many of these are queued or claimed
	runs           int32
	due            bool  // noted as ready to be told
	misses         int32 // callback turns in a row that ended before a runner began them
}

func (s *session) sessionID() string { return s.id.text(sessionPrefix) }

// speaker is the run that the session's status is made of: the open one, else the oldest that waits, else the one that ended last.
func (s *session) speaker() *row {
	if s.open > 0 {
		if i := slices.IndexFunc(s.live, func(r *row) bool { return r.live.snap.open() }); i >= 0 {
			return s.live[i]
		}
	}
	if len(s.live) > 0 {
		return s.live[0]
	}
	return s.lastEnded
}

// turn is the run whose turn it is and that is not queued yet; nil where something is open or nothing waits, or it may not be queued.
func (s *session) turn() *row {
	if s.open > 0 || len(s.live) == 0 || s.live[0].live.unlisted {
		return nil
	}
	return s.live[0]
}

// began tells whether a runner has begun a run of the session.
func (s *session) began() bool {
	for r := s.firstRow; r != nil; r = r.next {
		if r.begun {
			return true
		}
	}
	return false
}

// resumes tells whether there is anything that a turn could resume: a runner has begun a run of the session, or has said its last
// word on one whose claim is lost with NATS, or has bound something.
func (s *session) resumes() bool {
	for r := s.firstRow; r != nil; r = r.next {
		if r.begun || r.runner != "" {
			return true
		}
	}
	return s.bound != nil
}

// depth is how many sessions are above this one. A coordinator of an older version wrote none into its records.
func (s *session) depth() int { return int(max(s.firstRow.depth, s.last.depth)) }

// view is the session as readers see it.
func (s *session) view() run.Session {
	return run.Session{
		ID: s.sessionID(), Status: run.SessionStatusOf(s.speaker().shown()), Agent: s.agent, AgentType: s.agentType, Parent: s.parent, ProjectDir: s.dir, Depth: s.depth(),
		LastRun: s.last.runID(), Runs: int(s.runs), CreatedAt: moment(s.firstRow.created), ModifiedAt: moment(s.modified),
	}
}

func moment(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func momentOrNil(ns int64) *time.Time {
	if ns == 0 {
		return nil
	}
	t := moment(ns)
	return &t
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
