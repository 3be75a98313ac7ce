package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"ao/shared/clock"
	"ao/shared/run"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// maxUnstored is how many bytes of an emitter's events wait to be stored before Emit waits, too. An event counts
// eventOverhead more than its body.
const (
	maxUnstored   = 4 << 20
	eventOverhead = 512
)

// PackFunc makes one message of one or more events.
type PackFunc func(events []Entry) Entry

// Emitter publishes a run's events in order, one message at a time. Events that come before the reply go
// together in the next message. All methods may be called concurrently.
type Emitter struct {
	b    *Conn
	ctx  context.Context // when it ends, events that are not stored are abandoned
	pack PackFunc
	id   string

	mu       sync.Mutex
	unstored []unstored // the oldest first
	bytes    int
	sending  bool // send runs
	messages uint64
	last     uint64        // the last sequence in EVENTS
	progress chan struct{} // closed when unstored shrinks; nil: nobody waits
	failed   error         // why no more is sent
}

// unstored is an event, or a message that goes alone.
type unstored struct {
	Entry
	alone bool
}

// Emitter makes an Emitter; pack is for EmitPacked. When ctx ends, it abandons events that are not stored.
func (b *Log) Emitter(ctx context.Context, pack PackFunc) *Emitter {
	return &Emitter{b: b.Conn, ctx: ctx, pack: pack, id: nuid.Next()}
}

// Emit sends a message after the earlier events, and does not wait for the reply. If too much waits to be
// stored, it waits until ctx ends; then it returns the reason, and the message is sent nevertheless.
func (e *Emitter) Emit(ctx context.Context, subject string, body []byte) error {
	return e.add(ctx, unstored{Entry{Subject: subject, Body: body}, true})
}

// EmitPacked is Emit for an event that may go in one message with others.
func (e *Emitter) EmitPacked(ctx context.Context, event Entry) error {
	return e.add(ctx, unstored{event, false})
}

func (e *Emitter) add(ctx context.Context, event unstored) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unstored = append(e.unstored, event)
	e.bytes += len(event.Body) + eventOverhead
	if !e.sending {
		e.sending = true
		go e.send()
	}
	return e.waitUntil(ctx, func() bool { return e.bytes <= maxUnstored })
}

// Flush waits until every event is stored, and returns the sequence of the last message in EVENTS (0: none). It
// stops when ctx ends, and can be called again.
func (e *Emitter) Flush(ctx context.Context) (seq uint64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err = e.waitUntil(ctx, func() bool { return len(e.unstored) == 0 })
	return e.last, err
}

// waitUntil waits for ok, which only replies can make true. The caller holds mu, which is released while it waits.
func (e *Emitter) waitUntil(ctx context.Context, ok func() bool) error {
	for !ok() {
		if e.failed != nil {
			return e.failed
		}
		if e.progress == nil {
			e.progress = make(chan struct{})
		}
		progress := e.progress
		e.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
		}
		e.mu.Lock()
		if ctx.Err() != nil && !ok() {
			return contextFault(ctx)
		}
	}
	return nil
}

// send sends until nothing is left.
func (e *Emitter) send() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.unstored) > 0 && e.failed == nil {
		n, size, m := e.next()
		e.mu.Unlock()
		seq, err := e.publish(m)
		e.mu.Lock()
		if err == nil {
			e.last = seq
			e.bytes -= size
			clear(e.unstored[:n])
			e.unstored = e.unstored[n:]
		}
		e.failed = err
		if e.progress != nil {
			close(e.progress)
			e.progress = nil
		}
	}
	e.sending = false
}

// next makes a message of the oldest events. n is their number. The caller holds mu.
func (e *Emitter) next() (n, size int, m *nats.Msg) {
	limit := run.MaxPack
	if largest := e.b.nc.MaxPayload(); largest > 0 { // some servers accept smaller messages only
		limit = int(min(run.MaxPack, largest/2))
	}
	var events []Entry
	bytes := 0
	for _, u := range e.unstored {
		if n > 0 && (u.alone || n == run.MaxPacked || bytes+len(u.Body) > limit) {
			break
		}
		events = append(events, u.Entry)
		bytes += len(u.Body)
		n++
		if u.alone {
			break
		}
	}
	whole := events[0]
	if !e.unstored[0].alone {
		whole = e.pack(events)
	}
	e.messages++
	return n, bytes + n*eventOverhead, &nats.Msg{Subject: whole.Subject, Data: whole.Body, Header: nats.Header{
		"Nats-Msg-Id": {e.id + "." + strconv.FormatUint(e.messages, 10)}, // a message that is sent again is stored once
	}}
}

// publish stores a message, and tries again until the emitter's context or the connection ends.
func (e *Emitter) publish(m *nats.Msg) (seq uint64, err error) {
	for {
		r, err := e.b.request(e.ctx, m, e.b.recordTimeout())
		if err == nil {
			var a pubAck
			a, err = checkPubAck(r)
			seq = a.Seq
		}
		if err == nil {
			return seq, nil
		}
		clock.Sleep(e.ctx, 250*time.Millisecond)
		switch {
		case e.ctx.Err() != nil:
			return 0, contextFault(e.ctx)
		case e.b.nc.IsClosed():
			return 0, unavailable(nats.ErrConnectionClosed)
		}
	}
}

// contextFault is the reason why a context ended. Only a deadline says something about NATS.
func contextFault(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return unavailable(err)
	}
	return context.Cause(ctx)
}
