package coordinator

import (
	"errors"
	"slices"

	"ao/coordinator/agents"
	"ao/shared/fault"
)

// MayCome tells whether a refusal may be over without anybody's doing: there is no such agent, and a runner that had it left no longer ago
// than a run would wait for it (RUN_NO_MATCH_TIMEOUT), or this process began then, and may have begun before its runners were back.
func (c *Coordinator) MayCome(err error) bool {
	if !errors.Is(err, agents.ErrNone) {
		return false
	}
	return c.fleet.departed.young() || slices.ContainsFunc(fault.Of(err).Fields, func(f fault.Field) bool {
		name, _ := f.Value.(string)
		return f.Name == "agent_name" && c.fleet.departed.had(name)
	})
}
