package queues

import (
	"context"
	"slices"
	"time"
)

// Asked sets when queues were requested last; without names, all of them.
func (s *Table) Asked(at time.Time, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.all {
		if used := s.made[name]; used != nil && (names == nil || slices.Contains(names, name)) {
			used.Store(at.UnixNano())
		}
	}
}

// Remember returns a function that restores a queue as it is known now.
func (s *Table) Remember(name string) (again func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, made := s.all[name], s.made[name]
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all[name], s.made[name] = q, made
	}
}

// Knows returns what is known of a queue, and how many are closing.
func (s *Table) Knows(name string) (exists, made bool, closing int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, exists = s.all[name]
	return exists, s.made[name] != nil, len(s.closing)
}

// Caller is whose share a queue counts to.
func (s *Table) Caller(name string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[name].Caller
}

func (s *Table) Retire(ctx context.Context, name string) (retired bool, err error) {
	err = s.retire(ctx, name)
	_, entry := s.Want(name)
	return !entry, err
}

func (s *Table) Close(ctx context.Context, name string) error { return s.close(ctx, name) }

func (s *Table) Put(name string, value []byte, rev uint64) { s.put(name, value, rev) }

// Rebuilds returns a controller that has scanned nothing yet.
func (t *Controller) Rebuilds() *Controller { return NewController(t.cfg) }

// Orphans are the consumers without an entry, with when they were noted.
func (t *Controller) Orphans() map[string]time.Time { return t.orphans }

func (t *Controller) Sweep(ctx context.Context) { t.sweep(ctx) }
