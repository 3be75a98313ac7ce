package bus

import (
	"context"
	"fmt"
	"sync"

	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// states lets concurrent callers of State share one request to the leader of RUNS. A reply serves the callers
// that came before its request was sent, so each sees what was written before its call. Later callers wait for
// the next request.
type states struct {
	mu      sync.Mutex
	busy    bool // somebody sends the requests for all
	waiting []chan<- stateReply
}

// stateReply is a reply, or the reason why there is none.
type stateReply struct {
	state State
	err   error
}

// State returns the state of RUNS, from its leader: with all that was written before the call, by anybody.
func (b *Reader) State(ctx context.Context) (State, error) {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	answer := make(chan stateReply, 1)
	if b.states.wait(answer) {
		go b.askState()
	}
	select {
	case a := <-answer:
		return a.state, a.err
	case <-ctx.Done():
		return State{}, asFault(ctx, fmt.Errorf("stream %s: %w", subject.Runs, ctx.Err()))
	}
}

// askState sends requests until nobody waits.
func (b *Reader) askState() {
	for {
		var asked []chan<- stateReply
		s, err := b.streamState(context.Background(), subject.Runs, func() { asked = b.states.join(asked) })
		for _, answer := range asked {
			answer <- stateReply{s, err}
		}
		if b.states.idle() {
			return
		}
	}
}

// wait adds a caller to the next request. first: nobody sends requests yet.
func (f *states) wait(answer chan<- stateReply) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, answer)
	first, f.busy = !f.busy, true
	return first
}

// join adds those who wait to the callers of the next request.
func (f *states) join(asked []chan<- stateReply) []chan<- stateReply {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked, f.waiting = append(asked, f.waiting...), nil
	return asked
}

// idle reports whether nobody waits; then the next caller sends the requests.
func (f *states) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = len(f.waiting) > 0
	return !f.busy
}

// StreamState returns the state of a stream, from its leader.
func (b *Reader) StreamState(ctx context.Context, stream string) (State, error) {
	return b.streamState(ctx, stream, func() {})
}

// streamState calls sending before each request.
func (b *Reader) streamState(ctx context.Context, stream string, sending func()) (State, error) {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	var s jetstream.Stream
	err := retryRequest(ctx, func(ctx context.Context) (err error) {
		sending()
		s, err = b.js.Stream(ctx, stream)
		return err
	})
	if err != nil {
		return State{}, asFault(ctx, fmt.Errorf("stream %s: %w", stream, err))
	}
	i := s.CachedInfo()
	if i.Cluster != nil && i.Cluster.Leader == "" { // the server that answered may lag
		return State{}, unavailable(fmt.Errorf("stream %s has no leader", stream))
	}
	return State{
		First: i.State.FirstSeq, Last: i.State.LastSeq, Msgs: i.State.Msgs, Bytes: i.State.Bytes,
		MaxBytes: i.Config.MaxBytes, Created: i.Created,
	}, nil
}
