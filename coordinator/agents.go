package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
)

// agents are all definitions: of files, of the API (bucket `agents`), and of online runners (the roster has those).
// First one wins (contract section 2): a file is loaded before the API can create its name.
type agents struct {
	c    *Coordinator
	read atomic.Bool

	mu     sync.RWMutex
	files  map[string]agent.Blueprint
	stored map[string]agent.Blueprint
	revs   map[string]uint64 // of what is stored, and of what was and is deleted
	broken []agent.Bad
	print  string // of the folders, when they were read last
}

func newAgents(c *Coordinator) *agents {
	return &agents{c: c, files: map[string]agent.Blueprint{}, stored: map[string]agent.Blueprint{}, revs: map[string]uint64{}}
}

// known is an agent with what its owner adds.
type known struct {
	agent.Blueprint
	file           bool              // a file defines it
	owners         map[string]string // runner-owned: the agent set of the owner; who announced exactly these may run it
	profile        string            // likewise its profile
	profileTimeout int               // and the profile's upper bound, seconds
	raw            json.RawMessage   // the blueprint as a run carries it, where it was made before
	lane           string            // of runs that ask for nothing beyond it; likewise
	online         bool              // likewise: a runner that has it is online
}

// shown is the definition as readers see it, with how many online runners have it.
func (k known) shown(runners int) agent.Blueprint {
	k.Runners = &runners
	return k.Blueprint
}

// snapshot is the blueprint as a run carries it.
func (k known) snapshot() (json.RawMessage, error) {
	if k.raw != nil {
		return k.raw, nil
	}
	return json.Marshal(k.Blueprint)
}

func (k known) ownerDemands() run.Demands {
	if k.owners == nil {
		return run.Demands{}
	}
	return run.Demands{ExecutorProfile: k.profile, ExecutorType: k.Type}
}

// demands are those of a run of the agent, which asks for these itself; first are those that come before the agent's own.
func (k known) demands(first run.Demands, also ...run.Demands) run.Demands {
	all := []run.Demands{k.ownerDemands(), first, {ExecutorProfile: k.ExecutorProfile}}
	if k.Demands != nil {
		all = append(all, *k.Demands)
	}
	return run.Merge(append(all, also...)...)
}

// want is what a run with these demands wants of a runner.
func (k known) want(d run.Demands) fleet.Want { return fleet.WantOf(k.Type, d, k.owners) }

// laneOf is the lane of a run that wants this, which is the agent's own where the run asked for nothing.
func (k known) laneOf(w fleet.Want, asked ...run.Demands) string {
	if k.lane == "" || slices.ContainsFunc(asked, func(d run.Demands) bool { return !d.None() }) {
		return w.Lane()
	}
	return k.lane
}

func (k known) ownerHash() string { return k.owners[k.Name] }

// watch follows the bucket and the folders.
func (a *agents) watch(ctx context.Context) error {
	a.load()
	go every(ctx, time.Second, func(context.Context) { a.load() })
	b := a.c.bus.Bucket(subject.Agents)
	have, err := list(ctx, b, a.c.insist)
	if err != nil {
		return err
	}
	for name, v := range have {
		a.put(name, v.Body, v.Rev)
	}
	a.read.Store(true)
	return b.Watch(ctx, have, func(ch bus.Change) error {
		if ch.Deleted {
			ch.Body = nil
		}
		a.put(ch.Key, ch.Body, ch.Rev)
		return nil
	})
}

// put notes what the bucket has under a name, nil: nothing, at a revision. Several bring that, and who was slow may bring what is
// older than what is known. Revision 0 is of a key of which the bucket has not even the mark of its deletion: perhaps it is another
// bucket, which counts anew.
func (a *agents) put(name string, value []byte, rev uint64) {
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
		a.c.log.Error("stored agent is unreadable", "agent", name, "err", err)
		return
	}
	a.stored[name] = b
}

// load reads the folders again where anything in them changed.
func (a *agents) load() {
	print := fingerprint(a.c.AgentsDirs)
	a.mu.RLock()
	same := print == a.print
	a.mu.RUnlock()
	if same {
		return
	}
	files, broken := map[string]agent.Blueprint{}, []agent.Bad{}
	now := time.Now().UTC()
	for _, dir := range a.c.AgentsDirs {
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
		a.c.log.Warn("agent file is broken and left out", "agent", b.Name, "file", b.Path, "err", b.Reason)
	}
	a.c.log.Info("agents loaded", "folders", a.c.AgentsDirs, "agents", len(files), "broken", len(broken))
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

// add puts the coordinators' own definitions into a table, in place of runners'.
func (a *agents) add(all map[string]agent.Blueprint) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	maps.Copy(all, a.stored)
	maps.Copy(all, a.files)
}

// has tells whether a name is one of the coordinators' own.
func (a *agents) has(name string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	_, file := a.files[name]
	_, stored := a.stored[name]
	return file || stored
}

// unreadable are the files that could not be read.
func (a *agents) unreadable() []agent.Bad {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.broken)
}

// find is the agent of this name, whoever defined it.
func (a *agents) find(name string) (known, bool) {
	a.mu.RLock()
	b, file := a.files[name]
	ok := file
	if !ok {
		b, ok = a.stored[name]
	}
	a.mu.RUnlock()
	if ok {
		return known{Blueprint: b, file: file}, true
	}
	return a.c.fleet.agent(name)
}

// look is find for callers: one that is not known here may have been made over another coordinator, or announced to it, a moment
// ago.
func (a *agents) look(ctx context.Context, name string) (k known, ok bool, err error) {
	if k, ok := a.find(name); ok || agent.CheckName("agent_name", name) != nil {
		return k, ok, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	raw, rev, err := a.c.bus.Bucket(subject.Agents).Get(ctx, name)
	switch {
	case err == nil:
		a.put(name, raw, rev)
	case errors.Is(err, bus.ErrNone):
		owners, _, err := a.c.names.owners(ctx)
		if err == nil && owners[name].Runner != "" {
			_, err = a.c.registered.refresh(ctx, owners[name].Runner)
		}
		if err != nil {
			return k, false, notKnown(err)
		}
	default:
		return k, false, notKnown(err)
	}
	k, ok = a.find(name)
	return k, ok, nil
}

// usable is look for a run: an unknown agent is 404, an inactive one 409.
func (a *agents) usable(ctx context.Context, name string) (known, error) {
	k, ok, err := a.look(ctx, name)
	switch {
	case err != nil:
		return k, err
	case !ok:
		for _, b := range a.c.BrokenAgents() {
			if b.Name == name {
				return k, fault.Newf(fault.NotFound, "Agent %q cannot be used, its file is broken: %s; GET /agents?status=broken lists such files", name, b.Reason).With("agent_name", name).With("field", "agent_name")
			}
		}
		return k, fault.Wrap(fault.NotFound, "", fmt.Sprintf("There is no agent %q; GET /agents lists them", name), errNoAgent).With("agent_name", name).With("field", "agent_name")
	case k.Status == agent.Inactive:
		return k, fault.New(fault.Conflict, "agent_inactive", "Agent "+name+" is inactive; set its status to active first").With("agent_name", name)
	}
	return k, nil
}

// Agents lists agents by name; status filters, broken ones are a list of their own.
func (c *Coordinator) Agents(status string) ([]agent.Blueprint, error) {
	if !slices.Contains([]string{"", agent.Active, agent.Inactive}, status) {
		return nil, fault.New(fault.Invalid, "", "status must be active, inactive or broken").With("field", "status")
	}
	if err := c.Registries(); err != nil {
		return nil, err
	}
	all := c.fleet.agents()
	c.agents.add(all)
	list := make([]agent.Blueprint, 0, len(all))
	for _, b := range all {
		if status == "" || b.Status == status {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(x, y agent.Blueprint) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

// BrokenAgents are the files that could not be read, here and at the runners, with why.
func (c *Coordinator) BrokenAgents() []agent.Bad {
	all := c.agents.unreadable()
	for _, m := range c.fleet.list(func(m *member) bool { return m.LeftAt.IsZero() && len(m.Broken) > 0 }) {
		for _, b := range m.Broken {
			b.RunnerID, b.Status = m.ID, agent.Broken
			all = append(all, b)
		}
	}
	return all
}

// Agent is one agent by its name.
func (c *Coordinator) Agent(ctx context.Context, name string) (agent.Blueprint, error) {
	k, ok, err := c.agents.look(ctx, name)
	if err != nil {
		return k.Blueprint, err
	}
	if !ok {
		return k.Blueprint, fault.Newf(fault.NotFound, "There is no agent %q; GET /agents lists them", name).With("agent_name", name)
	}
	if k.owners != nil {
		hash := k.ownerHash()
		return k.shown(serving(c.fleet.list(func(m *member) bool { return m.Set[name] == hash }), name, hash)), nil
	}
	return k.Blueprint, nil
}
