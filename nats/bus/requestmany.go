package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// RequestMany asks all who listen to a subject, and gives the answers that come within a time. Nobody listening is no answer, and
// no error.
func (b *Requests) RequestMany(ctx context.Context, subj string, within time.Duration) (answers [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sub, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return nil, away(ctx, err)
	}
	defer sub.Unsubscribe()
	if err := b.nc.PublishRequest(subj, sub.Subject, nil); err != nil {
		return nil, away(ctx, err)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return answers, nil
		case err != nil:
			return nil, away(ctx, err)
		}
		answers = append(answers, m.Data)
	}
}
