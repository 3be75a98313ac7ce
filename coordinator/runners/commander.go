package runners

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// reconnectTime is how long a process may be unreachable that reconnects, or that registered and does not listen yet.
const reconnectTime = 1500 * time.Millisecond

// Commander sends commands to runners.
type Commander struct {
	Bus interface {
		Request(ctx context.Context, subj string, body []byte) ([]byte, error)
	}
	Credential func(runner string) string // the part of the runner's subject that only its credential may listen on
	Log        *slog.Logger

	ListeningFor func() time.Duration // how long every message has been received
}

// Command sends a command to a runner. The runner has a second to answer.
func (c *Commander) Command(ctx context.Context, runner string, cmd runnerapi.Command) (runnerapi.CommandReply, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var reply runnerapi.CommandReply
	if err := runnerapi.CheckID(runner); err != nil { // a claim may name anything
		return reply, err
	}
	body, err := strictjson.Encode(cmd)
	if err != nil {
		return reply, err
	}
	raw, err := c.Bus.Request(ctx, subject.CommandsFor(c.Credential(runner), runner), body)
	if err != nil {
		return reply, err
	}
	return reply, json.Unmarshal(raw, &reply)
}

// commandWithRetry is Command for a process that may be reconnecting or registered just now: ErrNoResponders is
// believed only where it repeats.
func (c *Commander) commandWithRetry(ctx context.Context, runner string, registered time.Time,
	cmd runnerapi.Command) (runnerapi.CommandReply, error) {
	reply, err := c.Command(ctx, runner, cmd)
	if !errors.Is(err, bus.ErrNoResponders) || min(c.ListeningFor(), time.Since(registered).Abs()) >= 2*reconnectTime {
		return reply, err
	}
	if !clock.Sleep(ctx, reconnectTime) {
		return reply, ctx.Err()
	}
	return c.Command(ctx, runner, cmd)
}

// SendStop tells an attempt's runner to stop it. If that fails, the lease controller repeats it.
func (c *Commander) SendStop(ctx context.Context, a state.Active) {
	_, err := c.Command(ctx, a.Claim.RunnerID, runnerapi.Command{Type: runnerapi.CommandStop, RunID: a.Spec.ID,
		Key: a.Key})
	if err != nil {
		c.Log.Debug("stop not delivered, retrying soon", "run", a.Spec.ID, "runner", a.Claim.RunnerID, "err", err)
	}
}
