package dispatch

import (
	"ao/coordinator/agents"
	"ao/coordinator/projection/state"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// A runner-owned agent may come back with another definition while runs of it wait (decision 0032). Unclaimed runs
// continue with the new definition where they fit it.

// Want returns what a run demands of a runner now. The owner of its agent may have changed since it was accepted. If
// nobody is online with the definition it was accepted with, the same profile's current definition counts.
func (c *Controller) Want(a state.Active) runnerapi.RoutingKey {
	if k, changed := c.successor(a); changed {
		return k.RoutingKey(k.MergedDemands(c.demands(a.Spec)))
	}
	return c.exactly(a.Spec)
}

// exactly returns what a run demands with the definition it was accepted with.
func (c *Controller) exactly(s *run.Spec) runnerapi.RoutingKey {
	var set map[string]string
	if s.Owner != "" {
		set = map[string]string{s.Agent: s.Owner}
		if k, ok := c.Fleet.Find(s.Agent); ok && k.OwnerHash() == s.Owner {
			set = k.Owners
		}
	}
	return runnerapi.NewRoutingKey(s.AgentType, c.demands(s), set)
}

// successor returns the definition with which an unclaimed run continues if no runner with its own is online. It is the
// newest of the online runners of its profile. A run never continues with an older definition than its own.
func (c *Controller) successor(a state.Active) (k *agents.Resolved, ok bool) {
	s := a.Spec
	if s.Owner == "" || a.Claim != nil || a.AttemptNumber() != 1 {
		return k, false
	}
	k, ok = c.Fleet.Find(s.Agent)
	changed := ok && k.Online && k.Current && k.OwnerHash() != s.Owner && k.Profile == s.Demands.ExecutorProfile
	return k, changed && !c.Fleet.Matches(c.exactly(s))
}
