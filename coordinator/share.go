package coordinator

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/shared/fleet"
)

// What many share and nobody may use up has one rule: a sharer may have as many as are free. One alone so gets half of all, two a third
// each, and there is always room for another. Callers share the queues that their runs' demands make, profiles those of their runners'
// agents, and the places of runners.

// has tells whether who has mine of all that are taken may have one more.
func has(room, all, mine int) bool { return mine < room-all }

// callerOf is whose share a request counts to: who asks, without saying who that is. An executor's session counts to whoever its run
// counts to.
func (c *Coordinator) callerOf(scope string) string {
	if session, ok := strings.CutPrefix(scope, "session:"); ok {
		for _, a := range c.Journal.Open(session) {
			if a.Claim != nil {
				return a.Spec.Caller
			}
		}
		scope = "session:"
	}
	sum := sha256.Sum256([]byte(scope))
	return hex.EncodeToString(sum[:8])
}

// registryBytes bounds what all registrations hold, agents first.
const registryBytes = 256 << 20

// admit tells whether there is room for a runner with a registration of that size: in number and in bytes its profile may have as much as
// is free. Who is registered already keeps its place.
func (r *roster) admit(id string, who fleet.Identity, size int) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all, mine, bytes, own int
	there := false
	for _, m := range r.members {
		if m.id == id {
			there = true
			continue
		}
		place := 1
		if !m.LeftAt.IsZero() { // it left; its agents are held
			place = 0
		}
		all, bytes = all+place, bytes+m.size
		if m.ExecutorProfile == who.ExecutorProfile && m.ExecutorType == who.ExecutorType {
			mine, own = mine+place, own+m.size
		}
	}
	kind, say := fault.Busy, "a profile may have as many as are free"
	if all >= r.c.MaxRunners {
		kind, say = fault.Unavailable, "that is the most there may be"
	}
	switch {
	case !there && !has(r.c.MaxRunners, all, mine):
		return fault.Newf(kind, "the share of profile %s.%s is used up: %d runners of it are registered, %d of all, and %d places are free (AO_MAX_RUNNERS); %s. End runners that are not needed; who is silent goes by itself",
			who.ExecutorType, who.ExecutorProfile, mine, all, max(r.c.MaxRunners-all, 0), say).After(30 * time.Second)
	case own+size > registryBytes-bytes:
		return fault.Newf(fault.Busy, "the share of profile %s.%s is used up: what its runners announced has %d bytes, %d of %d are free, and a profile may have as many as are free. Announce fewer agents, or end runners",
			who.ExecutorType, who.ExecutorProfile, own, max(registryBytes-bytes, 0), registryBytes).After(30 * time.Second)
	}
	return nil
}

// ownersBytes bounds the table of agents' names: it is one message of at most 1 MiB, with its headers.
const ownersBytes = 960 << 10

// size bounds what an entry takes in the table of names, in bytes.
func (o owner) size(name string) int {
	const members = 128 // their names, and the time
	return len(name) + len(o.Hash) + len(o.Type) + len(o.Profile) + len(o.Runner) + members
}

// vacant is how old an entry of the table of names is that may go where no registered runner announces it.
const vacant = time.Minute

// name gives a runner names in the table of owners: a profile may have as many bytes of them as are free. Where there is no room,
// names go that no other runner announces. Who needs no more than before is not refused.
func (r *roster) name(owners map[string]owner, id string, m fleet.Runner, names []string) error {
	sharer := func(o owner) string { return o.Type + "." + o.Profile }
	now := owner{Type: m.ExecutorType, Profile: m.ExecutorProfile, Runner: id, At: time.Now().UTC()}
	count := func() (all, own int) {
		for name, o := range owners {
			n := o.size(name)
			if all += n; sharer(o) == sharer(now) {
				own += n
			}
		}
		return all, own
	}
	_, before := count()
	for _, name := range names {
		now.Hash = m.Set[name]
		owners[name] = now
	}
	all, own := count()
	if own <= before || own <= ownersBytes-all {
		return nil
	}
	r.vacate(owners, id, m)
	if all, own = count(); own <= before || own <= ownersBytes-all {
		return nil
	}
	free := max(ownersBytes-all+own-before, 0)
	return fault.Newf(fault.Busy, "the share of profile %s is used up: the names of its runners' agents take %d bytes, %d of %d are free, and a profile may have as many as are free. Announce fewer agents, or end runners of that profile",
		sharer(now), before, free, ownersBytes).After(30 * time.Second)
}

// vacate drops names that nobody announces: those that this runner announced before, and any other's that are not new.
func (r *roster) vacate(owners map[string]owner, id string, m fleet.Runner) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	announced := map[string]bool{}
	for other, at := range r.members {
		if other != id {
			for name := range at.Set {
				announced[name] = true
			}
		}
	}
	maps.DeleteFunc(owners, func(name string, o owner) bool {
		_, kept := m.Set[name]
		return !kept && !announced[name] && (o.Runner == id || time.Since(o.At) > vacant)
	})
}
