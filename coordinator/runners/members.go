package runners

import (
	"cmp"
	"slices"
	"time"

	"ao/shared/runnerapi"
)

// snapshot is how a member stands. The caller holds mu.
func (m *member) snapshot(r *Registry) runnerapi.Member {
	at := runnerapi.Member{Runner: m.Runner, ID: m.id, Status: m.status(r), LastHeartbeat: m.heard, CredentialUnknown: m.unnamed,
		ClockOffset: m.clockAhead, ClockKnown: !m.clockSeen.IsZero(), RegistrationBytes: m.size}
	if !m.LeftAt.IsZero() {
		at.LeftSeenAt, at.NamesReservedUntil = m.left, m.graceEnd(r.cfg.NoMatch)
	}
	return at
}

// Members are all registered runners, in the order in which they speak for an agent.
func (r *Registry) Members() []runnerapi.Member { return r.list(nil) }

// list gives the members that want says yes to, in the order in which they speak for an agent; nil: all. want must ask
// for no lock.
func (r *Registry) list(match func(*member) bool) []runnerapi.Member {
	r.mu.RLock()
	all := r.listLocked(match)
	r.mu.RUnlock()
	sortByPrecedence(all) // readers may be many, and are slower than what has to be written
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

// Runner is a registered runner.
func (r *Registry) Runner(id string) (runnerapi.Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.members[id]
	if !ok {
		return runnerapi.Member{}, false
	}
	return m.snapshot(r), true
}

// statusOrder is the order of statuses in which runners speak for an agent.
var statusOrder = []string{runnerapi.Online, runnerapi.Draining, runnerapi.Left, runnerapi.Stale, runnerapi.Removed}

// sortByPrecedence puts members into the order in which they speak for an agent: online ones first, the oldest of them first, then
// the others, the youngest first.
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

// graceEnd is when the grace of a runner that left is over. One built before farewells were said twice goes on beating
// after its only one.
func (m *member) graceEnd(grace time.Duration) time.Time {
	from := m.left
	if m.heard.After(from) {
		from = m.heard
	}
	return from.Add(grace)
}

// AgentQueues are the queues of registered runners' own agents.
func (r *Registry) AgentQueues() map[string]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]bool{}
	for _, m := range r.members {
		all[m.agentQueue] = true
	}
	return all
}

// SharedQueues are the queues of type and profile alone that registered runners take from.
func (r *Registry) SharedQueues() map[string]runnerapi.RoutingKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]runnerapi.RoutingKey{}
	for _, m := range r.members {
		if m.RequireMatchingTags {
			continue
		}
		for _, w := range []runnerapi.RoutingKey{{Type: m.ExecutorType}, {Type: m.ExecutorType, Profile: m.ExecutorProfile}} {
			all[w.TaskQueue()] = w
		}
	}
	return all
}

// Satisfied tells whether any registered runner satisfies w, online or not.
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

// OnlineMatches are the online runners that satisfy w.
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
