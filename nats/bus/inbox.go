package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
)

// InboxMessage is a run request that a publisher left in the inbox.
type InboxMessage struct {
	Message
	Header map[string][]string
	Key    string // unique for this message, and the same at each delivery: the inbox's incarnation and the sequence
}

// inboxWorkers is how many inbox messages one process handles at a time.
const inboxWorkers = 64

// Inbox calls do with the messages of the inbox, several at a time. All processes that call it share the
// messages. After nil the message is done. After a fault that the publisher must fix (Invalid, Unauthorized,
// Forbidden, NotFound, Conflict, TooLarge) it is kept in REJECTED with the reason. After any other error it is
// redelivered after a pause. Inbox returns when ctx has ended and all calls of do have returned.
func (b *Queues) Inbox(ctx context.Context, do func(context.Context, InboxMessage) error) error {
	var busy atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	keys, err := b.inboxKeys(ctx)
	if err != nil {
		return err
	}
	var t *Poller
	t = b.Poller(func() int { return inboxWorkers - int(busy.Load()) }, func(ctx context.Context, d Delivery) {
		busy.Add(1)
		wg.Go(func() {
			defer t.Wake()
			defer busy.Add(-1)
			m := InboxMessage{Message: d.Message, Header: d.Header, Key: keys(d.Seq)}
			settle(ctx, d, do(ctx, m))
		})
	})
	return t.poll(ctx, subject.Inbox, subject.InboxDurable)
}

// settle acknowledges a delivery by its handler's error.
func settle(ctx context.Context, d Delivery, err error) {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Unauthorized, fault.Forbidden, fault.NotFound, fault.Conflict, fault.TooLarge:
		d.Reject(ctx, fault.Of(err).Reason())
		return
	}
	if err != nil {
		d.b.log.WarnContext(ctx, "inbox message is redelivered", "seq", d.Seq, "attempts", d.Attempts, "err", err)
		d.NakWithDelay(min(time.Second<<min(d.Attempts, 5), 30*time.Second))
		return
	}
	d.Ack()
}
