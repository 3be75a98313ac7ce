package coordinator

import (
	"context"

	"ao/coordinator/journal"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/trace"
)

// went notes on a span how it went. What a caller is to mend is no failure of ours.
func went(s trace.Span, err error) {
	if err == nil || !s.On() {
		return
	}
	f := fault.Of(err)
	if s.Set(trace.Outcome, f.Code); f.Kind == fault.Internal || f.Kind == fault.Unavailable {
		s.Fail(f.Code)
	}
}

// codeOf is why a run failed.
func codeOf(f *fault.Fault) string {
	if f == nil {
		return "failed"
	}
	return f.Code
}

// mostLinks is how many children a callback's span names.
const mostLinks = 32

// handOn has a callback's turn go on with the trace of the session's last run. Its span names the children's; it is to be ended once
// the turn is accepted.
func (c *Coordinator) handOn(ctx context.Context, turn *run.Spec, children []journal.Child) trace.Span {
	if c.Trace == nil {
		return trace.Span{}
	}
	below, span := c.Trace.Begin(trace.With(context.Background(), turn.Trace), trace.Producer, "callback")
	turn.Trace = trace.Of(below)
	span.Of(turn)
	if span.On() {
		for _, child := range children[:min(len(children), mostLinks)] {
			if of, err := c.Journal.Spec(ctx, child.RunID); err == nil {
				span.Link(of.Trace)
			}
		}
	}
	return span
}
