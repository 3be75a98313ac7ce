package worker

import (
	"cmp"
	"context"
	"time"

	"ao/shared/run"
	"ao/shared/trace"
)

// spans makes the trace spans of this runner's attempts.
type spans struct {
	*trace.Tracer
	runner, profile string
}

// describe sets the attributes of an attempt's span.
func (s spans) describe(span trace.Span, a *attempt) {
	if !span.IsRecording() {
		return
	}
	span.SetRun(&a.Spec)
	span.SetInt(trace.Attempt, a.Attempt)
	span.Set(trace.Runner, s.runner)
	span.Set(trace.Profile, s.profile)
}

// recordWait records how long the attempt waited for its claim: since the run was accepted, or since a further
// attempt was queued.
func (s spans) recordWait(a *attempt, queued time.Time) {
	if s.describe(a.span, a); !a.span.IsRecording() {
		return
	}
	from := a.CreatedAt
	if a.Attempt > 1 || from.IsZero() {
		from = queued
	}
	ctx := a.ctx // without a caller's trace the attempt is the first span
	if a.Trace != nil {
		ctx = trace.ContextWith(context.Background(), a.Trace)
	}
	past := s.Finished(ctx, "queue", from, time.Now())
	s.describe(past.Span, a)
	past.AddEvent("queued", queued)
	past.End()
}

// recordOutcome sets an attempt's status and error code on a span, and none of its content.
func recordOutcome(span trace.Span, o run.Outcome) {
	if !span.IsRecording() {
		return
	}
	span.Set(trace.Status, string(o.Status))
	if o.Status == run.Failed {
		span.SetError(cmp.Or(codeOf(o.Error), "failed"))
	}
}
