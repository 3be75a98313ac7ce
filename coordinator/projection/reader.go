package projection

import (
	"context"
	"fmt"

	"ao/shared/fault"
	"ao/shared/run"
)

// Carried is that last word, as it is to be written.
func (x *Reader) CarriedEnd(ctx context.Context, a Active) ([]byte, error) {
	raw, err := x.body(ctx, a.CarriedEndSeq)
	if err != nil {
		return nil, x.gone(a.Spec.ID, err)
	}
	if a.CarriedEndSeq == a.ClaimSeq {
		raw = run.NextRecord(raw)
	}
	return raw, nil
}

// Offer is what was offered, with its result also where that was too large for the record. ErrUnreadable: nothing can
// be made of it. A part that is not kept is NotFound; in a cluster it may come.
func (x *Reader) UnverifiedResult(ctx context.Context, a Active) (e run.Ended, res *run.Result, err error) {
	raw, err := x.body(ctx, a.UnverifiedSeq)
	if err != nil {
		return e, nil, x.gone(a.Spec.ID, err)
	}
	e, err = run.DecodeEnded(raw)
	if err != nil {
		return e, nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	res, err = x.document(ctx, e)
	return e, res, x.gone(a.Spec.ID, err)
}

// Promise is the accepted record of such a run, as it is to be written.
func (x *Reader) ReservedRecord(ctx context.Context, p Reservation) ([]byte, error) {
	raw, err := x.body(ctx, p.Seq)
	if err != nil {
		return nil, x.gone(p.RunID, err)
	}
	return run.NextRecord(raw), nil
}

// Promised is a run that another record carries, and that has none of its own yet.
type Reservation struct {
	RunID, SessionID string
	Seq              uint64 // of the record that carries it
}

// End is the last word on an ended run, with its result also where that was too large for it. A run that has not ended
// is a Conflict.
func (x *Reader) End(ctx context.Context, id string) (run.Ended, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return run.Ended{}, err
	}
	if s.snap != nil {
		return run.Ended{}, fault.Newf(fault.Conflict, "run %s has not ended", id)
	}
	e, err := x.word(ctx, s)
	if err == nil {
		e.Result, err = x.document(ctx, e)
	}
	return e, x.gone(id, err)
}
