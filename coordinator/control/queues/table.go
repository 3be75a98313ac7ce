// Package queues keeps the task queues in use. It has the table of queues that demands and runners have made, and their
// consumers. It knows the shares of those who make them, and who is told of them.
package queues

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/shared/runnerapi"
)

// Config is what a Table works with. All of it is required.
type Config struct {
	Log       *slog.Logger
	Most      int // queues of demands, and as many of runners' agents
	Entries   *bus.Bucket
	Consumers interface {
		EnsureTaskQueue(ctx context.Context, name string, start uint64) error
		DeleteTaskQueue(ctx context.Context, name string) error
		Insist(ctx context.Context, what string, f func() error) error // until NATS answers
	}
	History interface {
		Oldest() uint64
		HasWaiting(name string) bool   // does a run wait in it
		CatchUp(context.Context) error // until it has what others wrote before
	}
	Runners interface {
		AgentQueues() map[string]bool  // queues of registered runners' own agents
		Announce(runnerapi.RoutingKey) // tells runners of a new queue
	}
}

// Table is the table of the queues in use. Queues of type and profile only need no entry: the runners bound their
// number. Every other queue has an entry in bucket `lanes`, and counts to its maker's share of AO_MAX_QUEUES
// (share.go).
type Table struct {
	cfg Config

	read atomic.Bool // all entries have been read

	mu      sync.RWMutex // held while the projection is asked, never the reverse
	all     map[string]queue
	revs    map[string]uint64        // their revisions in the bucket
	making  map[string]queue         // being made by this process; they count
	made    map[string]*atomic.Int64 // whose consumer this process has seen: when it was last asked for
	closing map[string]time.Time     // whose entry this process has removed, and whose consumer may still exist
}

// New returns an empty Table. Watch fills it.
func New(cfg Config) *Table {
	return &Table{cfg: cfg, all: map[string]queue{}, revs: map[string]uint64{}, making: map[string]queue{},
		made: map[string]*atomic.Int64{}, closing: map[string]time.Time{}}
}

// queue is an entry of bucket `lanes`: what its runs demand.
type queue struct {
	runnerapi.RoutingKey
	Caller string `json:"caller,omitempty"` // for whose runs it was made
}

// ofRunners reports whether a queue exists because runners with agents of their own registered.
func (q queue) ofRunners() bool {
	return len(q.Agents) > 0 && q.Hostname == "" && q.ProjectDir == "" && len(q.Tags) == 0
}

// Read reports whether the bucket has been read.
func (s *Table) Read() bool { return s.read.Load() }

// Watch reads the bucket and follows it until ctx ends.
func (s *Table) Watch(ctx context.Context) error {
	return s.cfg.Entries.Mirror(ctx, s.cfg.Consumers.Insist, s.put, func() { s.read.Store(true) })
}

// put takes over revision rev of an entry of bucket `lanes`; nil: it was removed. A watch may be late, so what is older
// than the revision known is ignored. Revision 0: the bucket has no trace of it.
func (s *Table) put(name string, value []byte, rev uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rev != 0 && rev < s.revs[name] {
		return
	}
	if value == nil {
		delete(s.all, name)
		delete(s.revs, name)
		delete(s.made, name)
		return
	}
	var q queue
	if err := json.Unmarshal(value, &q); err != nil {
		s.cfg.Log.Error("stored queue is unreadable", "queue", name, "err", err)
		return
	}
	s.all[name], s.revs[name] = q, rev
}

// Want returns what a queue stands for.
func (s *Table) Want(name string) (runnerapi.RoutingKey, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	q, ok := s.all[name]
	return q.RoutingKey, ok
}

// Wants returns the queues in use, and what each stands for.
func (s *Table) Wants() map[string]runnerapi.RoutingKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make(map[string]runnerapi.RoutingKey, len(s.all))
	for name, q := range s.all {
		all[name] = q.RoutingKey
	}
	return all
}

// refresh reads an entry again: another coordinator may just have made or removed it.
func (s *Table) refresh(ctx context.Context, name string) error {
	value, rev, err := s.cfg.Entries.Get(ctx, name)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	s.put(name, value, rev)
	return nil
}

// IsMade reports whether a queue has been made and still exists, as far as is known here.
func (s *Table) IsMade(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.made[name] != nil
}

// Of returns all queues that a runner takes from.
func (s *Table) Of(m runnerapi.Runner) []string {
	names := m.BaseTaskQueues()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, q := range s.all {
		if m.Matches(q.RoutingKey) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ClosingEvery is how often CloseDue is to be called.
const ClosingEvery = grace / 10

// grace is how long a consumer outlives its queue's entry: by then every coordinator knows that the entry is gone.
const grace = time.Second

// retire removes the entry of an unused queue, by compare-and-set. CloseDue removes its consumer later. If another
// coordinator queues a run there meanwhile, the next sweep finds it and makes the queue again.
func (s *Table) retire(ctx context.Context, name string) error {
	// another coordinator may just have queued a run there
	if err := s.cfg.History.CatchUp(ctx); err != nil || s.cfg.History.HasWaiting(name) {
		return err
	}
	b := s.cfg.Entries
	_, rev, err := b.Get(ctx, name)
	if err == nil {
		err = b.DeleteRev(ctx, name, rev)
	}
	if errors.Is(err, bus.ErrTaken) {
		return s.refresh(ctx, name)
	} else if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	s.put(name, nil, 0)
	if err == nil {
		s.mu.Lock()
		s.closing[name] = time.Now()
		s.mu.Unlock()
	}
	return nil
}

// CloseDue removes the consumers of queues whose entries this process has removed.
func (s *Table) CloseDue(ctx context.Context) error {
	var due []string
	s.mu.RLock()
	for name, at := range s.closing {
		if time.Since(at) >= grace {
			due = append(due, name)
		}
	}
	s.mu.RUnlock()
	for _, name := range due {
		if err := s.close(ctx, name); err != nil {
			s.cfg.Log.Warn("consumer of a removed queue not removed yet, retrying", "queue", name, "err", err)
			return nil
		}
		s.mu.Lock()
		delete(s.closing, name)
		s.mu.Unlock()
	}
	return nil
}

// close removes the consumer of a queue without an entry. Whoever needs the queue again makes the entry before the
// consumer, so a look at both afterwards shows whether this removal hurt somebody. It can be repeated at any point.
func (s *Table) close(ctx context.Context, name string) error {
	needed, err := s.needed(ctx, name)
	if err == nil && !needed {
		err = s.cfg.Consumers.DeleteTaskQueue(ctx, name)
		if err == nil {
			needed, err = s.needed(ctx, name)
		}
	}
	if err == nil && needed {
		err = s.cfg.Consumers.EnsureTaskQueue(ctx, name, s.cfg.History.Oldest())
	}
	return err
}

// needed reports whether NATS has an entry for the queue now, or runs wait in it.
func (s *Table) needed(ctx context.Context, name string) (bool, error) {
	_, _, err := s.cfg.Entries.Get(ctx, name)
	if err == nil {
		return true, nil
	} else if !errors.Is(err, bus.ErrNotFound) {
		return false, err
	}
	err = s.cfg.History.CatchUp(ctx)
	return err == nil && s.cfg.History.HasWaiting(name), err
}

// forgetAllMade forgets which consumers exist: NATS may have lost them.
func (s *Table) forgetAllMade() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.made)
}

// forgetMade forgets one.
func (s *Table) forgetMade(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, name)
}
