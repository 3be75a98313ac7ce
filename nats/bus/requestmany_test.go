package bus_test

import (
	"context"
	"testing"
	"time"

	"ao/nats/natstest"
)

// A survey has every answer, and none if nobody listens.
func TestSurvey(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	b := natstest.Open(t, s)
	if got, err := b.RequestMany(t.Context(), "who", 5*time.Second); err != nil || len(got) != 0 {
		t.Errorf("nobody: %q, %v", got, err)
	}
	for _, name := range []string{"a", "b", "c"} {
		ctx, cancel := context.WithCancel(context.Background())
		sub, err := natstest.Open(t, s).Listen("who", "")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			sub.Serve(ctx, func(context.Context, string, []byte) ([]byte, error) { return []byte(name), nil })
		}()
		t.Cleanup(func() { cancel(); <-ended })
	}
	natstest.Until(t, "all three answer", func() bool {
		got, err := b.RequestMany(t.Context(), "who", 500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		return len(got) == 3
	})
}
