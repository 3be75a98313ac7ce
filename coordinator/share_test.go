package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
)

// A profile may have as many runners as places are free; who is registered keeps its place, and other profiles find one.
func TestAProfileHasItsShareOfRunners(t *testing.T) {
	t.Parallel()
	c := begin(t, natstest.Bus(t), Config{MaxRunners: 8})
	made := 0
	for i := range 8 {
		r := runner("one")
		r.Hostname = fmt.Sprint("host", i)
		_, err := c.Register(t.Context(), r)
		switch {
		case err == nil:
			made++
		case fault.KindOf(err) != fault.Busy || !strings.Contains(err.Error(), "procedural.procedural") || !strings.Contains(err.Error(), "AO_MAX_RUNNERS") || fault.Of(err).RetryAfter == 0:
			t.Fatalf("the refusal says %v", err)
		}
	}
	if made != 4 {
		t.Errorf("%d runners of one profile in 8 places", made)
	}
	again := runner("one")
	again.Hostname = "host0"
	register(t, c, again)
	other := runner("one", echo("b"))
	other.ExecutorProfile = "other"
	register(t, c, other)
}

// A queue that is made when a runner comes counts to who submitted the run, too.
func TestAQueueCountsToItsCaller(t *testing.T) {
	t.Parallel()
	c := begin(t, natstest.Bus(t), Config{})
	first := runner("one", echo("a"))
	register(t, c, first)
	a, err := c.Submit(t.Context(), []byte(`{"agent_name":"a","additional_demands":{"tags":["later"]}}`), "somebody", "")
	if err != nil {
		t.Fatal(err)
	}
	more := runner("two", echo("a"))
	more.Hostname, more.Tags = "there", []string{"later"}
	register(t, c, more)
	lane := active(t, c, a.RunID, "is queued", isQueued).Lane
	c.fleet.mu.RLock()
	defer c.fleet.mu.RUnlock()
	if got, want := c.fleet.queues.all[lane].Caller, c.callerOf("somebody"); got != want || got == "" || got == c.callerOf("another") {
		t.Errorf("it counts to %q, want %q", got, want)
	}
}

// Registrations of a profile hold no more than is free, in bytes.
func TestAProfileHasItsShareOfBytes(t *testing.T) {
	t.Parallel()
	c := begin(t, natstest.Bus(t), Config{})
	register(t, c, runner("one", echo("a")))
	c.fleet.mu.Lock()
	for _, m := range c.fleet.members {
		m.size = registryBytes/2 - 100
	}
	c.fleet.mu.Unlock()
	more := runner("one")
	more.Hostname = "there"
	more.Tags = []string{strings.Repeat("x", 1000)}
	if _, err := c.Register(t.Context(), more); fault.KindOf(err) != fault.Busy || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("got %v", err)
	}
	more.ExecutorProfile = "other"
	register(t, c, more)
}

// Too many agents are refused before they are read.
func TestTooManyAgentsAreNotRead(t *testing.T) {
	t.Parallel()
	body := []byte(`{"executor_type":"` + run.Procedural + `","agents":[` + strings.Repeat("{},", maxAgents) + `{}]}`)
	if err := fewAgents(body); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}
