// Package trace is how the way of a run is told to OpenTelemetry, and the one place that knows its API. Whose context it is
// travels as W3C Trace Context (traceparent, tracestate): in a caller's headers, in the run's record, in the executor's
// environment, in the requests that its programs make. That holds whether spans are made here or not, so that others' traces
// stay whole; spans are made where there is a Tracer (package otlp makes one of the environment).
//
// What nobody asked for costs nothing: without a caller's traceparent and without a Tracer no context is changed, nothing is
// allocated and nothing is stored.
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
	HeaderState  = "tracestate"
)

// The attributes of spans. None is ever what a run was given or what it made: no parameters, prompts, results or keys.
const (
	Run     = "ao.run.id"
	Session = "ao.session.id"
	Agent   = "ao.agent.name"
	Profile = "ao.executor.profile"
	Runner  = "ao.runner.id"
	Attempt = "ao.run.attempt"
	Status  = "ao.run.status"
	Outcome = "error.type" // the code of what went wrong
)

// Kind is a span's place between processes.
type Kind = otel.SpanKind

// The kinds of spans.
const (
	Internal = otel.SpanKindInternal
	Server   = otel.SpanKindServer   // answers a request
	Client   = otel.SpanKindClient   // makes one
	Producer = otel.SpanKindProducer // hands work on
	Consumer = otel.SpanKindConsumer // takes it up
)

// Tracer makes spans. Nil makes none.
type Tracer struct{ t otel.Tracer }

// scope is who made the spans, as readers of traces see it.
const scope = "ao"

// New makes a Tracer of an SDK's.
func New(p otel.TracerProvider) *Tracer { return &Tracer{p.Tracer(scope)} }

// Start begins a span below the one of ctx, which may be another process's; below none it is a trace's first. The context that it
// gives is the span's.
func (t *Tracer) Start(ctx context.Context, kind Kind, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.t.Start(ctx, name, otel.WithSpanKind(kind))
	return ctx, Span{s}
}

// Finished makes a span of two times that are known already.
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

// End ends it when it did.
func (p FinishedSpan) End() {
	if p.s != nil {
		p.s.End(otel.WithTimestamp(p.to))
	}
}

// Start begins a span below the one of ctx, if that one was begun in this process and is kept; else there is none.
func Start(ctx context.Context, name string) (context.Context, Span) {
	above := otel.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, Span{}
	}
	ctx, s := above.TracerProvider().Tracer(scope).Start(ctx, name)
	return ctx, Span{s}
}

// Span is a span under way; its zero value is none, and takes everything. One that is never ended is never told of.
type Span struct{ s otel.Span }

// IsRecording tells whether the span is kept: whether it is worth working out what to say of it.
func (s Span) IsRecording() bool { return s.s != nil && s.s.IsRecording() }

// Set sets an attribute; an empty value sets none.
func (s Span) Set(key, value string) {
	if s.IsRecording() && value != "" {
		s.s.SetAttributes(attribute.String(key, value))
	}
}

// SetInt likewise.
func (s Span) SetInt(key string, value int) {
	if s.IsRecording() {
		s.s.SetAttributes(attribute.Int(key, value))
	}
}

// SetRun sets whose span it is.
func (s Span) SetRun(r *run.Spec) {
	if s.IsRecording() {
		s.s.SetAttributes(attribute.String(Run, r.ID), attribute.String(Session, r.SessionID), attribute.String(Agent, r.Agent))
	}
}

// SetError says that what the span stands for went wrong, by a code.
func (s Span) SetError(code string) {
	if s.IsRecording() {
		s.s.SetAttributes(attribute.String(Outcome, code))
		s.s.SetStatus(codes.Error, code)
	}
}

// SetFault says why a run failed.
func (s Span) SetFault(why *fault.Fault) {
	if why == nil {
		s.SetError("failed")
		return
	}
	s.SetError(why.Code)
}

// RecordError notes how it went. What a caller is to mend is no failure of ours.
func (s Span) RecordError(err error) {
	if err == nil || !s.IsRecording() {
		return
	}
	f := fault.Of(err)
	if s.Set(Outcome, f.Code); f.Kind == fault.Internal || f.Kind == fault.Unavailable {
		s.SetError(f.Code)
	}
}

// AddEvent notes that something happened at a time.
func (s Span) AddEvent(name string, at time.Time) {
	if s.IsRecording() {
		s.s.AddEvent(name, otel.WithTimestamp(at))
	}
}

// Link names a span that this one has to do with and is not below.
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

// Extract is ctx with the trace context that a request's headers bring, if any. What the specification calls invalid is ignored.
func Extract(ctx context.Context, header map[string][]string) context.Context {
	parent := values(header, "Traceparent", HeaderParent)
	if len(parent) != 1 {
		return ctx
	}
	return ContextWith(ctx, &run.Trace{Parent: parent[0], State: strings.Join(values(header, "Tracestate", HeaderState), ",")})
}

// values are a header's as HTTP spells its name, else as NATS does.
func values(header map[string][]string, names ...string) []string {
	for _, name := range names {
		if v := header[name]; len(v) > 0 {
			return v
		}
	}
	return nil
}

// ContextWith is ctx below a context that was stored or sent; nil and an invalid one change nothing.
func ContextWith(ctx context.Context, t *run.Trace) context.Context {
	if t == nil {
		return ctx
	}
	return format.Extract(ctx, carrier{t})
}

// FromContext is the context to be stored or sent on; nil: there is none.
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

// InjectTrace puts a trace context into a request's headers, instead of what is there; nil changes nothing.
func InjectTrace(h http.Header, t *run.Trace) {
	if t == nil {
		return
	}
	h.Set(HeaderParent, t.Parent)
	h.Del(HeaderState)
	if t.State != "" {
		h.Set(HeaderState, t.State)
	}
}

// maxState is how long a tracestate may be that is handed on, and longMember which of its members go first, in bytes: the
// specification's own figures.
const (
	maxState   = 512
	longMember = 128
)

// shorten cuts a tracestate that is too long, as the specification says: long members first, then from the end.
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

// carrier is a run.Trace as the propagator reads and writes it.
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

func (c carrier) Keys() []string { return []string{HeaderParent, HeaderState} }
