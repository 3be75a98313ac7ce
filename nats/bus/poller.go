package bus

import (
	"context"
	"sync"
	"time"

	"ao/nats/subject"
	"ao/shared/clock"

	"github.com/nats-io/nats.go"
)

// recentPull is how long a pull counts as about to be filled. In that time no other task queue asks for the same slots.
const recentPull = 50 * time.Millisecond

// maxSubscriptionPending is the largest number of messages in flight to one subscription.
const maxSubscriptionPending = 2048

// Poller pulls runs from task queues into slots that are counted elsewhere. It asks for messages only while
// slots are free, for no more than are free, and naks at once what arrives when none is.
type Poller struct {
	b    *Conn
	free func() int
	do   func(context.Context, Delivery)

	mu            sync.Mutex // held while a delivery is passed on, so that free and do agree over all task queues
	subscriptions map[*subscription]struct{}
}

// subscription is a Poller's consumer of one task queue.
type subscription struct {
	p     *puller
	at    time.Time // time of the last pull
	wake  chan struct{}
	again *time.Timer
}

// Poller makes a Poller. free returns the number of free slots. do gets a delivery; it must have taken its slot
// when it returns, and must not block. Both are called by one goroutine at a time.
func (b *Queues) Poller(free func() int, do func(context.Context, Delivery)) *Poller {
	return &Poller{b: b.Conn, free: free, do: do, subscriptions: map[*subscription]struct{}{}}
}

// Wake tells the Poller that slots have become free. It is cheap and never blocks.
func (t *Poller) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.subscriptions {
		if t.wanted(l) == 0 {
			continue // it would ask for nothing
		}
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Poll pulls from a task queue until ctx ends, and returns ctx's error. It may be called for several task
// queues at once. While there is no consumer, or no connection to NATS, it waits.
func (t *Poller) Poll(ctx context.Context, queue string) error {
	return t.poll(ctx, subject.Runs, subject.TaskQueueDurable(queue))
}

func (t *Poller) poll(ctx context.Context, stream, durable string) error {
	for ctx.Err() == nil {
		err := t.pollOnce(ctx, stream, durable)
		if ctx.Err() != nil {
			break
		}
		t.b.log.Debug("restarting the pulls from a consumer", "stream", stream, "consumer", durable, "err", err)
		pause := 50 * time.Millisecond
		if err == errNoConsumer {
			pause = 500 * time.Millisecond // until the coordinator has created it again
		}
		clock.Sleep(ctx, pause)
	}
	return ctx.Err()
}

// pollOnce runs one subscription.
func (t *Poller) pollOnce(ctx context.Context, stream, durable string) error {
	link := t.b.link.Load()
	p, err := newPuller(t.b, stream, durable, 2*maxSubscriptionPending)
	if err != nil {
		return err
	}
	l := &subscription{p: p, wake: make(chan struct{}, 1), again: time.NewTimer(time.Hour)}
	t.mu.Lock()
	t.subscriptions[l] = struct{}{}
	t.mu.Unlock()
	defer t.unsubscribe(l)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := t.ask(l); err != nil {
			return err
		}
		select {
		case m := <-p.in:
			if err := t.deliver(ctx, l, m); err != nil {
				return err
			}
		drain:
			for range 256 {
				select {
				case m := <-p.in:
					if err := t.deliver(ctx, l, m); err != nil {
						return err
					}
				default:
					break drain
				}
			}
		case <-l.wake:
		case <-l.again.C:
		case <-tick.C:
			if p.lost() {
				return errLost
			}
		case <-link.Done():
			return errLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wanted returns how many more messages to ask for. It is 0 while half of the free slots are asked for already: few
// requests for many messages each. The caller holds the lock.
func (t *Poller) wanted(l *subscription) int {
	free := min(t.free(), maxSubscriptionPending)
	if 2*l.p.asked > free {
		return 0
	}
	return max(free-l.p.asked, 0)
}

// ask asks for as many messages as slots are free and not about to be filled by another task queue.
func (t *Poller) ask(l *subscription) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := t.wanted(l)
	if want == 0 {
		return nil
	}
	now := time.Now()
	for other := range t.subscriptions {
		if other != l && now.Sub(other.at) < recentPull {
			want -= other.p.asked
		}
	}
	if want <= 0 {
		l.again.Reset(recentPull)
		return nil
	}
	l.at = now
	return l.p.ask(want)
}

// deliver passes a delivery on, or naks it.
func (t *Poller) deliver(ctx context.Context, l *subscription, m *nats.Msg) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	record, err := l.p.note(m)
	if err != nil || !record {
		return err
	}
	d, ok := deliveryOf(t.b, m)
	if !ok {
		return nil
	}
	if t.free() <= 0 || ctx.Err() != nil {
		d.Nak()
		return nil
	}
	t.do(ctx, d)
	return nil
}

// drainQuiet is how long nothing must arrive before an ending subscription assumes that nothing is on its way.
const drainQuiet = 20 * time.Millisecond

// unsubscribe ends a subscription and returns the deliveries that were not passed on. A pull cannot be cancelled, and
// what the server sends to an ended subscription is lost until AckWait: so it listens a little longer.
func (t *Poller) unsubscribe(l *subscription) {
	t.mu.Lock()
	delete(t.subscriptions, l)
	t.mu.Unlock()
	l.again.Stop()
	pause := time.NewTimer(drainQuiet)
	defer pause.Stop()
	for wait := l.p.asked > 0 && t.b.nc.IsConnected(); wait; {
		select {
		case m := <-l.p.in:
			t.nak(l, m)
			pause.Reset(drainQuiet)
		case <-pause.C:
			wait = false
		}
	}
	l.p.close()
	for {
		select {
		case m := <-l.p.in:
			t.nak(l, m)
		default:
			return
		}
	}
}

// nak returns a delivery of an ending subscription, with a delay, so that it is not redelivered to that one.
func (t *Poller) nak(l *subscription, m *nats.Msg) {
	if record, _ := l.p.note(m); record {
		if d, ok := deliveryOf(t.b, m); ok {
			d.NakWithDelay(5 * drainQuiet)
		}
	}
}
