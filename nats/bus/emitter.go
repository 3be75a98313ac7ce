package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"ao/shared/run"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// The limits of an emitter's messages in flight.
const (
	emitWindow = 256
	emitBytes  = 4 << 20
)

// packDelay is the longest time that an event waits for others.
const packDelay = 50 * time.Millisecond

// PackFunc makes one message of one or more events.
type PackFunc func(events []Entry) Entry

// Emitter publishes a run's events without waiting for each reply. All methods may be called concurrently.
type Emitter struct {
	b    *Conn
	ctx  context.Context // when it ends, messages without a reply are abandoned
	pack PackFunc
	id   string

	mu            sync.Mutex
	n             uint64
	pending       []Entry // not sent yet
	pendingBytes  int
	packTimer     *time.Timer
	inFlight      []*emission // sent without a reply yet, the oldest first
	inFlightBytes int
	last          uint64
	delivering    bool          // deliver runs
	resending     bool          // the oldest is being sent again; later ones must not overtake it
	progress      chan struct{} // closed when inFlight shrinks; nil: nobody waits
	failed        error         // why no more is sent
}

type emission struct {
	m   *nats.Msg
	ack jetstream.PubAckFuture // nil: not sent
	seq uint64                 // its sequence in the stream; 0: not known yet
}

// Emitter makes an Emitter that publishes each event by itself.
func (b *Log) Emitter() *Emitter { return b.PackingEmitter(context.Background(), nil) }

// PackingEmitter makes an Emitter that packs events together. When ctx ends, it abandons messages without a
// reply.
func (b *Log) PackingEmitter(ctx context.Context, pack PackFunc) *Emitter {
	return &Emitter{b: b.Conn, ctx: ctx, pack: pack, id: nuid.Next()}
}

// Emit sends a message, after the pending events. If too much is in flight, it waits until ctx ends; then it
// returns the reason, and the message is sent nevertheless.
func (e *Emitter) Emit(ctx context.Context, subject string, body []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sendPending()
	e.send(Entry{Subject: subject, Body: body})
	return e.waitUntil(ctx, e.hasRoom)
}

// EmitPacked sends an event: at once if nothing is in flight, else together with those that follow until a
// reply comes, but after 50 ms at the latest. Otherwise it is like Emit.
func (e *Emitter) EmitPacked(ctx context.Context, event Entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	limit := maxPackBytes(e.b.nc)
	if e.pendingBytes+len(event.Body) > limit {
		e.sendPending()
	}
	e.pending, e.pendingBytes = append(e.pending, event), e.pendingBytes+len(event.Body)
	switch {
	case len(e.inFlight) == 0, len(e.pending) == run.MaxPacked, e.pendingBytes > limit:
		e.sendPending()
	case len(e.pending) == 1:
		e.packTimer = time.AfterFunc(packDelay, e.packTimeout)
	}
	return e.waitUntil(ctx, e.hasRoom)
}

// Flush waits until every event is stored, and returns the sequence of the last message in EVENTS (0: none). It
// stops when ctx ends, and can be called again.
func (e *Emitter) Flush(ctx context.Context) (seq uint64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sendPending()
	err = e.waitUntil(ctx, func() bool { return len(e.inFlight) == 0 })
	return e.last, err
}

// maxPackBytes is the limit of a pack. A server may accept smaller messages than run.MaxPack.
func maxPackBytes(nc *nats.Conn) int {
	if n := nc.MaxPayload(); n > 0 {
		return int(min(run.MaxPack, n/2))
	}
	return run.MaxPack
}

// hasRoom reports whether the limits of messages in flight are kept.
func (e *Emitter) hasRoom() bool {
	return len(e.inFlight) <= emitWindow && e.inFlightBytes <= emitBytes
}

// waitUntil waits for ok, which only replies can make true. The caller holds mu, which is released while it
// waits.
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

// packTimeout sends events that have waited for packDelay.
func (e *Emitter) packTimeout() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sendPending()
}

// sendPending packs the pending events into a message and sends it. The caller holds mu.
func (e *Emitter) sendPending() {
	if len(e.pending) == 0 {
		return
	}
	if e.packTimer != nil {
		e.packTimer.Stop()
	}
	m := e.pack(e.pending)
	e.pending, e.pendingBytes, e.packTimer = nil, 0, nil
	e.send(m)
}

// send sends a message. The caller holds mu.
func (e *Emitter) send(m Entry) {
	e.n++
	em := &emission{m: &nats.Msg{Subject: m.Subject, Data: m.Body, Header: nats.Header{
		"Nats-Msg-Id": {e.id + "." + strconv.FormatUint(e.n, 10)}, // a message that is sent again is stored once
	}}}
	if e.failed != nil {
		return
	}
	if !e.resending {
		em.send(e.b)
		e.resending = em.ack == nil
	}
	e.inFlight = append(e.inFlight, em)
	e.inFlightBytes += len(m.Body)
	if !e.delivering {
		e.delivering = true
		go e.deliver()
	}
}

func (em *emission) send(b *Conn) {
	em.ack, em.m.Reply = nil, ""
	if b.nc.IsConnected() {
		// a retry by nats.go would let later messages overtake it
		em.ack, _ = b.js.PublishMsgAsync(em.m, jetstream.WithRetryAttempts(0))
	}
}

// deliver waits for the replies, the oldest first, and sends the events that became pending meanwhile, until
// nothing is left.
func (e *Emitter) deliver() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.inFlight) > 0 && e.failed == nil {
		em := e.inFlight[0]
		e.mu.Unlock()
		seq, err := e.answer(em)
		e.mu.Lock()
		e.failed = err
		if err == nil {
			e.last = max(e.last, seq)
			e.inFlightBytes -= len(em.m.Data)
			e.inFlight[0] = nil
			e.inFlight = e.inFlight[1:]
			e.resend()
		}
		if len(e.inFlight) == 0 {
			e.sendPending()
		}
		if e.progress != nil {
			close(e.progress)
			e.progress = nil
		}
	}
	e.delivering = false
}

// resend sends the messages after one that was sent again, unless they are stored. The caller holds mu.
func (e *Emitter) resend() {
	if !e.resending {
		return
	}
	e.resending = false
	for _, em := range e.inFlight {
		if !em.stored() {
			em.send(e.b)
		}
	}
}

// stored reports whether the message is stored, and notes its sequence.
func (em *emission) stored() bool {
	if em.seq == 0 && em.ack != nil {
		select {
		case ack := <-em.ack.Ok():
			em.seq = ack.Sequence
		default:
		}
	}
	return em.seq != 0
}

// answer waits for a message's sequence, and sends it again if there is none. The error is why nobody waits for
// it any more.
func (e *Emitter) answer(em *emission) (uint64, error) {
	for tries := 0; ; tries++ {
		if em.seq != 0 {
			return em.seq, nil
		}
		if em.ack != nil {
			select {
			case ack := <-em.ack.Ok():
				return ack.Sequence, nil
			case <-em.ack.Err():
			case <-e.ctx.Done():
				return 0, contextFault(e.ctx)
			}
		}
		e.mu.Lock()
		e.resending = true
		e.mu.Unlock()
		reconnected := e.b.reconnect()
		if tries > 0 || !e.b.nc.IsConnected() {
			pause, cancel := context.WithTimeout(e.ctx, 250*time.Millisecond)
			select {
			case <-reconnected:
			case <-pause.Done():
			}
			cancel()
		}
		switch {
		case e.ctx.Err() != nil:
			return 0, contextFault(e.ctx)
		case e.b.nc.IsClosed():
			return 0, unavailable(nats.ErrConnectionClosed)
		}
		em.send(e.b)
	}
}

// contextFault is the reason why a context ended. Only a deadline says something about NATS.
func contextFault(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return unavailable(err)
	}
	return context.Cause(ctx)
}
