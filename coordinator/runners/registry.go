// Package runners knows who may take runs: which runners are registered, how each stands, and whose agents' names are
// whose. It takes runners in, tells them to go, and forgets those that went or fell silent.
package runners

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ao/coordinator/agents"
	"ao/nats/bus"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Config is what a Registry is made of; all of it is required.
type Config struct {
	Log      *slog.Logger
	Lease    time.Duration
	NoMatch  time.Duration // how long a run waits for a runner, and names are held
	Patience runnerapi.Thresholds
	Bucket   *bus.Bucket
	Retry    bus.RetryFunc
	Changed  func() // is called when a runner registered
}

// Registry is who may take runs: the registered runners, and when each was heard last.
type Registry struct {
	cfg      Config
	Departed *Departures

	loaded  atomic.Bool
	changes atomic.Uint64 // how often a registration has

	mu      sync.RWMutex
	members map[string]*member
	// by lane: does an online runner match; forgotten when a runner changes, and after a second
	matched  map[string]bool
	owned    map[string]*agents.Resolved // runner-owned agents by name; likewise
	cachedAt time.Time                   // when both were forgotten last
}

// New makes a registry; Watch has it read.
func New(cfg Config) *Registry {
	departed := &Departures{within: cfg.NoMatch, StartedAt: time.Now(), hosts: map[[2]string]time.Time{},
		agents: map[string]time.Time{}}
	return &Registry{cfg: cfg, Departed: departed, members: map[string]*member{}, matched: map[string]bool{}}
}

// Loaded tells whether the bucket has been read.
func (r *Registry) Loaded() bool { return r.loaded.Load() }

// Changes counts registrations that changed.
func (r *Registry) Changes() uint64 { return r.changes.Load() }

type member struct {
	runnerapi.Runner
	id         string
	heard      time.Time
	agentQueue string // the queue of its agents; empty: it has none
	size       int    // of its registration, in bytes

	left            time.Time // when it left, by this process; zero: it did not
	reportsDraining bool      // it said in a beat that it takes no more

	unnamed    bool          // its last heartbeat came from a NATS that does not say with whose credential
	clockAhead time.Duration // by how much its clock is before ours: the least that its beats said of late
	clockSeen  time.Time     // when that was said; zero: it never was
}

// Watch reads the bucket and follows it.
func (r *Registry) Watch(ctx context.Context) error {
	return r.cfg.Bucket.Mirror(ctx, r.cfg.Retry, func(id string, value []byte, _ uint64) { r.Put(id, value) },
		func() { r.loaded.Store(true) })
}

// Put notes what the bucket has under a runner's id; nil: nothing.
func (r *Registry) Put(id string, value []byte) {
	if !runnerapi.IsID(id) { // the table of owners
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.dropCache()
	if value == nil {
		if m := r.members[id]; m != nil && m.LeftAt.IsZero() {
			r.Departed.add(m.Runner)
		}
		delete(r.members, id)
		return
	}
	m := member{id: id, heard: time.Now()} // who we hear of for the first time gets its full patience
	if err := json.Unmarshal(value, &m.Runner); err != nil {
		r.cfg.Log.Error("stored runner is unreadable", "runner", id, "err", err)
		return
	}
	m.size = len(value)
	if w, ok := m.OwnRoutingKey(); ok {
		m.agentQueue = w.TaskQueue()
	}
	old, ok := r.members[id]
	if ok && old.Instance == m.Instance {
		m.heard, m.clockAhead, m.clockSeen, m.unnamed, m.reportsDraining = old.heard, old.clockAhead, old.clockSeen, old.unnamed, old.reportsDraining
	}
	m.setLeft(old)
	r.members[id] = &m
	r.changes.Add(1)
	r.cfg.Changed()
}

// dropCache drops what is made from members. The caller holds mu.
func (r *Registry) dropCache() {
	clear(r.matched)
	r.owned, r.cachedAt = nil, time.Now()
}

// cacheTTL is how long it counts what was made of members: who is silent is online no more without anybody's doing.
const cacheTTL = time.Second

func cacheExpired(cachedAt time.Time) bool { return time.Since(cachedAt) >= cacheTTL }

func (m *member) status(r *Registry) string {
	if !m.LeftAt.IsZero() {
		if time.Since(m.heard) < r.cfg.Lease {
			return runnerapi.Draining
		}
		return runnerapi.Left
	}
	s := r.cfg.Patience.Status(time.Since(m.heard))
	if s == runnerapi.Online && (m.Draining || m.reportsDraining) {
		return runnerapi.Draining
	}
	return s
}

// Matches tells whether an online runner would take runs that want w.
func (r *Registry) Matches(w runnerapi.RoutingKey) bool { return r.QueueMatches(w.TaskQueue(), w) }

// QueueMatches is Matches for who knows the name of its queue.
func (r *Registry) QueueMatches(queue string, w runnerapi.RoutingKey) bool {
	r.mu.RLock()
	ok, known := r.matched[queue]
	known = known && !cacheExpired(r.cachedAt)
	r.mu.RUnlock()
	if known {
		return ok
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if cacheExpired(r.cachedAt) {
		r.dropCache()
	}
	ok = false
	for _, m := range r.members {
		if m.status(r) == runnerapi.Online && m.Matches(w) {
			ok = true
			break
		}
	}
	r.matched[queue] = ok
	return ok
}

// Credential is the token under which a runner is told something; "" where it did not log in, or is not known.
func (r *Registry) Credential(id string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.members[id]; m != nil {
		return m.CredentialID
	}
	return ""
}

// ObserveClock notes what a runner's clock showed when it sent a beat. Beats come late and never early, so the least difference
// counts.
func (r *Registry) ObserveClock(id string, at time.Time) {
	if at.IsZero() {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[id]
	if m == nil {
		return
	}
	if ahead := at.Sub(now.Round(0)); m.clockSeen.IsZero() || ahead.Abs() <= m.clockAhead.Abs() ||
		now.Sub(m.clockSeen) > time.Minute {
		m.clockAhead, m.clockSeen = ahead, now
	}
}

// Seen tells whether a runner is on this host with this profile, or was within the time before, as far as this process
// can know.
func (r *Registry) Seen(home run.Demands, within time.Duration) bool {
	r.mu.RLock()
	for _, m := range r.members {
		if m.Hostname == home.Hostname && m.ExecutorProfile == home.ExecutorProfile {
			r.mu.RUnlock()
			return true
		}
	}
	r.mu.RUnlock()
	return r.Departed.leftHost(home, within)
}

// setLeft notes when a runner left: now, where old says that it was known and there before; else what its
// registration says, which may be by a clock that is ahead.
func (m *member) setLeft(old *member) {
	now := time.Now()
	switch {
	case m.LeftAt.IsZero():
	case old != nil && old.LeftAt.Equal(m.LeftAt):
		m.left = old.left
	case old != nil && old.Instance == m.Instance, m.LeftAt.After(now):
		m.left, m.heard = now, time.Time{}
	default:
		m.left, m.heard = m.LeftAt, time.Time{}
	}
}
