package agents

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ao/coordinator/agents/agentfile"
	"ao/shared/agent"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// ownFile is a file that defines an agent.
type ownFile struct {
	agent.File
	dir    string            // the folder of agents that it is in
	reason string            // why it cannot be changed here; empty: it can
	unused *agent.UnusedFile // the file of the seed that it replaces; nil: none
}

// folders are the folders of agents' files. It is safe for concurrent use.
type folders struct {
	log   *slog.Logger
	dirs  []string
	write bool // the files may be changed
	seed  *agentfile.Seed

	loading         sync.Mutex // held while the folders are read
	mu              sync.RWMutex
	files           map[string]*Resolved
	broken          []agent.BrokenFile
	fingerprint     string // of the folders, when they were read last
	seedFingerprint string // of the seed, likewise
}

// watch reads changed folders once a second until ctx ends.
func (a *folders) watch(ctx context.Context) {
	for clock.Sleep(ctx, time.Second) {
		a.load(false)
	}
}

// get returns the agent that a file defines.
func (a *folders) get(name string) (*Resolved, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	k, ok := a.files[name]
	return k, ok
}

// current returns the file that defines an agent, after reading changed folders.
func (a *folders) current(name string) (f ownFile, ok bool) {
	a.load(false)
	k, ok := a.get(name)
	if ok {
		f = *k.file
	}
	return f, ok
}

// add adds the definitions of files to all.
func (a *folders) add(all map[string]agent.Blueprint) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for name, k := range a.files {
		all[name] = k.Blueprint
	}
}

// unreadable lists the files that could not be read.
func (a *folders) unreadable() []agent.BrokenFile {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.broken)
}

// load reads the folders if anything in them changed, or in any case with force.
func (a *folders) load(force bool) {
	a.loading.Lock()
	defer a.loading.Unlock()
	seeded := a.syncSeed()
	current := fingerprint(a.dirs)
	a.mu.RLock()
	same := current == a.fingerprint
	a.mu.RUnlock()
	if same && !seeded && !force {
		return
	}
	unused := a.unusedFiles()
	files, broken := map[string]ownFile{}, []agent.BrokenFile{}
	now := time.Now().UTC()
	for _, dir := range a.dirs {
		good, bad, err := agent.Load(dir, run.Autonomous, checkOwnable)
		if err != nil {
			bad = append(bad, agent.BrokenFile{Name: filepath.Base(dir), Path: dir, Status: agent.Broken,
				Reason: err.Error()})
		}
		broken = append(broken, bad...)
		for _, f := range good {
			if _, twice := files[f.Name]; twice {
				reason := "another folder has an agent of this name already; rename one of them"
				broken = append(broken, agent.BrokenFile{Name: f.Name, Path: f.Path, Status: agent.Broken,
					Reason: reason})
				continue
			}
			f.CreatedAt, f.ModifiedAt = &now, &now
			own := ownFile{File: f, dir: dir, reason: a.lockedReason(dir, f.Path)}
			if u, ok := unused[f.Path]; ok {
				own.unused = &u
			}
			files[f.Name] = own
		}
	}
	for _, b := range broken {
		a.log.Warn("agent file is broken and left out", "agent", b.Name, "file", b.Path, "err", b.Reason)
	}
	a.log.Info("agents loaded", "folders", a.dirs, "agents", len(files), "broken", len(broken))
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[string]*Resolved, len(files))
	for name, f := range files {
		if old, ok := a.files[name]; ok {
			f.CreatedAt = old.CreatedAt
			if old.Blueprint.Hash() == f.Hash() { // an unchanged definition keeps its time
				f.ModifiedAt = old.ModifiedAt
			}
		}
		all[name] = defined(f.Blueprint, &f)
	}
	a.files, a.broken, a.fingerprint = all, broken, current
}

// checkOwnable refuses agents that only runners can have.
func checkOwnable(f agent.File) error {
	if f.Type == run.Procedural {
		return errors.New(procedural)
	}
	return nil
}

const procedural = "procedural agents belong to runners: put agent.json into the agents_dir of a runner's profile"

// fingerprint returns a string that changes when a file in the folders does.
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
			b.WriteString(path + agent.Stamp(path) + "\n")
			return nil
		})
	}
	return b.String()
}

// syncSeed updates the copy of the seed if the seed changed, and reports whether it did.
func (a *folders) syncSeed() bool {
	if a.seed == nil {
		return false
	}
	current := fingerprint([]string{a.seed.From})
	if current == a.seedFingerprint {
		return false
	}
	a.seedFingerprint = current
	changed, kept, err := a.seed.Sync(context.Background())
	if err != nil {
		a.log.Warn("agents could not be copied", "from", a.seed.From, "to", a.seed.To, "err", err)
	}
	if len(changed)+len(kept) > 0 {
		a.log.Info("agents copied", "from", a.seed.From, "to", a.seed.To, "changed", changed, "kept", kept)
	}
	return true
}

// unusedFiles returns the unused files of the seed by the path of their copy.
func (a *folders) unusedFiles() map[string]agent.UnusedFile {
	if a.seed == nil {
		return nil
	}
	unused, err := a.seed.Unused()
	if err != nil {
		a.log.Warn("agents cannot be compared with their copies", "from", a.seed.From, "to", a.seed.To, "err", err)
	}
	return unused
}

// lockedReason returns why a file cannot be changed here; empty: it can.
func (a *folders) lockedReason(dir, path string) string {
	if !a.write {
		return "it is defined by a file, and AO_AGENTS_WRITABLE is off: change the file"
	}
	if err := agentfile.Locked(dir, path); err != nil {
		return fault.Of(err).Message
	}
	return ""
}

// change sets members of an agent's file.
func (a *folders) change(ctx context.Context, f ownFile, patch []strictjson.Member, check agentfile.Check) error {
	if !a.write {
		return f.errNotWritable()
	}
	defer a.load(true)
	_, err := agentfile.Change(ctx, f.dir, f.Path, patch, check)
	return err
}

// remove deletes an agent's files.
func (a *folders) remove(ctx context.Context, f ownFile, before func(agent.Blueprint) error) error {
	if !a.write {
		return f.errNotWritable()
	}
	defer a.load(true)
	return agentfile.Remove(ctx, f.dir, f.Path, before)
}

// checkUnchanged refuses a change of a file that now defines another agent, or another version than the caller saw.
func (f ownFile) checkUnchanged(match Match) func(agent.Blueprint) error {
	return func(b agent.Blueprint) error {
		if b.Name != f.Name {
			return errBeingChanged(f.Name)
		}
		f.Blueprint = b
		return match.check((&Resolved{Blueprint: b, file: &f}).view(nil))
	}
}

// errNotWritable returns the error for changing an agent's file while AO_AGENTS_WRITABLE is off.
func (f ownFile) errNotWritable() error {
	return fault.Newf(fault.Conflict, "Agent %q is defined by a file; change the file, or switch AO_AGENTS_WRITABLE on",
		f.Name).With("agent_name", f.Name)
}

// check refuses a change of a file that the caller did not see, and a definition that the coordinator cannot have.
func (f ownFile) check(match Match, schema func(agent.Blueprint) error) agentfile.Check {
	return agentfile.Check{Before: f.checkUnchanged(match), After: func(b agent.Blueprint) error {
		if err := checkSameName(f.Name, b); err != nil {
			return err
		}
		if b.Type == run.Procedural {
			return fault.New(fault.Invalid, "", procedural).With("field", "type")
		}
		return schema(b)
	}}
}

// reset replaces an agent's files by those of the seed.
func (a *folders) reset(ctx context.Context, f ownFile, check agentfile.Check) error {
	if !a.write {
		return f.errNotWritable()
	}
	defer a.load(true)
	return a.seed.Reset(ctx, f.Path, check)
}

// unused returns the unused files of agents that were edited here, by the agent's name.
func (a *folders) unused() map[string]agent.UnusedFile {
	all := map[string]agent.UnusedFile{}
	a.mu.RLock()
	defer a.mu.RUnlock()
	for name, k := range a.files {
		if k.file.unused != nil {
			all[name] = *k.file.unused
		}
	}
	return all
}

// ResetAgent replaces an agent that was edited here by its unused file. It changes nothing where the tag does not
// match.
func (a *Catalog) ResetAgent(ctx context.Context, name string, match Match) (View, error) {
	f, ok := a.folders.current(name)
	if !ok || f.unused == nil {
		v, err := a.View(ctx, name)
		if err == nil {
			err = fault.Newf(fault.Conflict, "Agent %q has no unused file that it could be reset to: only a copy of "+
				"AO_AGENTS_SEED that was edited has one", name).With("agent_name", name)
		}
		return v, err
	}
	if err := a.folders.reset(ctx, f, f.check(match, checkSchemas(ctx, a.cfg.Schemas))); err != nil {
		return View{}, err
	}
	return a.View(ctx, name)
}

// UnusedFiles returns the unused files of agents that were edited here, by the agent's name.
func (a *Catalog) UnusedFiles() map[string]agent.UnusedFile { return a.folders.unused() }
