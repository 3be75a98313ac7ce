package runners_test

import (
	"testing"
	"time"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/shared/fault"
)

// A missing agent may come back if its runner left less than RUN_NO_MATCH_TIMEOUT ago. While this process is young, any
// missing agent may. No other error is temporary.
func TestMissingAgentsThatMayReturn(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	id := coordinatortest.Register(t, c, coordinatortest.Runner("one", coordinatortest.Echo("back"))).RunnerID
	if err := c.Deregistrar.Remove(t.Context(), id, "one"); err != nil { // it sent no heartbeats for long
		t.Fatal(err)
	}
	may := func(agent string) bool {
		_, err := c.Submit(t.Context(), []byte(`{"agent_name":"`+agent+`"}`), "test", "")
		return c.Registry.Departed.Temporary(err)
	}
	natstest.Until(t, "its agent is gone", func() bool { return may("back") })
	if !may("back") || !may("other") ||
		c.Registry.Departed.Temporary(fault.New(fault.NotFound, "", "There is no session").
			With("agent_name", "back")) ||
		c.Registry.Departed.Temporary(nil) {
		t.Error("just begun")
	}
	ago := func(since time.Duration) {
		c.Registry.Departed.SetStart(time.Now().Add(-2*c.NoMatch), "back", time.Now().Add(-since))
	}
	if ago(c.NoMatch / 2); !may("back") || may("other") {
		t.Error("its runner left a while ago")
	}
	// its bucket may say so once more
	natstest.Until(t, "its runner left long ago", func() bool { ago(2 * c.NoMatch); return !may("back") })
}
