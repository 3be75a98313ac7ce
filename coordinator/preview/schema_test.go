package preview

import (
	"context"
	"errors"
	"testing"
)

// TestCheckEndsWithItsCaller: the work ends when the caller hangs up.
func TestCheckEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := (&Previewer{}).Schema(ctx, []byte(`{"schema":{"required":["n"]},"answer":"{} {}"}`))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", got, err)
	}
}
