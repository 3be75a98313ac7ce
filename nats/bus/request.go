package bus

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// calls are the requests of one connection that wait for their answers. nats.go's own ones take the connection's lock for each
// answer, which is held while somebody writes to the socket, and cost a context, a timer and a channel each: every record is one.
type calls struct {
	spare   sync.Pool // of *call
	mu      sync.Mutex
	inbox   string // of the answers, with a dot at its end, and nobody's to guess; empty: nobody has asked yet
	last    uint64
	waiting map[uint64]*call
}

// call is one of them; it is used again.
type call struct {
	answer   chan *nats.Msg // holds one; nil: the connection was lost
	patience *time.Timer
}

func newCall() *call {
	c := &call{answer: make(chan *nats.Msg, 1), patience: time.NewTimer(time.Hour)}
	c.patience.Stop()
	return c
}

// request sends a message and waits for the answer, so long at most, and no longer than the connection holds.
func (b *Conn) request(ctx context.Context, m *nats.Msg, most time.Duration) (*nats.Msg, error) {
	return b.ask(ctx, m, most, nil)
}

// write is request for a message to be stored: it is not sent, or given up, where the server does not write to that stream.
func (b *Conn) write(ctx context.Context, m *nats.Msg, most time.Duration, stream string) (*nats.Msg, error) {
	return b.ask(ctx, m, most, b.sinks[stream])
}

// ask is request, and write where to is not nil.
func (b *Conn) ask(ctx context.Context, m *nats.Msg, most time.Duration, to *sink) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, away(ctx, err)
	}
	wait, now := most, to.condition()
	if now.err != nil {
		return nil, now.err
	}
	if to != nil {
		wait = min(wait, impatience)
	}
	c, _ := b.calls.spare.Get().(*call)
	if c == nil {
		c = newCall()
	}
	defer b.calls.spare.Put(c)
	id, err := b.calls.enter(b.nc, c, m)
	if err != nil {
		return nil, away(ctx, err)
	}
	if err = b.nc.PublishMsg(m); err == nil {
		c.patience.Reset(wait)
		defer c.patience.Stop()
		for err == nil {
			select {
			case r := <-c.answer:
				return said(r)
			case <-ctx.Done():
				err = ctx.Err()
			case <-now.over:
				now = to.condition()
				err = now.err
			case <-c.patience.C:
				if most -= wait; most <= 0 {
					err = context.DeadlineExceeded
					break
				}
				to.suspect() // each second: a server that was slow at one look may not be at the next
				wait = min(most, impatience)
				c.patience.Reset(wait)
			}
		}
	}
	if !b.calls.leave(id) {
		<-c.answer // it came just now, or is about to
	}
	return nil, away(ctx, err)
}

func said(r *nats.Msg) (*nats.Msg, error) {
	switch {
	case r == nil:
		return nil, unreachable(nats.ErrDisconnected)
	case len(r.Data) == 0 && r.Header.Get("Status") == "503":
		return nil, unreachable(nats.ErrNoResponders)
	}
	return r, nil
}

// enter has a call wait and says in the message where its answer is to go.
func (s *calls) enter(nc *nats.Conn, c *call, m *nats.Msg) (id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inbox == "" {
		inbox := nc.NewInbox() + rand.Text() + "."
		sub, err := nc.Subscribe(inbox+"*", s.answered)
		if err != nil {
			return 0, err
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil { // there are no more answers than calls
			return 0, err
		}
		s.inbox, s.waiting = inbox, map[uint64]*call{}
	}
	s.last++
	s.waiting[s.last] = c
	m.Reply = s.inbox + strconv.FormatUint(s.last, 36)
	return s.last, nil
}

// answered hands an answer to its call.
func (s *calls) answered(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	c := s.waiting[id]
	delete(s.waiting, id)
	s.mu.Unlock()
	if c != nil {
		c.answer <- m
	}
}

// leave has a call wait no longer; false: it has been answered.
func (s *calls) leave(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.waiting[id]
	delete(s.waiting, id)
	return waits
}

// cut ends the waiting of all: their answers went with the connection.
func (s *calls) cut() {
	s.mu.Lock()
	lost := s.waiting
	s.waiting = map[uint64]*call{}
	s.mu.Unlock()
	for _, c := range lost {
		c.answer <- nil
	}
}
