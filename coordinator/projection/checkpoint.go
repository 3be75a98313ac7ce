package projection

import (
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"ao/nats/stream"
	"ao/shared/run"
)

// checkpointVersion is the version of checkpoints. Raise it when the reducer treats a record differently, or when an
// exported field of a saved type changes its meaning.
const checkpointVersion = 21

// errInterrupted says that the history was truncated or replaced during a checkpoint.
var errInterrupted = errors.New("the history changed meanwhile")

// A checkpoint is a header line, parts in the format of encoding/gob, and a CRC-32C of both. Rows, sessions and
// webhooks are saved with their exported fields. What they point to is saved as the sequence of its first record.

// part is a piece of a checkpoint. The last one has an End, and the sessions and runs that changed meanwhile.
type part struct {
	Sessions []savedSession
	Runs     []savedRun
	Texts    []savedTexts
	End      *savedEnd
}

type savedSession struct {
	Session session
	Runs    int32    // 0: it is no longer kept
	Pending []uint64 // suppressed ones included
}

type savedRun struct {
	Run      row
	Session  uint64
	Turn     uint64 // 0: none
	RetryOf  ident
	Webhook  *webhook
	Past     []past
	Stored   *stored
	Active   *Active  // of an open run, without its Spec
	Spec     []byte   // of an open run, as its queued record: gob drops pointers to zero values
	Children []uint64 // of an open run
}

type savedTexts struct {
	No     uint32
	Packed []byte
}

// savedEnd is the rest of the state.
type savedEnd struct {
	Seq          uint64
	Deleted      map[ident]uint64
	Parents      map[ident]ident
	Stopped      map[ident]tree
	Reserved     []savedReservation
	Recent       []report
	Late         []LateRecord
	Fingerprints []stream.Fingerprint
}

type savedReservation struct {
	Run      ident
	Seq      uint64
	Session  string
	Children []uint64
}

func checkpointHeader(identity string) string {
	return fmt.Sprintf("checkpoint %d of %s\n", checkpointVersion, identity)
}

// canCheckpoint reports whether a checkpoint may replace the history. A newer version may understand more of
// its records.
func canCheckpoint(f *reducer) bool { return f.newer == 0 && !f.unknownKinds && f.seq != 0 }

// checkpointWriter writes a checkpoint while records are applied. Under the lock it only copies, one part at a time.
type checkpointWriter struct {
	p       *Projection
	to      *gob.Encoder
	size    int    // sessions, runs or texts of a part
	rest    func() // called between two locks
	f       *reducer
	dirty   *dirtySet
	part    part
	longest time.Duration // that the lock was held
}

// writeCheckpoint writes a checkpoint without its checksum. It returns the checkpoint's sequence and the longest time
// that the lock was held.
func writeCheckpoint(p *Projection, identity string, to io.Writer, size int, rest func()) (
	seq uint64, longest time.Duration, err error,
) {
	if _, err := io.WriteString(to, checkpointHeader(identity)); err != nil {
		return 0, 0, err
	}
	w := &checkpointWriter{p: p, to: gob.NewEncoder(to), size: size, rest: rest}
	seq, err = w.write()
	return seq, w.longest, err
}

func (w *checkpointWriter) write() (seq uint64, err error) {
	var sessions, runs int
	w.p.changing(func(f *reducer) {
		w.f, w.dirty = f, &dirtySet{map[*row]bool{}, map[*session]bool{}}
		f.dirty = w.dirty
		sessions, runs = len(f.sorder), len(f.order)
	})
	defer w.p.changing(func(*reducer) {
		if w.f.dirty == w.dirty {
			w.f.dirty = nil
		}
	})
	for i := 0; i < sessions && err == nil; i += w.size { // before the runs, which refer to them
		err = w.copy(func(f *reducer) {
			for _, s := range f.sorder[i:min(i+w.size, sessions)] {
				if s.runs > 0 {
					w.part.Sessions = append(w.part.Sessions, saveSession(f, s))
				}
			}
		})
	}
	for i := 0; i < runs && err == nil; i += w.size {
		err = w.copy(func(f *reducer) {
			for _, r := range f.order[i:min(i+w.size, runs)] {
				if !r.Evicted {
					w.part.Runs = append(w.part.Runs, saveRun(f, r))
				}
			}
		})
	}
	if err != nil {
		return 0, err
	}
	return w.end()
}

// copy writes a part of the state. get is called under the lock, and fills w.part.
func (w *checkpointWriter) copy(get func(*reducer)) (err error) {
	w.part.Sessions, w.part.Runs = w.part.Sessions[:0], w.part.Runs[:0] // memory is used again
	w.p.reading(func(f *reducer) {
		begin := time.Now()
		if f.dirty != w.dirty {
			err = errInterrupted
			return
		}
		get(f)
		w.longest = max(w.longest, time.Since(begin))
	})
	if err == nil {
		err = w.encode(w.part)
	}
	w.rest()
	return err
}

// end writes the texts, what changed since the checkpoint began, and the rest of the state.
func (w *checkpointWriter) end() (seq uint64, err error) {
	var last part
	var texts []savedTexts
	w.p.changing(func(f *reducer) {
		begin := time.Now()
		if f.dirty != w.dirty {
			err = errInterrupted
			return
		}
		f.dirty = nil
		for s := range w.dirty.sessions {
			last.Sessions = append(last.Sessions, saveSession(f, s))
		}
		for r := range w.dirty.rows {
			last.Runs = append(last.Runs, saveRun(f, r))
		}
		texts, last.End = f.texts.saved(), saveEnd(f)
		w.longest = max(w.longest, time.Since(begin))
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(last.Sessions, func(a, b savedSession) int { return cmp.Compare(a.Session.First, b.Session.First) })
	slices.SortFunc(last.Runs, func(a, b savedRun) int { return cmp.Compare(a.Run.First, b.Run.First) })
	for some := range slices.Chunk(texts, w.size) {
		if err := w.encode(part{Texts: some}); err != nil {
			return 0, err
		}
	}
	return last.End.Seq, w.encode(last)
}

// encode writes a part.
func (w *checkpointWriter) encode(p part) error {
	for i := range p.Runs {
		if err := p.Runs[i].encodeSpec(); err != nil {
			return err
		}
	}
	return w.to.Encode(p)
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

func saveSession(f *reducer, s *session) savedSession {
	return savedSession{*s, s.runs, firsts(s.pending, f.trees.suppressing[s])}
}

func saveRun(f *reducer, r *row) savedRun {
	s := savedRun{Run: *r, Session: r.session.First, RetryOf: f.retryOf[r], Past: slices.Clone(f.past[r])}
	if r.turn != nil && !r.turn.Evicted {
		s.Turn = r.turn.First
	}
	if h := f.webhooks.of[r]; h != nil {
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

func saveEnd(f *reducer) *savedEnd {
	e := &savedEnd{
		Seq:          f.seq,
		Deleted:      maps.Clone(f.deleted),
		Parents:      maps.Clone(f.trees.parents),
		Stopped:      maps.Clone(f.trees.stopped),
		Recent:       slices.Clone(f.callbacks.recent),
		Late:         slices.Clone(f.late.all),
		Fingerprints: f.lastRead.Last(),
	}
	for id, p := range f.callbacks.reserved {
		e.Reserved = append(e.Reserved, savedReservation{id, p.seq, p.session, firsts(p.children)})
	}
	return e
}

// firsts returns the first sequences of rows that are kept.
func firsts(lists ...[]*row) (all []uint64) {
	for _, rows := range lists {
		for _, r := range rows {
			if !r.Evicted {
				all = append(all, r.First)
			}
		}
	}
	return all
}
