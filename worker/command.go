package worker

import (
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// command does what a coordinator's command says.
func (w *Worker) command(c runnerapi.Command) (runnerapi.CommandReply, error) {
	reply := runnerapi.CommandReply{Instance: w.client.Instance, Secret: w.client.secret}
	if (c.Type == runnerapi.CommandTaskQueues || c.Type == runnerapi.CommandDrain) && c.Instance != w.client.Instance {
		return reply,
			fault.Newf(fault.Forbidden,
				"command %s is for another process of this runner; the reply to the next heartbeat tells this one",
				c.Type)
	}
	switch c.Type {
	case runnerapi.CommandPing:
	case runnerapi.CommandProbe:
		reply.Has = w.attempts.has(c.Key)
	case runnerapi.CommandStop:
		reply.Has = w.attempts.stop(c.Key)
	case runnerapi.CommandTaskQueues:
		w.queues.set(c.TaskQueues)
	case runnerapi.CommandDrain:
		w.shutdown.requestDrain()
	default:
		return reply, fault.Newf(fault.Invalid, "unknown command %q", c.Type)
	}
	return reply, nil
}
