// Package record writes the coordinator's records. It makes their subjects, keys and bodies, stores large bodies as
// payloads, ends attempts, and removes stale records after NATS lost some.
package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"ao/coordinator/payload"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// ReplicaLag is how long after the end of a run NATS may wrongly say that it has no result. A server that came back
// does not know yet what the others wrote. It allows for clocks that differ.
const ReplicaLag = time.Minute

// versions says in which version records are written.
type versions interface {
	Now() int              // of records that are not under an attempt's key
	Of(a state.Active) int // of records under an attempt's key
	Advertised() int       // what queued attempts are told; 0 means 1
	Returns() bool         // all coordinators understand that a runner gives an attempt back
}

// Writer writes records, and payloads that are too large for one.
type Writer struct {
	stream     stream
	projection history
	keys       *Keys
	versions   versions
	room       room
}

// room has the room for payloads.
type room interface {
	Input(o payload.Owner, name string, bytes int64) error
	Result(o payload.Owner, name string, bytes int64) error
	Forget(name string)
}

// stream is where records are stored.
type stream interface {
	Append(ctx context.Context, e bus.Entry) (uint64, error)
	AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error)
	AppendEach(ctx context.Context, entries ...bus.Entry) (uint64, error)
	Last(ctx context.Context, subj string) (bus.Message, error)
	PutPart(ctx context.Context, name string, n int, body []byte) error
	DropPayload(ctx context.Context, name string) error
}

// history is this process's projection.
type history interface {
	NoteWritten(seq uint64) // so that lists show what this coordinator has answered
}

// NewWriter returns a Writer that writes in the versions all coordinators read.
func NewWriter(s stream, h history, k *Keys, v versions, r room) *Writer {
	return &Writer{stream: s, projection: h, keys: k, versions: v, room: r}
}

// Append writes a record and notes its sequence. Errors are the stream's.
func (w *Writer) Append(ctx context.Context, e bus.Entry) error {
	seq, err := w.stream.Append(ctx, e)
	if err == nil {
		w.projection.NoteWritten(seq)
	}
	return err
}

// Put writes a record whose subject only this record can have: that it is taken means that it exists already.
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

// AppendBatch writes records that belong together as one batch, or one by one where NATS takes no batch. It may stop
// after the first. Each record carries the next, and the completion controller writes what is missing (decision 0033).
// ErrTaken: one is taken; those before it may exist.
func (w *Writer) AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error) {
	return w.AppendEither(ctx, entries, entries)
}

// AppendEither is AppendBatch with other records for the case that they are written one by one.
func (w *Writer) AppendEither(ctx context.Context, together, apart []bus.Entry) (uint64, error) {
	seq, err := w.stream.AppendBatch(ctx, together...)
	if errors.Is(err, bus.ErrTooManyBatches) {
		return w.stream.AppendEach(ctx, apart...)
	}
	return seq, err
}

// Version is the version of records that are not under an attempt's key.
func (w *Writer) Version() int { return w.versions.Now() }

// NoteWritten notes the last sequence of records that were written as a batch.
func (w *Writer) NoteWritten(seq uint64) { w.projection.NoteWritten(seq) }

// Queued returns the record that lets a worker take the attempt. returnable: it may give it back, if all coordinators
// understand that.
func (w *Writer) Queued(part, queue string, s run.Spec, attempt int, returnable bool) (bus.Entry, error) {
	body, err := run.Queued{V: w.versions.Now(), Attempt: attempt, Key: w.keys.Of(s.ID, attempt),
		RecordVersion: w.versions.Advertised(), Returnable: returnable && w.versions.Returns(), Spec: s}.Encode()
	return bus.Entry{Subject: subject.Queued(part, queue, s.ID, attempt), Body: body}, err
}

// accepted returns the first record of a run that is not queued yet.
func (w *Writer) accepted(s run.Spec) (bus.Entry, error) {
	body, err := run.Accepted{V: w.versions.Now(), Spec: s}.Encode()
	return bus.Entry{Subject: subject.Accepted(subject.Partition(s.SessionID), s.SessionID, s.ID), Body: body}, err
}

// Callback returns the records of a callback turn that reports the first children in o: the list, which carries the
// turn, and the turn.
func (w *Writer) Callback(o state.PendingCallback, reported int, turn run.Spec) ([]bus.Entry, error) {
	accepted, err := w.accepted(turn)
	if err != nil {
		return nil, err
	}
	list := run.Callback{V: w.versions.Now(), RunID: o.LastClaimed, TurnID: turn.ID, At: turn.CreatedAt,
		Next: accepted.Body}
	for _, child := range o.Children[:reported] {
		list.Children = append(list.Children, child.RunID)
	}
	body, err := list.Encode()
	return []bus.Entry{{Subject: o.Subject(), Body: body}, accepted}, err
}

// Suppress records that a session is not called back for these children. ErrTaken: there is such a record.
func (w *Writer) Suppress(ctx context.Context, o state.PendingCallback) error {
	record := run.Callback{V: w.versions.Now(), RunID: o.LastClaimed, At: time.Now().UTC(), Suppressed: true}
	for _, child := range o.Children {
		record.Children = append(record.Children, child.RunID)
	}
	body, err := strictjson.Encode(record)
	if err != nil {
		return err
	}
	return w.Append(ctx, bus.Entry{Subject: o.Subject(), Body: body})
}

// Offload moves a body that is too large for a record to the object store, for a run that follows from what was
// accepted. The record that names it comes after.
func (w *Writer) Offload(ctx context.Context, s *run.Spec) error {
	return w.offload(ctx, s, w.room.Result)
}

// OffloadNew is Offload for a new run. It is refused where its owner has no room left.
func (w *Writer) OffloadNew(ctx context.Context, s *run.Spec) error {
	return w.offload(ctx, s, w.room.Input)
}

func (w *Writer) offload(ctx context.Context, s *run.Spec,
	admit func(o payload.Owner, name string, bytes int64) error) error {
	s.AgentHash = ""
	if s.Input.Size() <= run.MaxInline {
		return nil
	}
	raw, err := strictjson.Encode(s.Input)
	if err != nil {
		return err
	}
	// Named by its content: another coordinator may be storing the same run with another state of its agent.
	name := fmt.Sprintf("%s.%x.in", s.ID, sha256.Sum256(raw))
	if err := admit(payload.OwnerOf(s), name, int64(len(raw))); err != nil {
		return err
	}
	ref, err := w.PutPayload(ctx, name, raw)
	if err != nil {
		return bus.WriteUnanswered(err)
	}
	if s.Owner == "" { // the hash of an agent that belongs to runners
		s.AgentHash = agent.HashOf(s.Blueprint)
	}
	s.Body, s.Input = ref, nil
	return nil
}

// Withdraw removes the payload of a run that was refused after it was stored.
func (w *Writer) Withdraw(ctx context.Context, s *run.Spec) {
	if s.Body != nil && w.stream.DropPayload(ctx, s.Body.Name) == nil {
		w.room.Forget(s.Body.Name)
	}
}

// PutPayload stores a body as numbered parts under a name derived from its run. Storing it twice is harmless.
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
