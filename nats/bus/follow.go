package bus

import (
	"context"
	"errors"
	"slices"
	"time"

	"ao/nats/subject"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// suspectTimeout is how long a cluster must report a loss of records until that is believed. A former leader
// that comes back needs so long to notice what the others wrote since.
const suspectTimeout = 30 * time.Second

var errSuspectedLoss = errors.New("records that were read seem to be lost; checking again")

// Follow calls f with every message of a stream after a sequence that matches one of the filters (none: all),
// in order: first the stored ones, then new ones. It survives reconnects, server restarts and the loss of its
// consumer without gaps or repeats. It returns when ctx ends or f fails.
func (b *Reader) Follow(ctx context.Context, stream string, after uint64, filters []string,
	f func(Message) error) error {
	return b.follow(ctx, stream, after, filters, func(context.Context) error { return nil }, f)
}

// follow is Follow with a check before each start of the consumer.
func (b *Reader) follow(
	ctx context.Context, stream string, after uint64, filters []string,
	check func(context.Context) error, f func(Message) error,
) error {
	var logged time.Time
	for timeout := firstTryTimeout; ; timeout = nextTryTimeout(timeout) {
		reconnected, from := b.reconnect(), after
		err := check(ctx)
		if err == nil {
			err = b.followOnce(ctx, stream, &after, filters, reconnected, timeout, f)
		}
		if after > from {
			timeout = 0
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stop, ok := errors.AsType[*callbackError](err); ok {
			return stop.err
		}
		if time.Since(logged) > 5*time.Second {
			b.log.Warn("restarting the consumer of a stream", "stream", stream, "after", after, "err", err)
			logged = time.Now()
		}
		pause, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		select {
		case <-pause.Done():
		case <-b.reconnect():
		}
		cancel()
	}
}

// followOnce runs one consumer.
func (b *Reader) followOnce(
	ctx context.Context, stream string, after *uint64, filters []string, reconnected <-chan struct{},
	timeout time.Duration,
	f func(Message) error,
) error {
	from := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *after + 1, FilterSubjects: filters,
	}
	started := func(uint64) error { return nil }
	return b.consume(ctx, stream, from, reconnected, timeout, started, func(m *nats.Msg, o origin) error {
		if o.stream <= *after {
			return nil
		}
		if err := f(Message{Seq: o.stream, Subject: m.Subject, Body: m.Data, Time: o.at}); err != nil {
			return &callbackError{err}
		}
		*after = o.stream
		return nil
	})
}

// FollowRuns is Follow of RUNS after the caller's last record (zero: from the start). The error is
// ErrHistoryReplaced if RUNS no longer holds what the caller or f got. While that is only suspected, suspect is
// called with true, and with false if it was wrong.
func (b *Reader) FollowRuns(ctx context.Context, last Message, suspect func(bool), f func(Message) error) error {
	var recent []Message // the last records read, without bodies
	read := func(m Message) {
		if len(recent) == 2*comparedRecords {
			recent = append(recent[:0], recent[comparedRecords:]...)
		}
		recent = append(recent, Message{Seq: m.Seq, Subject: m.Subject, Time: m.Time})
	}
	if last.Seq != 0 {
		read(last)
	}
	var suspected time.Time
	check := func(ctx context.Context) error {
		link := b.link.Load()
		switch holds, err := b.stillHolds(ctx, recent); {
		case err != nil:
			return err
		case holds:
			b.verifiedLink.Store(link)
			if !suspected.IsZero() {
				suspected = time.Time{}
				suspect(false)
			}
			return nil
		case suspected.IsZero(): // a leader that was just elected may not know its last records
			suspected = time.Now()
			suspect(true)
			return errSuspectedLoss
		case b.clustered() && time.Since(suspected) < b.suspectTimeout:
			return errSuspectedLoss
		}
		return &callbackError{ErrHistoryReplaced}
	}
	return b.follow(ctx, subject.Runs, last.Seq, nil, check, func(m Message) error {
		read(m)
		return f(m)
	})
}

// Confirmed reports whether RUNS was checked to hold what FollowRuns read, since the connection was last lost.
func (b *Reader) Confirmed() bool { return b.verifiedLink.Load() == b.link.Load() }

// comparedRecords is the least number of records that are remembered. The last one that was not purged is
// compared.
const comparedRecords = 16

// stillHolds reports whether RUNS continues the records that were read: none is lost or replaced, and nothing
// unread was truncated.
func (b *Reader) stillHolds(ctx context.Context, recent []Message) (bool, error) {
	if len(recent) == 0 {
		return true, nil
	}
	s, err := b.State(ctx)
	if err != nil {
		return false, err
	}
	if last := recent[len(recent)-1].Seq; s.Last < last || s.First > last+1 {
		return false, nil
	}
	for _, r := range slices.Backward(recent) {
		m, err := b.Get(ctx, r.Seq)
		if errors.Is(err, ErrNotFound) { // purged: compare the one before
			continue
		}
		return err == nil && m.Subject == r.Subject && m.Time.Equal(r.Time), err
	}
	return true, nil
}
