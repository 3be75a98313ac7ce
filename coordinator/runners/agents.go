package runners

import (
	"context"
	"time"

	"ao/coordinator/agents"
	"ao/shared/agent"
	"ao/shared/runnerapi"
)

// RunnerAgents are the agents that runners announced. It is safe for concurrent use.
type RunnerAgents struct {
	Runners *Registry
	Names   *Names
}

// Agent returns a runner-owned agent. Its definition is the newest of those that online runners have, or else of those
// that others had.
func (a *RunnerAgents) Agent(name string) (*agents.Resolved, bool) {
	k, ok := a.Runners.announced()[name]
	return k, ok
}

// Agents returns the definitions of all runner-owned agents by name.
func (a *RunnerAgents) Agents() map[string]agent.Blueprint {
	members := a.Runners.list(nil)
	all := map[string]agent.Blueprint{}
	for name, k := range a.Runners.announced() {
		all[name] = k.WithRunners(serving(members, name, k.OwnerHash()))
	}
	return all
}

// Serving returns how many online runners have this definition of an agent.
func (a *RunnerAgents) Serving(name, hash string) int {
	return serving(a.Runners.list(func(m *member) bool { return m.Serves(name, hash) }), name, hash)
}

func serving(all []runnerapi.Member, name, hash string) (n int) {
	for i := range all {
		if all[i].TakesRuns() && all[i].Serves(name, hash) {
			n++
		}
	}
	return n
}

// Broken lists the agent files that runners could not read, and why.
func (a *RunnerAgents) Broken() (all []agent.BrokenFile) {
	for _, m := range a.Runners.list(func(m *member) bool { return m.LeftAt.IsZero() && len(m.Broken) > 0 }) {
		for _, b := range m.Broken {
			b.RunnerID, b.Status = m.ID, agent.Broken
			all = append(all, b)
		}
	}
	return all
}

// Refresh reads again who owns an agent's name and what that runner announced: another coordinator may just have
// registered it.
func (a *RunnerAgents) Refresh(ctx context.Context, agent string) error {
	owners, _, err := a.Names.owners(ctx)
	if err == nil && owners[agent].Runner != "" {
		_, err = a.Names.Registered.Refresh(ctx, owners[agent].Runner)
	}
	return err
}

// Departure returns when the last runner of an agent left, and until when the agent's name stays reserved. It is false
// while a runner is there, and for agents that no runner owns.
func (a *RunnerAgents) Departure(name string) (left, until time.Time, ok bool) {
	all := a.Runners.list(func(m *member) bool { return m.AgentHashes[name] != "" })
	if len(all) == 0 || all[0].Status != runnerapi.Left {
		return left, until, false
	}
	return all[0].LeftSeenAt, all[0].NamesReservedUntil, !all[0].GraceOver()
}

// ownedBy returns the agents of these runners by name.
func ownedBy(all []runnerapi.Member, owners map[string]owner) map[string]*agents.Resolved {
	type definition struct {
		agent *agent.Blueprint
		by    *runnerapi.Member
	}
	sortByPrecedence(all)
	found := map[string]definition{}
	for i := range all {
		m := &all[i]
		if m.GraceOver() {
			continue
		}
		for j := range m.Agents {
			name := m.Agents[j].Name
			at, ok := found[name]
			if !ok || owners[name].newer(name, m, at.by) {
				found[name] = definition{&m.Agents[j], m}
			}
		}
	}
	owned := make(map[string]*agents.Resolved, len(found))
	for name, d := range found {
		k := agents.Announced(*d.agent, d.by.Runner, d.by.ID, d.by.Status == runnerapi.Online)
		k.Current = owners[name].Hash == "" || owners[name].Hash == k.OwnerHash()
		owned[name] = k
	}
	return owned
}

// announced returns the agents of all runners. The table is never changed, only replaced.
func (r *Registry) announced() map[string]*agents.Resolved {
	r.mu.RLock()
	owned := r.owned
	if cacheExpired(r.cachedAt) {
		owned = nil
	}
	r.mu.RUnlock()
	if owned == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if cacheExpired(r.cachedAt) {
			r.dropCache()
		}
		owned = ownedBy(r.listLocked(nil), r.owners)
		r.owned = owned
	}
	return owned
}
