package runners

import (
	"cmp"
	"slices"
	"time"

	"ao/shared/runnerapi"
)

// snapshot returns a member with its status. The caller holds mu.
func (m *member) snapshot(r *Registry) runnerapi.Member {
	at := runnerapi.Member{Runner: m.Runner, ID: m.id, Standing: m.standing(r), LastHeartbeat: m.heard,
		CredentialUnknown: m.unnamed,
		ClockOffset:       m.clockAhead, ClockKnown: !m.clockSeen.IsZero(), RegistrationBytes: m.size}
	if !m.LeftAt.IsZero() {
		at.LeftSeenAt, at.NamesReservedUntil = m.left, m.graceEnd(r.cfg.NoMatch)
	}
	return at
}

// Members lists the registered runners, by precedence.
func (r *Registry) Members() []runnerapi.Member { return r.list(nil) }

// list returns the members that match, by precedence; nil matches all. match must take no lock.
func (r *Registry) list(match func(*member) bool) []runnerapi.Member {
	r.mu.RLock()
	all := r.listLocked(match)
	r.mu.RUnlock()
	sortByPrecedence(all) // outside the lock: sorting is slow, and readers may be many
	return all
}

// listLocked is list in no order. The caller holds mu.
func (r *Registry) listLocked(match func(*member) bool) (all []runnerapi.Member) {
	for _, m := range r.members {
		if match == nil || match(m) {
			all = append(all, m.snapshot(r))
		}
	}
	return all
}

// Runner returns a registered runner.
func (r *Registry) Runner(id string) (runnerapi.Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.members[id]
	if !ok {
		return runnerapi.Member{}, false
	}
	return m.snapshot(r), true
}

// statusOrder lists the statuses by precedence.
var statusOrder = []string{runnerapi.Online, runnerapi.Draining, runnerapi.Left, runnerapi.Stale, runnerapi.Removed}

// sortByPrecedence sorts members by whose definition of an agent counts: online ones first, the oldest registration
// first, then the others, the youngest first.
func sortByPrecedence(all []runnerapi.Member) {
	slices.SortFunc(all, func(a, b runnerapi.Member) int {
		if c := cmp.Compare(slices.Index(statusOrder, a.Status), slices.Index(statusOrder, b.Status)); c != 0 {
			return c
		}
		age := a.RegisteredAt.Compare(b.RegisteredAt)
		if a.Status != runnerapi.Online {
			age = -age
		}
		return cmp.Or(age, cmp.Compare(a.ID, b.ID))
	})
}

// graceEnd returns when the grace of a runner that left ends. Older workers deregister only once and then go on sending
// heartbeats.
func (m *member) graceEnd(grace time.Duration) time.Time {
	from := m.left
	if m.heard.After(from) {
		from = m.heard
	}
	return from.Add(grace)
}

// AgentQueues returns the task queues of the registered runners' own agents.
func (r *Registry) AgentQueues() map[string]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]bool{}
	for _, m := range r.members {
		all[m.agentQueue] = true
	}
	return all
}

// SharedQueues returns the task queues by type, and by type and profile, that registered runners take from.
func (r *Registry) SharedQueues() map[string]runnerapi.RoutingKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]runnerapi.RoutingKey{}
	for _, m := range r.members {
		if m.RequireMatchingTags {
			continue
		}
		for _, w := range []runnerapi.RoutingKey{{Type: m.ExecutorType},
			{Type: m.ExecutorType, Profile: m.ExecutorProfile}} {
			all[w.TaskQueue()] = w
		}
	}
	return all
}

// Satisfied reports whether any registered runner satisfies w, online or not.
func (r *Registry) Satisfied(w runnerapi.RoutingKey) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.members {
		if m.Matches(w) {
			return true
		}
	}
	return false
}

// OnlineMatches returns the ids of the online runners that satisfy w. Perhaps they take no runs now.
func (r *Registry) OnlineMatches(w runnerapi.RoutingKey) (ids []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.members {
		if m.status(r) == runnerapi.Online && m.Matches(w) {
			ids = append(ids, m.id)
		}
	}
	return ids
}
