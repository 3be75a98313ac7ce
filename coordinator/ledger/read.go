package ledger

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"ao/coordinator/highwater"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"
)

// maxReads is how often the stream is read again because history was removed meanwhile.
const maxReads = 3

// clusterReads is how often the stream of a cluster is read again because a server cannot read a record: others can.
const clusterReads = 8

// errDone ends the reading.
var errDone = errors.New("enough")

// Auditor reads the whole stream, independently of any projection.
type Auditor struct {
	Stream Stream
	Rules  Rules
	Mark   Mark // nil: the history has no high-water mark
}

// Mark is the high-water mark of the stream (decision 0045).
type Mark interface {
	// Verify compares the stream with the mark. unreadable is how many records it counts and does not give.
	Verify(ctx context.Context, unreadable uint64) ([]highwater.Damage, error)
	Accept(ctx context.Context) ([]highwater.Damage, error)
}

// Accepted is the answer to accepting damages.
type Accepted struct {
	Damages []highwater.Damage `json:"damages"`
}

// AcceptDamage accepts all damages: the ledger is in order again if nothing else is wrong.
func (a *Auditor) AcceptDamage(ctx context.Context) (Accepted, error) {
	damages, err := a.Mark.Accept(ctx)
	return Accepted{append([]highwater.Damage{}, damages...)}, err
}

// Stream is what an Auditor reads.
type Stream interface {
	State(ctx context.Context) (bus.State, error)
	Follow(ctx context.Context, stream string, after uint64, filters []string, f func(bus.Message) error) error
	HasRecords(ctx context.Context, after, last uint64) (bool, error)
	Clustered() bool
}

// Ledger audits the stream (GET /ledger).
func (a *Auditor) Ledger(ctx context.Context) (Report, error) {
	if a.Mark == nil {
		r, _, err := auditStream(ctx, a.Stream, a.Rules)
		return r, err
	}
	damages, err := a.Mark.Verify(ctx, 0)
	if err != nil {
		return Report{}, err
	}
	rules := a.Rules
	rules.accept(damages)
	r, unreadable, err := auditStream(ctx, a.Stream, rules)
	for n := 1; n < clusterReads && err == nil && unreadable > 0 && a.Stream.Clustered(); n++ {
		r, unreadable, err = auditStream(ctx, a.Stream, rules) // at another server, most likely
	}
	if err == nil && unreadable > 0 {
		damages, err = a.Mark.Verify(ctx, unreadable)
	}
	r.addDamages(damages)
	return r, err
}

// auditStream audits RUNS up to the record that is its last now. Later records do not count. unreadable is how many
// records RUNS counts and does not give. Records removed meanwhile,
// by deletion or truncation, would seem missing, so it then reads again.
func auditStream(ctx context.Context, b Stream, rules Rules) (r Report, unreadable uint64, err error) {
	for n := 1; ; n++ {
		before, err := b.State(ctx)
		if err != nil {
			return Report{}, 0, err
		}
		book := NewVerifier()
		book.Rules = rules
		if before.Msgs > 0 {
			if err := addAll(ctx, b, book, before.Last); err != nil {
				return Report{}, 0, err
			}
		}
		after, err := b.State(ctx)
		if err != nil {
			return Report{}, 0, err
		}
		r := book.Close(time.Now().UTC(), before.Last)
		if book.records == 0 {
			r.Before = before.First
		}
		switch quiet := after.Last >= before.Last && after.Last-after.Msgs == before.Last-before.Msgs; {
		case quiet:
			return r, before.Msgs - min(before.Msgs, book.records), nil
		case r.OK && n == maxReads:
			return r, 0, nil
		case n == maxReads:
			return Report{}, 0,
				fault.New(fault.Unavailable, "",
					"Sessions are being deleted, or history truncated, while it is read; try again in a moment").
					After(time.Second)
		}
	}
}

// addAll reads the records up to a sequence.
func addAll(ctx context.Context, b Stream, book *Verifier, last uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var at atomic.Uint64
	var ended atomic.Bool
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if nothingFollows(ctx, b, &at, last) {
			ended.Store(true)
			cancel()
		}
	}()
	err := b.Follow(ctx, subject.Runs, 0, nil, func(m bus.Message) error {
		if m.Seq <= last {
			book.Add(m)
		}
		at.Store(m.Seq)
		if m.Seq >= last {
			return errDone
		}
		return nil
	})
	cancel()
	<-watched
	if errors.Is(err, errDone) || ended.Load() {
		return nil
	}
	return err
}

// nothingFollows waits until reading stands still and the stream has nothing more: the last record was removed. A
// replica that lags may say so too early, so it must say it twice.
func nothingFollows(ctx context.Context, b Stream, at *atomic.Uint64, last uint64) bool {
	confirmed := 0
	for before := at.Load(); clock.Sleep(ctx, 250*time.Millisecond); {
		now := at.Load()
		if now != before {
			before, confirmed = now, 0
			continue
		}
		follows, err := b.HasRecords(ctx, now, last)
		if err != nil || follows {
			confirmed = 0
			continue
		}
		confirmed++
		if confirmed == 2 {
			return true
		}
	}
	return false
}
