package journal

import (
	"context"
	"errors"
)

// ErrNone says that a log has nothing under that sequence, or that name.
var ErrNone = errors.New("none")

// Bounds are the sequences of the first and the last message that a stream holds; of an empty one First is Last+1.
type Bounds struct{ First, Last uint64 }

// Log is what readers read beside the fold: the stream of records (RUNS), that of events, and the parts of what was too large for
// either. A Fault of kind Unavailable says that it does not answer.
type Log interface {
	// Get is the record with that sequence, or ErrNone.
	Get(ctx context.Context, seq uint64) (Record, error)
	// GetPart is the n-th part of a large body, or ErrNone.
	GetPart(ctx context.Context, name string, n int) ([]byte, error)
	// Bounds tells of both streams what was written before it was called, by whomever.
	Bounds(ctx context.Context) (records, events Bounds, err error)
	// Events are the events' messages under a filter behind a sequence, in order, at most so many.
	Events(ctx context.Context, filter string, after uint64, most int) ([]Record, error)
	// NextEvent is the first of them, or ErrNone.
	NextEvent(ctx context.Context, filter string, after uint64) (Record, error)
	// Follow calls f with every message of a stream behind a sequence that matches one of the filters, in order, until ctx ends or
	// f errs.
	Follow(ctx context.Context, stream string, after uint64, filters []string, f func(Record) error) error
}
