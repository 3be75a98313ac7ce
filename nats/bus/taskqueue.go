package bus

import (
	"context"
	"errors"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/clock"

	"github.com/nats-io/nats.go/jetstream"
)

// Queues reads task queues and the inbox.
type Queues struct{ *Conn }

// TaskQueueState is the state of a task queue's consumer.
type TaskQueueState struct {
	Delivered  uint64 // sequence in RUNS of the newest delivery
	AckFloor   uint64 // everything up to this sequence in RUNS is acknowledged
	Pending    uint64 // waiting to be delivered
	AckPending int    // delivered and not acknowledged
	Created    time.Time
}

// ackWait is how long a run is reserved for the worker it was delivered to. The worker acknowledges it when its
// claim is committed. A worker that was paused meanwhile loses the claim.
const ackWait = 5 * time.Second

// EnsureTaskQueue creates a task queue's consumer, starting at that sequence of RUNS (0 means 1). An existing one stays
// as it is: it is never updated. One that is being deleted now is created again afterwards. The server may have deleted
// files of the new one too, which then works until a restart only.
func (b *Queues) EnsureTaskQueue(ctx context.Context, queue string, start uint64) error {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	name := subject.TaskQueueDurable(queue)
	cfg := jetstream.ConsumerConfig{
		Durable:       name,
		Description:   "lane " + queue, // stored
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(start, 1),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1,
		MaxAckPending: 16384, MaxWaiting: 4096, FilterSubject: subject.TaskQueueFilter(queue),
	}
	for try := 1; ; try++ {
		_, err := retryRequest(ctx, func(ctx context.Context) (any, error) {
			return nil, ensureConsumer(ctx, b.js, subject.Runs, cfg)
		})
		if err == nil {
			return nil
		}
		if c := errorCode(err); c != codeConsumerConfig && c != codeConsumerDeleted || try == 5 {
			return asFault(ctx, wrap("queue "+queue, err))
		}
		if strings.Contains(err.Error(), "no such file") {
			_ = b.js.DeleteConsumer(ctx, subject.Runs, name) // the next try reports its outcome
		}
		clock.Sleep(ctx, 20*time.Millisecond)
	}
}

// consumerExists reports whether an error means that the consumer exists, perhaps with another start (10012,
// 10013, 10148).
func consumerExists(err error) bool {
	switch errorCode(err) {
	case codeConsumerExists, codeConsumerNameInUse:
		return true
	case codeConsumerConfig: // such as "start sequence can not be updated"; the code has other uses too
		api, _ := errors.AsType[jetstream.JetStreamError](err)
		return strings.Contains(api.APIError().Description, "can not be updated")
	}
	return errors.Is(err, jetstream.ErrConsumerExists)
}

// TaskQueueState returns the state of a task queue's consumer, or ErrNotFound.
func (b *Queues) TaskQueueState(ctx context.Context, queue string) (TaskQueueState, error) {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	c, err := retryRequest(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return b.js.Consumer(ctx, subject.Runs, subject.TaskQueueDurable(queue))
	})
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return TaskQueueState{}, ErrNotFound
	}
	if err != nil {
		return TaskQueueState{}, asFault(ctx, wrap("queue "+queue, err))
	}
	i := c.CachedInfo()
	return TaskQueueState{
		Delivered: i.Delivered.Stream, AckFloor: i.AckFloor.Stream, Pending: i.NumPending,
		AckPending: i.NumAckPending, Created: i.Created,
	}, nil
}

// DeleteTaskQueue deletes a task queue's consumer. A missing one is no error.
func (b *Queues) DeleteTaskQueue(ctx context.Context, queue string) error {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	err := b.js.DeleteConsumer(ctx, subject.Runs, subject.TaskQueueDurable(queue))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return asFault(ctx, wrap("queue "+queue, err))
}

// ListTaskQueues returns the task queues that have a consumer.
func (b *Queues) ListTaskQueues(ctx context.Context) (queues []string, err error) {
	ctx, done := b.withConnection(ctx)
	defer done()
	s, err := b.js.Stream(ctx, subject.Runs)
	if err != nil {
		return nil, asFault(ctx, wrap("queues", err))
	}
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if queue, ok := subject.TaskQueueOf(name); ok {
			queues = append(queues, queue)
		}
	}
	return queues, asFault(ctx, wrap("queues", names.Err()))
}
