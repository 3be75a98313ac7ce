package worker

import (
	"context"
	"encoding/json"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
)

// serveCommands answers coordinators until ctx ends.
func (w *Worker) serveCommands(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.bus.Serve(ctx, subject.CommandsAt(w.bus.Door(), w.id), "", func(_ context.Context, _ string, body []byte) ([]byte, error) {
			var c fleet.Command
			if err := json.Unmarshal(body, &c); err != nil {
				return nil, fault.Wrap(fault.Invalid, "", "The command is not readable", err)
			}
			reply, err := w.do(c)
			if err != nil {
				return nil, err
			}
			return json.Marshal(reply)
		})
		if ctx.Err() == nil {
			w.log.Warn("commands are not heard, trying again", "err", err)
			wait(ctx, time.Second)
		}
	}
}

// do does what a command says.
func (w *Worker) do(c fleet.Command) (fleet.CommandReply, error) {
	reply := fleet.CommandReply{Instance: w.me.Instance}
	if (c.Type == fleet.CommandLanes || c.Type == fleet.CommandDrain) && c.Instance != w.me.Instance {
		return reply, fault.Newf(fault.Forbidden, "The command %s names another process than this one; the answer to the next heartbeat says it too", c.Type)
	}
	switch c.Type {
	case fleet.CommandPing:
	case fleet.CommandProbe:
		reply.Has = w.has(c.Key)
	case fleet.CommandStop:
		reply.Has = w.stop(c.Key)
	case fleet.CommandLanes:
		w.lanes.set(c.Lanes)
	case fleet.CommandDrain:
		w.goAway()
	default:
		return reply, fault.Newf(fault.Invalid, "This worker knows no command %q", c.Type)
	}
	return reply, nil
}
