package runs

import (
	"context"
	"fmt"

	"ao/coordinator/agents"
	"ao/nats/bus"
	"ao/shared/run"
)

// renewed returns a run with the new definition of its agent, checked as if it came now. Its output schema and number
// of attempts stay as accepted. A runner with the old definition may still claim it, and older coordinators know no
// others.
func (p *Planner) renewed(ctx context.Context, s run.Spec, resolved *agents.Resolved) (run.Spec, error) {
	s, err := p.history.Spec(ctx, s.ID)
	if err != nil {
		return s, bus.WriteUnanswered(err)
	}
	in := run.Input{}
	if s.Input != nil {
		in = *s.Input
	}
	takes, err := resolved.InputSchema(ctx, s.Type, p.embed)
	if err != nil {
		return s, err
	}
	if wrong := takes.CheckUpTo(in.Parameters, p.limits.Payload); len(wrong) > 0 {
		message := fmt.Sprintf("The definition of agent %q changed while this run waited, and the run's parameters "+
			"do not match the new parameters_schema", resolved.Name)
		return s, errParameters(message, resolved.Name, wrong, takes.Raw())
	}
	if err := resolved.CheckParameters(in.Parameters); err != nil { // an older coordinator may have accepted them
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
