// Package record writes the records of coordinators: it makes their subjects, keys and bodies, puts aside what is too
// large for one, says last words, and removes what NATS kept of a run that it lost.
package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// MaxInline is the largest body that a record carries itself; larger ones go through the object store.
const MaxInline = 256 << 10

// Settling is how long after the end of a run, give or take what the clocks differ, it may be said that there is no such result, and
// there is one: a NATS server that comes back does not know yet what the others wrote since.
const ReplicaLag = time.Minute

// versions is in which version records are written.
type versions interface {
	Now() int                   // of records that stand under no attempt's key
	Of(a projection.Active) int // of those under an attempt's
	Advertised() int            // to attempts that are queued; 0: 1
}

// Writer writes records, and what is too large for one.
type Writer struct {
	stream   stream
	history  history
	keys     *Keys
	versions versions
}

// stream is where records stand.
type stream interface {
	Append(ctx context.Context, e bus.Entry) (uint64, error)
	AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error)
	AppendEach(ctx context.Context, entries ...bus.Entry) (uint64, error)
	Last(ctx context.Context, subj string) (bus.Message, error)
	PutPart(ctx context.Context, name string, n int, body []byte) error
}

// history is the fold of this process.
type history interface {
	NoteWritten(seq uint64) // a list that this coordinator gives after an answer shows what it answered
}

// NewWriter makes who writes records to a stream, in the versions that all coordinators read.
func NewWriter(s stream, h history, k *Keys, v versions) *Writer {
	return &Writer{stream: s, history: h, keys: k, versions: v}
}

// Append writes a record, and notes that this process did. Errors are the stream's.
func (w *Writer) Append(ctx context.Context, e bus.Entry) error {
	seq, err := w.stream.Append(ctx, e)
	if err == nil {
		w.history.NoteWritten(seq)
	}
	return err
}

// Put has a record stand whose subject is this run's own, so that "taken" can only mean that it stands already.
func (w *Writer) Put(ctx context.Context, e bus.Entry) error {
	err := w.Append(ctx, e)
	if err == nil || errors.Is(err, bus.ErrTaken) {
		return nil
	}
	if _, readErr := w.stream.Last(ctx, e.Subject); readErr == nil { // the answer was lost, not the record
		return nil
	}
	return bus.WriteUnanswered(err)
}

// AppendBatch writes records that belong together, as one batch, or one after the other where NATS takes no batch. It may
// come to no more than the first of them, and others write meanwhile: each record says what has to follow, and whoever
// finds that missing writes it (unfinished, decision 0033). ErrTaken: one is taken, those before it may stand.
func (w *Writer) AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error) {
	return w.AppendEither(ctx, entries, entries)
}

// AppendEither is AppendBatch of records that are others where they are written one after the other.
func (w *Writer) AppendEither(ctx context.Context, together, apart []bus.Entry) (uint64, error) {
	seq, err := w.stream.AppendBatch(ctx, together...)
	if errors.Is(err, bus.ErrTooManyBatches) {
		return w.stream.AppendEach(ctx, apart...)
	}
	return seq, err
}

// Version is that of records that stand under no attempt's key.
func (w *Writer) Version() int { return w.versions.Now() }

// Wrote notes records that were written as one.
func (w *Writer) NoteWritten(seq uint64) { w.history.NoteWritten(seq) }

// Queued is the record that lets a worker take the attempt.
func (w *Writer) Queued(part, lane string, s run.Spec, attempt int) (bus.Entry, error) {
	body, err := run.Queued{V: w.versions.Now(), Attempt: attempt, Key: w.keys.Of(s.ID, attempt), RecordVersion: w.versions.Advertised(), Spec: s}.Encode()
	return bus.Entry{Subject: subject.Queued(part, lane, s.ID, attempt), Body: body}, err
}

// Accepted is the first record of a run that is not queued yet.
func (w *Writer) Accepted(s run.Spec) (bus.Entry, error) {
	body, err := run.Accepted{V: w.versions.Now(), Spec: s}.Encode()
	return bus.Entry{Subject: subject.Accepted(subject.Partition(s.SessionID), s.SessionID, s.ID), Body: body}, err
}

// Callback returns the records of a turn that reports the first children pending in o: the list, which carries the turn, then
// the turn.
func (w *Writer) Callback(o projection.PendingCallback, reported int, turn run.Spec) ([]bus.Entry, error) {
	accepted, err := w.Accepted(turn)
	if err != nil {
		return nil, err
	}
	list := run.Callback{V: w.versions.Now(), RunID: o.LastClaimed, TurnID: turn.ID, At: turn.CreatedAt, Next: accepted.Body}
	for _, child := range o.Children[:reported] {
		list.Children = append(list.Children, child.RunID)
	}
	body, err := list.Encode()
	return []bus.Entry{{Subject: callbackOf(o), Body: body}, accepted}, err
}

// callbackOf is the subject of the list of what is pending.
func callbackOf(o projection.PendingCallback) string {
	return subject.Callback(subject.Partition(o.Session), o.Session, o.Children[0].RunID, o.Deliveries)
}

// Suppress notes of whom a session is not told.
func (w *Writer) Suppress(ctx context.Context, o projection.PendingCallback) error {
	record := run.Callback{V: w.versions.Now(), RunID: o.LastClaimed, At: time.Now().UTC(), Suppressed: true}
	for _, child := range o.Children {
		record.Children = append(record.Children, child.RunID)
	}
	body, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return w.Put(ctx, bus.Entry{Subject: callbackOf(o), Body: body})
}

// Offload moves a body that is too large for a record into the object store, before the record that names it.
func (w *Writer) Offload(ctx context.Context, s *run.Spec) error {
	if s.Input.Size() <= MaxInline {
		return nil
	}
	raw, err := json.Marshal(s.Input)
	if err != nil {
		return err
	}
	// Named by what it holds: another coordinator may be storing the same run with another look of its agent.
	ref, err := w.PutPayload(ctx, fmt.Sprintf("%s.%x.in", s.ID, sha256.Sum256(raw)), raw)
	if err != nil {
		return bus.WriteUnanswered(err)
	}
	s.Body, s.Input = ref, nil
	return nil
}

// PutPayload stores a body as numbered parts under a name derived from its run; putting it twice is harmless.
func (w *Writer) PutPayload(ctx context.Context, name string, raw []byte) (*run.Payload, error) {
	sum := sha256.Sum256(raw)
	ref := &run.Payload{Name: name, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])}
	for rest := raw; len(rest) > 0; ref.Parts++ {
		n := min(len(rest), run.PartSize)
		if err := w.stream.PutPart(ctx, name, ref.Parts, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return ref, nil
}
