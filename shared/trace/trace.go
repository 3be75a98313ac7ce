// Package trace reports a run's spans to OpenTelemetry, and is the only package that uses its API. The trace context
// travels as W3C Trace Context (traceparent, tracestate). It is in a caller's headers, in the run's record, in the
// executor's environment, and in the requests of its programs. That holds without a Tracer too, so other traces stay
// complete. Spans are made if there is a Tracer (see package otlp).
//
// Without a caller's traceparent and without a Tracer nothing is changed, allocated or stored.
package trace

import (
	"context"
	"net/http"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/shared/run"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	otel "go.opentelemetry.io/otel/trace"
)

// The headers of W3C Trace Context.
const (
	HeaderParent = "traceparent"
	headerState  = "tracestate"
)

// The attributes of spans. No attribute contains parameters, prompts, results or keys.
const (
	Run     = "ao.run.id"
	Session = "ao.session.id"
	Agent   = "ao.agent.name"
	Profile = "ao.executor.profile"
	Runner  = "ao.runner.id"
	Attempt = "ao.run.attempt"
	Status  = "ao.run.status"
	Outcome = "error.type" // the error code
)

// Kind is a span's kind.
type Kind = otel.SpanKind

// The kinds of spans.
const (
	Internal = otel.SpanKindInternal
	Server   = otel.SpanKindServer   // handles a request
	Client   = otel.SpanKindClient   // sends a request
	Producer = otel.SpanKindProducer // creates work
	Consumer = otel.SpanKindConsumer // does such work
)

// Tracer makes spans. A nil Tracer makes none.
type Tracer struct{ t otel.Tracer }

// scope is the instrumentation scope of our spans.
const scope = "ao"

// New makes a Tracer from an SDK's provider.
func New(p otel.TracerProvider) *Tracer { return &Tracer{p.Tracer(scope)} }

// Start starts a span below that of ctx, which may be another process's; without one it starts a trace. The
// returned context is the span's.
func (t *Tracer) Start(ctx context.Context, kind Kind, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.t.Start(ctx, name, otel.WithSpanKind(kind))
	return ctx, Span{s}
}

// Finished makes a span with given start and end times.
func (t *Tracer) Finished(ctx context.Context, name string, from, to time.Time) FinishedSpan {
	if t == nil {
		return FinishedSpan{}
	}
	if to.Before(from) { // another machine's clock
		from = to
	}
	_, s := t.t.Start(ctx, name, otel.WithTimestamp(from))
	return FinishedSpan{Span{s}, to}
}

// FinishedSpan is a span that ended before it was made.
type FinishedSpan struct {
	Span
	to time.Time
}

// End ends it at its end time.
func (p FinishedSpan) End() {
	if p.s != nil {
		p.s.End(otel.WithTimestamp(p.to))
	}
}

// Start starts a span below that of ctx, if that one was started in this process and is recorded; else there is none.
func Start(ctx context.Context, name string) (context.Context, Span) {
	above := otel.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, Span{}
	}
	ctx, s := above.TracerProvider().Tracer(scope).Start(ctx, name)
	return ctx, Span{s}
}

// Span is a span in progress. Its zero value is none, and ignores everything. A span that is never ended is
// never reported.
type Span struct{ s otel.Span }

// IsRecording reports whether the span is recorded, so that computing its attributes is worthwhile.
func (s Span) IsRecording() bool { return s.s != nil && s.s.IsRecording() }

// Set sets an attribute; an empty value sets none.
func (s Span) Set(key, value string) {
	if s.IsRecording() && value != "" {
		s.s.SetAttributes(attribute.String(key, value))
	}
}

// SetInt sets a number.
func (s Span) SetInt(key string, value int) {
	if s.IsRecording() {
		s.s.SetAttributes(attribute.Int(key, value))
	}
}

// SetRun sets the attributes of a run.
func (s Span) SetRun(r *run.Spec) {
	if s.IsRecording() {
		s.s.SetAttributes(attribute.String(Run, r.ID), attribute.String(Session, r.SessionID),
			attribute.String(Agent, r.Agent))
	}
}

// SetError marks the span as failed, with a code.
func (s Span) SetError(code string) {
	if s.IsRecording() {
		s.s.SetAttributes(attribute.String(Outcome, code))
		s.s.SetStatus(codes.Error, code)
	}
}

// SetFault marks a run's span as failed.
func (s Span) SetFault(why *fault.Fault) {
	if why == nil {
		s.SetError("failed")
		return
	}
	s.SetError(why.Code)
}

// RecordError records an error. A caller's mistake does not mark the span as failed.
func (s Span) RecordError(err error) {
	if err == nil || !s.IsRecording() {
		return
	}
	f := fault.Of(err)
	if s.Set(Outcome, f.Code); f.Kind == fault.Internal || f.Kind == fault.Unavailable {
		s.SetError(f.Code)
	}
}

// AddEvent adds an event at a time.
func (s Span) AddEvent(name string, at time.Time) {
	if s.IsRecording() {
		s.s.AddEvent(name, otel.WithTimestamp(at))
	}
}

// Link links a span that is related and not an ancestor.
func (s Span) Link(t *run.Trace) {
	if s.IsRecording() && t != nil {
		s.s.AddLink(otel.LinkFromContext(ContextWith(context.Background(), t)))
	}
}

// End ends the span now.
func (s Span) End() {
	if s.s != nil {
		s.s.End()
	}
}

var format propagation.TraceContext

// Extract returns ctx with the trace context in a request's headers, if any. An invalid one is ignored.
func Extract(ctx context.Context, header map[string][]string) context.Context {
	parent := values(header, "Traceparent", HeaderParent)
	if len(parent) != 1 {
		return ctx
	}
	return ContextWith(ctx, &run.Trace{Parent: parent[0],
		State: strings.Join(values(header, "Tracestate", headerState), ",")})
}

// values returns the values of a header, spelled as in HTTP or as in NATS.
func values(header map[string][]string, names ...string) []string {
	for _, name := range names {
		if v := header[name]; len(v) > 0 {
			return v
		}
	}
	return nil
}

// ContextWith returns ctx with a stored or received trace context; nil and an invalid one change nothing.
func ContextWith(ctx context.Context, t *run.Trace) context.Context {
	if t == nil {
		return ctx
	}
	return format.Extract(ctx, carrier{t})
}

// FromContext returns the trace context to store or send; nil: none.
func FromContext(ctx context.Context) *run.Trace {
	if !otel.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	var t run.Trace
	format.Inject(ctx, carrier{&t})
	t.State = shorten(t.State)
	return &t
}

// Inject puts ctx's trace context into a request's headers, if it has one.
func Inject(ctx context.Context, h http.Header) { InjectTrace(h, FromContext(ctx)) }

// InjectTrace replaces the trace context in a request's headers; nil changes nothing.
func InjectTrace(h http.Header, t *run.Trace) {
	if t == nil {
		return
	}
	h.Set(HeaderParent, t.Parent)
	h.Del(headerState)
	if t.State != "" {
		h.Set(headerState, t.State)
	}
}

// The specification's limits, in bytes: of a forwarded tracestate, and of the members that are dropped first.
const (
	maxState   = 512
	longMember = 128
)

// shorten cuts a tracestate that is too long, as specified: long members first, then from the end.
func shorten(state string) string {
	if len(state) <= maxState {
		return state
	}
	all := strings.Split(state, ",")
	size := len(state)
	for i := len(all) - 1; i >= 0 && size > maxState; i-- {
		if len(all[i]) > longMember {
			size -= len(all[i]) + 1
			all = append(all[:i], all[i+1:]...)
		}
	}
	for size > maxState {
		last := len(all) - 1
		size -= len(all[last]) + 1
		all = all[:last]
	}
	return strings.Join(all, ",")
}

// carrier adapts a run.Trace to the propagator.
type carrier struct{ t *run.Trace }

func (c carrier) Get(key string) string {
	if key == HeaderParent {
		return c.t.Parent
	}
	return c.t.State
}

func (c carrier) Set(key, value string) {
	if key == HeaderParent {
		c.t.Parent = value
		return
	}
	c.t.State = value
}

func (c carrier) Keys() []string { return []string{HeaderParent, headerState} }
