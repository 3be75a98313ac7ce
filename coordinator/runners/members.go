package runners

import (
	"cmp"
	"slices"
	"time"

	"ao/shared/fleet"
)

// now is how a member stands. The caller holds mu.
func (m *member) now(r *Registry) fleet.Member {
	at := fleet.Member{Runner: m.Runner, ID: m.id, Status: m.status(r), Heard: m.heard, Unnamed: m.unnamed, Ahead: m.ahead, Ticked: !m.ticked.IsZero(), Size: m.size}
	if !m.LeftAt.IsZero() {
		at.Left, at.Until = m.left, m.until(r.cfg.NoMatch)
	}
	return at
}

// Members are all registered runners, in the order in which they speak for an agent.
func (r *Registry) Members() []fleet.Member { return r.list(nil) }

// list gives the members that want says yes to, in the order in which they speak for an agent; nil: all. want must ask for no lock.
func (r *Registry) list(want func(*member) bool) []fleet.Member {
	r.mu.RLock()
	all := r.listed(want)
	r.mu.RUnlock()
	byAge(all) // readers may be many, and are slower than what has to be written
	return all
}

// listed is list in no order. The caller holds mu.
func (r *Registry) listed(want func(*member) bool) (all []fleet.Member) {
	for _, m := range r.members {
		if want == nil || want(m) {
			all = append(all, m.now(r))
		}
	}
	return all
}

// Of is a registered runner.
func (r *Registry) Of(id string) (fleet.Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.members[id]
	if !ok {
		return fleet.Member{}, false
	}
	return m.now(r), true
}

// voice is the order of statuses in which runners speak for an agent.
var voice = []string{fleet.Online, fleet.Draining, fleet.Left, fleet.Stale, fleet.Removed}

// byAge puts members into the order in which they speak for an agent: online ones first, the oldest of them first, then the others, the
// youngest first.
func byAge(all []fleet.Member) {
	slices.SortFunc(all, func(a, b fleet.Member) int {
		if c := cmp.Compare(slices.Index(voice, a.Status), slices.Index(voice, b.Status)); c != 0 {
			return c
		}
		age := a.RegisteredAt.Compare(b.RegisteredAt)
		if a.Status != fleet.Online {
			age = -age
		}
		return cmp.Or(age, cmp.Compare(a.ID, b.ID))
	})
}

// until is when the grace of a runner that left is over. One built before farewells were said twice goes on beating after its only one.
func (m *member) until(grace time.Duration) time.Time {
	from := m.left
	if m.heard.After(from) {
		from = m.heard
	}
	return from.Add(grace)
}

// Own are the queues of registered runners' own agents.
func (r *Registry) Own() map[string]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]bool{}
	for _, m := range r.members {
		all[m.own] = true
	}
	return all
}

// Base are the queues of type and profile alone that registered runners take from.
func (r *Registry) Base() map[string]fleet.Want {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]fleet.Want{}
	for _, m := range r.members {
		if m.RequireMatchingTags {
			continue
		}
		for _, w := range []fleet.Want{{Type: m.ExecutorType}, {Type: m.ExecutorType, Profile: m.ExecutorProfile}} {
			all[w.Lane()] = w
		}
	}
	return all
}

// Satisfied tells whether any registered runner satisfies w, online or not.
func (r *Registry) Satisfied(w fleet.Want) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.members {
		if m.Satisfies(w) {
			return true
		}
	}
	return false
}

// Takers are the online runners that satisfy w.
func (r *Registry) Takers(w fleet.Want) (ids []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.members {
		if m.status(r) == fleet.Online && m.Satisfies(w) {
			ids = append(ids, m.id)
		}
	}
	return ids
}
