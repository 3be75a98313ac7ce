package runners

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// owner says who owns the name of a runner's agent.
type owner struct {
	Hash    string    `json:"hash"`
	Type    string    `json:"executor_type,omitempty"`
	Profile string    `json:"profile"`
	Runner  string    `json:"runner_id"`
	At      time.Time `json:"at"`
}

// Names is the table of the owners of agents' names. It is one key of bucket `runners`, which every registration
// changes by compare-and-set.
type Names struct {
	Bucket     *bus.Bucket
	Runners    *Registry
	Registered *Registrations
	Taken      func(name string) bool // reports whether the coordinators have an agent of this name
}

// ownersKey is the key of the table in bucket `runners`.
const ownersKey = "_owners"

// claim takes the names of a runner's agents for it, or joins a replica's. The first runner wins.
func (n *Names) claim(ctx context.Context, id string, r runnerapi.Runner) error {
	for name := range r.AgentHashes {
		if n.Taken(name) {
			return collision(name, nil, "the coordinator itself")
		}
	}
	return n.change(ctx, func(owners map[string]owner) (bool, error) {
		var names []string // to assign
		for name, hash := range r.AgentHashes {
			o, ok := owners[name]
			if ok && o.Hash == hash && o.Profile == r.ExecutorProfile && n.has(o.Runner, name, hash) {
				continue // a replica
			}
			if ok && (o.Hash != hash || o.Profile != r.ExecutorProfile) {
				if _, err := n.Registered.Refresh(ctx, o.Runner); err != nil {
					return false, bus.WriteUnanswered(err)
				}
				if rival := n.rival(name, o, id, r.ExecutorProfile); rival != "" {
					return false, collision(name, rival, "runner "+rival)
				}
			}
			names = append(names, name)
		}
		return len(names) > 0, n.assign(owners, id, r, names)
	})
}

func collision(name string, runner any, who string) error {
	return fault.New(fault.Conflict, "agent_name_collision", "Agent '"+name+"' is already registered by "+
		who+" with another definition; rename one of them").
		With("agent_name", name).With("existing_runner_id", runner)
}

// rival returns another runner that holds a name against this one: any that is online and, against another profile, one
// that drains or is within its grace. A registration that is not stored yet counts for 5 seconds.
func (n *Names) rival(name string, o owner, id, profile string) string {
	if o.Runner != id && time.Since(o.At).Abs() < 5*time.Second && !n.has(o.Runner, name, o.Hash) {
		return o.Runner
	}
	for _, m := range n.Runners.list(func(m *member) bool {
		return m.id != id && m.AgentHashes[name] != "" &&
			m.ExecutorProfile == o.Profile
	}) {
		if m.ReservesNames(profile) {
			return m.ID
		}
	}
	return ""
}

// has reports whether a runner announced this definition.
func (n *Names) has(id, name, hash string) bool {
	m, ok := n.Runners.Runner(id)
	return ok && m.AgentHashes[name] == hash
}

// owners reads the table and its revision; 0: there is none yet.
func (n *Names) owners(ctx context.Context) (map[string]owner, uint64, error) {
	owners := map[string]owner{}
	raw, rev, err := n.Bucket.Get(ctx, ownersKey)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return owners, 0, nil
	case err != nil:
		return nil, 0, bus.WriteUnanswered(err)
	}
	return owners, rev, json.Unmarshal(raw, &owners)
}

// change changes the table by compare-and-set.
func (n *Names) change(ctx context.Context, change func(map[string]owner) (bool, error)) error {
	b := n.Bucket
	for range 20 {
		owners, rev, err := n.owners(ctx)
		if err != nil {
			return err
		}
		changed, err := change(owners)
		if err != nil || !changed {
			return err
		}
		value, err := json.Marshal(owners)
		if err != nil {
			return err
		}
		if rev == 0 {
			_, err = b.Create(ctx, ownersKey, value)
		} else {
			_, err = b.Update(ctx, ownersKey, value, rev)
		}
		if !errors.Is(err, bus.ErrTaken) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "", "Many runners are registering; try again").After(time.Second)
}

// release frees the names of a runner that was removed, except those that a replica has.
func (n *Names) release(ctx context.Context, removed runnerapi.Runner) error {
	return n.change(ctx, func(owners map[string]owner) (bool, error) {
		changed := false
		for name, hash := range removed.AgentHashes {
			if o, ok := owners[name]; !ok || o.Hash != hash || o.Profile != removed.ExecutorProfile {
				continue
			}
			if heir := n.replica(name, hash, removed.ExecutorProfile); heir != "" {
				owners[name] = owner{hash, removed.ExecutorType, removed.ExecutorProfile, heir, time.Now().UTC()}
			} else {
				delete(owners, name)
			}
			changed = true
		}
		return changed, nil
	})
}

// replica returns another runner of the profile that announced the same definition; "": none.
func (n *Names) replica(name, hash, profile string) string {
	if all := n.Runners.list(func(m *member) bool {
		return m.AgentHashes[name] == hash &&
			m.ExecutorProfile == profile
	}); len(
		all) > 0 {
		return all[0].ID
	}
	return ""
}

// ownersBytes bounds the table: it is one message of at most 1 MiB, with its headers.
const ownersBytes = 960 << 10

// size bounds the bytes of an entry of the table.
func (o owner) size(name string) int {
	const members = 128 // the names of the members, and the time
	return len(name) + len(o.Hash) + len(o.Type) + len(o.Profile) + len(o.Runner) + members
}

// unusedAfter is the age from which a name is dropped that no registered runner announces.
const unusedAfter = time.Minute

// assign writes the names of a runner into the table. A profile may use as many bytes as are free. Where there are too
// few, unused names are dropped first. A runner that needs no more than before is not refused.
func (n *Names) assign(owners map[string]owner, id string, m runnerapi.Runner, names []string) error {
	sharer := func(o owner) string { return o.Type + "." + o.Profile }
	now := owner{Type: m.ExecutorType, Profile: m.ExecutorProfile, Runner: id, At: time.Now().UTC()}
	count := func() (all, own int) {
		for name, o := range owners {
			size := o.size(name)
			if all += size; sharer(o) == sharer(now) {
				own += size
			}
		}
		return all, own
	}
	_, before := count()
	for _, name := range names {
		now.Hash = m.AgentHashes[name]
		owners[name] = now
	}
	all, own := count()
	if own <= before || own <= ownersBytes-all {
		return nil
	}
	n.dropUnused(owners, id, m)
	all, own = count()
	if own <= before || own <= ownersBytes-all {
		return nil
	}
	free := max(ownersBytes-all+own-before, 0)
	return fault.Newf(fault.Busy, "the share of profile %s is used up: the names of its runners' agents take %d "+
		"bytes, %d of %d are free, and a profile may have as many as are free. Announce fewer agents, or end runners "+
		"of that profile",
		sharer(now), before, free, ownersBytes).After(30 * time.Second)
}

// dropUnused drops names that no runner announces: this runner's former names, and others older than unusedAfter.
func (n *Names) dropUnused(owners map[string]owner, id string, m runnerapi.Runner) {
	announced := map[string]bool{}
	for _, other := range n.Runners.list(func(at *member) bool { return at.id != id }) {
		for name := range other.AgentHashes {
			announced[name] = true
		}
	}
	maps.DeleteFunc(owners, func(name string, o owner) bool {
		_, kept := m.AgentHashes[name]
		return !kept && !announced[name] && (o.Runner == id || time.Since(o.At) > unusedAfter)
	})
}
