// Package completion writes the records that others say are to follow them, and that their writer did not come to write.
package completion

import (
	"context"
	"log/slog"
	"time"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// Every is how often a look is taken at what another record is to follow.
const Every = 500 * time.Millisecond

// after is how long its writer has to write it.
const after = time.Second

// Controller writes the records that others say are to follow them, and that their writer did not come to write. Every
// coordinator does so; the stream takes each once.
type Controller struct {
	History interface {
		UnwrittenEnds() []projection.Active
		Reservations() []projection.Reservation
		ReservedRecord(ctx context.Context, p projection.Reservation) ([]byte, error)
		IsReserved(id string) bool
		Confirmed() bool
	}
	Records interface {
		Put(ctx context.Context, e bus.Entry) error
		AppendCarriedEnd(ctx context.Context, a projection.Active) error
	}
	Repair interface {
		RemoveStale(ctx context.Context, run, session string) error
		RemoveEarlier(ctx context.Context, run, session string)
	}
	Log *slog.Logger

	seen map[uint64]trial // until when nothing is done, by the sequence of the record that says what is to follow
}

// trial is how often in a row it came to nothing, and when to try again.
type trial struct {
	times int
	until time.Time
}

// Reconcile finishes what has been unfinished for a while.
func (c *Controller) Reconcile(ctx context.Context) error {
	now := time.Now()
	seen := map[uint64]trial{}
	var g errgroup.Group
	g.SetLimit(16)
	finish := func(seq uint64, id string, f func() error) {
		at, ok := c.seen[seq]
		if !ok {
			at.until = now.Add(after)
		}
		if seen[seq] = at; now.Before(at.until) {
			return
		}
		seen[seq] = trial{at.times + 1, now.Add(run.Backoff(at.times + 1))} // what it came to is seen by then
		g.Go(func() error {
			if err := f(); err != nil && ctx.Err() == nil {
				c.Log.Warn("what another record is followed by is not written yet; trying again", "run", id, "seq", seq, "err", err)
			}
			return nil
		})
	}
	for _, p := range c.History.Reservations() {
		finish(p.Seq, p.RunID, func() error { return c.keepPromise(ctx, p) })
	}
	for _, a := range c.History.UnwrittenEnds() {
		finish(a.CarriedEndSeq, a.Spec.ID, func() error { return c.Records.AppendCarriedEnd(ctx, a) })
	}
	_ = g.Wait()
	c.seen = seen
	return nil
}

// keepPromise accepts a run that the record of its session, or of its callback, carries. NATS may have lost the run's
// own records with a crash, and kept what its worker said of it.
func (c *Controller) keepPromise(ctx context.Context, p projection.Reservation) error {
	if err := c.Repair.RemoveStale(ctx, p.RunID, p.SessionID); err != nil {
		return err
	}
	body, err := c.History.ReservedRecord(ctx, p)
	if err != nil || !c.History.IsReserved(p.RunID) || !c.History.Confirmed() {
		return err
	}
	if err := c.Records.Put(ctx, bus.Entry{Subject: subject.Accepted(subject.Partition(p.SessionID), p.SessionID, p.RunID), Body: body}); err != nil {
		return err
	}
	c.Repair.RemoveEarlier(ctx, p.RunID, p.SessionID)
	c.Log.Info("a run was accepted that another record carries", "run", p.RunID, "session", p.SessionID)
	return nil
}
