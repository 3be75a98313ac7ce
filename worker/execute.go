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
	"ao/worker/process"
)

// timeout is the cause of an attempt's end: its limit, and who set it.
type timeout struct {
	limit time.Duration
	by    string // request, agent, profile or default
	what  string // Command or Run
}

func (t timeout) Error() string {
	return t.what + " timed out after " + procedural.FormatLimit(t.limit)
}

// Is makes errors.Is(t, context.DeadlineExceeded) true.
func (t timeout) Is(err error) bool { return err == context.DeadlineExceeded }

// limitOf returns the run's time limit: its own, or the profile's (in seconds) where that is shorter.
func limitOf(a *attempt, profile int) timeout {
	t := timeout{time.Duration(a.Timeout) * time.Second, cmp.Or(a.TimeoutBy, "default"), "Run"}
	if a.AgentType == run.Procedural {
		t.what = "Command"
	}
	if t.limit <= 0 {
		t.limit, t.by = run.DefaultTimeout(a.AgentType), "default"
	}
	if p := time.Duration(profile) * time.Second; p > 0 && p < t.limit {
		t.limit, t.by = p, "profile"
	}
	return t
}

func (h *supervisor) execute(a *attempt, ev *events) run.Outcome {
	if a.inputErr != nil {
		return run.Outcome{Status: run.Failed, Error: a.inputErr}
	}
	if a.ctx.Err() != nil { // stopped before it started
		return h.interruptedOutcome(context.Cause(a.ctx), run.Outcome{})
	}
	if f := h.profile.CheckModel(a.Blueprint); f != nil {
		return run.Outcome{Status: run.Failed, Error: f}
	}
	inv, err := h.invocation(a)
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "input_unreadable",
			"the run's input cannot be given to its executor: "+fault.Of(err).Message)}
	}
	traced, span := trace.Start(a.ctx, "execute")
	h.spans.describe(span, a)
	defer span.End()
	limit := limitOf(a, h.profile.TimeoutSeconds)
	ctx, cancel := context.WithTimeoutCause(traced, limit.limit, limit)
	defer cancel()
	h.attempts.markStarted(a)
	h.log.Debug("run starts", "run", a)
	o := h.runSafely(ctx, inv, ev)
	h.attempts.markFinished(a)
	o = h.resolve(o, context.Cause(ctx), ev)
	recordOutcome(span, o)
	return o
}

// resolve returns the outcome that counts. Whatever came first wins: the executor's own end, or the reason it was
// ended (why).
func (h *supervisor) resolve(o run.Outcome, why error, ev *events) run.Outcome {
	_, late := errors.AsType[timeout](why)
	switch {
	case why != nil && o.Status == run.Stopped, late && o.Error != nil && o.Error.Code == procedural.CodeTimeout:
		return h.interruptedOutcome(why, o)
	case o.Status == run.Stopped:
		o.Status, o.Error = run.Failed, fault.New(fault.Internal, "executor_stopped",
			"the executor stopped without being asked to")
	case o.Status == run.Failed && o.Error == nil:
		o.Error = fault.New(fault.Internal, "executor_failed", "the executor failed without a reason")
	case o.Status == run.Completed:
		o.Error = nil
		if no := ev.oversizedFault(); no != nil && empty(o.Result) {
			o.Status, o.Error = run.Failed, no
		}
	case o.Status != run.Failed:
		o = crashed(fmt.Sprintf("the executor returned the unknown status %q", o.Status))
	}
	return o
}

func empty(r *run.Result) bool {
	return r == nil || r.Text == nil && (len(r.Data) == 0 || string(r.Data) == "null")
}

// runSafely runs the executor; a panic in it fails the run, not the worker.
func (h *supervisor) runSafely(ctx context.Context, inv executor.Invocation, ev *events) (o run.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("an executor panicked", "run", ev.attempt, "panic", p, "stack", string(debug.Stack()))
			o = crashed("the executor crashed; the worker's log has the details")
		}
	}()
	host, inv, done, err := h.prepare(ctx, inv, ev)
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
	}
	defer done()
	return h.withOutputSchema(ev.attempt).Run(ctx, inv, host)
}

func crashed(what string) run.Outcome {
	return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "executor_crashed",
		"the run failed inside the worker: "+what)}
}

// interruptedOutcome returns the outcome of an executor that was ended for a reason. It keeps a result the executor
// had by then, and the end of its program's stderr.
func (h *supervisor) interruptedOutcome(why error, o run.Outcome) run.Outcome {
	end := run.Outcome{Status: run.Failed, Result: o.Result}
	late, ok := errors.AsType[timeout](why)
	switch {
	case ok:
		end.Error = fault.New(fault.Internal, procedural.CodeTimeout, late.Error()).
			With("timeout_seconds", late.limit.Seconds()).With("timeout_by", late.by)
	case errors.Is(why, errStopped):
		end.Status, end.Error = run.Stopped, fault.New(fault.Internal, "stopped", "Stopped while it ran")
	default:
		end.Error = fault.New(fault.Internal, run.CodeDisconnected, "Runner disconnected during execution").
			With("runner_id", h.runner).With("detail", why.Error())
	}
	if o.Error != nil {
		if text, ok := o.Error.Text(process.StderrTail); ok {
			end.Error.With(process.StderrTail, text)
		}
	}
	return end
}

// withOutputSchema returns the executor, wrapped to enforce the run's output schema where it has one.
func (h *supervisor) withOutputSchema(a *attempt) Executor {
	if a.Output == nil {
		return h.executor
	}
	return enforce.Enforcer{Executor: h.executor, Output: *a.Output, AgentType: a.AgentType,
		SystemPrompts: h.profile.TakesSystemPrompts(), OnRetry: h.onSchemaRetry}
}

// invocation returns what the executor is given. The error is about the prompt or the blueprint.
func (h *supervisor) invocation(a *attempt) (executor.Invocation, error) {
	mode := executor.Start
	if a.Type == run.Resume {
		mode = executor.Resume
	}
	inv := executor.Invocation{
		SchemaVersion: executor.Version, Mode: mode, SessionID: a.SessionID, RunID: a.ID, Attempt: a.Attempt,
		Parameters: a.Parameters, ProjectDir: cmp.Or(a.ProjectDir, h.projectDir), AgentName: a.Agent,
		AgentHash: a.Owner, Blueprint: a.Blueprint, Config: h.profile.Config, PreviousRunID: a.PreviousRunID,
	}
	if !runnerapi.IsStatePointer(a.ExecutorSessionID) { // a kept state is read through the Host
		inv.ExecutorSession = a.ExecutorSessionID
	}
	var err error
	if a.AgentType == run.Autonomous {
		inv.Prompt, err = prompt.Text(a.Blueprint, mode, a.Parameters)
	}
	return inv, err
}
