package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/trace"
	"ao/worker/enforce"
	"ao/worker/procedural"
)

// defaultTimeout is the limit where nobody set one.
var defaultTimeout = map[string]time.Duration{run.Procedural: 5 * time.Minute, run.Autonomous: time.Hour}

// timeout is the cause of an attempt's end: its limit, and who set it.
type timeout struct {
	limit time.Duration
	by    string // request, agent, profile or default
	what  string // Command or Run: what took too long
}

func (t timeout) Error() string { return t.what + " timed out after " + spell(t.limit) }

// Is makes it a deadline for executors.
func (t timeout) Is(err error) bool { return err == context.DeadlineExceeded }

// spell says a limit as a person would: 5 minutes, 90 seconds, 1 hour.
func spell(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d < u.unit || d%u.unit != 0 {
			continue
		}
		if d == u.unit {
			return "1 " + u.name
		}
		return fmt.Sprintf("%d %ss", d/u.unit, u.name)
	}
	return d.String()
}

// limitOf is the run's time limit: its own, or its profile's, in seconds, where that is shorter.
func limitOf(a *attempt, profile int) timeout {
	t := timeout{time.Duration(a.Timeout) * time.Second, cmp.Or(a.TimeoutBy, "default"), "Run"}
	if a.AgentType == run.Procedural {
		t.what = "Command"
	}
	if t.limit <= 0 {
		t.limit, t.by = cmp.Or(defaultTimeout[a.AgentType], time.Hour), "default"
	}
	if p := time.Duration(profile) * time.Second; p > 0 && p < t.limit {
		t.limit, t.by = p, "profile"
	}
	return t
}

// execute has the executor do the run and says how it went.
func (h *hosting) execute(a *attempt, ev *events) run.Outcome {
	if a.unread != nil {
		return run.Outcome{Status: run.Failed, Error: a.unread}
	}
	if a.ctx.Err() != nil { // stopped before it began
		return h.cutOff(context.Cause(a.ctx), run.Outcome{})
	}
	if f := h.profile.Permit(a.Blueprint); f != nil {
		return run.Outcome{Status: run.Failed, Error: f}
	}
	inv, err := h.invocation(a)
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "input_unreadable", "The run's input cannot be given to its executor: "+fault.Of(err).Message)}
	}
	traced, span := trace.Begin(a.ctx, "execute")
	h.spans.of(span, a)
	defer span.End()
	limit := limitOf(a, h.profile.TimeoutSeconds)
	ctx, cancel := context.WithTimeoutCause(traced, limit.limit, limit)
	defer cancel()
	h.attempts.start(a)
	h.log.Debug("run begins", "run", a)
	o := h.guarded(ctx, inv, ev)
	h.attempts.done(a)
	o = h.judge(o, context.Cause(ctx), ev)
	came(span, o)
	return o
}

// judge makes an end that counts of the executor's. What came first does: the executor's own end, or what ended it, which is why.
func (h *hosting) judge(o run.Outcome, why error, ev *events) run.Outcome {
	_, late := errors.AsType[timeout](why)
	switch {
	case why != nil && o.Status == run.Stopped, late && o.Error != nil && o.Error.Code == procedural.CodeTimeout:
		return h.cutOff(why, o)
	case o.Status == run.Stopped:
		o.Status, o.Error = run.Failed, fault.New(fault.Internal, "executor_stopped", "The executor stopped by itself")
	case o.Status == run.Failed && o.Error == nil:
		o.Error = fault.New(fault.Internal, "executor_failed", "The executor failed and did not say why")
	case o.Status == run.Completed:
		o.Error = nil
		if no := ev.unsaid(); no != nil && empty(o.Result) {
			o.Status, o.Error = run.Failed, no
		}
	case o.Status != run.Failed:
		o = crashed(fmt.Sprintf("the executor ended without an end (%q)", o.Status))
	}
	return o
}

// empty tells whether a result says nothing.
func empty(r *run.Result) bool {
	return r == nil || r.Text == nil && (len(r.Data) == 0 || string(r.Data) == "null")
}

// guarded runs the executor; a panic in it is the run's failure, not the worker's.
func (h *hosting) guarded(ctx context.Context, inv executor.Invocation, ev *events) (o run.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("an executor panicked", "run", ev.a, "panic", p, "stack", string(debug.Stack()))
			o = crashed("the executor crashed; the worker's log has the details")
		}
	}()
	host, inv, done, err := h.host(ctx, inv, ev)
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
	}
	defer done()
	return h.held(ev.a).Run(ctx, inv, host)
}

func crashed(what string) run.Outcome {
	return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "executor_crashed", "The run failed inside the worker: "+what)}
}

// cutOff is the outcome of an executor that was ended, by the reason; what it had come to by then is kept.
func (h *hosting) cutOff(why error, o run.Outcome) run.Outcome {
	if t, ok := errors.AsType[timeout](why); ok {
		f := fault.New(fault.Internal, procedural.CodeTimeout, t.Error()).With("timeout_seconds", t.limit.Seconds()).With("timeout_by", t.by)
		return run.Outcome{Status: run.Failed, Error: f, Result: o.Result}
	}
	if errors.Is(why, errStopped) {
		return run.Outcome{Status: run.Stopped, Error: fault.New(fault.Internal, "stopped", "Stopped while it ran"), Result: o.Result}
	}
	f := fault.New(fault.Internal, run.CodeDisconnected, "Runner disconnected during execution").With("runner_id", h.runner).With("detail", why.Error())
	return run.Outcome{Status: run.Failed, Error: f, Result: o.Result}
}

// held is the executor, held to the run's output schema where it has one.
func (h *hosting) held(a *attempt) Executor {
	if a.Output == nil {
		return h.executor
	}
	return enforce.Enforcer{Executor: h.executor, Output: *a.Output, AgentType: a.AgentType, SystemPrompts: h.profile.TakesSystemPrompts(), Asked: h.retries}
}

// invocation is what the executor is told (protocol 2.2). The error is about what the model is to be told, or the blueprint.
func (h *hosting) invocation(a *attempt) (executor.Invocation, error) {
	mode := executor.Start
	if a.Type == run.Resume {
		mode = executor.Resume
	}
	inv := executor.Invocation{
		SchemaVersion: executor.Version, Mode: mode, SessionID: a.SessionID, RunID: a.ID, Attempt: a.Attempt, Parameters: a.Parameters,
		ProjectDir: cmp.Or(a.ProjectDir, h.dir), AgentName: a.Agent, Blueprint: a.Blueprint, Config: h.profile.Config, ExecutorSession: modelOf(a.Model), After: a.After,
	}
	var err error
	if a.AgentType == run.Autonomous {
		inv.Prompt, err = prompt.Text(a.Blueprint, mode, a.Parameters)
	}
	return inv, err
}

// modelOf is what an executor is told that an earlier run bound: a kept state is none of its sessions, and read by another way.
func modelOf(bound string) string {
	if runnerapi.IsStatePointer(bound) {
		return ""
	}
	return bound
}
