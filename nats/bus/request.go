package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// calls are the requests of one connection that wait for their replies. nats.go's own requests take the connection's
// lock for each reply and allocate a context, a timer and a channel each. Every record is a request.
type calls struct {
	free    sync.Pool // of *call, for reuse
	mu      sync.Mutex
	inbox   string // of the replies, unguessable, with a dot at the end; empty: no request yet
	last    uint64
	waiting map[uint64]*call
}

// call is a request that waits. It is reused.
type call struct {
	answer chan *nats.Msg // holds one; nil: the connection was lost
	timer  *time.Timer
}

func newCall() *call {
	c := &call{answer: make(chan *nats.Msg, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

// request sends a message and waits for the reply, until the timeout or the loss of the connection.
func (b *Conn) request(ctx context.Context, m *nats.Msg, timeout time.Duration) (*nats.Msg, error) {
	return b.ask(ctx, m, timeout, nil)
}

// write is request for a message to be stored. It fails without sending, or early, if the server does not write
// to that stream.
func (b *Conn) write(ctx context.Context, m *nats.Msg, timeout time.Duration, stream string) (*nats.Msg, error) {
	return b.ask(ctx, m, timeout, b.sinks[stream])
}

// ask is request, and write if to is not nil.
func (b *Conn) ask(ctx context.Context, m *nats.Msg, timeout time.Duration, to *sink) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, asFault(ctx, err)
	}
	wait, now := timeout, to.condition()
	if now.err != nil {
		return nil, now.err
	}
	if to != nil {
		wait = min(wait, firstTryTimeout)
	}
	c, _ := b.calls.free.Get().(*call)
	if c == nil {
		c = newCall()
	}
	defer b.calls.free.Put(c)
	id, err := b.calls.register(b.nc, c, m)
	if err != nil {
		return nil, asFault(ctx, err)
	}
	err = b.nc.PublishMsg(m)
	if err == nil {
		c.timer.Reset(wait)
		defer c.timer.Stop()
		for err == nil {
			select {
			case r := <-c.answer:
				return checkReply(r)
			case <-ctx.Done():
				err = ctx.Err()
			case <-now.changed:
				now = to.condition()
				err = now.err
			case <-c.timer.C:
				timeout -= wait
				if timeout <= 0 {
					err = context.DeadlineExceeded
					break
				}
				to.suspect() // each second: the server may have stopped writing meanwhile
				wait = min(timeout, firstTryTimeout)
				c.timer.Reset(wait)
			}
		}
	}
	if !b.calls.unregister(id) {
		<-c.answer // the reply has come just now, or is about to
	}
	return nil, asFault(ctx, err)
}

// checkReply turns a lost connection and "no responders" into errors.
func checkReply(r *nats.Msg) (*nats.Msg, error) {
	switch {
	case r == nil:
		return nil, unavailable(nats.ErrDisconnected)
	case len(r.Data) == 0 && r.Header.Get("Status") == "503":
		return nil, unavailable(nats.ErrNoResponders)
	}
	return r, nil
}

// register makes a call wait, and puts the subject of its reply into the message.
func (s *calls) register(nc *nats.Conn, c *call, m *nats.Msg) (id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inbox == "" {
		inbox := nc.NewInbox() + rand.Text() + "."
		sub, err := nc.Subscribe(inbox+"*", s.answered)
		if err != nil {
			return 0, err
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil { // there are no more replies than calls
			return 0, err
		}
		s.inbox, s.waiting = inbox, map[uint64]*call{}
	}
	s.last++
	s.waiting[s.last] = c
	m.Reply = s.inbox + strconv.FormatUint(s.last, 36)
	return s.last, nil
}

// answered passes a reply to its call.
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

// unregister ends a call's wait; false: it has been answered.
func (s *calls) unregister(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.waiting[id]
	delete(s.waiting, id)
	return waits
}

// failAll ends all calls: their replies were lost with the connection.
func (s *calls) failAll() {
	s.mu.Lock()
	lost := s.waiting
	s.waiting = map[uint64]*call{}
	s.mu.Unlock()
	for _, c := range lost {
		c.answer <- nil
	}
}

// RequestMany asks all processes that listen on a subject, and returns the replies within a time. No listener
// means no replies, not an error.
func (b *Requests) RequestMany(ctx context.Context, subj string, within time.Duration) (answers [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sub, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return nil, asFault(ctx, err)
	}
	defer sub.Unsubscribe()
	if err := b.nc.PublishRequest(subj, sub.Subject, nil); err != nil {
		return nil, asFault(ctx, err)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return answers, nil
		case err != nil:
			return nil, asFault(ctx, err)
		}
		answers = append(answers, m.Data)
	}
}
