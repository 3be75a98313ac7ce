package projection

import (
	"context"

	"ao/nats/stream"
)

// Log is what readers use besides the projection: the stream of records (RUNS), the stream of events, and the parts of
// large bodies. An Unavailable fault means that NATS does not answer.
type Log interface {
	// Get returns the record with a sequence, or stream.ErrNotFound.
	Get(ctx context.Context, seq uint64) (Record, error)
	// GetPart returns the n-th part of a large body, or stream.ErrNotFound.
	GetPart(ctx context.Context, name string, n int) ([]byte, error)
	// State returns what RUNS holds, including everything written before the call.
	State(ctx context.Context) (stream.State, error)
	// StreamState is State of any stream.
	StreamState(ctx context.Context, name string) (stream.State, error)
	// Events returns at most most messages of EVENTS under a filter after a sequence, in order.
	Events(ctx context.Context, filter string, after uint64, most int) ([]Record, error)
	// NextEvent returns the first of them, or stream.ErrNotFound.
	NextEvent(ctx context.Context, filter string, after uint64) (Record, error)
	// Follow calls f with every message of a stream that matches one of the filters and comes after a sequence, in
	// order. It returns when ctx ends or f fails.
	Follow(ctx context.Context, name string, after uint64, filters []string, f func(Record) error) error
}

// Source is the stream of records (RUNS), as the Follower reads it.
type Source interface {
	State(ctx context.Context) (stream.State, error)
	Get(ctx context.Context, seq uint64) (Record, error)
	// FollowRuns calls f with every record after the last one that was read. read returns the last ones, those of f
	// included. ErrHistoryReplaced: the stream no longer holds them. Before that is certain doubt is called with true,
	// and with false if it turns out not to be so.
	FollowRuns(ctx context.Context, read func() []stream.Fingerprint, doubt func(bool), f func(Record) error) error
	// HasRecords reports whether there is a record with a sequence above after and not above last.
	HasRecords(ctx context.Context, after, last uint64) (bool, error)
	// Confirmed reports whether, since the last reconnect, the stream was seen to hold what FollowRuns has read.
	Confirmed() bool
	Connected() bool
}
