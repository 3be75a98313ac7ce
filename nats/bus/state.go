package bus

import (
	"context"
	"fmt"

	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// stateCall is a request to the leader of RUNS that callers of State share. It serves those that came before it
// was sent, so each sees what was written before its call.
type stateCall struct {
	done  chan struct{} // closed when there is a reply, or none
	state State
	err   error
}

// State returns the state of RUNS, from its leader: with all that was written before the call, by anybody.
func (b *Reader) State(ctx context.Context) (State, error) {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	b.stateMu.Lock()
	call := b.nextState
	if call == nil {
		call = &stateCall{done: make(chan struct{})}
		b.nextState = call
		go b.askState(call)
	}
	b.stateMu.Unlock()
	select {
	case <-call.done:
		return call.state, call.err
	case <-ctx.Done():
		return State{}, asFault(ctx, fmt.Errorf("stream %s: %w", subject.Runs, ctx.Err()))
	}
}

// askState sends the request when the one before has its reply.
func (b *Reader) askState(call *stateCall) {
	b.askingState.Lock()
	defer b.askingState.Unlock()
	b.stateMu.Lock()
	b.nextState = nil
	b.stateMu.Unlock()
	call.state, call.err = b.StreamState(context.Background(), subject.Runs)
	close(call.done)
}

// StreamState returns the state of a stream, from its leader.
func (b *Reader) StreamState(ctx context.Context, stream string) (State, error) {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	s, err := retryRequest(ctx, func(ctx context.Context) (jetstream.Stream, error) { return b.js.Stream(ctx, stream) })
	if err != nil {
		return State{}, asFault(ctx, fmt.Errorf("stream %s: %w", stream, err))
	}
	i := s.CachedInfo()
	if i.Cluster != nil && i.Cluster.Leader == "" { // the server that answered may lag
		return State{}, unavailable(fmt.Errorf("stream %s has no leader", stream))
	}
	return State{
		First: i.State.FirstSeq, Last: i.State.LastSeq, LastTime: i.State.LastTime, Msgs: i.State.Msgs,
		Bytes: i.State.Bytes, MaxBytes: i.Config.MaxBytes,
		MaxMsgs: i.Config.MaxMsgs, Created: i.Created,
	}, nil
}
