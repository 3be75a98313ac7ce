package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The limits of messages on their way to a follower.
const (
	followBatch = 1000
	followBytes = 8 << 20
)

// callbackError wraps an error of the caller's callback.
type callbackError struct{ err error }

func (s *callbackError) Error() string { return s.err.Error() }

// consume runs an ephemeral consumer, which must be created within the timeout. It calls started with the
// number of pending messages, then f with each message in order. It returns when ctx or the link ends, a callback
// fails, or a message may be lost. When it has returned, f is neither running nor called again.
func (b *Conn) consume(
	ctx context.Context, link *link, stream string, from jetstream.ConsumerConfig, timeout time.Duration,
	started func(pending uint64) error, f func(jetstream.Msg, origin) error,
) (err error) {
	from.AckPolicy, from.InactiveThreshold = jetstream.AckNonePolicy, time.Minute
	from.MemoryStorage, from.Replicas = true, 1
	create, done := context.WithTimeout(ctx, max(timeout, firstTryTimeout)) // a server that has just died never replies
	defer done()
	c, err := b.js.CreateConsumer(create, stream, from)
	if err != nil {
		return err
	}
	info := c.CachedInfo()
	// Nobody waits for the reply: the consumer's server may be gone.
	defer b.nc.PublishRequest("$JS.API.CONSUMER.DELETE."+stream+"."+info.Name, b.nc.NewInbox(), nil)
	if err := started(info.NumPending); err != nil {
		return err
	}
	failed := make(chan error, 1)
	fail := func(err error) {
		select {
		case failed <- err:
		default: // an earlier error counts
		}
	}
	var calling sync.Mutex // held while f runs: a subscription says that it is closed before its last callback is done
	var last uint64        // the last consumer sequence
	broken := false
	var said error // by the last callback: it counts more than a link that ended meanwhile
	messages, err := c.Consume(func(m jetstream.Msg) {
		calling.Lock()
		defer calling.Unlock()
		if broken {
			return
		}
		o, ok := readOrigin(m.Reply())
		err := errLost // a gap: a message was dropped
		if ok && o.consumer == last+1 {
			last = o.consumer
			err = f(m, o)
		}
		if err != nil {
			broken, said = true, err
			fail(err)
		}
	}, jetstream.PullMaxMessagesWithBytesLimit(followBatch, followBytes), jetstream.PullExpiry(pullExpires),
		jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			fail(fmt.Errorf("%w: %w", errLost, err))
		}))
	if err != nil {
		return err
	}
	defer func() {
		messages.Stop()
		calling.Lock()
		defer calling.Unlock()
		broken = true
		if said != nil {
			err = said
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-link.Done():
		return errLost
	case <-ctx.Done():
		return ctx.Err()
	}
}
