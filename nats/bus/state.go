package bus

import (
	"context"
	"fmt"
	"sync"

	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// states lets many who ask for the state of RUNS at the same moment share one request to its leader. An answer serves those who
// asked before its request was sent, so that each of them sees what was written before they asked; who comes while a request
// is under way waits for the next one.
type states struct {
	mu      sync.Mutex
	busy    bool // somebody sends requests for all
	waiting []chan<- told
}

// told is an answer, or why there is none.
type told struct {
	state State
	err   error
}

// State gives the state of RUNS, from its leader: it has what was written before State was called, by whomever.
func (b *Reader) State(ctx context.Context) (State, error) {
	ctx, done := b.within(ctx, b.brief())
	defer done()
	answer := make(chan told, 1)
	if b.states.wait(answer) {
		go b.askState()
	}
	select {
	case a := <-answer:
		return a.state, a.err
	case <-ctx.Done():
		return State{}, away(ctx, fmt.Errorf("stream %s: %w", subject.Runs, ctx.Err()))
	}
}

// askState asks until nobody waits for an answer.
func (b *Reader) askState() {
	for {
		var asked []chan<- told
		s, err := b.streamState(context.Background(), subject.Runs, func() { asked = b.states.join(asked) })
		for _, answer := range asked {
			answer <- told{s, err}
		}
		if b.states.idle() {
			return
		}
	}
}

// wait has the next request answered here, too. first: nobody sends requests yet.
func (f *states) wait(answer chan<- told) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, answer)
	first, f.busy = !f.busy, true
	return first
}

// join adds those who wait to those whom the next request serves.
func (f *states) join(asked []chan<- told) []chan<- told {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked, f.waiting = append(asked, f.waiting...), nil
	return asked
}

// idle says whether nobody waits, and lets the next one who does begin.
func (f *states) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = len(f.waiting) > 0
	return !f.busy
}

// StreamState gives the state of a stream, from its leader.
func (b *Reader) StreamState(ctx context.Context, stream string) (State, error) {
	return b.streamState(ctx, stream, func() {})
}

// streamState calls sending before each request that it sends.
func (b *Reader) streamState(ctx context.Context, stream string, sending func()) (State, error) {
	ctx, done := b.within(ctx, b.brief())
	defer done()
	var s jetstream.Stream
	err := askAgain(ctx, func(ctx context.Context) (err error) {
		sending()
		s, err = b.js.Stream(ctx, stream)
		return err
	})
	if err != nil {
		return State{}, away(ctx, fmt.Errorf("stream %s: %w", stream, err))
	}
	i := s.CachedInfo()
	if i.Cluster != nil && i.Cluster.Leader == "" { // whichever server answered, it may lag behind
		return State{}, unreachable(fmt.Errorf("stream %s has no leader", stream))
	}
	return State{First: i.State.FirstSeq, Last: i.State.LastSeq, Msgs: i.State.Msgs, Bytes: i.State.Bytes, MaxBytes: i.Config.MaxBytes, Created: i.Created}, nil
}
