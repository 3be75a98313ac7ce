package coordinator

import (
	"context"
	"fmt"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/journal"
	"ao/shared/agent"
	"ao/shared/fleet"
	"ao/shared/run"
)

// A runner-owned agent may come back with another definition while runs of it wait (decision 0032). Those that nobody has begun go on with
// the new one where they fit it.

// want is what a run wants now: the owner of its agent may be another runner than when it was accepted, and where nobody is online who has
// the definition that it was accepted with, another definition counts that the same profile has now.
func (t *turns) want(a journal.Active) fleet.Want {
	if k, changed := t.successor(a); changed {
		return k.Want(k.Demanded(t.demands(a.Spec)))
	}
	return t.exactly(a.Spec)
}

// exactly is what a run wants with the definition that it was accepted with.
func (t *turns) exactly(s *run.Spec) fleet.Want {
	var set map[string]string
	if s.Owner != "" {
		set = map[string]string{s.Agent: s.Owner}
		if k, ok := t.agent(s.Agent); ok && k.OwnerHash() == s.Owner {
			set = k.Owners
		}
	}
	return fleet.WantOf(s.AgentType, t.demands(s), set)
}

// successor is the definition with which a run that nobody has begun is to go on: that of an online runner of the same profile, where
// none is online that has the run's.
func (t *turns) successor(a journal.Active) (k agents.Resolved, ok bool) {
	s := a.Spec
	if s.Owner == "" || a.Claim != nil || a.Next() != 1 {
		return k, false
	}
	k, ok = t.agent(s.Agent)
	changed := ok && k.Online && k.OwnerHash() != s.Owner && k.Profile == s.Demands.ExecutorProfile
	return k, changed && !t.runners.Matches(t.exactly(s))
}

// renewed is a run with another definition of its agent, checked against that as if it came now; a fault says why it does not fit. What
// decides its end stays as it was accepted, its output schema and how often it may be begun: a runner that still has the definition
// of before may take it from its first queue, and coordinators of before know no other.
func (p *planner) renewed(ctx context.Context, s run.Spec, k agents.Resolved) (run.Spec, error) {
	s, err := p.history.Spec(ctx, s.ID)
	if err != nil {
		return s, unavailable(err)
	}
	in := run.Input{}
	if s.Input != nil {
		in = *s.Input
	}
	takes, err := k.InputSchema(s.Type)
	if err != nil {
		return s, agent.InvalidSchema("parameters_schema", err)
	}
	if wrong := takes.CheckUpTo(in.Parameters, p.limits.payload); len(wrong) > 0 {
		say := fmt.Sprintf("Agent %q was given another definition while this run waited, and the run's parameters do not match its new parameters_schema", k.Name)
		return s, unfit(say, k.Name, wrong, takes.Raw())
	}
	if err := k.Takes(in.Parameters); err != nil { // a coordinator of before may have accepted them
		return s, err
	}
	var asked run.Request
	if s.TimeoutBy == "request" {
		asked.TimeoutSeconds = &s.Timeout
	}
	s.Timeout, s.TimeoutBy = timeout(asked, k)
	if in.Blueprint, err = k.Snapshot(); err != nil {
		return s, err
	}
	s.AgentType, s.Owner, s.Demands = k.Type, k.OwnerHash(), k.Demanded(s.Demands)
	s.Input, s.Body = &in, nil
	return s, p.tooLarge(&in)
}

// parted says of a run that waits for its agent's runners that they have all left; nothing where they have not.
func (c *Coordinator) parted(s *run.Spec) string {
	if s.Owner == "" {
		return ""
	}
	left, until, ok := c.announced.Parting(s.Agent)
	if !ok {
		return ""
	}
	now := time.Now()
	return fmt.Sprintf(" (the last runner of agent %q left %s ago; new runs of it are accepted for another %s)", s.Agent, span(now.Sub(left)), span(until.Sub(now)))
}
