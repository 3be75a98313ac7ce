package record

import (
	"context"
	"errors"
	"time"

	"ao/nats/bus"
)

// RequestTimeout is how long a request waits for the projection. What it asked for is already written by then; only the
// outcome is unknown here.
const RequestTimeout = 10 * time.Second

// ReadBarrier waits until the projection has what readers are to see.
type ReadBarrier struct {
	stream  streamState
	history awaiter
}

// streamState is what the stream holds now.
type streamState interface {
	Connected() bool
	State(ctx context.Context) (bus.State, error)
	Last(ctx context.Context, subj string) (bus.Message, error)
	Clustered() bool
}

// awaiter is a projection that can be waited for.
type awaiter interface {
	Await(ctx context.Context, seq uint64) error
	WaitOwnWrites(ctx context.Context) error
}

// NewReadBarrier returns a barrier between a stream and its projection.
func NewReadBarrier(s streamState, h awaiter) *ReadBarrier {
	return &ReadBarrier{stream: s, history: h}
}

// WaitCurrent waits up to a second until the projection has what the stream holds now, so that readers see what another
// coordinator just answered. It does not wait while NATS is away.
func (r *ReadBarrier) WaitCurrent(ctx context.Context) {
	if !r.stream.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = r.CatchUp(ctx)
}

// CatchUp waits until the projection has everything that was written before the call.
func (r *ReadBarrier) CatchUp(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	s, err := r.stream.State(wait)
	if err == nil {
		err = r.history.Await(wait, s.Last)
	}
	return bus.OutcomeUnknown(ctx, err)
}

// Passed waits until the projection is past the record that has taken a subject, and reports whether it is. unreadable:
// NATS cannot read the record. In a cluster another server may, so that one is not passed.
func (r *ReadBarrier) Passed(ctx context.Context, subj string) (passed, unreadable bool, err error) {
	m, err := r.stream.Last(ctx, subj)
	switch {
	case err == nil:
		err = r.WaitFor(ctx, m.Seq)
	case !errors.Is(err, bus.ErrNotFound):
		err = bus.ReadUnanswered(err)
	case r.stream.Clustered():
		return false, false, nil
	default:
		unreadable, err = true, r.CatchUp(ctx)
	}
	return err == nil, unreadable, err
}

// WaitFor waits until the projection has a record.
func (r *ReadBarrier) WaitFor(ctx context.Context, seq uint64) error {
	wait, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	return bus.OutcomeUnknown(ctx, r.history.Await(wait, seq))
}

// WaitOwnWrites waits up to two seconds until the projection has all records of this process (read your writes).
func (r *ReadBarrier) WaitOwnWrites(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = r.history.WaitOwnWrites(ctx) // a list that lags is better than none
}
