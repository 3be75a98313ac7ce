package record

import (
	"context"
	"time"

	"ao/nats/bus"
)

// Patience is how long a request waits for the fold. What it asked for is on the stream then, or as good as, but nobody here can say
// what came of it: it may be that NATS is away.
const RequestTimeout = 10 * time.Second

// Reads waits until the fold has what readers are to see.
type ReadBarrier struct {
	stream  streamState
	history awaiter
}

// current is what the stream holds now.
type streamState interface {
	Connected() bool
	State(ctx context.Context) (bus.State, error)
}

// awaited is a fold that can be waited for.
type awaiter interface {
	Await(ctx context.Context, seq uint64) error
	WaitOwnWrites(ctx context.Context) error
}

// NewReads makes who waits until a fold has what a stream holds.
func NewReadBarrier(s streamState, h awaiter) *ReadBarrier {
	return &ReadBarrier{stream: s, history: h}
}

// Current waits, a second at most, until the fold has what the stream holds now: a reader who was answered by another
// coordinator a moment ago sees at least that here. While NATS is away what is known has to do.
func (r *ReadBarrier) WaitCurrent(ctx context.Context) {
	if !r.stream.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = r.CatchUp(ctx)
}

// CaughtUp waits until the fold has what was written before.
func (r *ReadBarrier) CatchUp(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	s, err := r.stream.State(wait)
	if err == nil {
		err = r.history.Await(wait, s.Last)
	}
	return bus.OutcomeUnknown(ctx, err)
}

// Reached waits until the fold has a record that was written.
func (r *ReadBarrier) WaitFor(ctx context.Context, seq uint64) error {
	wait, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	return bus.OutcomeUnknown(ctx, r.history.Await(wait, seq))
}

// Own waits until the fold has all records of this process, for a moment at most: a list that this coordinator gives after an answer
// shows what it answered.
func (r *ReadBarrier) WaitOwnWrites(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = r.history.WaitOwnWrites(ctx) // a list that lags is better than none
}
