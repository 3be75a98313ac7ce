package stream_test

import (
	"context"
	"errors"
	"testing"

	"ao/nats/stream"
	"ao/shared/fault"
)

// A cluster refuses a record because of a write in flight, which may be lost: the caller must try again. errors.Is must
// not find the refusal, since callers ask for it first.
func TestAPrematureRefusalIsNotFinal(t *testing.T) {
	none := func(context.Context, string) (stream.Message, error) { return stream.Message{}, stream.ErrNotFound }
	for _, tt := range []struct {
		name      string
		clustered bool
		taken     bool
	}{
		{"one server", false, true},
		{"a cluster", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // nobody waits for a replica that lags
			v := stream.Verifier{Last: none, Clustered: func() bool { return tt.clustered }}
			_, appended := v.Append(ctx, "a", func() (uint64, error) { return 0, stream.ErrTaken },
				func([]byte) bool { return false })
			for what, err := range map[string]error{"append": appended, "confirm": v.ConfirmTaken(ctx, "a")} {
				taken, again := errors.Is(err, stream.ErrTaken), fault.KindOf(err) == fault.Unavailable
				if taken != tt.taken || again == tt.taken || errors.Is(err, stream.ErrNotFound) {
					t.Errorf("%s: got %v (taken %v, again %v)", what, err, taken, again)
				}
			}
		})
	}
}
