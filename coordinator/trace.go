package coordinator

import (
	"ao/shared/fault"
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
