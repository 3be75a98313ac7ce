package worker

import (
	"context"
	"time"

	"ao/shared/run"
	"ao/shared/trace"
)

// spans makes those of this runner's attempts.
type spans struct {
	*trace.Tracer
	runner, profile string
}

// begin puts what is done for an attempt into the run's trace, and begins the attempt's span where spans are made.
func (s spans) begin(ctx context.Context, q *run.Queued) (context.Context, trace.Span) {
	return s.Tracer.Begin(trace.With(ctx, q.Trace), trace.Consumer, "attempt")
}

// of says whose a span is.
func (s spans) of(span trace.Span, a *attempt) {
	if !span.On() {
		return
	}
	span.Of(&a.Spec)
	span.SetInt(trace.Attempt, a.Attempt)
	span.Set(trace.Runner, s.runner)
	span.Set(trace.Profile, s.profile)
}

// waited makes the span of how long the attempt waited for its claim: since it was accepted; a further attempt since it was queued.
func (s spans) waited(a *attempt, queued time.Time) {
	if s.of(a.span, a); !a.span.On() {
		return
	}
	from := a.CreatedAt
	if a.Attempt > 1 || from.IsZero() {
		from = queued
	}
	ctx := a.ctx // with nobody's trace the attempt is its first span
	if a.Trace != nil {
		ctx = trace.With(context.Background(), a.Trace)
	}
	past := s.Past(ctx, "queue", from, time.Now())
	s.of(past.Span, a)
	past.Point("queued", queued)
	past.End()
}

// told ends the attempt's span.
func (a *attempt) told(o run.Outcome) {
	came(a.span, o)
	a.span.End()
}

// came says on a span how an attempt went: its status and its error's code, nothing of what it came to.
func came(span trace.Span, o run.Outcome) {
	if !span.On() {
		return
	}
	span.Set(trace.Status, string(o.Status))
	if o.Status == run.Failed {
		code := "failed"
		if o.Error != nil {
			code = o.Error.Code
		}
		span.Fail(code)
	}
}
