package parts

import (
	"context"
	"sync"
	"testing"
	"time"

	"ao/coordinator/agents"
	"ao/coordinator/control/dispatch"
	"ao/coordinator/sessions"
	"ao/nats/natstest"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestASlowStoreDelaysNoCallback: a waiting run gets its agent's new definition, which reads and writes the object
// store, and that hangs. Callbacks are delivered meanwhile, results checked, stale runners removed, and trees stopped.
func TestASlowStoreDelaysNoCallback(t *testing.T) {
	t.Parallel()
	c := New(Config{Bus: natstest.Bus(t), Log: natstest.Log(t), Lease: time.Hour,
		Patience: runnerapi.Thresholds{Remove: 4 * time.Second}})
	hangs := make(chan struct{})
	c.Dispatch.Fleet = hanging{c.Dispatch.Fleet, hangs}
	launch(t, c)
	f := newFixture(t, c)
	beating(t, c, f.r.ID(), "one")
	parent, top := f.start(""), f.start("")
	f.ends(parent.RunID, results("ok"))
	f.ends(top.RunID, results("ok"))
	child, checked, below := f.child(parent.SessionID), f.start(mustBe), f.child(top.SessionID)
	f.claim(child.RunID)
	f.claim(checked.RunID)
	f.claim(below.RunID)
	expired := register(t, c, elsewhere("silent", echo("b"))).RunnerID

	one := runner("one", echo("a"))
	register(t, c, one)
	bye(t, c, one)
	waits := submit(t, c, `{"agent_name":"a"}`, "").RunID
	after := echo("a")
	after.Command = "./other"
	beating(t, c, register(t, c, runner("two", after)).RunnerID, "two")
	select {
	case <-hangs:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody renews the run")
	}

	f.end(active(t, c, child.RunID, "is begun", isQueued), results("from below"))
	natstest.Until(t, "the parent is called back",
		func() bool { return f.call(child.RunID).Status == run.CallbackDelivered })
	f.report(active(t, c, checked.RunID, "is begun", isQueued), data(`{"n":1}`))
	natstest.Until(t, "the result is checked", func() bool { return c.History.Ended(checked.RunID) })
	natstest.Until(t, "the expired runner is removed", func() bool {
		_, there := c.Registry.Runner(expired)
		return !there
	})
	if _, err := c.StopSession(t.Context(), top.SessionID, sessions.Stop{Tree: true}); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "what is below is to be stopped", func() bool {
		r, err := c.Show(t.Context(), below.RunID)
		return err == nil && r.Status == run.Stopping
	})
	if a, ok := c.History.Active(waits); !ok || a.QueuedSeq != 0 {
		t.Errorf("the store does not hang: %+v", a)
	}
}

// hanging renews no run before its context ends.
type hanging struct {
	dispatch.Fleet
	begun chan struct{}
}

func (h hanging) Renewed(ctx context.Context, s run.Spec, _ *agents.Resolved) (run.Spec, error) {
	close(h.begun) // once: nobody looks at what waits before this is over
	<-ctx.Done()
	return s, ctx.Err()
}

// beating has a runner be heard until the test ends.
func beating(t *testing.T, c *Coordinator, id, instance string) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		every(ctx, 100*time.Millisecond, func(context.Context) { c.Registry.Heard(id, instance) })
	})
}
