package bus

import (
	"context"
	"errors"
	"strings"
	"time"

	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// Queues hands out what waits: queued runs by their lanes, and what publishers leave at the inbox.
type Queues struct{ *Conn }

// TaskQueueState is how far a lane's consumer is.
type TaskQueueState struct {
	Delivered  uint64 // sequence in RUNS of the newest delivery
	AckFloor   uint64 // everything up to this sequence in RUNS is settled
	Pending    uint64 // waiting to be delivered
	AckPending int    // delivered and not settled
	Pulls      int    // pulls of workers that wait
	Created    time.Time
}

// ackWait is how long a run is kept back for whom it was handed to and who neither claims it nor hands it back: a worker that was
// paused while it asked for more. It is acked as soon as its claim stands, and whoever gets it once more loses the claim.
const ackWait = 5 * time.Second

// EnsureTaskQueue makes the lane's consumer, starting at that sequence of RUNS (0 counts as 1). One that exists is
// left as it is, wherever it started: it is created, never updated. One that is being deleted at this moment is made again after it; the
// server may have torn the files of the new one away with those of the old, and what is left serves until a restart and no longer.
func (b *Queues) EnsureTaskQueue(ctx context.Context, lane string, start uint64) error {
	ctx, done := b.within(ctx, b.brief())
	defer done()
	name := subject.TaskQueueDurable(lane)
	cfg := jetstream.ConsumerConfig{
		Durable:       name,
		Description:   "lane " + lane,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   max(start, 1),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: 16384,
		MaxWaiting:    4096,
		FilterSubject: subject.TaskQueueFilter(lane),
	}
	for try := 1; ; try++ {
		err := askAgain(ctx, func(ctx context.Context) error {
			_, err := b.js.CreateConsumer(ctx, subject.Runs, cfg)
			return err
		})
		if err == nil || exists(err) {
			return nil
		}
		if c := code(err); c != codeConsumerCfg && c != codeConsumerGone || try == 5 {
			return away(ctx, wrap("queue "+lane, err))
		}
		if strings.Contains(err.Error(), "no such file") {
			_ = b.js.DeleteConsumer(ctx, subject.Runs, name) // the next try tells
		}
		rest(ctx, 20*time.Millisecond)
	}
}

// exists says that a consumer is there already, perhaps with another start (10012, 10013, 10148).
func exists(err error) bool {
	switch code(err) {
	case codeConsumerIs, codeConsumerName:
		return true
	case codeConsumerCfg: // "start sequence can not be updated" and the like; the code has other uses too
		api, _ := errors.AsType[jetstream.JetStreamError](err)
		return strings.Contains(api.APIError().Description, "can not be updated")
	}
	return errors.Is(err, jetstream.ErrConsumerExists)
}

// TaskQueueState gives the state of the lane's consumer, or ErrNotFound.
func (b *Queues) TaskQueueState(ctx context.Context, lane string) (TaskQueueState, error) {
	ctx, done := b.within(ctx, b.brief())
	defer done()
	var c jetstream.Consumer
	err := askAgain(ctx, func(ctx context.Context) (err error) {
		c, err = b.js.Consumer(ctx, subject.Runs, subject.TaskQueueDurable(lane))
		return err
	})
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return TaskQueueState{}, ErrNotFound
	}
	if err != nil {
		return TaskQueueState{}, away(ctx, wrap("queue "+lane, err))
	}
	i := c.CachedInfo()
	return TaskQueueState{
		Delivered: i.Delivered.Stream, AckFloor: i.AckFloor.Stream, Pending: i.NumPending,
		AckPending: i.NumAckPending, Pulls: i.NumWaiting, Created: i.Created,
	}, nil
}

// DeleteTaskQueue deletes the lane's consumer; one that isn't there is no error.
func (b *Queues) DeleteTaskQueue(ctx context.Context, lane string) error {
	ctx, done := b.within(ctx, b.brief())
	defer done()
	err := b.js.DeleteConsumer(ctx, subject.Runs, subject.TaskQueueDurable(lane))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return away(ctx, wrap("queue "+lane, err))
}

// ListTaskQueues lists the lanes that have a consumer.
func (b *Queues) ListTaskQueues(ctx context.Context) (lanes []string, err error) {
	ctx, done := b.linked(ctx)
	defer done()
	s, err := b.js.Stream(ctx, subject.Runs)
	if err != nil {
		return nil, away(ctx, wrap("queues", err))
	}
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if lane, ok := subject.TaskQueueOf(name); ok {
			lanes = append(lanes, lane)
		}
	}
	return lanes, away(ctx, wrap("queues", names.Err()))
}
