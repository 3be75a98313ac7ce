package runners_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/runners"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// A profile may have as many runners as places are free. A registered runner keeps its place, and other profiles find
// one.
func TestAProfileHasItsShareOfRunners(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{MaxRunners: 8})
	made := 0
	for i := range 8 {
		r := coordinatortest.Runner("one")
		r.Hostname = fmt.Sprint("host", i)
		_, err := c.Register(t.Context(), r)
		switch {
		case err == nil:
			made++
		case fault.KindOf(err) != fault.Busy || !strings.Contains(err.Error(), "procedural.procedural") ||
			!strings.Contains(err.Error(), "AO_MAX_RUNNERS") || fault.Of(err).RetryAfter == 0:
			t.Fatalf("the refusal says %v", err)
		}
	}
	if made != 4 {
		t.Errorf("%d runners of one profile in 8 places", made)
	}
	other := coordinatortest.Runner("one", coordinatortest.Echo("b"))
	other.ExecutorProfile = "other"
	coordinatortest.Register(t, c, other)
	other.Hostname = "there"
	coordinatortest.Register(t, c, other)
	again := coordinatortest.Runner("one")
	again.Hostname = "host0"
	coordinatortest.Register(t, c, again) // though its profile could have no other now
}

// Registrations of a profile hold no more than is free, in bytes.
func TestAProfileHasItsShareOfBytes(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	c.Registry.Fill(coordinatortest.Runner("one"), "rnr_large", runners.RegistryBytes/2-100)
	if err := c.Registrar.Admit("rnr_large", coordinatortest.Runner("two").Identity,
		runners.RegistryBytes/2-100); err != nil {
		t.Errorf("it takes its own place: %v", err)
	}
	more := coordinatortest.Runner("one")
	more.Tags = []string{strings.Repeat("x", 1000)}
	if _, err := c.Register(t.Context(), more); fault.KindOf(err) != fault.Busy ||
		!strings.Contains(err.Error(), "bytes") {
		t.Errorf("got %v", err)
	}
	more.ExecutorProfile = "other"
	coordinatortest.Register(t, c, more)
}

// A profile's agents have as much of the table of names as is free. Who is registered keeps its names; those that no
// runner announces any more make room.
func TestAProfileHasItsShareOfNames(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	host := func(profile string, i int) runnerapi.Runner {
		var agents []agent.Blueprint
		for n := range runners.MaxAgents {
			agents = append(agents,
				coordinatortest.Echo(fmt.Sprintf("%s-%d-%d%s", profile, i, n, strings.Repeat("x", 40))))
		}
		r := coordinatortest.Runner("one", agents...)
		r.ExecutorProfile, r.Hostname = profile, fmt.Sprint("host", i)
		return r
	}
	made := 0
	for ; made < 10; made++ {
		_, err := c.Register(t.Context(), host("greedy", made))
		if err == nil {
			continue
		}
		if fault.KindOf(err) != fault.Busy || !strings.Contains(err.Error(), "procedural.greedy") ||
			!strings.Contains(err.Error(), "names") || fault.Of(err).RetryAfter == 0 {
			t.Errorf("the refusal says %v", err)
		}
		break
	}
	if made == 0 || made == 10 {
		t.Fatalf("%d runners with 1000 agents each", made)
	}
	coordinatortest.Register(t, c, host("honest", 0))
	coordinatortest.Register(t, c, host("greedy", 0)) // who is there keeps its place

	other := host("greedy", 0)
	for i := range other.Agents {
		other.Agents[i].Name = "G" + other.Agents[i].Name[1:]
	}
	coordinatortest.Register(t, c, other) // its own names of before make room

	last := host("greedy", made-1)
	if err := c.Deregistrar.Remove(t.Context(), last.ID(), last.Instance); err != nil {
		t.Fatal(err)
	}
	// as if its end had freed none of them
	err := c.Registrar.Names.Change(t.Context(), func(owners map[string]runners.Owner) (bool, error) {
		for _, a := range last.Agents {
			owners[a.Name] = runners.Owner{Hash: a.Hash(), Type: run.Procedural, Profile: "greedy", Runner: last.ID()}
		}
		for name, o := range owners {
			o.At = time.Now().Add(-time.Hour)
			owners[name] = o
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	coordinatortest.Register(t, c, host("greedy", made))
	owners, _, err := c.Registrar.Names.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, kept := owners[host("honest", 0).Agents[0].Name]; !kept {
		t.Error("a name went that a runner announces")
	}
}
