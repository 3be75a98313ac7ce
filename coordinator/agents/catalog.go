// Package agents knows all definitions of agents: those of files, those of the API (bucket `agents`), and, as it is told, those of
// runners. It says what a run of an agent demands of its runner, and who may define what.
package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/shared/agent"
	"ao/shared/run"
)

// ErrNone is the cause of the refusal of a run whose agent is not known at all.
var ErrNone = errors.New("no such agent")

// Config is what a Catalog is made of; all of it is required.
type Config struct {
	Log     *slog.Logger
	Dirs    []string    // of files
	Bucket  *bus.Bucket // of what came over the API
	Insist  bus.Insist
	Runners Runners
	Schema  func(ctx context.Context, name string) error // a fault where there is no output schema of this name
	Ready   func() error                                 // nil once agents and runners have been read
}

// Runners announce agents of their own.
type Runners interface {
	Agent(name string) (Resolved, bool)
	Agents() map[string]agent.Blueprint           // as readers see them
	Serving(name, hash string) int                // how many online runners have this definition
	Broken() []agent.Bad                          // files that runners could not read
	Look(ctx context.Context, agent string) error // reads anew who announced it
}

// Catalog has all definitions. First one wins: a file is loaded before the API can create its name.
type Catalog struct {
	cfg  Config
	read atomic.Bool

	mu     sync.RWMutex
	files  map[string]agent.Blueprint
	stored map[string]agent.Blueprint
	revs   map[string]uint64 // of what is stored, and of what was and is deleted
	broken []agent.Bad
	print  string // of the folders, when they were read last
}

// New makes a catalog; Watch has it read.
func New(cfg Config) *Catalog {
	return &Catalog{cfg: cfg, files: map[string]agent.Blueprint{}, stored: map[string]agent.Blueprint{}, revs: map[string]uint64{}}
}

// Watch follows the bucket and the folders until ctx ends.
func (a *Catalog) Watch(ctx context.Context) error {
	a.load()
	go a.reload(ctx)
	return a.cfg.Bucket.Mirror(ctx, a.cfg.Insist, a.put, func() { a.read.Store(true) })
}

// reload looks at the folders once a second.
func (a *Catalog) reload(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			a.load()
		}
	}
}

// Read tells whether the bucket has been read.
func (a *Catalog) Read() bool { return a.read.Load() }

// put notes what the bucket has under a name, nil: nothing, at a revision. Several bring that, and who was slow may bring what is
// older than what is known. Revision 0 is of a key of which the bucket has not even the mark of its deletion: perhaps it is another
// bucket, which counts anew.
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
	a.stored[name] = b
}

// load reads the folders again where anything in them changed.
func (a *Catalog) load() {
	print := fingerprint(a.cfg.Dirs)
	a.mu.RLock()
	same := print == a.print
	a.mu.RUnlock()
	if same {
		return
	}
	files, broken := map[string]agent.Blueprint{}, []agent.Bad{}
	now := time.Now().UTC()
	for _, dir := range a.cfg.Dirs {
		good, bad, err := agent.Load(dir, run.Autonomous, ours)
		if err != nil {
			bad = append(bad, agent.Bad{Name: filepath.Base(dir), Path: dir, Status: agent.Broken, Reason: err.Error()})
		}
		broken = append(broken, bad...)
		for _, f := range good {
			if _, twice := files[f.Name]; twice {
				reason := "another folder has an agent of this name already; rename one of them"
				broken = append(broken, agent.Bad{Name: f.Name, Path: f.Path, Status: agent.Broken, Reason: reason})
				continue
			}
			f.CreatedAt, f.ModifiedAt = &now, &now
			files[f.Name] = f.Blueprint
		}
	}
	for _, b := range broken {
		a.cfg.Log.Warn("agent file is broken and left out", "agent", b.Name, "file", b.Path, "err", b.Reason)
	}
	a.cfg.Log.Info("agents loaded", "folders", a.cfg.Dirs, "agents", len(files), "broken", len(broken))
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, b := range files { // what did not change keeps its times
		if old, ok := a.files[name]; ok && old.Hash() == b.Hash() {
			b.CreatedAt, b.ModifiedAt = old.CreatedAt, old.ModifiedAt
			files[name] = b
		} else if ok {
			b.CreatedAt = old.CreatedAt
			files[name] = b
		}
	}
	a.files, a.broken, a.print = files, broken, print
}

// ours refuses what the coordinator cannot own.
func ours(f agent.File) error {
	if f.Type == run.Procedural {
		return errors.New(procedural)
	}
	return nil
}

const procedural = "procedural agents belong to runners: put agent.json into the agents_dir of a runner's profile"

// fingerprint changes when a file in the folders does.
func fingerprint(dirs []string) string {
	var b strings.Builder
	for _, dir := range dirs {
		b.WriteString(dir + "\n")
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				b.WriteString(path + err.Error() + "\n")
				return nil
			}
			if strings.Count(strings.TrimPrefix(path, dir), string(filepath.Separator)) > 2 && d.IsDir() {
				return filepath.SkipDir
			}
			if info, err := os.Stat(path); err == nil {
				b.WriteString(path + info.ModTime().String() + info.Mode().String())
				b.WriteString(time.Duration(info.Size()).String() + "\n")
			}
			return nil
		})
	}
	return b.String()
}

// Has tells whether a name is one of the coordinators' own.
func (a *Catalog) Has(name string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	_, file := a.files[name]
	_, stored := a.stored[name]
	return file || stored
}

// unreadable are the files that could not be read.
func (a *Catalog) unreadable() []agent.Bad {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.broken)
}

// ProfileOf is the profile that an agent's runs have; empty: any, or there is no such agent.
func (a *Catalog) ProfileOf(name string) string {
	k, ok := a.Find(name)
	if !ok {
		return ""
	}
	return cmp.Or(k.Profile, k.ExecutorProfile)
}

// Find is the agent of this name, whoever defined it.
func (a *Catalog) Find(name string) (Resolved, bool) {
	a.mu.RLock()
	b, file := a.files[name]
	ok := file
	if !ok {
		b, ok = a.stored[name]
	}
	a.mu.RUnlock()
	if ok {
		return Resolved{Blueprint: b, file: file}, true
	}
	return a.cfg.Runners.Agent(name)
}

// Look is Find for callers: one that is not known here may have been made over another coordinator, or announced to it, a moment
// ago.
func (a *Catalog) Look(ctx context.Context, name string) (k Resolved, ok bool, err error) {
	if k, ok := a.Find(name); ok || agent.CheckName("agent_name", name) != nil {
		return k, ok, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	raw, rev, err := a.cfg.Bucket.Get(ctx, name)
	switch {
	case err == nil:
		a.put(name, raw, rev)
	case errors.Is(err, bus.ErrNone):
		if err := a.cfg.Runners.Look(ctx, name); err != nil {
			return k, false, bus.NotKnown(err)
		}
	default:
		return k, false, bus.NotKnown(err)
	}
	k, ok = a.Find(name)
	return k, ok, nil
}
