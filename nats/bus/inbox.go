package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
)

// InboxMessage is a run that a publisher left.
type InboxMessage struct {
	Message
	Header map[string][]string
	Key    string // the same at each delivery of this message, and never another's: the inbox's incarnation and the sequence
}

// inboxWorkers is how many inbox messages one process works on at a time.
const inboxWorkers = 64

// Inbox calls do with what publishers leave, some at a time, shared with every other process that calls it. nil:
// done. A fault that the publisher must mend (Invalid, Unauthorized, Forbidden, NotFound, Conflict, TooLarge): kept in
// REJECTED with the reason. Anything else: again, after a pause. It returns when ctx has ended and do is done.
func (b *Queues) Inbox(ctx context.Context, do func(context.Context, InboxMessage) error) error {
	var busy atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	keys, err := b.inboxKeys(ctx)
	if err != nil {
		return err
	}
	var t *Poller
	t = b.Poller(
		func() int { return inboxWorkers - int(busy.Load()) },
		func(ctx context.Context, d Delivery) {
			busy.Add(1)
			wg.Go(func() {
				defer t.Wake()
				defer busy.Add(-1)
				m := InboxMessage{Message: d.Message, Header: d.Header, Key: keys(d.Seq)}
				judge(ctx, d, do(ctx, m))
			})
		})
	return t.take(ctx, subject.Inbox, subject.InboxDurable)
}

// judge settles a delivery by what its handler said.
func judge(ctx context.Context, d Delivery, err error) {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Unauthorized, fault.Forbidden, fault.NotFound, fault.Conflict, fault.TooLarge:
		d.Reject(ctx, fault.Of(err).Reason())
		return
	}
	if err != nil {
		d.b.log.WarnContext(ctx, "an inbox message comes again", "seq", d.Seq, "attempts", d.Attempts, "err", err)
		d.NakWithDelay(min(time.Second<<min(d.Attempts, 5), 30*time.Second))
		return
	}
	d.Ack()
}
