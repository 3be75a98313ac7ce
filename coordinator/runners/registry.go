// Package runners has the registry of runners: which are registered, their status, and who owns which agent's name. It
// registers and drains runners, and removes those that left or expired.
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

// Config configures a Registry. Every field is required.
type Config struct {
	Log        *slog.Logger
	Lease      time.Duration
	NoMatch    time.Duration // how long a run waits for a runner, and names are reserved
	Thresholds runnerapi.Thresholds
	Bucket     *bus.Bucket
	Retry      bus.RetryFunc
	Changed    func() // is called when a registration changed, or a runner takes runs again
	// Listening returns for how long heartbeats were heard without interruption. Before a lease of it, no runner is
	// known to be silent.
	Listening func() time.Duration
}

// Registry has the registered runners and when each was last heard. It is safe for concurrent use.
type Registry struct {
	cfg      Config
	Departed *Departures

	loaded  atomic.Bool
	changes atomic.Uint64 // of registrations, counted

	mu             sync.RWMutex
	members        map[string]*member
	removed        tombstones
	owners         map[string]owner // of the agents' names
	ownersRevision uint64
	// whether an online runner matches, by queue; cleared when a runner changes, and after cacheTTL
	matched  map[string]bool
	owned    map[string]*agents.Resolved // runner-owned agents by name; cleared likewise
	cachedAt time.Time                   // when both were cleared
}

// New makes a registry. Watch fills it.
func New(cfg Config) *Registry {
	departed := &Departures{within: cfg.NoMatch, StartedAt: time.Now(), hosts: map[[2]string]time.Time{},
		agents: map[string]time.Time{}}
	return &Registry{cfg: cfg, Departed: departed, members: map[string]*member{}, removed: tombstones{},
		matched: map[string]bool{}}
}

// Loaded reports whether the bucket has been read.
func (r *Registry) Loaded() bool { return r.loaded.Load() }

// Changes counts changes of registrations.
func (r *Registry) Changes() uint64 { return r.changes.Load() }

type member struct {
	runnerapi.Runner
	id         string
	rev        uint64 // of its registration
	heard      time.Time
	agentQueue string // of its agents; empty: it has none
	size       int    // of its registration, in bytes

	left            time.Time // by this process's clock; zero: it is there
	reportsDraining bool      // its heartbeats say that it claims nothing more

	unable *runnerapi.Unable // as its last heartbeat says

	unnamed    bool          // its last heartbeat came through a NATS server that names no credentials
	clockAhead time.Duration // smallest recent difference of its clock to ours
	clockSeen  time.Time     // when clockAhead was measured; zero: never
}

// Watch reads the bucket and follows it until ctx ends.
func (r *Registry) Watch(ctx context.Context) error {
	return r.cfg.Bucket.Mirror(ctx, r.cfg.Retry, func(key string, value []byte, rev uint64) {
		if key == ownersKey {
			r.PutOwners(value, rev)
		} else {
			r.Put(key, value, rev)
		}
	}, func() { r.loaded.Store(true) })
}

// Put applies revision rev of what the bucket has under a key; nil: it was deleted. Callers may be late, so older
// revisions than the one known are ignored. Revision 0: the bucket has no trace of the key.
func (r *Registry) Put(id string, value []byte, rev uint64) { put(r, id, value, rev, false) }

// put is Put. newest: this process has just written it, or found nothing. Then it counts whatever its revision, since a
// single server that crashed may have lost later ones.
func put(r *Registry, id string, value []byte, rev uint64, newest bool) {
	if !runnerapi.IsID(id) {
		return
	}
	m := member{id: id, rev: rev, heard: time.Now()} // a runner that is new to us has the full time to send a heartbeat
	if value != nil {                                // decoded without the lock: it may be large
		if err := json.Unmarshal(value, &m.Runner); err != nil {
			r.cfg.Log.Error("stored runner is unreadable", "runner", id, "err", err)
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.members[id]
	known := r.removed.revision(id)
	if ok {
		known = old.rev
	}
	if !newest && rev != 0 && rev <= known {
		return
	}
	defer r.dropCache()
	if value == nil {
		if ok && old.LeftAt.IsZero() {
			r.Departed.add(old.Runner)
		}
		delete(r.members, id)
		if rev > 0 || !newest { // a read that finds nothing does not tell the tombstone's revision
			r.removed.add(id, rev)
		}
		return
	}
	m.size = len(value)
	if w, ok := m.OwnRoutingKey(); ok {
		m.agentQueue = w.TaskQueue()
	}
	if ok && old.Instance == m.Instance {
		m.heard, m.clockAhead, m.clockSeen, m.unnamed, m.reportsDraining = old.heard, old.clockAhead, old.clockSeen,
			old.unnamed, old.reportsDraining
		m.unable = old.unable
	}
	m.setLeft(old)
	r.members[id] = &m
	r.changes.Add(1)
	r.cfg.Changed()
}

// PutOwners applies revision rev of the table of owners. Callers may be late, so older revisions are ignored. Revision
// 0: the bucket has no trace of the table, and its revisions may start again.
func (r *Registry) PutOwners(value []byte, rev uint64) {
	var owners map[string]owner
	if err := json.Unmarshal(value, &owners); err != nil && value != nil {
		r.cfg.Log.Error("stored table of agents' names is unreadable", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if rev == 0 || rev > r.ownersRevision {
		r.owners, r.ownersRevision = owners, rev
		r.dropCache()
	}
}

// dropCache clears what is derived from members. The caller holds mu.
func (r *Registry) dropCache() {
	clear(r.matched)
	r.owned, r.cachedAt = nil, time.Now()
}

// cacheTTL limits the age of derived data: a runner goes offline without a change of its registration.
const cacheTTL = time.Second

func cacheExpired(cachedAt time.Time) bool { return time.Since(cachedAt) >= cacheTTL }

func (m *member) status(r *Registry) string {
	if !m.LeftAt.IsZero() {
		if time.Since(m.heard) < r.cfg.Lease {
			return runnerapi.Draining
		}
		return runnerapi.Left
	}
	s := r.cfg.Thresholds.Status(time.Since(m.heard))
	if s == runnerapi.Online && (m.Draining || m.reportsDraining) {
		return runnerapi.Draining
	}
	return s
}

// standing returns how the runner is seen now.
func (m *member) standing(r *Registry) runnerapi.Standing {
	s := runnerapi.Standing{Status: m.status(r), Unable: m.unable}
	if silent := time.Since(m.heard); silent >= r.cfg.Lease && r.cfg.Listening() >= r.cfg.Lease {
		s.Silent = silent
	}
	return s
}

// takes reports whether a runner takes runs with this routing key now.
func (m *member) takes(r *Registry, w runnerapi.RoutingKey) bool {
	return m.Matches(w) && m.standing(r).TakesRuns()
}

// Matches reports whether an online runner would take runs with this routing key.
func (r *Registry) Matches(w runnerapi.RoutingKey) bool { return r.QueueMatches(w.TaskQueue(), w) }

// QueueMatches is Matches for a caller that knows the queue's name.
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
		if m.takes(r, w) {
			ok = true
			break
		}
	}
	r.matched[queue] = ok
	return ok
}

// Credential returns the credential id that a runner's commands go to; "": it has none, or is unknown.
func (r *Registry) Credential(id string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.members[id]; m != nil {
		return m.CredentialID
	}
	return ""
}

// ObserveClock notes the time that a runner's heartbeat shows. Heartbeats come late but never early, so the smallest
// difference counts.
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

// Seen reports whether a runner is registered with this host and profile, or was within the given time, as far as this
// process knows.
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

// setLeft sets when a runner left: now, where old was there before, else what its registration says, unless that is in
// the future.
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
