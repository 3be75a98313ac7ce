package bus

import (
	"context"
	"errors"
	"time"

	"ao/shared/fault"
)

// WriteUnanswered is the fault of a write that NATS did not answer; a fault that says so already stays as it is.
func WriteUnanswered(err error) error {
	if fault.KindOf(err) == fault.Unavailable {
		return err
	}
	return fault.Wrap(fault.Unavailable, "", "The run could not be stored: NATS does not answer; try again (an Idempotency-Key makes that safe)", err).After(time.Second)
}

// OutcomeUnknown is the fault of a request that waited in vain for what it wrote; who has left gets what ended it.
func OutcomeUnknown(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return fault.Wrap(fault.Unavailable, "", "NATS does not answer; what was asked for may have been done, and asking again is safe", err).After(time.Second)
}

// ReadUnanswered is the fault of a look that NATS did not answer: whether there is such a thing cannot be said.
func ReadUnanswered(err error) error {
	return fault.Wrap(fault.Unavailable, "", "NATS does not answer, so it is not known whether there is such a thing; try again", err).After(time.Second)
}
