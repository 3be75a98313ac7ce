package runners

import (
	"context"
	"slices"
	"time"

	"ao/nats/bus"
	"ao/shared/runnerapi"
)

// Runners of one profile may have different definitions of an agent while it changes. Which one new runs get is decided
// by the order in which the table of names accepts announcements, never by clocks (shared/docs/decisions/0050).

// claimant is a runner that registers, and its registration of before; zero: it had none.
type claimant struct {
	runnerapi.Runner
	id     string
	before runnerapi.Runner
	read   map[string]bool // runners whose registrations were read again for this look at the table
}

// rememberOlder is how many earlier definitions of an agent the table remembers.
const rememberOlder = 16

// ofProfile reports whether a runner is of the profile that owns the name.
func (o owner) ofProfile(r runnerapi.Runner) bool {
	return o.Profile == r.ExecutorProfile && (o.Type == "" || o.Type == r.ExecutorType)
}

// rank returns how new a definition is: 0 is the current one, then its predecessors, then those not remembered.
func (o owner) rank(hash string) int {
	if hash == o.Hash {
		return 0
	}
	return len(o.Older) - slices.Index(o.Older, hash) // not remembered: one more than the oldest
}

// remember adds a definition to the older ones, as the newest of them.
func (o owner) remember(hash string) owner {
	o.Older = append(slices.DeleteFunc(slices.Clone(o.Older), func(h string) bool { return h == hash }), hash)
	o.Older = o.Older[max(len(o.Older)-rememberOlder, 0):]
	return o
}

// succeed makes a definition of a runner the current one.
func (o owner) succeed(hash string, id string, r runnerapi.Runner) owner {
	if o.Hash != "" && o.Hash != hash {
		o = o.remember(o.Hash)
	}
	older := slices.DeleteFunc(o.Older, func(h string) bool { return h == hash })
	return owner{hash, r.ExecutorType, r.ExecutorProfile, id, time.Now().UTC(), older}
}

// next returns the entry of a name once a runner has announced a definition of its agent, and whether it changes.
func (n *Names) next(ctx context.Context, name, hash string, o owner, c claimant) (_ owner, changed bool, _ error) {
	replica := o.ofProfile(c.Runner)
	switch {
	case o.Hash == "":
		return o.succeed(hash, c.id, c.Runner), true, nil
	case replica && o.Hash == hash && n.has(o.Runner, name, hash):
		return o, false, nil
	case replica && o.Hash == hash:
		return o.succeed(hash, c.id, c.Runner), true, nil
	}
	if !c.read[o.Runner] {
		if _, err := n.Registered.Refresh(ctx, o.Runner); err != nil {
			return o, false, bus.WriteUnanswered(err)
		}
		c.read[o.Runner] = true
	}
	rival := n.rival(name, o, c)
	switch {
	case replica && n.wins(name, hash, o, c):
		return o.succeed(hash, c.id, c.Runner), true, nil
	case replica && (c.Updates || rival == "" || o.announced(hash) || c.before.AgentHashes[name] == hash):
		if o.announced(hash) {
			return o, false, nil
		}
		return o.remember(hash), true, nil
	case rival != "":
		return o, false, collision(name, rival, "runner "+rival)
	}
	return owner{}.succeed(hash, c.id, c.Runner), true, nil
}

// announced reports whether a definition is remembered as one that was announced.
func (o owner) announced(hash string) bool { return hash == o.Hash || slices.Contains(o.Older, hash) }

// wins reports whether a replica's definition becomes the current one. Its runner changed the current one, or is new
// and has one that was never announced. Or it changed any, while no online runner has the current one.
func (n *Names) wins(name, hash string, o owner, c claimant) bool {
	before := c.before.AgentHashes[name]
	switch {
	case before == o.Hash && (c.Updates || n.rival(name, o, c) == ""):
		return true
	case before == "" && c.Updates && !o.announced(hash):
		return true
	}
	return before != hash && !n.held(name, o, c)
}

// held reports whether another online runner has the current definition.
func (n *Names) held(name string, o owner, c claimant) bool {
	return n.registers(name, o, c) || len(n.Runners.list(func(m *member) bool {
		return m.id != c.id && m.AgentHashes[name] == o.Hash && o.ofProfile(m.Runner) &&
			m.status(n.Runners) == runnerapi.Online
	})) > 0
}

// rival returns another runner that holds a name against this one. It may be any that is online. Against another
// profile, a runner that drains or is within its grace counts, too.
func (n *Names) rival(name string, o owner, c claimant) string {
	if n.registers(name, o, c) {
		return o.Runner
	}
	for _, m := range n.Runners.list(func(m *member) bool {
		return m.id != c.id && m.AgentHashes[name] != "" && m.ExecutorProfile == o.Profile
	}) {
		if m.ReservesNames(c.ExecutorProfile) {
			return m.ID
		}
	}
	return ""
}

// registers reports whether another runner has just taken the name, and its registration is not stored yet. That counts
// for 5 seconds.
func (n *Names) registers(name string, o owner, c claimant) bool {
	return o.Runner != c.id && time.Since(o.At).Abs() < 5*time.Second && !n.has(o.Runner, name, o.Hash)
}

// has reports whether a runner announced this definition.
func (n *Names) has(id, name, hash string) bool {
	m, ok := n.Runners.Runner(id)
	return ok && m.AgentHashes[name] == hash
}

// pass gives a name that runner id no longer announces to the replica with the newest definition, or frees it. It
// reports whether the table changed.
func (n *Names) pass(owners map[string]owner, name, hash, id string) bool {
	o := owners[name]
	if o.Hash != hash { // the current definition is another runner's
		return false
	}
	heirs := n.Runners.list(func(m *member) bool {
		return m.id != id && m.AgentHashes[name] != "" && o.ofProfile(m.Runner)
	})
	if len(heirs) == 0 {
		delete(owners, name)
		return true
	}
	best := &heirs[0]
	for i := range heirs {
		if o.newer(name, &heirs[i], best) {
			best = &heirs[i]
		}
	}
	owners[name] = o.succeed(best.AgentHashes[name], best.ID, best.Runner)
	return true
}

// newer reports whether m's definition of an agent counts rather than that of a runner that sorts before it
// (sortByPrecedence). It does if both have the same status and m's definition is newer.
func (o owner) newer(name string, m, than *runnerapi.Member) bool {
	a, b := m.AgentHashes[name], than.AgentHashes[name]
	return a != b && m.Status == than.Status && o.rank(a) < o.rank(b)
}
