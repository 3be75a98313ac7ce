package queues

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/shared/runnerapi"
)

// Ensure is Lane for who knows its name already. A queue in which runs wait already is made again whatever the share says.
func (s *Table) Ensure(ctx context.Context, lane string, w runnerapi.RoutingKey, caller string, again bool) (string, error) {
	q := queue{w, caller}
	s.mu.RLock()
	used := s.made[lane]
	s.mu.RUnlock()
	if used != nil {
		used.Store(time.Now().UnixNano())
		return lane, nil
	}
	if !q.IsBase() {
		if err := s.reserve(ctx, lane, q, again); err != nil {
			return "", err
		}
		defer s.unreserve(lane)
		value, err := json.Marshal(q)
		if err != nil {
			return "", err
		}
		if _, err := s.cfg.Entries.Create(ctx, lane, value); err == nil {
			s.put(lane, value)
		} else if !errors.Is(err, bus.ErrTaken) {
			return "", bus.WriteUnanswered(err)
		} else if err := s.refresh(ctx, lane); err != nil {
			return "", bus.WriteUnanswered(err)
		}
	}
	if err := s.cfg.Consumers.EnsureTaskQueue(ctx, lane, s.cfg.History.Oldest()); err != nil {
		return "", bus.WriteUnanswered(err)
	}
	used = new(atomic.Int64)
	used.Store(time.Now().UnixNano())
	s.mu.Lock()
	if _, ok := s.all[lane]; ok || q.IsBase() { // it may be gone again
		s.made[lane] = used
	}
	s.mu.Unlock()
	s.cfg.Runners.Announce(q.RoutingKey)
	return lane, nil
}

// Lane makes sure that the queue for w exists, and gives its name. caller is whose share it counts to.
func (s *Table) Lane(ctx context.Context, w runnerapi.RoutingKey, caller string) (string, error) {
	return s.Ensure(ctx, w.TaskQueue(), w, caller, false)
}
