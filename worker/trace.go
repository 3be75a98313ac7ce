package worker

import (
	"context"
	"time"

	"ao/nats/bus"
	"ao/shared/run"
	"ao/shared/trace"
)

// traced puts what is done for an attempt into the run's trace, and begins the attempt's span where spans are made.
func (w *Worker) traced(ctx context.Context, q *run.Queued) (context.Context, trace.Span) {
	return w.Trace.Begin(trace.With(ctx, q.Trace), trace.Consumer, "attempt")
}

// of says whose a span is.
func (w *Worker) of(span trace.Span, a *attempt) {
	if !span.On() {
		return
	}
	span.Of(&a.Spec)
	span.SetInt(trace.Attempt, a.Attempt)
	span.Set(trace.Runner, w.id)
	span.Set(trace.Profile, w.Profile.Name)
}

// waited makes the span of how long the attempt waited for its claim: since it was accepted; a further attempt since it was queued.
func (w *Worker) waited(a *attempt, d bus.Delivery) {
	if w.of(a.span, a); !a.span.On() {
		return
	}
	from := a.CreatedAt
	if a.Attempt > 1 || from.IsZero() {
		from = d.Time
	}
	ctx := a.ctx // with nobody's trace the attempt is its first span
	if a.Trace != nil {
		ctx = trace.With(context.Background(), a.Trace)
	}
	s := w.Trace.Past(ctx, "queue", from, time.Now())
	w.of(s.Span, a)
	s.Point("queued", d.Time)
	s.End()
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
