package bus

import (
	"context"
	"errors"
	"time"

	"ao/shared/fault"
)

// WriteUnanswered is the fault of a write that NATS did not answer. An Unavailable fault stays as it is.
func WriteUnanswered(err error) error {
	if fault.KindOf(err) == fault.Unavailable {
		return err
	}
	const message = "The run could not be stored: NATS does not answer; try again (an Idempotency-Key makes that safe)"
	return fault.Wrap(fault.Unavailable, "", message, err).After(time.Second)
}

// OutcomeUnknown is the fault of a request that did not see its own write in time. The end of the caller's
// context stays as it is.
func OutcomeUnknown(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	const message = "NATS does not answer; the request may have been carried out, and repeating it is safe"
	return fault.Wrap(fault.Unavailable, "", message, err).After(time.Second)
}

// ReadUnanswered is the fault of a read that NATS did not answer.
func ReadUnanswered(err error) error {
	const message = "NATS does not answer, so it is unknown whether this exists; try again"
	return fault.Wrap(fault.Unavailable, "", message, err).After(time.Second)
}
