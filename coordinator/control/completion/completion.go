// Package completion writes records that another record announces but whose writer failed before writing them.
package completion

import (
	"context"
	"log/slog"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"

	"golang.org/x/sync/errgroup"
)

// Every is how often the controller looks for missing records.
const Every = 500 * time.Millisecond

// grace is how long the writer of the first record has to write the second.
const grace = time.Second

// Controller writes records that another record carries and whose writer has not written them. Every coordinator runs
// one; the stream takes each record once.
type Controller struct {
	History interface {
		UnwrittenEnds() []state.Active
		Reservations() []state.Reservation
		ReservedRecord(ctx context.Context, p state.Reservation) ([]byte, error)
		IsReserved(id string) bool
		Confirmed() bool
	}
	Records interface {
		Put(ctx context.Context, e bus.Entry) error
		AppendCarriedEnd(ctx context.Context, a state.Active) error
		AcceptDamaged(ctx context.Context, accepted bus.Entry) error
		// waits until the projection is past the record that has taken a subject; unreadable: NATS cannot read it
		Passed(ctx context.Context, subj string) (passed, unreadable bool, err error)
	}
	Repair interface {
		RemoveStale(ctx context.Context, run, session string, after uint64) (exists bool, err error)
		RemoveEarlier(ctx context.Context, run, session string)
	}
	Log *slog.Logger

	backoffs map[uint64]backoffState // backoff by the sequence of the record that carries the missing one
}

// backoffState counts failures in a row, and says when to try again.
type backoffState struct {
	times int
	until time.Time
}

// Reconcile writes what has been missing for a while.
func (c *Controller) Reconcile(ctx context.Context) error {
	now := time.Now()
	backoffs := map[uint64]backoffState{}
	var g errgroup.Group
	g.SetLimit(16)
	finish := func(seq uint64, id string, f func() error) {
		at, ok := c.backoffs[seq]
		if !ok {
			at.until = now.Add(grace)
		}
		backoffs[seq] = at
		if now.Before(at.until) {
			return
		}
		// by then the result of this try is visible
		backoffs[seq] = backoffState{at.times + 1, now.Add(run.Backoff(at.times + 1))}
		g.Go(func() error {
			if err := f(); err != nil && ctx.Err() == nil {
				c.Log.Warn("record that another one carries not written yet, retrying", "run", id, "seq", seq,
					"err", err)
			}
			return nil
		})
	}
	for _, p := range c.History.Reservations() {
		finish(p.Seq, p.RunID, func() error { return c.acceptReserved(ctx, p) })
	}
	for _, a := range c.History.UnwrittenEnds() {
		finish(a.CarriedEndSeq, a.Spec.ID, func() error { return c.Records.AppendCarriedEnd(ctx, a) })
	}
	_ = g.Wait()
	c.backoffs = backoffs
	return nil
}

// acceptReserved accepts a run that its session's or its callback's record carries. A crash of NATS may have lost the
// run's own records and kept what its worker wrote.
func (c *Controller) acceptReserved(ctx context.Context, p state.Reservation) error {
	exists, err := c.Repair.RemoveStale(ctx, p.RunID, p.SessionID, p.Seq)
	damaged := err != nil && fault.Of(err).Code == run.CodeDamaged // it had begun
	if exists || err != nil && !damaged {
		return err
	}
	body, err := c.History.ReservedRecord(ctx, p)
	if err != nil || !c.History.IsReserved(p.RunID) || !c.History.Confirmed() {
		return err
	}
	accepted := bus.Entry{Subject: subject.Accepted(subject.Partition(p.SessionID), p.SessionID, p.RunID), Body: body}
	if !damaged {
		if err := c.Records.Put(ctx, accepted); err != nil {
			return err
		}
		_, damaged, err = c.Records.Passed(ctx, accepted.Subject)
	}
	if err != nil || !c.History.IsReserved(p.RunID) && damaged { // somebody else has dealt with it meanwhile
		return err
	}
	if damaged {
		return c.Records.AcceptDamaged(ctx, accepted)
	}
	c.Repair.RemoveEarlier(ctx, p.RunID, p.SessionID)
	c.Log.Info("accepted a run that another record carries", "run", p.RunID, "session", p.SessionID)
	return nil
}
