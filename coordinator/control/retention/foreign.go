package retention

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"

	"golang.org/x/sync/errgroup"
)

// foreignStep is how many ignored records are looked at together, and foreignTime how long one pass takes at most.
const (
	foreignStep = 10_000
	foreignTime = 20 * time.Second
)

// dropForeign purges records under the key of no attempt, or in another partition than the session's. Anybody with a
// worker's credential can write them, and RUNS has room for a bounded number of records. Late records of an attempt
// stay: they show what was refused.
func (r *Controller) dropForeign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, foreignTime)
	defer cancel()
	var dropped atomic.Int64
	var err error
	for err == nil && r.History.Confirmed() {
		all := r.History.Ignored(foreignStep)
		if len(all) == 0 {
			break
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(16)
		for _, seq := range all {
			g.Go(func() error {
				did, err := r.dropIfForeign(ctx, seq)
				if did {
					dropped.Add(1)
				}
				return err
			})
		}
		err = g.Wait()
		if err == nil {
			r.History.ForgetIgnored(all[len(all)-1])
		}
	}
	if n := dropped.Load(); n > 0 {
		r.Log.Warn("purged records that belong to no attempt; somebody with a worker's credential wrote them",
			"records", n)
	}
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("foreign records not purged, retrying", "err", err)
	}
}

// dropIfForeign purges a record if its key is that of no attempt, or its partition is not its session's. Then nobody
// reads it, whatever history it is in.
func (r *Controller) dropIfForeign(ctx context.Context, seq uint64) (dropped bool, err error) {
	m, err := r.Stream.Get(ctx, seq)
	if errors.Is(err, bus.ErrNotFound) { // another coordinator was faster
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rec, err := subject.Parse(m.Subject)
	if err != nil || !rec.Kind.Keyed() || r.Valid(rec.Run, rec.Key) && !r.History.Misplaced(rec) {
		return false, nil
	}
	err = r.Stream.Purge(ctx, subject.Runs, m.Subject, seq+1)
	return err == nil, err
}
