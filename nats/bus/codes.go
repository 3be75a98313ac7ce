package bus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"ao/shared/fault"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The error codes of JetStream that this package acts on.
const (
	codeStoreFailed       = 10077 // with maxMsgsPerSubjectText: the subject has its one message
	codeWrongLast         = 10071
	codeInFlight          = 10164 // cluster: a write to the subject is in flight; it may be lost
	codeDuplicate         = 10201 // a member of a batch has an ID that is taken
	codeDuplicateInFlight = 10158 // likewise, by a write in flight; it may be lost
	codeIncomplete        = 10176 // the start of the batch was refused, or went to another leader; nothing is written
	codeManyBatches       = 10210 // too many batches are in flight; nothing of this one is written
	codeNoPeers           = 10005 // cluster: not enough servers are up and have space
	codeNoLeader          = 10009
	codeOneServer         = 10074 // replicas without a cluster
	codeStreamExists      = 10058
	codeNoStreamSpace     = 10047 // no space for a stream of that size
	codeStorageFull       = 10023 // no space for a message
	codeConsumerConfig    = 10012
	codeConsumerExists    = 10148
	codeConsumerNameInUse = 10013
	codeConsumerDeleted   = 10149
)

const (
	maxMsgsPerSubjectText = "maximum messages per subject exceeded"
	maxBytesText          = "maximum bytes exceeded"
	maxMsgsText           = "maximum messages exceeded"
)

// refusal is an error that JetStream answered with.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("JetStream: %s (%d)", r.text, r.code) }

// asFault turns nats.go's errors about an unreachable NATS into faults. The end of the caller's own context and
// all other errors stay.
func asFault(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrStorageFailing):
		// nats.go reports the end of a context in several ways
		return context.Cause(ctx)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		if cause := context.Cause(ctx); fault.KindOf(cause) == fault.Unavailable {
			return cause
		}
		return err
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.Wrap(fault.TooLarge, "", "The message is larger than NATS accepts", err)
	case diskFull(err):
		return unavailable(err)
	case slices.ContainsFunc(unavailableErrors, func(target error) bool { return errors.Is(err, target) }):
		return unavailable(err)
	}
	// JetStream replies 503 while it starts, has no leader, or is full.
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil &&
		api.APIError().Code == 503 {
		return unavailable(err)
	}
	return err
}

// unavailableErrors are nats.go's errors for a NATS that cannot be reached or does not answer.
var unavailableErrors = []error{
	context.DeadlineExceeded, os.ErrDeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrNoServers,
	nats.ErrConnectionClosed, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
	nats.ErrConnectionDraining, nats.ErrStaleConnection,
	jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled,
}

// unavailable is the fault for an operation that NATS did not confirm. It may have been done all the same.
func unavailable(cause error) error {
	message := "NATS is not reachable"
	switch no, refused := errors.AsType[*refusal](cause); {
	case diskFull(cause):
		message = "The disk of NATS is full, or cannot be written"
	case errorCode(cause) == codeStorageFull, refused && no.code == codeStorageFull:
		message = "JetStream has no space left: its limit (max_file_store) is reached"
	case errors.Is(cause, nats.ErrTimeout), errors.Is(cause, context.DeadlineExceeded),
		errors.Is(cause, os.ErrDeadlineExceeded):
		message = "NATS did not answer in time"
	case errors.Is(cause, nats.ErrNoResponders), errors.Is(cause, jetstream.ErrNoStreamResponse),
		errors.Is(cause, jetstream.ErrJetStreamNotEnabled):
		message = "JetStream is not available"
	case refused, errorCode(cause) != 0:
		message = "JetStream refused the request"
	}
	return fault.Wrap(fault.Unavailable, "", message+"; try again in a moment", cause).After(time.Second)
}

// diskFull reports whether JetStream refused a request because it could not write a file. Of a new consumer or stream
// it does not tell why.
func diskFull(err error) bool {
	return err != nil && (strings.Contains(err.Error(), syscall.ENOSPC.Error()) ||
		strings.Contains(err.Error(), "error creating store"))
}

// errorCode is JetStream's error code in err, 0 without one.
func errorCode(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil {
		return api.APIError().ErrorCode
	}
	return 0
}

// wrap adds what was being done; nil stays nil.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

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
