package worker

import (
	"ao/shared/fault"
	"ao/shared/fleet"
)

// do does what a command says.
func (w *Worker) do(c fleet.Command) (fleet.CommandReply, error) {
	reply := fleet.CommandReply{Instance: w.me.Instance, Secret: w.me.secret}
	if (c.Type == fleet.CommandLanes || c.Type == fleet.CommandDrain) && c.Instance != w.me.Instance {
		return reply, fault.Newf(fault.Forbidden, "The command %s names another process than this one; the answer to the next heartbeat says it too", c.Type)
	}
	switch c.Type {
	case fleet.CommandPing:
	case fleet.CommandProbe:
		reply.Has = w.attempts.has(c.Key)
	case fleet.CommandStop:
		reply.Has = w.attempts.stop(c.Key)
	case fleet.CommandLanes:
		w.lanes.set(c.Lanes)
	case fleet.CommandDrain:
		w.end.goAway()
	default:
		return reply, fault.Newf(fault.Invalid, "This worker knows no command %q", c.Type)
	}
	return reply, nil
}
