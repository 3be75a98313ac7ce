package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fleet"
)

// back is how long a process may be away whose connection was cut (bus.Options), or that has registered and does not listen yet.
const back = 1500 * time.Millisecond

// insistent is command to a process that may be on its way back: that nobody listens is believed when it is so a moment later too, where
// connections were cut, or the runner registered, just now.
func (c *Coordinator) insistent(ctx context.Context, runner string, registered time.Time, cmd fleet.Command) (fleet.CommandReply, error) {
	reply, err := c.command(ctx, runner, cmd)
	if !errors.Is(err, bus.ErrNobody) || min(c.leases.hearing.listening(), time.Since(registered).Abs()) >= 2*back {
		return reply, err
	}
	select {
	case <-ctx.Done():
		return reply, ctx.Err()
	case <-time.After(back):
		return c.command(ctx, runner, cmd)
	}
}

// command asks something of a runner; it answers within a second or counts as silent.
func (c *Coordinator) command(ctx context.Context, runner string, cmd fleet.Command) (fleet.CommandReply, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var reply fleet.CommandReply
	if err := fleet.CheckID(runner); err != nil { // a claim may name anything
		return reply, err
	}
	body, err := json.Marshal(cmd)
	if err != nil {
		return reply, err
	}
	raw, err := c.bus.Request(ctx, subject.CommandsAt(c.fleet.door(runner), runner), body)
	if err != nil {
		return reply, err
	}
	return reply, json.Unmarshal(raw, &reply)
}
