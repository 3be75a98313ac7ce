// Package query answers questions from the projection: lookups, lists, counts, search, trees, sessions, events and live
// streams. What the projection does not keep, it reads from the log.
package query

import (
	"context"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/stream"
	"ao/shared/clock"
	"ao/shared/fault"
)

// Parts answer questions, each about one subject. Callers hold the part they need, or an interface of their own. All
// methods may be called concurrently.
type Parts struct {
	Index      *Index
	Payloads   *Payloads
	ActiveRuns *ActiveRuns
	Worklist   *Worklist
	Reader     *Reader
	Lists      *Lists
	Feed       *Feed
}

// New returns the parts. key computes the keys of attempts; nil: events need no proof.
func New(p *projection.Projection, records Log, fresh Freshness, key func(run string, attempt int) string) Parts {
	reader := &Reader{p: p, records: records, fresh: fresh}
	lists := &Lists{p: p, fresh: fresh, reader: reader, stride: stride, searchTime: searchTime}
	return Parts{
		Index: &Index{p}, Payloads: &Payloads{p}, ActiveRuns: &ActiveRuns{p}, Worklist: &Worklist{p},
		Reader: reader, Lists: lists,
		Feed: &Feed{p: p, records: records, fresh: fresh, reader: reader, lists: lists, key: key},
	}
}

// Freshness knows how far the projection is behind the stream, and how far it can be relied on.
type Freshness interface {
	// Await waits until a sequence of the stream is applied.
	Await(ctx context.Context, seq uint64) error
	// CatchUp waits for what the stream holds now, up to some seconds. Unavailable: that is not applied yet.
	CatchUp(ctx context.Context) error
	// Complete reports whether all of the history is applied, as far as anybody can say.
	Complete() bool
	// Intact reports whether NATS was seen to hold what was read, since its last outage. During one, nobody can say.
	Intact() bool
	// Confirmed reports whether decisions may be based on the projection.
	Confirmed() bool
}

// waitLoaded waits up to two seconds until history is loaded, and after an outage of NATS until what was read is
// confirmed. Before that runs are missing or outdated. While NATS is away, what was read counts.
func waitLoaded(ctx context.Context, fresh Freshness) error {
	if fresh.Complete() {
		return nil
	}
	return fresh.CatchUp(ctx)
}

// catchUpUntilDone is CatchUp for readers that can wait out an outage of NATS.
func catchUpUntilDone(ctx context.Context, fresh Freshness) error {
	for {
		err := fresh.CatchUp(ctx)
		if fault.KindOf(err) != fault.Unavailable {
			return err
		}
		clock.Sleep(ctx, 100*time.Millisecond)
	}
}

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
