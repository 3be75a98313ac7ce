package bus

import (
	"context"
	"sync"
	"time"

	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// fresh is how long a pull counts as about to be filled: so long another lane does not ask for the same slots.
const fresh = 50 * time.Millisecond

// lineRoom is the largest number of messages under way to one line.
const lineRoom = 2048

// Poller takes runs from lanes into slots that are counted elsewhere. It asks for messages only while slots are
// free, for no more than are free, and hands back at once what comes when none is.
type Poller struct {
	b    *Conn
	free func() int
	do   func(context.Context, Delivery)

	mu    sync.Mutex // held while a delivery is handed over, so that free and do agree over all lanes
	lines map[*line]struct{}
}

// line is one consumer's side of a Taker.
type line struct {
	p     *puller
	at    time.Time // of the last pull
	wake  chan struct{}
	again *time.Timer
}

// Poller makes a Taker. free gives the number of free slots. do gets a delivery; it must have taken its slot when
// it returns, and must not block: the work goes on in a goroutine of its own. Both are called by one goroutine
// at a time.
func (b *Queues) Poller(free func() int, do func(context.Context, Delivery)) *Poller {
	return &Poller{b: b.Conn, free: free, do: do, lines: map[*line]struct{}{}}
}

// Wake says that slots have become free. It costs little and never blocks.
func (t *Poller) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.lines {
		if t.room(l) == 0 {
			continue // it would ask for nothing
		}
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Poll takes from a lane until ctx ends; several lanes may be taken from at once. While the lane has no
// consumer, or NATS is away, it waits for it. It returns ctx's error.
func (t *Poller) Poll(ctx context.Context, lane string) error {
	return t.take(ctx, subject.Runs, subject.TaskQueueDurable(lane))
}

func (t *Poller) take(ctx context.Context, stream, durable string) error {
	for ctx.Err() == nil {
		reconnected := t.b.reconnect()
		err := t.takeOnce(ctx, stream, durable, reconnected)
		if ctx.Err() != nil {
			break
		}
		t.b.log.Debug("pulling begins anew", "stream", stream, "consumer", durable, "err", err)
		pause := 50 * time.Millisecond
		if err == errGone {
			pause = 500 * time.Millisecond // until the coordinator has made it again
		}
		rest(ctx, pause)
	}
	return ctx.Err()
}

// takeOnce is one subscription's life.
func (t *Poller) takeOnce(ctx context.Context, stream, durable string, reconnected <-chan struct{}) error {
	p, err := newPuller(t.b, stream, durable, 2*lineRoom)
	if err != nil {
		return err
	}
	l := &line{p: p, wake: make(chan struct{}, 1), again: time.NewTimer(time.Hour)}
	t.mu.Lock()
	t.lines[l] = struct{}{}
	t.mu.Unlock()
	defer t.leave(l)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := t.ask(l); err != nil {
			return err
		}
		select {
		case m := <-p.in:
			if err := t.hand(ctx, l, m); err != nil {
				return err
			}
		drain:
			for range 256 {
				select {
				case m := <-p.in:
					if err := t.hand(ctx, l, m); err != nil {
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
		case <-reconnected:
			return errLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// room is for how many more messages there are slots. While what is asked for goes a long way yet, it is none: one request for
// many, not one for each. The caller holds the lock.
func (t *Poller) room(l *line) int {
	free := min(t.free(), lineRoom)
	if 2*l.p.asked > free {
		return 0
	}
	return max(free-l.p.asked, 0)
}

// ask asks for as many messages as slots are free and not about to be filled by another lane.
func (t *Poller) ask(l *line) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := t.room(l)
	if want == 0 {
		return nil
	}
	now := time.Now()
	for other := range t.lines {
		if other != l && now.Sub(other.at) < fresh {
			want -= other.p.asked
		}
	}
	if want <= 0 {
		l.again.Reset(fresh)
		return nil
	}
	l.at = now
	return l.p.ask(want, 0)
}

// hand hands a delivery over, or back.
func (t *Poller) hand(ctx context.Context, l *line, m *nats.Msg) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	record, err := l.p.hear(m)
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

// quiet is how long nothing must come before a line that leaves believes that nothing is on its way.
const quiet = 20 * time.Millisecond

// leave ends a line and hands back what it had not handed over. A pull cannot be taken back, and what the server
// sends to one whose subscription has just ended is lost until AckWait: so it listens a little longer.
func (t *Poller) leave(l *line) {
	t.mu.Lock()
	delete(t.lines, l)
	t.mu.Unlock()
	l.again.Stop()
	pause := time.NewTimer(quiet)
	defer pause.Stop()
	for wait := l.p.asked > 0 && t.b.nc.IsConnected(); wait; {
		select {
		case m := <-l.p.in:
			t.giveBack(l, m)
			pause.Reset(quiet)
		case <-pause.C:
			wait = false
		}
	}
	l.p.close()
	for {
		select {
		case m := <-l.p.in:
			t.giveBack(l, m)
		default:
			return
		}
	}
}

// giveBack hands back what came to a line that leaves: with a pause, so that it doesn't come to the same line.
func (t *Poller) giveBack(l *line, m *nats.Msg) {
	if record, _ := l.p.hear(m); record {
		if d, ok := deliveryOf(t.b, m); ok {
			d.NakWithDelay(5 * quiet)
		}
	}
}
