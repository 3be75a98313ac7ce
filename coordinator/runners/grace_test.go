package runners_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// The grace period reserves a name against other profiles. It ends with time, when the same host, folder and profile
// registers without the name, or when the runner is deleted.
func TestEndOfAGracePeriod(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(*testing.T, *parts.Coordinator, runnerapi.Runner){
		"time": func(t *testing.T, c *parts.Coordinator, one runnerapi.Runner) {
			long := time.Now().Add(-c.NoMatch)
			natstest.Until(t, "it is over", func() bool {
				c.Registry.SetLastHeard(one.ID(), long)
				impatient(t, c)
				_, rev, err := c.Registrar.Registered.Load(t.Context(), one.ID())
				return err == nil && rev == 0
			})
		},
		"the same without the name": func(t *testing.T, c *parts.Coordinator, _ runnerapi.Runner) {
			coordinatortest.Register(t, c, coordinatortest.Runner("two", coordinatortest.Echo("b")))
		},
		"a deletion": func(t *testing.T, c *parts.Coordinator, one runnerapi.Runner) {
			if err := c.Drain(t.Context(), one.ID()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, one := deregistered(t, parts.Config{Lease: time.Second})
			_, err := c.Register(t.Context(), stranger("s", coordinatortest.Echo("a")))
			coordinatortest.WantCode(t, err, "agent_name_collision")
			coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "")
			ends(t, c, one)
			if _, err := c.Submit(t.Context(), []byte(`{"agent_name":"a"}`), "test",
				""); fault.KindOf(err) != fault.NotFound {
				t.Errorf("a run afterwards: %v", err)
			}
			// a name younger than 5 s is held for whom it was claimed for
			natstest.Until(t, "another profile has the name", func() bool {
				_, err := c.Register(t.Context(), stranger("s", coordinatortest.Echo("a")))
				return err == nil
			})
			coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "")
		})
	}
}

// A bucket's watch may bring a registration after this process has removed it. It does not come back.
func TestARemovedRunnerDoesNotComeBack(t *testing.T) {
	t.Parallel()
	c, one := deregistered(t, parts.Config{})
	value, rev, err := c.Registry.Bucket().Get(t.Context(), one.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Drain(t.Context(), one.ID()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.Registry.Put(one.ID(), value, rev) // the watch is late
		if _, ok := c.Registry.Runner(one.ID()); ok {
			t.Error("the removed runner is registered again")
		}
		if _, _, err := c.Registrar.Registered.Load(t.Context(), one.ID()); err != nil { // finds nothing
			t.Fatal(err)
		}
	}
	for i := range 100 { // a stranger asks for runners that there are not
		if _, _, err := c.Registrar.Registered.Load(t.Context(), fmt.Sprintf("rnr_%024x", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Registry.Tombstones(); n != 1 {
		t.Errorf("%d removals are remembered, want 1", n)
	}
	coordinatortest.Register(t, c, coordinatortest.Runner("two", coordinatortest.Echo("a"))) // the same identity
	if m, ok := c.Registry.Runner(one.ID()); !ok || m.Instance != "two" {
		t.Errorf("after it has registered again: %v, instance %q", ok, m.Instance)
	}
}

// Another profile may take a name, with the same definition, as soon as the grace period is over. The later removal of
// the runner that left takes nothing from it.
func TestANameOfAnotherProfileOutlivesTheOldRunner(t *testing.T) {
	t.Parallel()
	c, one := deregistered(t, parts.Config{})
	// its bucket may say once more that it is there, or has left just now
	natstest.Until(t, "another profile has the name", func() bool {
		c.Registry.SetLastHeard(one.ID(), time.Now().Add(-2*c.NoMatch))
		_, err := c.Register(t.Context(), stranger("s", coordinatortest.Echo("a")))
		return err == nil
	})
	if err := c.Deregistrar.Remove(t.Context(), one.ID(), ""); err != nil {
		t.Fatal(err)
	}
	third := coordinatortest.Runner("third", numbered("a"))
	third.ExecutorProfile = "third"
	_, err := c.Register(t.Context(), third)
	coordinatortest.WantCode(t, err, "agent_name_collision")
}

// numbered is an agent that wants a number.
func numbered(name string) agent.Blueprint {
	b := coordinatortest.Echo(name)
	b.ParametersSchema = json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
	return b
}

// stranger is another profile.
func stranger(instance string, agents ...agent.Blueprint) runnerapi.Runner {
	r := coordinatortest.Runner(instance, agents...)
	r.ExecutorProfile = "other"
	return r
}

// deregistered returns a coordinator whose only runner, with agent a, has deregistered.
func deregistered(t testing.TB, cfg parts.Config) (*parts.Coordinator, runnerapi.Runner) {
	t.Helper()
	c := coordinatortest.Start(t, natstest.Bus(t), cfg)
	one := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, one)
	bye(t, c, one)
	return c, one
}

// bye deregisters a runner's process.
func bye(t testing.TB, c *parts.Coordinator, r runnerapi.Runner) {
	t.Helper()
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: r.ID(), Instance: r.Instance}); err != nil {
		t.Fatal(err)
	}
}
