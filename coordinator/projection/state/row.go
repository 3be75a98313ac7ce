package state

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"ao/coordinator/projection/scan"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

const (
	RunPrefix     = "run_"
	SessionPrefix = "ses_"
)

// IdentOf makes an id compact.
func IdentOf(prefix, id string) Ident {
	if digits, ok := strings.CutPrefix(id, prefix); ok && len(digits) == 32 {
		hi, okHi := number(digits[:16])
		lo, okLo := number(digits[16:])
		if okHi && okLo {
			return Ident{Hi: hi, Lo: lo}
		}
	}
	return Ident{Odd: id}
}

// number reads hexadecimal digits in lower case.
func number(digits string) (n uint64, ok bool) {
	for i := range len(digits) {
		switch d := digits[i]; {
		case '0' <= d && d <= '9':
			n = n<<4 | uint64(d-'0')
		case 'a' <= d && d <= 'f':
			n = n<<4 | uint64(d-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// Text is the inverse of IdentOf.
func (i Ident) Text(prefix string) string {
	if i.Odd != "" {
		return i.Odd
	}
	made := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, 16), i.Hi), i.Lo)
	return prefix + hex.EncodeToString(made)
}

// AttemptNumber returns the attempt that is queued or claimed, else the next one.
func (a *Active) AttemptNumber() int {
	if a.Key == "" {
		return a.Attempt + 1
	}
	return a.Attempt
}

// MaxVersion returns the newest version that records under the current attempt's key may have. An attempt that is not
// queued has only coordinators' records, of version 1.
func (a *Active) MaxVersion() int { return max(a.RecordVersion, 1) }

// open reports whether the run is queued or claimed.
func (a *Active) open() bool { return a.QueuedSeq != 0 || a.ClaimSeq != 0 }

// noteAttempt notes that the run has reached its attempt n.
func (r *Row) noteAttempt(n int) { r.Attempt = max(r.Attempt, uint16(min(n, 1<<16-1))) }

// adoptSpec gives an unclaimed run the definition of its agent that it is queued with, if that has changed since it was
// accepted (decision 0032).
func (r *Row) adoptSpec(a *Active, s *run.Spec, scan *scan.Scanner) {
	if s.Owner == a.Spec.Owner {
		return
	}
	s.ID, s.SessionID = a.Spec.ID, a.Spec.SessionID
	a.Spec, r.Timeout, r.AgentHash = s, int32(min(s.Timeout, 1<<30)), scan.Definitions.HashOf(s)
}

// ID returns the run's id; empty without a run.
func (r *Row) ID() string {
	if r == nil {
		return ""
	}
	return r.Ident.Text(RunPrefix)
}

// Run returns a run by its id; nil: there is none.
func (t *tables) Run(id string) *Row { return t.runs[IdentOf(RunPrefix, id)] }

// Session returns a session by its id; nil: there is none.
func (t *tables) Session(id string) *Session { return t.sessions[IdentOf(SessionPrefix, id)] }

// Rows returns the session's runs in stream order; none without a session.
func (s *Session) Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		if s == nil {
			return
		}
		for r := s.firstRow; r != nil; r = r.next {
			if !yield(r) {
				return
			}
		}
	}
}

func (r *Row) base() run.Status { return run.Statuses[r.StatusIndex] }

// Status returns the status that readers see.
func (r *Row) Status() run.Status {
	if r.live != nil {
		return r.live.snap.Status
	}
	return r.base()
}

// ID returns the session's id.
func (s *Session) ID() string { return s.Ident.Text(SessionPrefix) }

// StatusRun returns the run that decides the session's status: the open one, else the oldest waiting one, else the one
// that ended last.
func (s *Session) StatusRun() *Row {
	if s.open > 0 {
		if i := slices.IndexFunc(s.live, func(r *Row) bool { return r.live.snap.open() }); i >= 0 {
			return s.live[i]
		}
	}
	if len(s.live) > 0 {
		return s.live[0]
	}
	return s.lastEnded
}

// NextTurn returns the run whose turn it is and that is not queued yet; nil if one is open or none waits.
func (s *Session) NextTurn() *Row {
	if s.open > 0 || len(s.live) == 0 {
		return nil
	}
	return s.live[0]
}

// NewestClaimed returns the session's newest run that a runner claimed, except but; nil: there is none.
func (s *Session) NewestClaimed(but *Row) (newest *Row) {
	for r := range s.Rows() {
		if r.ClaimedByRunner && r != but {
			newest = r
		}
	}
	return newest
}

// everClaimed reports whether a runner has claimed a run of the session.
func (s *Session) everClaimed() bool {
	for r := s.firstRow; r != nil; r = r.next {
		if r.ClaimedByRunner {
			return true
		}
	}
	return false
}

// resumes reports whether a turn has something to resume: something is bound, or a runner claimed a run. If NATS lost
// the claim, an end record by a runner counts, too.
func (s *Session) resumes() bool {
	for r := s.firstRow; r != nil; r = r.next {
		if r.ClaimedByRunner || r.Runner != "" {
			return true
		}
	}
	return s.Bound != nil
}

// depth returns how many sessions are above this one. Coordinators of older versions recorded none.
func (s *Session) depth() int { return int(max(s.firstRow.Depth, s.last.Depth)) }

// view returns the session as readers see it.
func (s *Session) view() run.Session {
	return run.Session{
		ID: s.ID(), Status: run.SessionStatusOf(s.StatusRun().Status()), Agent: s.Agent, AgentType: s.AgentType,
		Parent: s.Parent, ProjectDir: s.Dir, Depth: s.depth(),
		LastRun: s.last.ID(), Runs: int(s.runs), CreatedAt: Moment(s.firstRow.Created),
		ModifiedAt: Moment(s.Modified),
	}
}

// Moment returns the time of nanoseconds since 1970.
func Moment(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func momentOrNil(ns int64) *time.Time {
	if ns == 0 {
		return nil
	}
	return new(Moment(ns))
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func (ch *Change) identify(r *Row) {
	ch.row = r
	if r.live != nil { // it has them as text
		ch.RunID, ch.SessionID = r.live.snap.Spec.ID, r.live.snap.Spec.SessionID
		return
	}
	ch.RunID, ch.SessionID = r.ID(), r.session.ID()
}

func (ch *Change) before(r *Row) {
	ch.identify(r)
	ch.Before = r.base()
	if r.live != nil {
		ch.in, ch.since, ch.runner = r.live.in, r.live.since, r.Runner
	}
}

func (ch *Change) after(r *Row) { ch.After = r.base() }

// change replaces the snapshot by a copy and returns that. Snapshots handed out never change.
func (r *Row) change() *Active {
	a := *r.live.snap
	r.live.snap = &a
	return &a
}

// move is the only place where a status changes.
func (r *Row) move(m run.Move) {
	r.StatusIndex = statusIndex(r.base().After(m))
	r.show()
}

// show applies the overlay to the status.
func (r *Row) show() {
	a := r.live.snap
	a.Status = r.base()
	if a.Started != nil || a.UnverifiedSeq != 0 {
		a.Status = a.Status.After(run.MoveStarted)
	}
}

// settle notes the session's next turn if it may be queued.
func (t *tables) settle(s *Session) {
	if r := s.NextTurn(); r != nil && !r.live.fresh {
		r.live.fresh = true
		t.fresh = append(t.fresh, r)
	}
}

func statusIndex(s run.Status) uint8 { return uint8(slices.Index(run.Statuses, s)) }

// Mode returns the run's mode.
func (r *Row) Mode() string { return modes[r.ModeIndex] }

// Binding returns what the session's executor bound last; zero if it bound nothing.
func (s *Session) Binding() binding {
	if s == nil || s.Bound == nil {
		return binding{}
	}
	return *s.Bound
}

// bindingOf returns the binding that a queued record implies, for when the record that bound it is no longer kept. The
// run demanded the session's host. A state pointer works on every host, whatever else that run demanded.
func bindingOf(s *run.Spec) *binding {
	if runnerapi.IsStatePointer(s.ExecutorSessionID) {
		return &binding{Model: s.ExecutorSessionID, Profile: s.Demands.ExecutorProfile}
	}
	return &binding{s.ExecutorSessionID, s.Demands.Hostname, s.Demands.ExecutorProfile}
}

// StatePointers returns the kept conversation states that sessions are bound to.
func StatePointers(f *State) map[string]bool {
	all := map[string]bool{}
	for _, s := range f.sessions {
		if runnerapi.IsStatePointer(s.Binding().Model) {
			all[s.Binding().Model] = true
		}
	}
	return all
}

// StoppedError returns the error of a run that is stopped before a runner claimed it.
func (a Active) StoppedError() *fault.Fault {
	if h := a.TreeStop; h.Seq != 0 {
		return fault.New(fault.Internal, "stopped",
			fmt.Sprintf("Stopped before it began, with all that is below session %s", h.Session)).
			With("stopped_with", h.Session)
	}
	if n := a.AttemptNumber(); n > 1 {
		return fault.New(fault.Internal, "stopped", fmt.Sprintf("Stopped before its attempt %d began", n))
	}
	return fault.New(fault.Internal, "stopped", "Stopped before it began")
}
