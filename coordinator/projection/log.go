package projection

import (
	"context"

	"ao/nats/stream"
)

// Log is what readers read beside the fold: the stream of records (RUNS), that of events, and the parts of what was too
// large for either. A Fault of kind Unavailable says that it does not answer.
type Log interface {
	// Get is the record with that sequence, or stream.ErrNotFound.
	Get(ctx context.Context, seq uint64) (Record, error)
	// GetPart is the n-th part of a large body, or stream.ErrNotFound.
	GetPart(ctx context.Context, name string, n int) ([]byte, error)
	// State tells what RUNS holds that was written before it was called, by whomever.
	State(ctx context.Context) (stream.State, error)
	// StreamState is State of any stream.
	StreamState(ctx context.Context, name string) (stream.State, error)
	// Events are the events' messages under a filter behind a sequence, in order, at most so many.
	Events(ctx context.Context, filter string, after uint64, most int) ([]Record, error)
	// NextEvent is the first of them, or stream.ErrNotFound.
	NextEvent(ctx context.Context, filter string, after uint64) (Record, error)
	// Follow calls f with every message of a stream behind a sequence that matches one of the filters, in order, until
	// ctx ends or f errs.
	Follow(ctx context.Context, name string, after uint64, filters []string, f func(Record) error) error
}

// Source is the stream of records (RUNS), as the Follower reads it.
type Source interface {
	State(ctx context.Context) (stream.State, error)
	Get(ctx context.Context, seq uint64) (Record, error)
	// FollowRuns calls f with every record behind the last one that the caller has. ErrHistoryReplaced: what f was
	// given, or the caller has, is not what the stream holds any more. Until that is believed doubt hears true, and
	// false if it was not so.
	FollowRuns(ctx context.Context, last Record, doubt func(bool), f func(Record) error) error
	// HasRecords tells whether there is any record with a sequence greater than after and at most as great as last.
	HasRecords(ctx context.Context, after, last uint64) (bool, error)
	// Confirmed says that the stream was seen to hold what FollowRuns has read of it since the connection was lost
	// last.
	Confirmed() bool
	Connected() bool
}
