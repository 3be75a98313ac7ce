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

// prepare returns the executor's Host and its invocation, with the variables in the blueprint's MCP servers replaced.
// done closes the run's gateway URL and waits for its requests.
func (h *supervisor) prepare(ctx context.Context, inv executor.Invocation,
	ev *events) (host executor.Host, whole executor.Invocation, done func(), err error) {
	t := &lineRouter{ev: ev, ctx: ctx}
	host.Kill = ev.attempt.killed
	if ev.attempt.AgentType != run.Procedural { // procedural runs are not resumed
		host.LoadState, host.SaveState = ev.state.get, ev.state.keep
	}
	of := trace.FromContext(ctx)
	r := gateway.Run{
		Invocation: inv, Trace: of, OnLine: t.route, OnOversized: func(bytes int) {
			ev.dropOversized(ctx, bytes)
		}, State: host.LoadState, Keep: host.SaveState, API: h.apiURL, Token: func() string {
			return runnerapi.SessionToken(inv.RunID, ev.attempt.Attempt, ev.attempt.Key)
		},
	}
	if h.profile.Lifecycle == "persistent" { // its program has the URL in its environment and outlives the run
		r.URLKey = inv.SessionID
	}
	door := h.gateway.Open(r)
	host.Env = profile.RunEnv(h.env, inv)
	if h.profile.Sandbox.HasNetwork() || h.profile.OwnExecutor() { // without a network the URL is unreachable
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
	inv.Blueprint, err = withVariables(h.profile, inv, host.Env)
	if err != nil {
		door.Close()
		return host, inv, nil, err
	}
	host.Emit = func(kind string, body json.RawMessage) { ev.emit(ctx, kind, body) }
	host.URL, host.MCP, host.Listen = inv.APIURL, inv.MCPURL, t.listen
	return host, inv, door.Close, nil
}

// lineRouter routes the protocol lines that a run's programs send to the gateway.
type lineRouter struct {
	ev  *events
	ctx context.Context // of the run

	mu       sync.Mutex
	listener func(executor.Line) // the executor's listener, if any
}

// listen routes lines to the executor; see executor.Host.
func (t *lineRouter) listen(listener func(executor.Line)) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listener = listener
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.listener = nil
	}
}

// route hands a line to the listening executor. Without one, it emits events and refuses what only an executor may
// send.
func (t *lineRouter) route(_ context.Context, l executor.Line) error {
	if l.Type == executor.LineBind {
		if err := t.ev.binding.check(l.Session); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.listener != nil:
		t.listener(l)
		return nil
	case l.Type != executor.LineEvent:
		return fault.Newf(fault.Conflict,
			"only the executor program may send the line %q here; this run's executor sends its own", l.Type)
	}
	t.ev.emit(t.ctx, l.EventType, bytes.Clone(l.Body))
	return nil
}

// supervisor runs executors: it prepares their input, limits their time and resolves their outcome.
type supervisor struct {
	executor      Executor
	profile       profile.Profile
	projectDir    string           // where runs work that name no folder
	env           []string         // environment that all runs' programs inherit
	apiURL        func() string    // URL of the HTTP API; empty: unknown
	gateway       *gateway.Gateway // set by Worker.Run
	onSchemaRetry func()           // called for each retry for an output schema
	runner        string           // runner id
	log           *slog.Logger

	attempts *attempts
	spans    spans
}
