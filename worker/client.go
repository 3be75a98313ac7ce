package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

type client struct {
	runnerapi.Runner
	id     string
	secret string // known to this process and coordinators only
	bus    *bus.Bus
	log    *slog.Logger

	commands *bus.Endpoint // opened by the first registration
}

// register sends one registration. It ignores cancellation: an unread reply would leave a registered runner behind.
func (m *client) register(me runnerapi.Runner) (r runnerapi.Registered, err error) {
	ask, err := strictjson.Encode(runnerapi.Registration{Runner: me, Secret: m.secret})
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	at := subject.RunnerAPI(runnerapi.OpRegister)
	if m.bus.CredentialID() != "" { // NATS permissions say who may register as what
		at = subject.Register(m.ExecutorType, m.ExecutorProfile)
	}
	answer, err := m.bus.Request(ctx, at, ask)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fault.Wrap(fault.Internal, "", "the coordinator's reply to the registration is unreadable", err)
	}
	if r.RunnerID != m.id {
		return r,
			fault.Newf(fault.Invalid,
				"the coordinator computed the runner id %s, this worker %s: their versions differ", r.RunnerID, m.id)
	}
	if m.commands == nil { // before it takes runs, so that each can be stopped; not before it is the runner
		m.commands, err = m.bus.Listen(subject.CommandsFor(m.bus.CredentialID(), m.id), "")
	}
	return r, err
}

// logRegisterError logs why a registration failed.
func (m *client) logRegisterError(err error) {
	switch f := fault.Of(err); {
	case errors.Is(err, bus.ErrNoResponders):
		m.log.Warn("waiting for a coordinator: none answers on this NATS; start one with `coordinator`, `scripts/up` " +
			"or `docker compose up`")
	case f.Kind == fault.Conflict:
		m.log.Warn("registration refused, retrying", "reason", f.Code, "message", f.Message)
	default:
		m.log.Warn("registration failed, retrying", "err", err)
	}
}

func (m *client) heartbeat(ctx context.Context, b runnerapi.Heartbeat) (r runnerapi.HeartbeatReply, err error) {
	b.RunnerID, b.Instance, b.Secret, b.At = m.id, m.Instance, m.secret, time.Now().UTC()
	ask, err := strictjson.Encode(b)
	if err != nil {
		return r, err
	}
	answer, err := m.bus.Request(ctx, subject.Heartbeats(m.id), ask)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(answer, &r)
}

// deregister tells coordinators that the runner shuts down. finishing: it still has runs, and another process may
// take its place. No registration may follow.
func (m *client) deregister(dead context.Context, finishing bool) {
	ask, err := strictjson.Encode(runnerapi.Deregistration{RunnerID: m.id, Instance: m.Instance, Secret: m.secret,
		Finishing: finishing})
	if err != nil {
		return
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(dead, 2*time.Second)
		_, err = m.bus.Request(ctx, subject.RunnerAPI(runnerapi.OpDeregister), ask)
		cancel()
		if err == nil || dead.Err() != nil || errors.Is(err, bus.ErrNoResponders) ||
			fault.KindOf(err) == fault.Forbidden {
			break
		}
		clock.Sleep(dead, 200*time.Millisecond)
	}
	if err != nil {
		m.log.Warn("not deregistered; the coordinator will expire the runner", "err", err)
	}
}

// serveCommands answers coordinators' commands until ctx ends.
func (m *client) serveCommands(ctx context.Context, do func(runnerapi.Command) (runnerapi.CommandReply, error)) {
	m.commands.Serve(ctx, func(_ context.Context, _ string, body []byte) ([]byte, error) {
		var c runnerapi.Command
		if err := json.Unmarshal(body, &c); err != nil {
			return nil, fault.Wrap(fault.Invalid, "", "the command is unreadable", err)
		}
		reply, err := do(c)
		if err != nil {
			return nil, err
		}
		return strictjson.Encode(reply)
	})
}

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
