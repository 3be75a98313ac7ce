package parts

import (
	"testing"

	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestATokenWhileHistoryIsRead: a coordinator that does not know its runs at the moment refuses no token as expired.
func TestATokenWhileHistoryIsRead(t *testing.T) {
	t.Parallel()
	c := New(Config{Bus: natstest.Bus(t)})
	c.started.Store(true)
	id := run.NewID()
	if _, err := c.SessionOf(t.Context(), runnerapi.SessionToken(id, 1, c.keys.Of(id, 1))); fault.KindOf(
		err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
}
