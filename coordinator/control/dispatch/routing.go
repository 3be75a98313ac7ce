package dispatch

import (
	"ao/coordinator/agents"
	"ao/coordinator/projection"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// A runner-owned agent may come back with another definition while runs of it wait (decision 0032). Those that nobody has begun go on with
// the new one where they fit it.

// Want is what a run wants now: the owner of its agent may be another runner than when it was accepted, and where nobody is online who has
// the definition that it was accepted with, another definition counts that the same profile has now.
func (c *Controller) Want(a projection.Active) runnerapi.RoutingKey {
	if k, changed := c.successor(a); changed {
		return k.RoutingKey(k.MergedDemands(c.demands(a.Spec)))
	}
	return c.exactly(a.Spec)
}

// exactly is what a run wants with the definition that it was accepted with.
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

// successor is the definition with which a run that nobody has begun is to go on: that of an online runner of the same profile, where
// none is online that has the run's.
func (c *Controller) successor(a projection.Active) (k *agents.Resolved, ok bool) {
	s := a.Spec
	if s.Owner == "" || a.Claim != nil || a.AttemptNumber() != 1 {
		return k, false
	}
	k, ok = c.Fleet.Find(s.Agent)
	changed := ok && k.Online && k.OwnerHash() != s.Owner && k.Profile == s.Demands.ExecutorProfile
	return k, changed && !c.Fleet.Matches(c.exactly(s))
}
