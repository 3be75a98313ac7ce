package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ao/shared/agent"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
	"ao/worker/profile"
)

// definitions are those of the runner's own agents: what it announces, and older ones that accepted runs still carry.
// It is safe for concurrent use.
type definitions struct {
	log      *slog.Logger
	folder   *profile.Folder // read by look alone; nil: the definitions never change
	maxOlder int
	keep     time.Duration // how long an older definition is kept at least

	resting func() map[string]string // agents that cannot be run now, and why; nil: none

	mu        sync.Mutex
	agents    []agent.Blueprint
	broken    []agent.BrokenFile
	current   map[string]definition            // by agent
	older     map[string]map[string]definition // by agent and hash
	missing   map[string]bool                  // programs of older ones that were not there at the last look
	refused   map[string]string                // names that coordinators refused, and why
	announced string                           // the state that was last reported to coordinators
	again     time.Time                        // when to report it once more; zero: when it changes
	notBefore time.Time                        // after a failure
	failure   string
}

// definition is one definition of an agent.
type definition struct {
	hash    string
	program string    // path
	file    string    // path
	since   time.Time // when it became an older one
}

// The most older definitions, and how long each is kept at least: a coordinator may just have accepted a run of it.
const (
	maxOlderDefinitions = 1000
	keepOlder           = time.Minute
)

// readAgentsEvery is how often a changed folder of agents is noticed.
const readAgentsEvery = 2 * time.Second

// maxBroken is how many broken files a runner announces.
const maxBroken = 100

// newDefinitions returns the definitions of a profile's folder. The error is about the folder.
func newDefinitions(p profile.Profile, log *slog.Logger) (*definitions, error) {
	d := &definitions{log: log, folder: &profile.Folder{Dir: p.AgentsDir}, maxOlder: maxOlderDefinitions,
		keep: keepOlder, older: map[string]map[string]definition{}}
	if err := d.folder.Look(); err != nil {
		return nil, fmt.Errorf("profile file %s: agents_dir: %w", p.Path, err)
	}
	d.take(d.folder.Agents(), d.folder.Broken)
	return d, nil
}

// fixedDefinitions returns definitions that never change.
func fixedDefinitions(agents []agent.Blueprint) *definitions {
	d := &definitions{agents: agents, current: map[string]definition{}}
	for name, hash := range runnerapi.AgentSet(agents) {
		d.current[name] = definition{hash: hash}
	}
	return d
}

// look reads the folder again if it changed, and forgets older definitions whose programs are gone. A program is gone
// when it is missing twice in a row: once, it may just be being replaced.
func (d *definitions) look() {
	err := d.folder.Look()
	broken := d.folder.Broken
	if err != nil {
		broken = []agent.BrokenFile{d.folderBroken(err.Error())}
	}
	missing := d.missingPrograms()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(func(at definition) bool { return missing[at.program] && d.missing[at.program] })
	d.missing = missing
	d.take(d.folder.Agents(), broken)
}

// missingPrograms returns the programs of older definitions that are not there. Slow file systems hold up nobody else.
func (d *definitions) missingPrograms() map[string]bool {
	missing := map[string]bool{}
	d.mu.Lock()
	for _, all := range d.older {
		for _, at := range all {
			missing[at.program] = true
		}
	}
	d.mu.Unlock()
	maps.DeleteFunc(missing, func(path string, _ bool) bool {
		_, err := os.Stat(path)
		return err == nil
	})
	return missing
}

// folderBroken returns why the folder was not read.
func (d *definitions) folderBroken(why string) agent.BrokenFile {
	return agent.BrokenFile{Name: filepath.Base(d.folder.Dir), Path: d.folder.Dir, Status: agent.Broken,
		Reason: why + " (its agents keep their last good definitions)"}
}

// take makes these the definitions to announce; replaced ones become older ones. The caller holds mu.
func (d *definitions) take(agents []profile.Agent, broken []agent.BrokenFile) {
	current := make(map[string]definition, len(agents))
	list := make([]agent.Blueprint, len(agents))
	for i, a := range agents {
		list[i], current[a.Name] = a.Blueprint, definition{hash: a.Hash(), program: a.Program, file: a.Path}
	}
	replaced := maps.Clone(d.current)
	maps.DeleteFunc(replaced, func(name string, was definition) bool { return current[name].hash == was.hash })
	n := 0
	for _, all := range d.older {
		n += len(all)
	}
	if n+len(replaced) > d.maxOlder {
		broken = append(slices.Clone(broken), d.folderBroken(fmt.Sprintf("accepted runs still carry %d older "+
			"definitions, the most that are kept", n)))
		list, current, replaced = d.agents, d.current, nil
	}
	for name, was := range replaced {
		if d.older[name] == nil {
			d.older[name] = map[string]definition{}
		}
		was.since = time.Now()
		d.older[name][was.hash] = was
	}
	for name, now := range current {
		delete(d.older[name], now.hash)
	}
	for _, b := range broken {
		if !slices.Contains(d.broken, b) { // its reason says whether a definition of before stays
			d.log.Error("agent file is broken", "agent", b.Name, "file", b.Path, "err", b.Reason)
		}
	}
	d.agents, d.current, d.broken = list, current, broken
}

// forget drops the older definitions that match. The caller holds mu.
func (d *definitions) forget(match func(definition) bool) {
	for name, all := range d.older {
		maps.DeleteFunc(all, func(_ string, at definition) bool { return match(at) })
		if len(all) == 0 {
			delete(d.older, name)
		}
	}
}

// dropUnused drops older definitions that no accepted run carries, as a coordinator found.
func (d *definitions) dropUnused(hashes []string) {
	if len(hashes) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(func(at definition) bool {
		return time.Since(at.since) >= d.keep && slices.Contains(hashes, at.hash)
	})
}

// serves reports whether the worker has a definition of an agent, and its program.
func (d *definitions) serves(name, hash string) (program string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.current[name]
	if ok && (hash == "" || at.hash == hash) {
		return at.program, true
	}
	at, ok = d.older[name][hash]
	return at.program, ok
}

// describe adds the definitions to a registration, and returns what of it may change. all: also those whose names
// coordinators refused.
func (d *definitions) describe(r runnerapi.Runner, all bool) (_ runnerapi.Runner, state string) {
	var resting map[string]string
	if d.resting != nil {
		resting = d.resting()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	hidden := func(name string) bool { return !all && d.refused[name] != "" }
	r.Agents = slices.DeleteFunc(slices.Clone(d.agents), func(a agent.Blueprint) bool { return hidden(a.Name) })
	r.Broken, r.Updates, r.OlderHashes = d.brokenFiles(resting), d.folder != nil, map[string][]string{}
	for name, older := range d.older {
		r.OlderHashes[name] = slices.Sorted(maps.Keys(older))
	}
	hashes := map[string]string{}
	for name, at := range d.current {
		if !hidden(name) {
			hashes[name] = at.hash
		}
	}
	raw, err := strictjson.Encode([]any{hashes, r.Broken, r.OlderHashes})
	if err != nil { // strings only
		panic(err)
	}
	return r, string(raw)
}

// hashes returns the current definitions' hashes, by agent.
func (d *definitions) hashes() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]string, len(d.current))
	for name, at := range d.current {
		all[name] = at.hash
	}
	return all
}

// brokenFiles lists the broken files, and those whose names coordinators refused or that cannot be run now. The caller
// holds mu.
func (d *definitions) brokenFiles(resting map[string]string) []agent.BrokenFile {
	all := slices.Clone(d.broken)
	for _, why := range []map[string]string{d.refused, resting} {
		for _, name := range slices.Sorted(maps.Keys(why)) {
			all = append(all, agent.BrokenFile{Name: name, Path: d.current[name].file, Status: agent.Broken,
				Reason: why[name]})
		}
	}
	return all[:min(len(all), maxBroken)]
}

// due reports whether a report is due: the state changed, or coordinators refused a part of it some time ago.
func (d *definitions) due(state string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	return !now.Before(d.notBefore) && (state != d.announced || !d.again.IsZero() && !now.Before(d.again))
}

// announceAgain is how long after a refusal a part is announced again.
const announceAgain = time.Minute

// accepted notes the reported state, and the answer. A coordinator of an older version keeps no older definitions, so
// the state is reported again.
func (d *definitions) accepted(state string, r runnerapi.Registered) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announced, d.refused, d.again, d.failure = state, r.Refused, time.Time{}, ""
	if len(r.Refused) > 0 || !r.Updates && len(d.older) > 0 {
		d.again = time.Now().Add(announceAgain)
	}
}

// failed notes that the report failed, and reports whether the reason is another one than before.
func (d *definitions) failed(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	pause := 2 * readAgentsEvery
	if kind := fault.KindOf(err); kind == fault.Conflict || kind == fault.Invalid {
		pause = 10 * readAgentsEvery
	}
	d.notBefore = time.Now().Add(max(pause, fault.Of(err).RetryAfter))
	changed := d.failure != err.Error()
	d.failure = err.Error()
	return changed
}

// announceChanges announces changed agents until ctx ends. A refused announcement leaves what was accepted before.
func (w *Worker) announceChanges(ctx context.Context) {
	if w.definitions.folder == nil {
		return
	}
	for clock.Sleep(ctx, cmp.Or(w.ReadAgentsEvery, readAgentsEvery)) {
		w.definitions.look()
		if _, state := w.definitions.describe(w.client.Runner, true); w.definitions.due(state) {
			w.registrations.start(func() {
				if err := w.registerOnce(true); err != nil && w.definitions.failed(err) {
					w.log.Warn("changed agents not announced, retrying", "err", err)
				}
			})
		}
	}
}
