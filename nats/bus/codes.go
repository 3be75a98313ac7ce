package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ao/shared/fault"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream's error codes that we act on.
const (
	codeStoreFailed  = 10077 // with the text perSubject: the subject has its one message
	codeWrongLast    = 10071
	codeInFlight     = 10164 // cluster: about a write still on its way; it may come to nothing
	codeIncomplete   = 10176 // a batch whose beginning was refused unheard, or taken by another leader; nothing of it is written
	codeManyBatches  = 10210 // too many batches are under way; nothing of this one is written
	codeNoPeers      = 10005 // cluster: not enough servers that are there and have room
	codeNoLeader     = 10009
	codeOneServer    = 10074 // no replicas without a cluster
	codeStreamExists = 10058
	codeNoRoom       = 10047 // for a stream of that size
	codeNoStorage    = 10023 // for a message
	codeNoStream     = 10059
	codeNoConsumer   = 10014
	codeConsumerCfg  = 10012
	codeConsumerIs   = 10148
	codeConsumerName = 10013
	codeConsumerGone = 10149
)

const (
	perSubject = "maximum messages per subject exceeded"
	maxBytes   = "maximum bytes exceeded"
)

// refusal is JetStream's no.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("JetStream: %s (%d)", r.text, r.code) }

// away turns what nats.go says of a NATS that is not there into a fault; the end of the caller's own context
// and everything else stay as they are.
func away(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrStorageFailing): // nats.go has several words for a context that ended
		return context.Cause(ctx)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		if cause := context.Cause(ctx); fault.KindOf(cause) == fault.Unavailable {
			return cause
		}
		return err
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.Wrap(fault.TooLarge, "", "The message is larger than NATS takes", err)
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionDraining),
		errors.Is(err, nats.ErrStaleConnection), errors.Is(err, nats.ErrNoServers),
		errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return unreachable(err)
	}
	// JetStream itself says 503 while it starts or has no leader, and where its storage is full.
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil && api.APIError().Code == 503 {
		return unreachable(err)
	}
	return err
}

// unreachable is the fault of what NATS did not do, with what that tells of NATS. It may have been done all the same.
func unreachable(cause error) error {
	message := "NATS is not reachable"
	switch no, refused := errors.AsType[*refusal](cause); {
	case code(cause) == codeNoStorage, refused && no.code == codeNoStorage:
		message = "JetStream has no room: what it may store (max_file_store) is used up"
	case errors.Is(cause, nats.ErrTimeout), errors.Is(cause, context.DeadlineExceeded):
		message = "NATS did not answer in time"
	case errors.Is(cause, nats.ErrNoResponders), errors.Is(cause, jetstream.ErrNoStreamResponse), errors.Is(cause, jetstream.ErrJetStreamNotEnabled):
		message = "NATS has no JetStream at the moment"
	case refused, code(cause) != 0:
		message = "JetStream cannot do it at the moment"
	}
	return fault.Wrap(fault.Unavailable, "", message+"; try again in a moment", cause).After(time.Second)
}

// code gives JetStream's error code in err, 0 where there is none.
func code(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil {
		return api.APIError().ErrorCode
	}
	return 0
}

// wrap says what was being done; nil stays nil.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
