package runners

import (
	"cmp"
	"slices"
	"time"

	"ao/shared/runnerapi"
)

// now is how a member stands. The caller holds mu.
func (m *member) now(r *Registry) runnerapi.Member {
	at := runnerapi.Member{Runner: m.Runner, ID: m.id, Status: m.status(r), Heard: m.heard, Unnamed: m.unnamed,
		Ahead: m.ahead, Ticked: !m.ticked.IsZero(), Size: m.size}
	if !m.LeftAt.IsZero() {
		at.Left, at.Until = m.left, m.until(r.cfg.NoMatch)
	}
	return at
}

// Members are all registered runners, in the order in which they speak for an agent.
func (r *Registry) Members() []runnerapi.Member { return r.list(nil) }

// list gives the members that want says yes to, in the order in which they speak for an agent; nil: all. want must ask
// for no lock.
func (r *Registry) list(want func(*member) bool) []runnerapi.Member {
	r.mu.RLock()
	all := r.listed(want)
	r.mu.RUnlock()
	byAge(all) // readers may be many, and are slower than what has to be written
	return all
}

// listed is list in no order. The caller holds mu.
func (r *Registry) listed(want func(*member) bool) (all []runnerapi.Member) {
	for _, m := range r.members {
		if want == nil || want(m) {
			all = append(all, m.now(r))
		}
	}
	return all
}

// Of is a registered runner.
func (r *Registry) Of(id string) (runnerapi.Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.members[id]
	if !ok {
		return runnerapi.Member{}, false
	}
	return m.now(r), true
}

// voice is the order of statuses in which runners speak for an agent.
var voice = []string{runnerapi.Online, runnerapi.Draining, runnerapi.Left, runnerapi.Stale, runnerapi.Removed}

// byAge puts members into the order in which they speak for an agent: online ones first, the oldest of them first, then
// the others, the youngest first.
func byAge(all []runnerapi.Member) {
	slices.SortFunc(all, func(a, b runnerapi.Member) int {
		if c := cmp.Compare(slices.Index(voice, a.Status), slices.Index(voice, b.Status)); c != 0 {
			return c
		}
		age := a.RegisteredAt.Compare(b.RegisteredAt)
		if a.Status != runnerapi.Online {
			age = -age
		}
		return cmp.Or(age, cmp.Compare(a.ID, b.ID))
	})
}

// until is when the grace of a runner that left is over. One built before farewells were said twice goes on beating
// after its only one.
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
func (r *Registry) Base() map[string]runnerapi.Want {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]runnerapi.Want{}
	for _, m := range r.members {
		if m.RequireMatchingTags {
			continue
		}
		for _, w := range []runnerapi.Want{{Type: m.ExecutorType}, {Type: m.ExecutorType, Profile: m.ExecutorProfile}} {
			all[w.Lane()] = w
		}
	}
	return all
}

// Satisfied tells whether any registered runner satisfies w, online or not.
func (r *Registry) Satisfied(w runnerapi.Want) bool {
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
func (r *Registry) Takers(w runnerapi.Want) (ids []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.members {
		if m.status(r) == runnerapi.Online && m.Satisfies(w) {
			ids = append(ids, m.id)
		}
	}
	return ids
}
