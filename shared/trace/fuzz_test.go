package trace

import (
	"context"
	"regexp"
	"testing"
)

var parentForm = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// FuzzArrived: whatever a caller's headers say, what is handed on is nothing, or a trace context as the specification has it.
func FuzzArrived(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1,b=2")
	f.Add("00-00000000000000000000000000000000-0000000000000000-00", "")
	f.Add("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", "a=1\r\nX: y")
	f.Add("", "=,,=")
	f.Fuzz(func(t *testing.T, parent, state string) {
		got := Of(Arrived(context.Background(), map[string][]string{"Traceparent": {parent}, "Tracestate": {state}}))
		if got == nil {
			return
		}
		if !parentForm.MatchString(got.Parent) || len(got.State) > maxState || regexp.MustCompile(`[^\x20-\x7e]`).MatchString(got.State) {
			t.Errorf("%q and %q are handed on as %+v", parent, state, *got)
		}
		if again := Of(With(context.Background(), got)); again == nil || *again != *got {
			t.Errorf("%+v is handed on as %+v", *got, again)
		}
	})
}
