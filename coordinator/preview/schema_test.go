package preview

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
)

// TestCheckEndsWithItsCaller: the work ends when the caller hangs up.
func TestCheckEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	asGiven := func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) { return raw, nil }
	got, err := (&Previewer{Embed: asGiven}).Schema(ctx, []byte(`{"schema":{"required":["n"]},"answer":"{} {}"}`))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", got, err)
	}
}
