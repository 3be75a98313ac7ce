// Package agents has the definitions of agents: those of files, those of the API (bucket `agents`), and those that
// runners announce. It says what a run of an agent demands of its runner, and which definitions can be changed.
package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ao/coordinator/agents/agentfile"
	"ao/nats/bus"
	"ao/shared/agent"
)

// Config configures a Catalog. Every field is required.
type Config struct {
	Log      *slog.Logger
	Dirs     []string    // of files
	Write    bool        // the files may be changed (AO_AGENTS_WRITABLE)
	Seed     string      // folder of agents that is copied to the first of Dirs; empty: none
	Bucket   *bus.Bucket // of definitions that came over the API
	Retry    bus.RetryFunc
	Runners  Runners
	Schemas  Schemas
	Ready    func() error                           // nil once agents and runners have been read
	OnDelete func(ctx context.Context, name string) // removes what belongs to a deleted agent
}

// Schemas has the named schemas.
type Schemas interface {
	RequireSchema(ctx context.Context, name string) error
	Embed(ctx context.Context, raw json.RawMessage) (json.RawMessage, error)
	Hold(ctx context.Context, names []string) error // after something that needs them was stored
}

// Runners has the agents that runners announce.
type Runners interface {
	Agent(name string) (*Resolved, bool)
	Agents() map[string]agent.Blueprint              // with the number of online runners
	Serving(name, hash string) int                   // how many online runners have this definition
	Broken() []agent.BrokenFile                      // files that runners could not read
	Refresh(ctx context.Context, agent string) error // reads again who announced it
}

// Catalog has all definitions of agents. A file wins over the API, and both over runners. It is safe for concurrent
// use.
type Catalog struct {
	cfg    Config
	loaded atomic.Bool

	folders *folders

	mu     sync.RWMutex
	stored map[string]*Resolved
	revs   map[string]uint64 // of what is stored, and of what was deleted
}

// New makes a catalog. Watch fills it.
func New(cfg Config) *Catalog {
	f := &folders{log: cfg.Log, dirs: cfg.Dirs, write: cfg.Write, files: map[string]*Resolved{}}
	if cfg.Seed != "" && len(cfg.Dirs) > 0 {
		f.seed = &agentfile.Seed{From: cfg.Seed, To: cfg.Dirs[0]}
	}
	return &Catalog{cfg: cfg, folders: f, stored: map[string]*Resolved{}, revs: map[string]uint64{}}
}

// Watch follows the bucket and the folders until ctx ends.
func (a *Catalog) Watch(ctx context.Context) error {
	a.folders.load(false)
	go a.folders.watch(ctx)
	return a.cfg.Bucket.Mirror(ctx, a.cfg.Retry, a.put, func() { a.loaded.Store(true) })
}

// Loaded reports whether the bucket has been read.
func (a *Catalog) Loaded() bool { return a.loaded.Load() }

// put applies revision rev of what the bucket has under a name; nil: it was deleted. Callers may be late, so older
// revisions are ignored. Revision 0 means that the bucket has no trace of the key: it may be another bucket, whose
// revisions start again.
func (a *Catalog) put(name string, value []byte, rev uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if rev != 0 && rev <= a.revs[name] {
		return
	}
	a.revs[name] = rev
	if value == nil {
		delete(a.stored, name)
		return
	}
	var b agent.Blueprint
	if err := json.Unmarshal(value, &b); err != nil {
		a.cfg.Log.Error("stored agent is unreadable", "agent", name, "err", err)
		return
	}
	a.stored[name] = defined(b, nil)
}

// Has reports whether the coordinators have an agent of this name.
func (a *Catalog) Has(name string) bool {
	if _, ok := a.folders.get(name); ok {
		return true
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	_, ok := a.stored[name]
	return ok
}

// ProfileOf returns the profile of an agent's runs; empty: any, or there is no such agent.
func (a *Catalog) ProfileOf(name string) string {
	k, ok := a.Find(name)
	if !ok {
		return ""
	}
	return cmp.Or(k.Profile, k.ExecutorProfile)
}

// Find returns the agent of this name, whoever defined it.
func (a *Catalog) Find(name string) (*Resolved, bool) {
	if k, ok := a.folders.get(name); ok {
		return k, true
	}
	a.mu.RLock()
	k, ok := a.stored[name]
	a.mu.RUnlock()
	if ok {
		return k, true
	}
	return a.cfg.Runners.Agent(name)
}

// Lookup is Find, and also looks for an agent that another coordinator has just stored, or a runner announced to it.
func (a *Catalog) Lookup(ctx context.Context, name string) (k *Resolved, ok bool, err error) {
	if k, ok := a.Find(name); ok || agent.CheckName("agent_name", name) != nil {
		return k, ok, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	raw, rev, err := a.cfg.Bucket.Get(ctx, name)
	switch {
	case err == nil:
		a.put(name, raw, rev)
	case errors.Is(err, bus.ErrNotFound):
		if err := a.cfg.Runners.Refresh(ctx, name); err != nil {
			return k, false, bus.ReadUnanswered(err)
		}
	default:
		return k, false, bus.ReadUnanswered(err)
	}
	k, ok = a.Find(name)
	return k, ok, nil
}
