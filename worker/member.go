package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// member is this runner as coordinators know it, and what it says to them.
type member struct {
	runnerapi.Runner
	id     string
	secret string // of this process: coordinators know it, and nobody else
	bus    *bus.Bus
	log    *slog.Logger

	commands *bus.Endpoint // opened by the first registration
}

// register asks once. It does not stop in the middle: an answer that nobody waits for would leave a runner behind.
func (m *member) register() (r runnerapi.Registered, err error) {
	ask, err := json.Marshal(runnerapi.Registration{Runner: m.Runner, Secret: m.secret})
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	at := subject.RunnerAPI(runnerapi.OpRegister)
	if m.bus.CredentialID() != "" { // who may register as what is a question of permissions
		at = subject.Register(m.ExecutorType, m.ExecutorProfile)
	}
	answer, err := m.bus.Request(ctx, at, ask)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fault.Wrap(fault.Internal, "", "The coordinator's answer to the registration cannot be read", err)
	}
	if r.RunnerID != m.id {
		return r, fault.Newf(fault.Invalid, "The coordinator calls this runner %s, not %s: they are of different versions", r.RunnerID, m.id)
	}
	if m.commands == nil { // before it takes runs, so that each can be stopped and asked after; not before it is the runner
		m.commands, err = m.bus.Listen(subject.CommandsFor(m.bus.CredentialID(), m.id), "")
	}
	return r, err
}

// sayWhy logs why a registration failed.
func (m *member) sayWhy(err error) {
	switch f := fault.Of(err); {
	case errors.Is(err, bus.ErrNoResponders):
		m.log.Warn("waiting for a coordinator: none answers on this NATS; start one with `coordinator`, `scripts/up` or `docker compose up`")
	case f.Kind == fault.Conflict:
		m.log.Warn("registration refused, trying again", "reason", f.Code, "message", f.Message)
	default:
		m.log.Warn("not registered, trying again", "err", err)
	}
}

// beat says that the runner is alive, and gives the answer.
func (m *member) beat(ctx context.Context, b runnerapi.Beat) (r runnerapi.BeatReply, err error) {
	b.RunnerID, b.Instance, b.Secret, b.At = m.id, m.Instance, m.secret, time.Now().UTC()
	ask, err := json.Marshal(b)
	if err != nil {
		return r, err
	}
	answer, err := m.bus.Request(ctx, subject.Heartbeats(m.id), ask)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(answer, &r)
}

// farewell says that the worker finishes what it has and another process may be this runner, or that it goes. Nothing registers
// any more.
func (m *member) farewell(dead context.Context, finishing bool) {
	ask, err := json.Marshal(runnerapi.Farewell{RunnerID: m.id, Instance: m.Instance, Secret: m.secret, Finishing: finishing})
	if err != nil {
		return
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(dead, 2*time.Second)
		_, err = m.bus.Request(ctx, subject.RunnerAPI(runnerapi.OpDeregister), ask)
		cancel()
		if err == nil || dead.Err() != nil || errors.Is(err, bus.ErrNoResponders) || fault.KindOf(err) == fault.Forbidden {
			break
		}
		wait(dead, 200*time.Millisecond)
	}
	if err != nil {
		m.log.Warn("not deregistered; the coordinator will notice by itself", "err", err)
	}
}

// serve answers coordinators' commands until ctx ends.
func (m *member) serve(ctx context.Context, do func(runnerapi.Command) (runnerapi.CommandReply, error)) {
	m.commands.Serve(ctx, func(_ context.Context, _ string, body []byte) ([]byte, error) {
		var c runnerapi.Command
		if err := json.Unmarshal(body, &c); err != nil {
			return nil, fault.Wrap(fault.Invalid, "", "The command is not readable", err)
		}
		reply, err := do(c)
		if err != nil {
			return nil, err
		}
		return json.Marshal(reply)
	})
}

// wait waits for d or the end of ctx, and says whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
