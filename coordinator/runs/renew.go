package runs

import (
	"context"
	"fmt"

	"ao/coordinator/agents"
	"ao/nats/bus"
	"ao/shared/agent"
	"ao/shared/run"
)

// renewed is a run with another definition of its agent, checked against that as if it came now; a fault says why it
// does not fit. What decides its end stays as it was accepted, its output schema and how often it may be begun: a
// runner that still has the definition of before may take it from its first queue, and coordinators of before know no
// other.
func (p *Planner) renewed(ctx context.Context, s run.Spec, resolved *agents.Resolved) (run.Spec, error) {
	s, err := p.history.Spec(ctx, s.ID)
	if err != nil {
		return s, bus.WriteUnanswered(err)
	}
	in := run.Input{}
	if s.Input != nil {
		in = *s.Input
	}
	takes, err := resolved.InputSchema(s.Type)
	if err != nil {
		return s, agent.InvalidSchema("parameters_schema", err)
	}
	if wrong := takes.CheckUpTo(in.Parameters, p.limits.Payload); len(wrong) > 0 {
		message := fmt.Sprintf("Agent %q was given another definition while this run waited, and the run's "+
			"parameters do "+
			"not match its new parameters_schema", resolved.Name)
		return s, errParameters(message, resolved.Name, wrong, takes.Raw())
	}
	if err := resolved.Takes(in.Parameters); err != nil { // a coordinator of before may have accepted them
		return s, err
	}
	var asked run.Request
	if s.TimeoutBy == "request" {
		asked.TimeoutSeconds = &s.Timeout
	}
	s.Timeout, s.TimeoutBy = timeout(&asked, resolved)
	in.Blueprint, err = resolved.Snapshot()
	if err != nil {
		return s, err
	}
	s.AgentType, s.Owner, s.Demands = resolved.Type, resolved.OwnerHash(), resolved.MergedDemands(s.Demands)
	s.Input, s.Body = &in, nil
	return s, p.TooLarge(&in)
}
