package projection

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"ao/shared/run"
)

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

// Next is the attempt that is queued or under way, else the one that will be.
func (a *Active) AttemptNumber() int {
	if a.Key == "" {
		return a.Attempt + 1
	}
	return a.Attempt
}

// MostVersion is the newest version that records under the current attempt's key may have; of one that is not queued,
// whose records are coordinators' alone, 1.
func (a *Active) MaxVersion() int { return max(a.RecordVersion, 1) }

// open tells whether the run is its session's turn already.
func (a *Active) open() bool { return a.QueuedSeq != 0 || a.ClaimSeq != 0 }

// reach notes that the run has come to its attempt n.
func (r *row) reach(n int) { r.attempt = max(r.attempt, uint16(min(n, 1<<16-1))) }

// renew gives a run that nobody has begun the definition of its agent that it is queued with, where that is another
// than it was accepted with (decision 0032).
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

func (s *session) sessionID() string { return s.id.text(sessionPrefix) }

// speaker is the run that the session's status is made of: the open one, else the oldest that waits, else the one that
// ended last.
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

// turn is the run whose turn it is and that is not queued yet; nil where something is open or nothing waits.
func (s *session) turn() *row {
	if s.open > 0 || len(s.live) == 0 {
		return nil
	}
	return s.live[0]
}

// newestBegun is the newest run of the session that a runner claimed, beside one; nil: there is none.
func (s *session) newestBegun(but *row) (newest *row) {
	for r := s.firstRow; r != nil; r = r.next {
		if r.begun && r != but {
			newest = r
		}
	}
	return newest
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

// resumes tells whether there is anything that a turn could resume: a runner has begun a run of the session, or has
// said its last word on one whose claim is lost with NATS, or has bound something.
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
		ID: s.sessionID(), Status: run.SessionStatusOf(s.speaker().shown()), Agent: s.agent, AgentType: s.agentType,
		Parent: s.parent, ProjectDir: s.dir, Depth: s.depth(),
		LastRun: s.last.runID(), Runs: int(s.runs), CreatedAt: moment(s.firstRow.created),
		ModifiedAt: moment(s.modified),
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

func (ch *Change) identify(r *row) {
	ch.row = r
	if r.live != nil { // which has them as text
		ch.RunID, ch.SessionID = r.live.snap.Spec.ID, r.live.snap.Spec.SessionID
		return
	}
	ch.RunID, ch.SessionID = r.runID(), r.session.sessionID()
}

func (ch *Change) before(r *row) {
	ch.identify(r)
	ch.Before = r.base()
	if r.live != nil {
		ch.in, ch.since, ch.runner = r.live.in, r.live.since, r.runner
	}
}

func (ch *Change) after(r *row) { ch.After = r.base() }

// change gives a copy of the snapshot that takes its place; those handed out stay as they are.
func (r *row) change() *Active {
	a := *r.live.snap
	r.live.snap = &a
	return &a
}

// move is the only place where a status changes.
func (r *row) move(m run.Move) {
	r.status = statusIndex(r.base().After(m))
	r.show()
}

// show puts the overlay over the status.
func (r *row) show() {
	a := r.live.snap
	a.Status = r.base()
	if a.Started != nil || a.UnverifiedSeq != 0 {
		a.Status = a.Status.After(run.MoveStarted)
	}
}

// settle notes the session's next turn where it may be queued.
func (t *tables) settle(s *session) {
	if r := s.turn(); r != nil && !r.live.fresh {
		r.live.fresh = true
		t.fresh = append(t.fresh, r)
	}
}

func statusIndex(s run.Status) uint8 { return uint8(slices.Index(run.Statuses, s)) }
