package query

import (
	"context"

	"ao/coordinator/projection/state"
	"ao/nats/stream"
)

// Log is what readers use besides the projection: the stream of records (RUNS), the stream of events, and the parts of
// large bodies. An Unavailable fault means that NATS does not answer.
type Log interface {
	// Get returns the record with a sequence, or stream.ErrNotFound.
	Get(ctx context.Context, seq uint64) (state.Record, error)
	// GetPart returns the n-th part of a large body, or stream.ErrNotFound.
	GetPart(ctx context.Context, name string, n int) ([]byte, error)
	// State returns what RUNS holds, including everything written before the call.
	State(ctx context.Context) (stream.State, error)
	// StreamState is State of any stream.
	StreamState(ctx context.Context, name string) (stream.State, error)
	// Events returns at most most messages of EVENTS under a filter after a sequence, in order.
	Events(ctx context.Context, filter string, after uint64, most int) ([]state.Record, error)
	// NextEvent returns the first of them, or stream.ErrNotFound.
	NextEvent(ctx context.Context, filter string, after uint64) (state.Record, error)
	// Follow calls f with every message of a stream that matches one of the filters and comes after a sequence, in
	// order. It returns when ctx ends or f fails.
	Follow(ctx context.Context, name string, after uint64, filters []string, f func(state.Record) error) error
}
