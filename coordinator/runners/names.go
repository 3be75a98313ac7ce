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
	"ao/shared/strictjson"
)

// owner says who owns the name of a runner's agent, and which definition of it new runs get.
type owner struct {
	Hash    string    `json:"hash"`
	Type    string    `json:"executor_type,omitempty"`
	Profile string    `json:"profile"`
	Runner  string    `json:"runner_id"`
	At      time.Time `json:"at"`
	Older   []string  `json:"older,omitempty"` // hashes of its profile's earlier definitions, the newest last
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

// claim takes the names of a runner's agents for it, or joins its replicas. Between profiles the first runner wins. It
// releases the names that the runner had before and no longer announces.
func (n *Names) claim(ctx context.Context, c claimant) error {
	for name := range c.AgentHashes {
		if n.Taken(name) {
			return collision(name, nil, "the coordinator itself")
		}
	}
	return n.change(ctx, func(owners map[string]owner) (changed bool, _ error) {
		assign := map[string]owner{}
		c.read = map[string]bool{}
		for name, hash := range c.AgentHashes {
			o, differs, err := n.next(ctx, name, hash, owners[name], c)
			if err != nil {
				return false, err
			}
			if differs {
				assign[name] = o
			}
		}
		if err := n.assign(owners, c, assign); err != nil {
			return false, err
		}
		for name, hash := range c.before.AgentHashes {
			if o, ok := owners[name]; ok && c.AgentHashes[name] == "" && o.ofProfile(c.Runner) {
				changed = n.pass(owners, name, hash, c.id) || changed
			}
		}
		return changed || len(assign) > 0, nil
	})
}

// kept reports whether all names of a runner's agents are still its profile's.
func (n *Names) kept(r runnerapi.Runner) bool {
	announced := n.Runners.announced()
	for name := range r.AgentHashes {
		if k := announced[name]; k == nil || k.Profile != r.ExecutorProfile {
			return false
		}
	}
	return true
}

// refused returns which of a runner's agents collide, and why.
func (n *Names) refused(ctx context.Context, c claimant) (map[string]string, error) {
	owners, _, err := n.owners(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	c.read = map[string]bool{}
	for name, hash := range c.AgentHashes {
		err := collision(name, nil, "the coordinator itself")
		if !n.Taken(name) {
			_, _, err = n.next(ctx, name, hash, owners[name], c)
		}
		switch {
		case err == nil:
		case fault.KindOf(err) == fault.Conflict:
			all[name] = fault.Of(err).Message
		default:
			return nil, err
		}
	}
	return all, nil
}

func collision(name string, runner any, who string) error {
	return fault.New(fault.Conflict, "agent_name_collision", "Agent '"+name+"' is already registered by "+
		who+" with another definition; rename one of them").
		With("agent_name", name).With("existing_runner_id", runner)
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
		value, err := strictjson.Encode(owners)
		if err != nil {
			return err
		}
		if rev == 0 {
			rev, err = b.Create(ctx, ownersKey, value)
		} else {
			rev, err = b.Update(ctx, ownersKey, value, rev)
		}
		if err == nil {
			n.Runners.PutOwners(value, rev)
		}
		if !errors.Is(err, bus.ErrTaken) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "", "Many runners are registering; try again").After(time.Second)
}

// release frees the names of a runner that was removed, except those that a replica has.
func (n *Names) release(ctx context.Context, removed runnerapi.Runner) error {
	return n.change(ctx, func(owners map[string]owner) (changed bool, _ error) {
		for name, hash := range removed.AgentHashes {
			if o, ok := owners[name]; ok && o.ofProfile(removed) {
				changed = n.pass(owners, name, hash, removed.ID()) || changed
			}
		}
		return changed, nil
	})
}

// ownersBytes bounds the table: it is one message of at most 1 MiB, with its headers.
const ownersBytes = 960 << 10

// size bounds the bytes of an entry of the table.
func (o owner) size(name string) int {
	const members = 128 // the names of the members, and the time
	return len(name) + len(o.Hash) + len(o.Type) + len(o.Profile) + len(o.Runner) + members + 20*len(o.Older)
}

// unusedAfter is the age from which a name is dropped that no registered runner announces.
const unusedAfter = time.Minute

// assign writes entries of a runner's names into the table. A profile may use as many bytes as are free. Where there
// are too few, unused names are dropped first, then the profile's older hashes. A runner that needs no more than before
// is not refused.
func (n *Names) assign(owners map[string]owner, c claimant, names map[string]owner) error {
	sharer := func(o owner) string { return o.Type + "." + o.Profile }
	mine := c.ExecutorType + "." + c.ExecutorProfile
	count := func() (all, own int) {
		for name, o := range owners {
			size := o.size(name)
			if all += size; sharer(o) == mine {
				own += size
			}
		}
		return all, own
	}
	_, before := count()
	maps.Copy(owners, names)
	all, own := count()
	for _, makeRoom := range []func(){func() { n.dropUnused(owners, c) }, func() {
		for name, o := range owners {
			if sharer(o) == mine {
				o.Older = nil
				owners[name] = o
			}
		}
	}} {
		if own <= before || own <= ownersBytes-all {
			return nil
		}
		makeRoom()
		all, own = count()
	}
	if own <= before || own <= ownersBytes-all {
		return nil
	}
	free := max(ownersBytes-all+own-before, 0)
	return fault.Newf(fault.Busy, "the share of profile %s is used up: the names of its runners' agents take %d "+
		"bytes, %d of %d are free, and a profile may have as many as are free. Announce fewer agents, or end runners "+
		"of that profile",
		mine, before, free, ownersBytes).After(30 * time.Second)
}

// dropUnused drops names that no runner announces: this runner's former names, and others older than unusedAfter.
func (n *Names) dropUnused(owners map[string]owner, c claimant) {
	announced := map[string]bool{}
	for _, other := range n.Runners.list(func(at *member) bool { return at.id != c.id }) {
		for name := range other.AgentHashes {
			announced[name] = true
		}
	}
	maps.DeleteFunc(owners, func(name string, o owner) bool {
		_, kept := c.AgentHashes[name]
		return !kept && !announced[name] && (o.Runner == c.id || time.Since(o.At) > unusedAfter)
	})
}
