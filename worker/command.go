package worker

import (
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// do does what a command says.
func (w *Worker) do(c runnerapi.Command) (runnerapi.CommandReply, error) {
	reply := runnerapi.CommandReply{Instance: w.me.Instance, Secret: w.me.secret}
	if (c.Type == runnerapi.CommandLanes || c.Type == runnerapi.CommandDrain) && c.Instance != w.me.Instance {
		return reply, fault.Newf(fault.Forbidden, "The command %s names another process than this one; the answer to the next heartbeat says it too", c.Type)
	}
	switch c.Type {
	case runnerapi.CommandPing:
	case runnerapi.CommandProbe:
		reply.Has = w.attempts.has(c.Key)
	case runnerapi.CommandStop:
		reply.Has = w.attempts.stop(c.Key)
	case runnerapi.CommandLanes:
		w.lanes.set(c.Lanes)
	case runnerapi.CommandDrain:
		w.end.goAway()
	default:
		return reply, fault.Newf(fault.Invalid, "This worker knows no command %q", c.Type)
	}
	return reply, nil
}
