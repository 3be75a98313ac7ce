package state

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"ao/coordinator/projection/text"
	"ao/nats/stream"
	"ao/shared/run"
)

// CheckpointVersion is the version of checkpoints. Raise it when the reducer treats a record differently, or when an
// exported field of a saved type changes its meaning.
const CheckpointVersion = 21

// ErrInterrupted says that the history was truncated or replaced during a checkpoint.
var ErrInterrupted = errors.New("the history changed meanwhile")

// A checkpoint is a header line, parts in the format of encoding/gob, and a CRC-32C of both. Rows, sessions and
// webhooks are saved with their exported fields. What they point to is saved as the sequence of its first record.

// Part is a piece of a checkpoint. The last one has an End, and the sessions and runs that changed meanwhile.
type Part struct {
	Sessions []savedSession
	Runs     []savedRun
	Texts    []text.Saved
	End      *savedEnd
}

type savedSession struct {
	Session Session
	Runs    int32    // 0: it is no longer kept
	Pending []uint64 // suppressed ones included
}

type savedRun struct {
	Run      Row
	Session  uint64
	Turn     uint64 // 0: none
	RetryOf  Ident
	Webhook  *webhook
	Past     []past
	Stored   *stored
	Active   *Active  // of an open run, without its Spec
	Spec     []byte   // of an open run, as its queued record: gob drops pointers to zero values
	Children []uint64 // of an open run
}

// savedEnd is the rest of the state.
type savedEnd struct {
	Seq          uint64
	Deleted      map[Ident]uint64
	Parents      map[Ident]Ident
	Stopped      map[Ident]tree
	Reserved     []savedReservation
	Recent       []report
	Late         []LateRecord
	Fingerprints []stream.Fingerprint
}

type savedReservation struct {
	Run      Ident
	Seq      uint64
	Session  string
	Children []uint64
}

// CanCheckpoint reports whether a checkpoint may replace the history. A newer version may understand more of
// its records.
func CanCheckpoint(f *State) bool { return f.newer == 0 && !f.unknownKinds && f.seq != 0 }

// Saving is a checkpoint in progress. What changes meanwhile is noted, and copied once more at the end.
type Saving struct {
	f              *State
	dirty          *dirtySet
	sessions, runs int // how many there were at the start
	at             int // of the sessions, then of the runs: what is copied
}

// StartSaving begins a checkpoint. The caller holds the lock, and may change the state.
func StartSaving(f *State) *Saving {
	f.dirty = &dirtySet{map[*Row]bool{}, map[*Session]bool{}}
	return &Saving{f: f, dirty: f.dirty, sessions: len(f.sorder), runs: len(f.order)}
}

// Stop ends a checkpoint. The caller holds the lock, and may change the state.
func (c *Saving) Stop() {
	if c.f.dirty == c.dirty {
		c.f.dirty = nil
	}
}

// Next copies up to so many sessions or runs, sessions first, since the runs refer to them. It reports false at the
// end, and errInterrupted if the history was truncated or replaced meanwhile. The caller holds the lock.
func (c *Saving) Next(f *State, p *Part, size int) (more bool, err error) {
	p.Sessions, p.Runs = p.Sessions[:0], p.Runs[:0] // memory is used again
	switch i := c.at - c.sessions; {
	case f.dirty != c.dirty:
		return false, ErrInterrupted
	case i < 0:
		c.at = min(c.at+size, c.sessions)
		for _, s := range f.sorder[c.sessions+i : c.at] {
			if s.runs > 0 {
				p.Sessions = append(p.Sessions, saveSession(f, s))
			}
		}
	case i < c.runs:
		end := min(i+size, c.runs)
		c.at = c.sessions + end
		for _, r := range f.order[i:end] {
			if !r.Evicted {
				p.Runs = append(p.Runs, saveRun(f, r))
			}
		}
	default:
		return false, nil
	}
	return true, nil
}

// Last copies what changed since the checkpoint began, the texts, and the rest of the state. The caller holds the lock,
// and may change the state.
func (c *Saving) Last(f *State) (last Part, texts []text.Saved, err error) {
	if f.dirty != c.dirty {
		return last, nil, ErrInterrupted
	}
	f.dirty = nil
	for s := range c.dirty.sessions {
		last.Sessions = append(last.Sessions, saveSession(f, s))
	}
	for r := range c.dirty.rows {
		last.Runs = append(last.Runs, saveRun(f, r))
	}
	last.End = saveEnd(f)
	return last, f.Texts.Saved(), nil
}

// EncodeSpecs makes a part ready to be written. That needs no lock.
func (p *Part) EncodeSpecs() error {
	for i := range p.Runs {
		if err := p.Runs[i].encodeSpec(); err != nil {
			return err
		}
	}
	return nil
}

// Sort sorts sessions and runs by their first records. Parts that next copied are sorted.
func (p *Part) Sort() {
	slices.SortFunc(p.Sessions, func(a, b savedSession) int { return cmp.Compare(a.Session.First, b.Session.First) })
	slices.SortFunc(p.Runs, func(a, b savedRun) int { return cmp.Compare(a.Run.First, b.Run.First) })
}

// Clear empties a part before the next one is read into it.
func (p *Part) Clear() {
	clear(p.Sessions) // gob leaves fields alone that were zero
	clear(p.Runs)
	*p = Part{Sessions: p.Sessions[:0], Runs: p.Runs[:0]} // memory is used again
}

// encodeSpec encodes the spec of an open run. That its executor runs is in no record, and is left out.
func (s *savedRun) encodeSpec() (err error) {
	if s.Active == nil {
		return nil
	}
	a := *s.Active
	s.Spec, err = run.Queued{V: run.Version, Spec: *a.Spec}.Encode()
	a.Spec, a.Started = nil, nil
	s.Active = &a
	return err
}

func saveSession(f *State, s *Session) savedSession {
	return savedSession{*s, s.runs, firsts(s.pending, f.Trees.suppressing[s])}
}

func saveRun(f *State, r *Row) savedRun {
	s := savedRun{Run: *r, Session: r.session.First, RetryOf: f.retryOf[r], Past: slices.Clone(f.past[r])}
	if r.turn != nil && !r.turn.Evicted {
		s.Turn = r.turn.First
	}
	if h := f.Webhooks.of[r]; h != nil {
		s.Webhook = new(*h)
	}
	if of := f.payloads.of[r]; of != nil {
		s.Stored = new(*of)
	}
	if r.live != nil {
		s.Active, s.Children = r.live.snap, firsts(r.live.children)
	}
	return s
}

func saveEnd(f *State) *savedEnd {
	e := &savedEnd{
		Seq:          f.seq,
		Deleted:      maps.Clone(f.deleted),
		Parents:      maps.Clone(f.Trees.parents),
		Stopped:      maps.Clone(f.Trees.stopped),
		Recent:       slices.Clone(f.Callbacks.recent),
		Late:         slices.Clone(f.Late.all),
		Fingerprints: f.lastRead.Last(),
	}
	for id, p := range f.Callbacks.reserved {
		e.Reserved = append(e.Reserved, savedReservation{id, p.seq, p.session, firsts(p.children)})
	}
	return e
}

// firsts returns the first sequences of rows that are kept.
func firsts(lists ...[]*Row) (all []uint64) {
	for _, rows := range lists {
		for _, r := range rows {
			if !r.Evicted {
				all = append(all, r.First)
			}
		}
	}
	return all
}
