// Package queues keeps the task queues in use: the table of those that demands and runners have made, who may make another, their
// consumers, and who is told of them.
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

// Config is what a Table is made of; all of it is required.
type Config struct {
	Log       *slog.Logger
	Most      int // queues of demands, and as many of runners' agents
	Entries   *bus.Bucket
	Consumers interface {
		EnsureTaskQueue(ctx context.Context, lane string, start uint64) error
		DeleteTaskQueue(ctx context.Context, lane string) error
		Insist(ctx context.Context, what string, f func() error) error // until NATS answers
	}
	History interface {
		Oldest() uint64
		HasWaiting(lane string) bool   // does a run
		CatchUp(context.Context) error // waits until it has what others wrote before
	}
	Runners interface {
		AgentQueues() map[string]bool  // the queues of registered runners' own agents
		Announce(runnerapi.RoutingKey) // has runners told of a queue that was made
	}
}

// Table is the table of the queues in use. What type and profile name needs no entry: those are bounded by the runners. Every other queue
// has one in bucket `lanes`, and its maker's share of AO_MAX_QUEUES (share.go).
type Table struct {
	cfg Config

	read atomic.Bool // all entries have been

	mu      sync.RWMutex // held while the history is asked, never the reverse
	all     map[string]queue
	making  map[string]queue         // those that this process makes at the moment; they count
	made    map[string]*atomic.Int64 // whose consumer this process has seen made: when it was asked for last
	closing map[string]time.Time     // whose entry this process has removed, and whose consumer may yet have to go
}

// New makes an empty table; Watch has it read.
func New(cfg Config) *Table {
	return &Table{cfg: cfg, all: map[string]queue{}, making: map[string]queue{}, made: map[string]*atomic.Int64{}, closing: map[string]time.Time{}}
}

// queue is an entry of bucket `lanes`: what its runs want.
type queue struct {
	runnerapi.RoutingKey
	Caller string `json:"caller,omitempty"` // for whose runs it was made
}

// ofRunners tells whether a queue is that of runners' own agents, which exists because they registered.
func (q queue) ofRunners() bool {
	return len(q.Agents) > 0 && q.Hostname == "" && q.ProjectDir == "" && len(q.Tags) == 0
}

// Read tells whether the bucket has been read.
func (s *Table) Read() bool { return s.read.Load() }

// Watch reads the bucket and follows it until ctx ends.
func (s *Table) Watch(ctx context.Context) error {
	return s.cfg.Entries.Mirror(ctx, s.cfg.Consumers.Insist, func(lane string, value []byte, _ uint64) { s.put(lane, value) }, func() { s.read.Store(true) })
}

// put takes over what bucket `lanes` has under a name; nil: nothing.
func (s *Table) put(lane string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value == nil {
		delete(s.all, lane)
		delete(s.made, lane)
		return
	}
	var q queue
	if err := json.Unmarshal(value, &q); err != nil {
		s.cfg.Log.Error("stored queue is unreadable", "queue", lane, "err", err)
		return
	}
	s.all[lane] = q
}

// Want is what a queue stands for.
func (s *Table) Want(lane string) (runnerapi.RoutingKey, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	q, ok := s.all[lane]
	return q.RoutingKey, ok
}

// Wants are the queues in use, with what each stands for.
func (s *Table) Wants() map[string]runnerapi.RoutingKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make(map[string]runnerapi.RoutingKey, len(s.all))
	for lane, q := range s.all {
		all[lane] = q.RoutingKey
	}
	return all
}

// refresh reads a queue's entry anew: another coordinator may have made or removed it a moment ago.
func (s *Table) refresh(ctx context.Context, lane string) error {
	value, _, err := s.cfg.Entries.Get(ctx, lane)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	s.put(lane, value)
	return nil
}

// IsMade tells whether a queue has been made and is there, as far as is known here.
func (s *Table) IsMade(lane string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.made[lane] != nil
}

// Of are all queues that a runner takes from.
func (s *Table) Of(m runnerapi.Runner) []string {
	lanes := m.BaseTaskQueues()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for lane, q := range s.all {
		if m.Matches(q.RoutingKey) {
			lanes = append(lanes, lane)
		}
	}
	slices.Sort(lanes)
	return slices.Compact(lanes)
}

// ClosingEvery is how often a look is taken for queues that are to be closed.
const ClosingEvery = grace / 10

// grace is how long a queue's consumer outlives its entry: by then every coordinator has heard that the entry is gone.
const grace = time.Second

// retire removes the entry of a queue that nobody uses, by compare-and-set. Its consumer goes later (CloseDue); a run that another
// coordinator queues there meanwhile is found by the next sweep of any of them, and its queue made again.
func (s *Table) retire(ctx context.Context, lane string) (gone bool, err error) {
	if err := s.cfg.History.CatchUp(ctx); err != nil { // another coordinator may have queued a run there a moment ago
		return false, err
	}
	if s.cfg.History.HasWaiting(lane) {
		return false, nil
	}
	b := s.cfg.Entries
	_, rev, err := b.Get(ctx, lane)
	if err == nil {
		err = b.DeleteRev(ctx, lane, rev)
	}
	if errors.Is(err, bus.ErrTaken) {
		return false, s.refresh(ctx, lane)
	} else if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return false, err
	}
	s.put(lane, nil)
	if err == nil {
		s.mu.Lock()
		s.closing[lane] = time.Now()
		s.mu.Unlock()
	}
	return true, nil
}

// CloseDue removes the consumers of queues whose entries this process has removed.
func (s *Table) CloseDue(ctx context.Context) error {
	var due []string
	s.mu.RLock()
	for lane, at := range s.closing {
		if time.Since(at) >= grace {
			due = append(due, lane)
		}
	}
	s.mu.RUnlock()
	for _, lane := range due {
		if err := s.close(ctx, lane); err != nil {
			s.cfg.Log.Warn("queue not closed yet; trying again", "queue", lane, "err", err)
			return nil
		}
		s.mu.Lock()
		delete(s.closing, lane)
		s.mu.Unlock()
	}
	return nil
}

// close removes the consumer of a queue without an entry. Who needs the queue again makes the entry first and then the consumer,
// so a look at both afterwards shows whether this one took it away from somebody. It can be repeated at any point.
func (s *Table) close(ctx context.Context, lane string) error {
	needed, err := s.needed(ctx, lane)
	if err == nil && !needed {
		if err = s.cfg.Consumers.DeleteTaskQueue(ctx, lane); err == nil {
			needed, err = s.needed(ctx, lane)
		}
	}
	if err == nil && needed {
		err = s.cfg.Consumers.EnsureTaskQueue(ctx, lane, s.cfg.History.Oldest())
	}
	return err
}

// needed tells whether a queue has an entry, or runs wait in it, as NATS has it now.
func (s *Table) needed(ctx context.Context, lane string) (bool, error) {
	_, _, err := s.cfg.Entries.Get(ctx, lane)
	if err == nil {
		return true, nil
	} else if !errors.Is(err, bus.ErrNotFound) {
		return false, err
	}
	if err := s.cfg.History.CatchUp(ctx); err != nil {
		return false, err
	}
	return s.cfg.History.HasWaiting(lane), nil
}

// doubtAll forgets which consumers were made: NATS may have lost them.
func (s *Table) doubtAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.made)
}

// doubt is doubtAll for one.
func (s *Table) doubt(lane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, lane)
}
