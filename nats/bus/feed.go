package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A follower keeps up to two pulls of this many messages and bytes under way.
const (
	followBatch = 1000
	followBytes = 8 << 20
)

// stopped is the error of the callback.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }

// feed is the life of a consumer of our own, which is made within the time given: it calls began with how many messages are to
// come, then f with each in order. It ends with ctx, with an error of theirs, or as soon as anything was lost.
func (b *Conn) feed(ctx context.Context, stream string, from jetstream.ConsumerConfig, reconnected <-chan struct{}, most time.Duration, began func(pending uint64) error, f func(*nats.Msg, origin) error) error {
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
func (b *Conn) passing(ctx context.Context, stream string, from jetstream.ConsumerConfig, most time.Duration) (info *jetstream.ConsumerInfo, remove func(), err error) {
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
