package coordinator

import (
	"context"
	"time"

	"ao/nats/bus"
)

// patience is how long a request waits for the fold. What it asked for is on the stream then, or as good as, but nobody here can say
// what came of it: it may be that NATS is away.
const patience = 10 * time.Second

// reads waits until the fold has what readers are to see.
type reads struct {
	stream interface {
		Connected() bool
		State(ctx context.Context) (bus.State, error)
	}
	history interface {
		Await(ctx context.Context, seq uint64) error
		Own(ctx context.Context) error
	}
}

// Current waits, a second at most, until the fold has what the stream holds now: a reader who was answered by another
// coordinator a moment ago sees at least that here. While NATS is away what is known has to do.
func (r *reads) Current(ctx context.Context) {
	if !r.stream.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = r.CaughtUp(ctx)
}

// CaughtUp waits until the fold has what was written before.
func (r *reads) CaughtUp(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := r.stream.State(wait)
	if err == nil {
		err = r.history.Await(wait, s.Last)
	}
	return unsure(ctx, err)
}

// Reached waits until the fold has a record that was written.
func (r *reads) Reached(ctx context.Context, seq uint64) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return unsure(ctx, r.history.Await(wait, seq))
}

// Own waits until the fold has all records of this process, for a moment at most: a list that this coordinator gives after an answer
// shows what it answered.
func (r *reads) Own(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = r.history.Own(ctx) // a list that lags is better than none
}

func (c *Coordinator) caughtUp(ctx context.Context) error { return c.reads.CaughtUp(ctx) }
func (c *Coordinator) own(ctx context.Context)            { c.reads.Own(ctx) }
