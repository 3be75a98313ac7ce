package queues

import (
	"context"
	"slices"
	"time"
)

// Asked has queues been asked for at that time for the last time; without names all of them.
func (s *Table) Asked(at time.Time, lanes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane := range s.all {
		if used := s.made[lane]; used != nil && (lanes == nil || slices.Contains(lanes, lane)) {
			used.Store(at.UnixNano())
		}
	}
}

// Remember gives what puts a queue back as it is known now.
func (s *Table) Remember(lane string) (again func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, made := s.all[lane], s.made[lane]
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all[lane], s.made[lane] = q, made
	}
}

// Knows tells what is known of a queue, and how many are closing.
func (s *Table) Knows(lane string) (known, made bool, closing int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, known = s.all[lane]
	return known, s.made[lane] != nil, len(s.closing)
}

// Caller is whose share a queue counts to.
func (s *Table) Caller(lane string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[lane].Caller
}

func (s *Table) Retire(ctx context.Context, lane string) (bool, error) { return s.retire(ctx, lane) }

func (s *Table) Close(ctx context.Context, lane string) error { return s.close(ctx, lane) }

func (s *Table) Put(lane string, value []byte) { s.put(lane, value) }

// Anew is a controller that has looked at nothing yet.
func (t *Controller) Rebuilds() *Controller { return NewController(t.cfg) }

// Orphans are the consumers without an entry, with when they were noted.
func (t *Controller) Orphans() map[string]time.Time { return t.orphans }

func (t *Controller) Sweep(ctx context.Context) { t.sweep(ctx) }
