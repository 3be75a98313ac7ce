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

// An emitter has at most so many messages, and bytes, without an answer.
const (
	emitWindow = 256
	emitBytes  = 4 << 20
)

// gatherTime is the longest that an event waits for others before it is sent.
const gatherTime = 50 * time.Millisecond

// PackFunc makes one message of events that go together, one or more.
type PackFunc func(events []Entry) Entry

// Emitter writes a run's events without waiting for each. Its methods may be called at any time, from anywhere.
type Emitter struct {
	b    *Conn
	ctx  context.Context // ends when what has no answer yet is not wanted any more
	seal PackFunc
	id   string

	mu       sync.Mutex
	n        uint64
	gathered []Entry // not sent yet
	weight   int     // their bytes
	due      *time.Timer
	open     []*emission // without an answer, the oldest first
	size     int         // their bytes
	last     uint64
	busy     bool          // deliver runs
	again    bool          // the oldest got no answer and is sent again; none overtakes it
	moved    chan struct{} // closed when open is shorter; nil: nobody waits for that
	gone     error         // why nothing is sent any more
}

type emission struct {
	m   *nats.Msg
	ack jetstream.PubAckFuture // nil: not sent
	seq uint64                 // it is stored there; 0: nobody has looked at its answer
}

// Emitter makes an Emitter of single messages.
func (b *Log) Emitter() *Emitter { return b.PackingEmitter(context.Background(), nil) }

// PackingEmitter makes an Emitter that gathers events until seal makes a message of them. When ctx ends it gives up what has
// no answer yet.
func (b *Log) PackingEmitter(ctx context.Context, seal PackFunc) *Emitter {
	return &Emitter{b: b.Conn, ctx: ctx, seal: seal, id: nuid.Next()}
}

// Emit sends a message, behind what is gathered. It waits only when too much is without an answer, at most until ctx
// ends; then the error says why that ended, and the message is sent all the same.
func (e *Emitter) Emit(ctx context.Context, subject string, body []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.together()
	e.send(Entry{Subject: subject, Body: body})
	return e.until(ctx, e.roomy)
}

// EmitPacked sends an event: at once where nothing is without an answer, else together with those that follow until there
// is one. It waits for that no longer than 50 ms. Otherwise it is as Emit.
func (e *Emitter) EmitPacked(ctx context.Context, event Entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	most := mostPacked(e.b.nc)
	if e.weight+len(event.Body) > most {
		e.together()
	}
	e.gathered, e.weight = append(e.gathered, event), e.weight+len(event.Body)
	switch {
	case len(e.open) == 0, len(e.gathered) == run.MaxPacked, e.weight > most:
		e.together()
	case len(e.gathered) == 1:
		e.due = time.AfterFunc(gatherTime, e.late)
	}
	return e.until(ctx, e.roomy)
}

// Flush waits until every event is stored, sending again what got no answer, and gives the last message's sequence in
// EVENTS, 0 if there was none. It gives up when ctx ends, and can be called again.
func (e *Emitter) Flush(ctx context.Context) (seq uint64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.together()
	err = e.until(ctx, func() bool { return len(e.open) == 0 })
	return e.last, err
}

// mostPacked is how many bytes of events go in one message: a server may be set to take smaller ones than a pack is.
func mostPacked(nc *nats.Conn) int {
	if n := nc.MaxPayload(); n > 0 {
		return int(min(run.MaxPack, n/2))
	}
	return run.MaxPack
}

// roomy tells whether more may be sent.
func (e *Emitter) roomy() bool { return len(e.open) <= emitWindow && e.size <= emitBytes }

// until waits until ok, which only answers can bring about. The caller holds mu, and does not while this waits.
func (e *Emitter) until(ctx context.Context, ok func() bool) error {
	for !ok() {
		if e.gone != nil {
			return e.gone
		}
		if e.moved == nil {
			e.moved = make(chan struct{})
		}
		moved := e.moved
		e.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		e.mu.Lock()
		if ctx.Err() != nil && !ok() {
			return over(ctx)
		}
	}
	return nil
}

// late sends what has been gathered for long enough.
func (e *Emitter) late() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.together()
}

// together sends what is gathered. The caller holds mu.
func (e *Emitter) together() {
	if len(e.gathered) == 0 {
		return
	}
	if e.due != nil {
		e.due.Stop()
	}
	m := e.seal(e.gathered)
	e.gathered, e.weight, e.due = nil, 0, nil
	e.send(m)
}

// send sends a message. The caller holds mu.
func (e *Emitter) send(m Entry) {
	e.n++
	em := &emission{m: &nats.Msg{Subject: m.Subject, Data: m.Body, Header: nats.Header{
		"Nats-Msg-Id": {e.id + "." + strconv.FormatUint(e.n, 10)}, // sent again, it is stored once
	}}}
	if e.gone != nil {
		return
	}
	if !e.again {
		em.send(e.b)
		e.again = em.ack == nil
	}
	e.open = append(e.open, em)
	e.size += len(m.Body)
	if !e.busy {
		e.busy = true
		go e.deliver()
	}
}

func (em *emission) send(b *Conn) {
	em.ack, em.m.Reply = nil, ""
	if b.nc.IsConnected() {
		em.ack, _ = b.js.PublishMsgAsync(em.m, jetstream.WithRetryAttempts(0)) // what comes behind it would overtake it
	}
}

// deliver waits for the answers, the oldest first, and sends what was gathered meanwhile, until nothing is left.
func (e *Emitter) deliver() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.open) > 0 && e.gone == nil {
		em := e.open[0]
		e.mu.Unlock()
		seq, err := e.answer(em)
		e.mu.Lock()
		if e.gone = err; err == nil {
			e.last = max(e.last, seq)
			e.size -= len(em.m.Data)
			e.open[0] = nil
			e.open = e.open[1:]
			e.resend()
		}
		if len(e.open) == 0 {
			e.together()
		}
		if e.moved != nil {
			close(e.moved)
			e.moved = nil
		}
	}
	e.busy = false
}

// resend sends what came behind a message that was sent again, unless it is stored. The caller holds mu.
func (e *Emitter) resend() {
	if !e.again {
		return
	}
	e.again = false
	for _, em := range e.open {
		if !em.stored() {
			em.send(e.b)
		}
	}
}

// stored tells whether a message's answer has come, and keeps what it says.
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

// answer waits for a message's sequence, and sends it again where it gets none. The error is why nobody waits for it
// any more.
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
				return 0, over(e.ctx)
			}
		}
		e.mu.Lock()
		e.again = true
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
			return 0, over(e.ctx)
		case e.b.nc.IsClosed():
			return 0, unreachable(nats.ErrConnectionClosed)
		}
		em.send(e.b)
	}
}

// over is why a context that ended did: only an answer that did not come in time says anything of NATS.
func over(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return unreachable(err)
	}
	return context.Cause(ctx)
}
