package simulation

import (
	"context"
	"time"

	"ao/nats/bus"
)

// ackWait is how long a delivered message waits for its acknowledgement.
const ackWait = 5 * time.Second

// consumer is the durable consumer of a task queue. It delivers at least once, until a message is acknowledged.
type consumer struct {
	next    uint64               // everything before was delivered at least once
	waiting map[uint64]time.Time // delivered and not acknowledged: when they are delivered again
	created time.Time
}

// EnsureTaskQueue is bus.Queues'.
func (c *client) EnsureTaskQueue(ctx context.Context, queue string, start uint64) error {
	_, err := ask(ctx, c, "queue", func() (bool, error) {
		if c.consumers[queue] == nil {
			c.consumers[queue] = &consumer{next: max(start, 1), waiting: map[uint64]time.Time{}, created: time.Now()}
		}
		return true, nil
	})
	return err
}

// DeleteTaskQueue is bus.Queues'.
func (c *client) DeleteTaskQueue(ctx context.Context, queue string) error {
	_, err := ask(ctx, c, "queue", func() (bool, error) {
		if q := c.consumers[queue]; q != nil {
			c.redeliver(queue, 0, q.next)
		}
		delete(c.consumers, queue)
		return true, nil
	})
	return err
}

// ListTaskQueues is bus.Queues'.
func (c *client) ListTaskQueues(ctx context.Context) ([]string, error) {
	return ask(ctx, c, "queue", func() (names []string, _ error) {
		for name := range c.consumers {
			names = append(names, name)
		}
		return names, nil
	})
}

// TaskQueueState is bus.Queues'.
func (c *client) TaskQueueState(ctx context.Context, queue string) (bus.TaskQueueState, error) {
	return ask(ctx, c, "queue", func() (s bus.TaskQueueState, _ error) {
		q := c.consumers[queue]
		if q == nil {
			return s, bus.ErrNotFound
		}
		s = bus.TaskQueueState{Delivered: q.next - 1, AckFloor: q.next - 1, AckPending: len(q.waiting),
			Created: q.created}
		for seq := range q.waiting {
			s.AckFloor = min(s.AckFloor, seq-1)
		}
		for _, seq := range c.runs.queued[queue] {
			if seq >= q.next && c.runs.msgs[seq].Subject != "" {
				s.Pending++
			}
		}
		return s, nil
	})
}

// pull returns the next message of a queue.
func (w *world) pull(queue string) (message, bool) {
	q := w.consumers[queue]
	if q == nil {
		return message{}, false
	}
	again := uint64(0)
	for seq, at := range q.waiting {
		if seq > w.runs.last() || w.runs.msgs[seq].Subject == "" {
			delete(q.waiting, seq)
		} else if !w.runs.rotten[seq] && !time.Now().Before(at) && (again == 0 || seq < again) {
			again = seq
		}
	}
	if again == 0 {
		for _, seq := range w.runs.queued[queue] {
			if seq >= q.next {
				q.next = seq + 1
				if w.runs.msgs[seq].Subject != "" && !w.runs.rotten[seq] {
					again = seq
					break
				}
			}
		}
	}
	if again == 0 {
		return message{}, false
	}
	q.waiting[again] = time.Now().Add(ackWait)
	return w.runs.msgs[again], true
}

// ack settles a delivery; a delay has it delivered again after that.
func (w *world) ack(queue string, seq uint64, delay time.Duration) {
	q := w.consumers[queue]
	if q == nil {
		return
	}
	if _, ok := q.waiting[seq]; !ok {
		return
	}
	if delay > 0 {
		q.waiting[seq] = time.Now().Add(delay)
	} else {
		delete(q.waiting, seq)
	}
}
