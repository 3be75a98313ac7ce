package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/clock"

	"github.com/nats-io/nats.go/jetstream"
)

// Follow calls f with every message of a stream that matches one of the filters (none: all) and comes after a
// sequence. The stored ones come first, in order, then new ones. It survives reconnects, server restarts and the
// loss of its consumer without gaps or repeats. It returns when ctx ends or f fails.
func (b *Reader) Follow(ctx context.Context, stream string, after uint64, filters []string,
	f func(Message) error) error {
	return b.follow(ctx, stream, after, filters, func(context.Context) error { return nil }, new(atomic.Uint64), f)
}

// follow is Follow with a check before each start of the consumer. left gets how many messages follow each one.
func (b *Reader) follow(ctx context.Context, stream string, after uint64, filters []string,
	check func(context.Context) error, left *atomic.Uint64, f func(Message) error,
) error {
	var logged time.Time
	for timeout := firstTryTimeout; ; timeout = nextTryTimeout(timeout) {
		link, from := b.link.Load(), after
		err := check(ctx)
		if err == nil {
			err = b.followOnce(ctx, link, stream, &after, filters, timeout, left, f)
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
		clock.Sleep(ctx, 100*time.Millisecond)
	}
}

// followOnce runs one consumer.
func (b *Reader) followOnce(
	ctx context.Context, link *link, stream string, after *uint64, filters []string, timeout time.Duration,
	left *atomic.Uint64, f func(Message) error,
) error {
	from := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *after + 1, FilterSubjects: filters,
	}
	started := func(uint64) error { return nil }
	return b.consume(ctx, link, stream, from, timeout, started, func(m jetstream.Msg, o origin) error {
		if o.stream <= *after {
			return nil
		}
		left.Store(o.pending)
		if err := f(Message{Seq: o.stream, Subject: m.Subject(), Body: m.Data(), Time: o.at}); err != nil {
			return &callbackError{err}
		}
		*after = o.stream
		return nil
	})
}

// FollowRuns is Follow of RUNS after the last record that the caller has read (none: from the start). read returns the
// last ones, those of f included. The error is ErrHistoryReplaced if RUNS no longer holds them. While that is only
// suspected, suspect is called with true, and with false if it was wrong.
func (b *Reader) FollowRuns(ctx context.Context, read func() []stream.Fingerprint, suspect func(bool),
	f func(Message) error,
) error {
	history := stream.Continuation{Source: b, Read: read, Suspect: suspect, Timeout: func() time.Duration {
		if b.clustered() {
			return b.suspectTimeout
		}
		return 0
	}}
	check := func(ctx context.Context) error {
		link := b.link.Load()
		err := history.Check(ctx)
		if err == nil {
			b.verifiedLink.Store(link)
		}
		if errors.Is(err, ErrHistoryReplaced) {
			return &callbackError{err}
		}
		return err
	}
	return b.follow(ctx, subject.Runs, history.After(), nil, check, &b.left, f)
}

// Confirmed reports whether RUNS was checked to hold what FollowRuns read, since the connection was last lost.
func (b *Reader) Confirmed() bool { return b.verifiedLink.Load() == b.link.Load() }

// Left returns how many records follow the last one that FollowRuns got, as NATS counts. If there is none, NATS has
// skipped so many that it cannot read.
func (b *Reader) Left() uint64 { return b.left.Load() }
