package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A follower keeps up to two pulls of this size in flight.
const (
	followBatch = 1000
	followBytes = 8 << 20
)

// callbackError wraps an error of the caller's callback.
type callbackError struct{ err error }

func (s *callbackError) Error() string { return s.err.Error() }

// consume runs an ephemeral consumer, which must be created within the timeout. It calls started with the
// number of pending messages, then f with each message in order. It returns when ctx ends, a callback fails, or
// a message may be lost.
func (b *Conn) consume(
	ctx context.Context, stream string, from jetstream.ConsumerConfig, reconnected <-chan struct{},
	timeout time.Duration,
	started func(pending uint64) error, f func(*nats.Msg, origin) error,
) error {
	info, remove, err := b.ephemeral(ctx, stream, from, timeout)
	if err != nil {
		return err
	}
	defer remove()
	if err := started(info.NumPending); err != nil {
		return err
	}
	p, err := newPuller(b, stream, info.Name, 3*followBatch)
	if err != nil {
		return err
	}
	defer p.close()
	return p.pump(ctx, reconnected, (&orderedReader{p: p, f: f}).handle)
}

// ephemeral creates a consumer without acknowledgements that lives in memory and ends with its reader.
func (b *Conn) ephemeral(
	ctx context.Context, stream string, from jetstream.ConsumerConfig, timeout time.Duration,
) (info *jetstream.ConsumerInfo, remove func(), err error) {
	from.AckPolicy = jetstream.AckNonePolicy
	from.InactiveThreshold = time.Minute
	from.MemoryStorage = true
	from.Replicas = 1
	create, done := b.withDeadline(ctx, max(timeout, firstTryTimeout)) // a server that has just died never replies
	defer done()
	c, err := b.js.CreateConsumer(create, stream, from)
	if err != nil {
		return nil, nil, err
	}
	info = c.CachedInfo()
	return info, func() { // no wait for the reply: the consumer's server may be gone
		b.nc.PublishRequest("$JS.API.CONSUMER.DELETE."+stream+"."+info.Name, b.nc.NewInbox(), nil)
	}, nil
}

// orderedReader passes a puller's records to f, and detects gaps.
type orderedReader struct {
	p    *puller
	f    func(*nats.Msg, origin) error
	last uint64 // the last consumer sequence
}

func (s *orderedReader) handle(m *nats.Msg) error {
	record, err := s.p.note(m)
	if err != nil || !record {
		return err
	}
	o, ok := readOrigin(m.Reply)
	if !ok || o.consumer != s.last+1 {
		return errLost // a gap: a message was dropped
	}
	s.last = o.consumer
	return s.f(m, o)
}

// pump keeps pulls in flight and passes messages to handle, until ctx ends, handle fails, or a message may be
// lost.
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

// drain passes a message to take, and up to more others that have arrived.
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
