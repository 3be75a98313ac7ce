package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/trace"
	"ao/worker/gateway"
	"ao/worker/profile"
)

// host is what an executor is given for the run, and what it is to do, with the variables of the blueprint's MCP servers in place.
// done ends the run's way in; nothing that its programs ask for is under way then.
func (h *hosting) host(ctx context.Context, inv executor.Invocation, ev *events) (host executor.Host, whole executor.Invocation, done func(), err error) {
	t := &told{ev: ev, ctx: ctx}
	host.Kill = ev.a.killed.Done()
	if ev.a.AgentType != run.Procedural { // those are not resumed
		host.State, host.Keep = ev.memory.state, ev.memory.keep
	}
	of := trace.Of(ctx)
	r := gateway.Run{
		Invocation: inv, Trace: of, Tell: t.take, LeftOut: func(bytes int) { ev.leftOut(ctx, bytes) }, State: host.State, Keep: host.Keep, API: h.api, Token: func() string { return runnerapi.SessionToken(inv.RunID, ev.a.Attempt, ev.a.Key) },
	}
	if h.profile.Lifecycle == "persistent" { // its program finds the URL in its environment, and lives on through further runs
		r.Same = inv.SessionID
	}
	door := h.door.Open(r)
	host.Env = profile.Environ(h.env, inv)
	if h.profile.Sandbox.Online() || h.profile.Inside() { // else nobody in there could reach it, and waits for nothing
		inv.APIURL, inv.MCPURL = door.URL, door.URL+"/mcp"
		host.Env = append(host.Env, executor.EnvAPIURL+"="+inv.APIURL, executor.EnvMCPURL+"="+inv.MCPURL)
	}
	if of != nil {
		inv.TraceParent, inv.TraceState = of.Parent, of.State
		host.Env = append(host.Env, executor.EnvTraceParent+"="+of.Parent)
		if of.State != "" {
			host.Env = append(host.Env, executor.EnvTraceState+"="+of.State)
		}
	}
	if inv.Blueprint, err = filled(h.profile, inv, host.Env); err != nil {
		door.Close()
		return host, inv, nil, err
	}
	host.Tell = func(kind string, body json.RawMessage) { ev.emit(ctx, kind, body) }
	host.URL, host.MCP, host.Listen = inv.APIURL, inv.MCPURL, t.listen
	return host, inv, door.Close, nil
}

// told takes what a run's programs tell over the gateway.
type told struct {
	ev  *events
	ctx context.Context // of the run

	mu   sync.Mutex
	hear func(executor.Line) // the executor's, while it listens
}

// listen has the executor hear what is told; see executor.Host.
func (t *told) listen(hear func(executor.Line)) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hear = hear
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hear = nil
	}
}

// take hands a line to the executor that listens. Where none does, events are shown, and what only an executor may say is refused.
func (t *told) take(_ context.Context, l executor.Line) error {
	if l.Type == executor.LineBind {
		if err := t.ev.bond.takes(l.Session); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.hear != nil:
		t.hear(l)
		return nil
	case l.Type != executor.LineEvent:
		return fault.Newf(fault.Conflict, "The executor of this run tells its %s itself; only a program that is the executor may tell it here", l.Type)
	}
	t.ev.emit(t.ctx, l.EventType, bytes.Clone(l.Body))
	return nil
}

// hosting has executors do runs: what each is told and given, how long it may take, and how its end counts.
type hosting struct {
	executor Executor
	profile  profile.Profile
	dir      string           // where runs work unless they say otherwise
	env      []string         // what all runs' programs inherit
	api      func() string    // where the orchestrator's HTTP API is; empty: not known
	door     *gateway.Gateway // opened by Worker.Run
	retries  func()           // called each time a session is asked again
	runner   string           // the runner's id
	log      *slog.Logger

	attempts *attempts
	spans    spans
}
