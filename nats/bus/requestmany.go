package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// RequestMany asks all processes that listen on a subject, and returns the replies within a time. No listener
// means no replies, not an error.
func (b *Requests) RequestMany(ctx context.Context, subj string, within time.Duration) (answers [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sub, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return nil, asFault(ctx, err)
	}
	defer sub.Unsubscribe()
	if err := b.nc.PublishRequest(subj, sub.Subject, nil); err != nil {
		return nil, asFault(ctx, err)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return answers, nil
		case err != nil:
			return nil, asFault(ctx, err)
		}
		answers = append(answers, m.Data)
	}
}
