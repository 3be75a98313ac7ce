package bus

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// An emitter has at most so many events, and bytes, without an answer.
const (
	emitWindow = 256
	emitBytes  = 4 << 20
)

// Emitter writes a run's events without waiting for each. It belongs to one goroutine.
type Emitter struct {
	b    *Bus
	id   string
	n    uint64
	open []emission
	size int
	last uint64
}

type emission struct {
	m   *nats.Msg
	ack jetstream.PubAckFuture // nil: not sent
}

// Emitter makes an Emitter.
func (b *Bus) Emitter() *Emitter { return &Emitter{b: b, id: nuid.Next()} }

// Emit sends an event. It waits only when too much is without an answer, at most until ctx ends; then the error
// says why that ended, and the event is kept for the next Emit or Flush.
func (e *Emitter) Emit(ctx context.Context, subject string, body []byte) error {
	e.n++
	em := emission{m: &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		"Nats-Msg-Id": {e.id + "." + strconv.FormatUint(e.n, 10)}, // sent again, it is stored once
	}}}
	em.send(e.b)
	e.open = append(e.open, em)
	e.size += len(body)
	for len(e.open) > emitWindow || e.size > emitBytes {
		if err := e.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Flush waits until every event is stored, sending again what got no answer, and gives the last one's sequence
// in EVENTS, 0 if there was none. It gives up when ctx ends, and can be called again.
func (e *Emitter) Flush(ctx context.Context) (seq uint64, err error) {
	for len(e.open) > 0 {
		if err := e.settle(ctx); err != nil {
			return e.last, err
		}
	}
	return e.last, nil
}

func (em *emission) send(b *Bus) {
	em.ack = nil
	if b.nc.IsConnected() {
		em.ack, _ = b.js.PublishMsgAsync(em.m)
	}
}

// over is why a context that ended did: only an answer that did not come in time says anything of NATS.
func over(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return unreachable(err)
	}
	return context.Cause(ctx)
}

// settle waits for the oldest event's answer.
func (e *Emitter) settle(ctx context.Context) error {
	em := &e.open[0]
	for tries := 0; ; tries++ {
		if em.ack != nil {
			select {
			case ack := <-em.ack.Ok():
				e.last = max(e.last, ack.Sequence)
				e.size -= len(em.m.Data)
				e.open[0] = emission{}
				e.open = e.open[1:]
				return nil
			case <-em.ack.Err():
			case <-ctx.Done():
				return over(ctx)
			}
		}
		reconnected := e.b.reconnect()
		if tries > 0 || !e.b.nc.IsConnected() {
			pause, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
			select {
			case <-reconnected:
			case <-pause.Done():
			}
			cancel()
			if ctx.Err() != nil {
				return over(ctx)
			}
		}
		em.m.Reply = ""
		em.send(e.b)
	}
}
