package state

import (
	"iter"
	"slices"
	"sort"
	"time"

	"ao/nats/stream"
	"ao/shared/run"
)

// What readers ask of the state. They hold the lock; what is returned may change once they release it, except Active.

// Active returns what is known of an open run: a snapshot that never changes; nil: it has ended.
func (r *Row) Active() *Active {
	if r.live == nil {
		return nil
	}
	return r.live.snap
}

// Session returns the run's session.
func (r *Row) Session() *Session { return r.session }

// Turn returns the parent's turn that reports the run; nil: none, or no longer known.
func (r *Row) Turn() *Row { return r.turn }

// CannotStart reports whether a run's turn has come with nothing to resume: the runs before it ended unclaimed.
func (r *Row) CannotStart() bool {
	return r != nil && r.live != nil && r.live.snap.Spec.Type == run.Resume && r.session.NextTurn() == r &&
		r.session.firstRow != r && !r.session.resumes()
}

// OpenRuns returns the session's runs that have not ended, in order.
func (s *Session) OpenRuns() []*Row { return s.live }

// LastEnded returns the session's run that ended last; nil: none has.
func (s *Session) LastEnded() *Row { return s.lastEnded }

// Runs returns how many of the session's runs are kept; 0: the session is not.
func (s *Session) Runs() int { return int(s.runs) }

// FirstRun returns the sequence of the session's first run that is kept.
func (s *Session) FirstRun() uint64 { return s.firstRow.First }

// CreatedAt returns when the session's first run was accepted, in nanoseconds since 1970.
func (s *Session) CreatedAt() int64 { return s.firstRow.Created }

// CanResume reports whether a turn of the session may have something to resume: there is something now, or a run is
// queued or claimed.
func (s *Session) CanResume() bool { return s != nil && (s.open > 0 || s.resumes()) }

// LastSeq returns the sequence of the last applied record.
func LastSeq(f *State) uint64 { return f.seq }

// Counts returns how many runs wait, are claimed, and have ended.
func Counts(f *State) (waiting, claimed, ended int) { return f.waiting, f.claimed, f.ended }

// Kept returns how many runs and sessions there are, ended ones included.
func Kept(f *State) (runs, sessions int) { return len(f.runs), len(f.sessions) }

// OldestOpen returns the first sequence of the oldest open run; without one, the sequence after the last record.
func OldestOpen(f *State) uint64 {
	if f.head == nil {
		return f.seq + 1
	}
	return f.head.First
}

// OpenRuns yields the runs that have not ended, by their first records.
func OpenRuns(f *State) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for r := f.head; r != nil; r = r.live.next {
			if !yield(r) {
				return
			}
		}
	}
}

// RunsBelow returns the runs whose first record is below a sequence, in that order, some of them Evicted.
func RunsBelow(f *State, seq uint64) []*Row {
	return f.order[:sort.Search(len(f.order), func(i int) bool { return f.order[i].First >= seq })]
}

// SessionsBelow returns the sessions whose first record is below a sequence, in that order, some without Runs.
func SessionsBelow(f *State, seq uint64) []*Session {
	return f.sorder[:sort.Search(len(f.sorder), func(i int) bool { return f.sorder[i].First >= seq })]
}

// DeletedAt returns the sequence of a session's deletion; 0: it was not deleted.
func DeletedAt(f *State, session string) uint64 { return f.deleted[IdentOf(SessionPrefix, session)] }

// IsRetryOf reports whether a run repeats that one.
func IsRetryOf(f *State, r *Row, id string) bool {
	of, is := f.retryOf[r]
	return is && of == IdentOf(RunPrefix, id)
}

// QueuedBefore returns the sequences of a run's queued records that others followed.
func QueuedBefore(f *State, r *Row) (all []uint64) {
	for _, p := range f.past[r] {
		all = append(all, p.Queued)
	}
	return all
}

// LastFingerprints returns those of the last applied records, oldest first.
func LastFingerprints(f *State) []stream.Fingerprint { return f.lastRead.Last() }

// NoteStarted notes that a runner reports an attempt's executor as running. It reports false if that is known already,
// or the attempt is not the current one.
func NoteStarted(f *State, id, key string, at time.Time) bool {
	r := f.Run(id)
	if r == nil || r.live == nil || r.live.snap.Key != key || r.live.snap.Claim == nil || r.live.snap.Started != nil {
		return false
	}
	r.change().Started = &at
	r.show()
	f.Changes.add(f.seq, r)
	return true
}

// TakeEligible returns accepted runs that became the next turn of a session with nothing open, since the last call.
func TakeEligible(f *State) (all []Active) {
	for _, r := range f.fresh {
		if r.live == nil {
			continue
		}
		r.live.fresh = false
		if r.session.NextTurn() == r {
			all = append(all, *r.live.snap)
		}
	}
	f.fresh = nil
	return all
}

// TakeResults returns the runs whose results were reported since the last call and are not decided yet.
func TakeResults(f *State) (all []Active) {
	for _, r := range f.results {
		if r.live != nil && r.live.snap.UnverifiedSeq != 0 {
			all = append(all, *r.live.snap)
		}
	}
	f.results = nil
	return all
}

// TakeStopping returns the open runs that are to be stopped with their tree, in no order.
func TakeStopping(f *State) (all []*Active) {
	f.Trees.changed = false
	for r := range f.Trees.stopping {
		all = append(all, r.live.snap)
	}
	return all
}

// TakeCallbacks returns the parents that became ready for a callback since the last call.
func TakeCallbacks(f *State, now time.Time) (all []PendingCallback) {
	for _, s := range f.Callbacks.due {
		s.due = false
		if o, ok := f.Callbacks.Of(s, now); ok {
			all = append(all, o)
		}
	}
	f.Callbacks.due = nil
	return all
}

// DueCallbacks returns all callbacks that can be delivered now.
func DueCallbacks(f *State, now time.Time) (all []PendingCallback) {
	for s := range f.pending {
		if o, ok := f.Callbacks.Of(s, now); ok {
			all = append(all, o)
		}
	}
	return all
}

// LateRecords returns the late records that are not known to be purged, oldest first.
func (ls *lateRecords) LateRecords() []LateRecord { return slices.Clone(ls.all) }

// Forget forgets a late record that RUNS no longer has. It no longer holds truncation back.
func (ls *lateRecords) Forget(gone LateRecord) {
	ls.all = slices.DeleteFunc(ls.all,
		func(l LateRecord) bool { return l.Seq == gone.Seq && l.Subject == gone.Subject })
}

// IsWith reports whether the runner has the session's turn, or did the last one.
func (s *Session) IsWith(runner string) bool {
	return s.StatusRun().Runner == runner || s.lastEnded != nil && s.lastEnded.Runner == runner
}

// SessionOf returns a session as readers see it.
func SessionOf(f *State, s *Session) run.Session {
	v := s.view()
	if s.Parent != "" {
		v.ParentGone = f.Session(s.Parent) == nil
	}
	return v
}

// Emptied returns the state before the first record, with the keys and rules of another one.
func Emptied(old *State) *State {
	f := newReducer(old.key)
	Configure(f, old)
	return f
}

// Configure gives a state the rules of another one.
func Configure(f, from *State) { f.checked, f.version = from.checked, from.version }

// KeysOf returns how a state computes the keys of attempts.
func KeysOf(f *State) func(run string, attempt int) string { return f.key }

// StatsOf counts the records that were applied.
func StatsOf(f *State) Stats { return f.stats }

// NewerRecord returns the sequence of the first record in a newer version; 0: there is none.
func NewerRecord(f *State) uint64 { return f.newer }

// NeedsBefore reports whether an open run, or the claim of a late record, begins before a sequence.
func NeedsBefore(f *State, first uint64) bool {
	return f.head != nil && f.head.First < first || f.Late.lowWater(first) < first
}

// SessionAt returns a session by its id; nil: it is deleted, or no longer kept.
func SessionAt(f *State, id Ident) *Session { return f.sessions[id] }
