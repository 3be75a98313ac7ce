package queues

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// Ensure is EnsureQueue for a name that is known. again: runs wait there already, so the share does not matter.
func (s *Table) Ensure(ctx context.Context, name string, w runnerapi.RoutingKey, caller string, again bool,
) (string, error) {
	q := queue{w, caller}
	s.mu.RLock()
	used := s.made[name]
	s.mu.RUnlock()
	if used != nil {
		used.Store(time.Now().UnixNano())
		return name, nil
	}
	if !q.IsBase() {
		if err := s.reserve(ctx, name, q, again); err != nil {
			return "", err
		}
		defer s.unreserve(name)
		value, err := strictjson.Encode(q)
		if err != nil {
			return "", err
		}
		if rev, err := s.cfg.Entries.Create(ctx, name, value); err == nil {
			s.put(name, value, rev)
		} else if !errors.Is(err, bus.ErrTaken) {
			return "", bus.WriteUnanswered(err)
		} else if err := s.refresh(ctx, name); err != nil {
			return "", bus.WriteUnanswered(err)
		}
	}
	if err := s.cfg.Consumers.EnsureTaskQueue(ctx, name, s.cfg.History.Oldest()); err != nil {
		return "", bus.WriteUnanswered(err)
	}
	used = new(atomic.Int64)
	used.Store(time.Now().UnixNano())
	s.mu.Lock()
	if _, ok := s.all[name]; ok || q.IsBase() { // it may have been removed meanwhile
		s.made[name] = used
	}
	s.mu.Unlock()
	s.cfg.Runners.Announce(q.RoutingKey)
	return name, nil
}

// EnsureQueue makes sure that the queue for w exists, and returns its name. It counts to caller's share.
func (s *Table) EnsureQueue(ctx context.Context, w runnerapi.RoutingKey, caller string) (string, error) {
	return s.Ensure(ctx, w.TaskQueue(), w, caller, false)
}
