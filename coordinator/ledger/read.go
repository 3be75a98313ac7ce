package ledger

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
)

// tries is how often the stream is read anew because history was taken away meanwhile.
const tries = 3

// errEnough ends the reading.
var errEnough = errors.New("enough")

// Auditor reads the stream anew, whatever a coordinator's own fold says.
type Auditor struct {
	Stream *bus.Bus
	Rules  Rules
}

// Ledger audits the stream (GET /ledger).
func (a *Auditor) Ledger(ctx context.Context) (Report, error) {
	return auditStream(ctx, a.Stream, a.Rules)
}

// auditStream audits RUNS by these rules: from its first record to the one that is its last now. What is written
// meanwhile does not count; what is taken away meanwhile (sessions that are deleted, history that is truncated) would
// seem missing, so then it reads again.
func auditStream(ctx context.Context, b *bus.Bus, rules Rules) (Report, error) {
	for n := 1; ; n++ {
		before, err := b.State(ctx)
		if err != nil {
			return Report{}, err
		}
		book := newBook()
		book.Rules = rules
		if before.Msgs > 0 {
			if err := enter(ctx, b, book, before.Last); err != nil {
				return Report{}, err
			}
		}
		after, err := b.State(ctx)
		if err != nil {
			return Report{}, err
		}
		r := book.Close(time.Now().UTC(), before.Last)
		if book.records == 0 {
			r.Before = before.First
		}
		switch quiet := after.Last >= before.Last && after.Last-after.Msgs == before.Last-before.Msgs; {
		case quiet, r.OK && n == tries:
			return r, nil
		case n == tries:
			return Report{},
				fault.New(fault.Unavailable, "",
					"Sessions are being deleted, or history truncated, while it is read; try again in a moment").After(
					time.Second)
		}
	}
}

// enter reads into a book the records up to a sequence.
func enter(ctx context.Context, b *bus.Bus, book *book, last uint64) error {
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
			book.Enter(m)
		}
		at.Store(m.Seq)
		if m.Seq >= last {
			return errEnough
		}
		return nil
	})
	cancel()
	<-watched
	if errors.Is(err, errEnough) || ended.Load() {
		return nil
	}
	return err
}

// nothingFollows waits until the reading stands still and the stream has nothing more for it: the record with the last
// sequence was taken away. A replica that lags may say so too early, so it must say it twice.
func nothingFollows(ctx context.Context, b *bus.Bus, at *atomic.Uint64, last uint64) bool {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	said := 0
	for before := at.Load(); ; {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		now := at.Load()
		if now != before {
			before, said = now, 0
			continue
		}
		follows, err := b.HasRecords(ctx, now, last)
		if err != nil || follows {
			said = 0
			continue
		}
		said++
		if said == 2 {
			return true
		}
	}
}
