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

// disbelief is how long a cluster must say that records are lost until it is believed: a server that led once and comes back
// does not know yet what the others wrote since, and takes so long to notice.
const disbelief = 30 * time.Second

var errDoubt = errors.New("what was read seems to be lost; looking again")

// Follow calls f with every message of a stream that has a sequence greater than after and matches one of the
// filters (none: all), in order, first what is there and then what comes. It lives through reconnects, server
// restarts and the loss of its consumer without gaps or repeats. It returns when ctx ends or f errs.
func (b *Reader) Follow(ctx context.Context, stream string, after uint64, filters []string, f func(Message) error) error {
	return b.follow(ctx, stream, after, filters, func(context.Context) error { return nil }, f)
}

// follow is Follow that makes sure before it begins anew.
func (b *Reader) follow(ctx context.Context, stream string, after uint64, filters []string, sure func(context.Context) error, f func(Message) error) error {
	var said time.Time
	for most := impatience; ; most = more(most) {
		reconnected, from := b.reconnect(), after
		err := sure(ctx)
		if err == nil {
			err = b.followOnce(ctx, stream, &after, filters, reconnected, most, f)
		}
		if after > from {
			most = 0
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stop, ok := errors.AsType[*stopped](err); ok {
			return stop.err
		}
		if time.Since(said) > 5*time.Second {
			b.log.Warn("following a stream begins anew", "stream", stream, "after", after, "err", err)
			said = time.Now()
		}
		pause, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		select {
		case <-pause.Done():
		case <-b.reconnect():
		}
		cancel()
	}
}

// followOnce is one consumer's life.
func (b *Reader) followOnce(ctx context.Context, stream string, after *uint64, filters []string, reconnected <-chan struct{}, most time.Duration, f func(Message) error) error {
	from := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *after + 1, FilterSubjects: filters}
	return b.feed(ctx, stream, from, reconnected, most, func(uint64) error { return nil }, func(m *nats.Msg, o origin) error {
		if o.stream <= *after {
			return nil
		}
		if err := f(Message{Seq: o.stream, Subject: m.Subject, Body: m.Data, Time: o.at}); err != nil {
			return &stopped{err}
		}
		*after = o.stream
		return nil
	})
}

// FollowRuns is Follow of every record behind the last one that the caller has; none: of all. ErrHistoryReplaced: what f was given, or
// the caller has, is not what RUNS holds any more. Until that is believed doubt hears true, and false if it was not so.
func (b *Reader) FollowRuns(ctx context.Context, last Message, doubt func(bool), f func(Message) error) error {
	var recent []Message // the last that were read, without their bodies
	read := func(m Message) {
		if len(recent) == 2*compared {
			recent = append(recent[:0], recent[compared:]...)
		}
		recent = append(recent, Message{Seq: m.Seq, Subject: m.Subject, Time: m.Time})
	}
	if last.Seq != 0 {
		read(last)
	}
	var doubted time.Time
	sure := func(ctx context.Context) error {
		link := b.link.Load()
		switch holds, err := b.holds(ctx, recent); {
		case err != nil:
			return err
		case holds:
			b.seen.Store(link)
			if !doubted.IsZero() {
				doubted = time.Time{}
				doubt(false)
			}
			return nil
		case doubted.IsZero(): // a leader that was elected a moment ago may not know its last records
			doubted = time.Now()
			doubt(true)
			return errDoubt
		case b.clustered() && time.Since(doubted) < b.disbelief:
			return errDoubt
		}
		return &stopped{ErrHistoryReplaced}
	}
	return b.follow(ctx, subject.Runs, last.Seq, nil, sure, func(m Message) error {
		read(m)
		return f(m)
	})
}

// Confirmed says that RUNS was seen to hold what FollowRuns has read of it since the connection was lost last.
func (b *Reader) Confirmed() bool { return b.seen.Load() == b.link.Load() }

// compared is how many records are remembered, at least: the last of them that was not purged is compared.
const compared = 16

// holds tells whether RUNS goes on after the records that were read last: it lost none of what came before, nothing else has
// their sequences, and nothing unread was truncated.
func (b *Reader) holds(ctx context.Context, recent []Message) (bool, error) {
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
		if errors.Is(err, ErrNotFound) { // purged: the one before may tell
			continue
		}
		return err == nil && m.Subject == r.Subject && m.Time.Equal(r.Time), err
	}
	return true, nil
}
