package query

import (
	"context"
	"fmt"

	"ao/coordinator/projection/state"
	"ao/shared/fault"
	"ao/shared/run"
)

// CarriedEnd returns the end record that another record carries.
func (x *Reader) CarriedEnd(ctx context.Context, a state.Active) ([]byte, error) {
	raw, err := x.body(ctx, a.CarriedEndSeq)
	if err != nil {
		return nil, x.notKept(a.Spec.ID, err)
	}
	if a.CarriedEndSeq == a.ClaimSeq {
		raw = run.NextRecord(raw)
	}
	return raw, nil
}

// UnverifiedResult returns a reported result, large ones included. ErrUnreadable: it will never be readable. NotFound:
// a part is missing; in a cluster it may still appear.
func (x *Reader) UnverifiedResult(ctx context.Context, a state.Active) (e run.Ended, res *run.Result, err error) {
	raw, err := x.body(ctx, a.UnverifiedSeq)
	if err != nil {
		return e, nil, x.notKept(a.Spec.ID, err)
	}
	e, err = run.DecodeEnded(raw)
	if err != nil {
		return e, nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	res, err = x.document(ctx, e)
	return e, res, x.notKept(a.Spec.ID, err)
}

// ReservedRecord returns the accepted record of a reserved run.
func (x *Reader) ReservedRecord(ctx context.Context, p state.Reservation) ([]byte, error) {
	raw, err := x.body(ctx, p.Seq)
	if err != nil {
		return nil, x.notKept(p.RunID, err)
	}
	return run.NextRecord(raw), nil
}

// End returns the end record of a run, with its result even if that is large. For an open run it is a Conflict.
func (x *Reader) End(ctx context.Context, id string) (run.Ended, error) {
	s, err := x.row(ctx, id)
	if err != nil {
		return run.Ended{}, err
	}
	if s.Active != nil {
		return run.Ended{}, fault.Newf(fault.Conflict, "run %s has not ended", id)
	}
	e, err := x.endRecord(ctx, s)
	if err == nil {
		e.Result, err = x.document(ctx, e)
	}
	return e, x.notKept(id, err)
}
