package query

import (
	"context"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"
)

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
