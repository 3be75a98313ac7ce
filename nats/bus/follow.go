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

// A follower keeps up to two pulls of this many messages and bytes under way.
const (
	followBatch = 1000
	followBytes = 8 << 20
)

// disbelief is how long a cluster must say that records are lost until it is believed: a server that led once and comes back
// does not know yet what the others wrote since, and takes so long to notice.
const disbelief = 30 * time.Second

var errDoubt = errors.New("what was read seems to be lost; looking again")

// Follow calls f with every message of a stream that has a sequence greater than after and matches one of the
// filters (none: all), in order, first what is there and then what comes. It lives through reconnects, server
// restarts and the loss of its consumer without gaps or repeats. It returns when ctx ends or f errs.
func (b *Bus) Follow(ctx context.Context, stream string, after uint64, filters []string, f func(Message) error) error {
	return b.follow(ctx, stream, after, filters, func(context.Context) error { return nil }, f)
}

// follow is Follow that makes sure before it begins anew.
func (b *Bus) follow(ctx context.Context, stream string, after uint64, filters []string, sure func(context.Context) error, f func(Message) error) error {
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

// stopped is the error of the callback.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }

// followOnce is one consumer's life.
func (b *Bus) followOnce(ctx context.Context, stream string, after *uint64, filters []string, reconnected <-chan struct{}, most time.Duration, f func(Message) error) error {
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

// feed is the life of a consumer of our own, which is made within the time given: it calls began with how many messages are to
// come, then f with each in order. It ends with ctx, with an error of theirs, or as soon as anything was lost.
func (b *Bus) feed(ctx context.Context, stream string, from jetstream.ConsumerConfig, reconnected <-chan struct{}, most time.Duration, began func(pending uint64) error, f func(*nats.Msg, origin) error) error {
	info, remove, err := b.passing(ctx, stream, from, most)
	if err != nil {
		return err
	}
	defer remove()
	if err := began(info.NumPending); err != nil {
		return err
	}
	p, err := newPuller(b, stream, info.Name, 3*followBatch)
	if err != nil {
		return err
	}
	defer p.close()
	return p.pump(ctx, reconnected, (&ordered{p: p, f: f}).take)
}

// passing makes a consumer that goes with who reads it: it keeps no acknowledgements, and nothing on disk.
func (b *Bus) passing(ctx context.Context, stream string, from jetstream.ConsumerConfig, most time.Duration) (info *jetstream.ConsumerInfo, remove func(), err error) {
	from.AckPolicy = jetstream.AckNonePolicy
	from.InactiveThreshold = time.Minute
	from.MemoryStorage = true
	from.Replicas = 1
	making, made := b.within(ctx, max(most, impatience)) // when the server that is to do it has just died, nobody says so
	defer made()
	c, err := b.js.CreateConsumer(making, stream, from)
	if err != nil {
		return nil, nil, err
	}
	info = c.CachedInfo()
	return info, func() { // nobody waits for the answer: the server that had the consumer may be gone
		b.nc.PublishRequest("$JS.API.CONSUMER.DELETE."+stream+"."+info.Name, b.nc.NewInbox(), nil)
	}, nil
}

// ordered gives f the records that a puller hears, and sees that none is missing.
type ordered struct {
	p    *puller
	f    func(*nats.Msg, origin) error
	last uint64 // of the consumer's own count
}

func (s *ordered) take(m *nats.Msg) error {
	record, err := s.p.hear(m)
	if err != nil || !record {
		return err
	}
	o, ok := readOrigin(m.Reply)
	if !ok || o.consumer != s.last+1 {
		return errLost // a gap: something was dropped on the way
	}
	s.last = o.consumer
	return s.f(m, o)
}

// pump keeps pulls under way and gives take what comes, until ctx ends, take errs, or something was lost.
func (p *puller) pump(ctx context.Context, reconnected <-chan struct{}, take func(*nats.Msg) error) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		if p.asked <= followBatch {
			if err := p.ask(followBatch, followBytes); err != nil {
				return err
			}
		}
		select {
		case m := <-p.in:
			if err := p.drain(m, followBatch/2, take); err != nil {
				return err
			}
		case <-tick.C:
			if p.lost() {
				return errLost
			}
		case <-reconnected:
			return errLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain gives take a message and up to so many more that have come already.
func (p *puller) drain(m *nats.Msg, more int, take func(*nats.Msg) error) error {
	for err := take(m); ; err = take(m) {
		if err != nil || more == 0 {
			return err
		}
		more--
		select {
		case m = <-p.in:
		default:
			return nil
		}
	}
}

// FollowRuns is Follow of every record behind the last one that the caller has; none: of all. ErrRewound: what f was given, or
// the caller has, is not what RUNS holds any more. Until that is believed doubt hears true, and false if it was not so.
func (b *Bus) FollowRuns(ctx context.Context, last Message, doubt func(bool), f func(Message) error) error {
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
		return &stopped{ErrRewound}
	}
	return b.follow(ctx, subject.Runs, last.Seq, nil, sure, func(m Message) error {
		read(m)
		return f(m)
	})
}

// Confirmed says that RUNS was seen to hold what FollowRuns has read of it since the connection was lost last.
func (b *Bus) Confirmed() bool { return b.seen.Load() == b.link.Load() }

// compared is how many records are remembered, at least: the last of them that was not purged is compared.
const compared = 16

// holds tells whether RUNS goes on after the records that were read last: it lost none of what came before, nothing else has
// their sequences, and nothing unread was truncated.
func (b *Bus) holds(ctx context.Context, recent []Message) (bool, error) {
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
		if errors.Is(err, ErrNone) { // purged: the one before may tell
			continue
		}
		return err == nil && m.Subject == r.Subject && m.Time.Equal(r.Time), err
	}
	return true, nil
}
