package coordinator

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/fleet"
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
	other := runner("one", echo("b"))
	other.ExecutorProfile = "other"
	register(t, c, other)
	other.Hostname = "there"
	register(t, c, other)
	again := runner("one")
	again.Hostname = "host0"
	register(t, c, again) // though its profile could have no other now
}

// Which queue goes when room is needed: one that nobody uses, of one's own first, else of who has more.
func TestWhichQueueMakesRoom(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const mine, others = "x", "y"
	tagged := func(tag, caller string) queue {
		return queue{fleet.Want{Type: run.Procedural, Tags: []string{tag}}, caller}
	}
	runners := queue{fleet.Want{Type: run.Procedural, Profile: "procedural", Agents: map[string]string{"a": "h"}}, ""}
	for _, tt := range []struct {
		what   string
		queues map[string]queue
		used   map[string]time.Time
		want   string
	}{
		{"the one that was not used for longest", map[string]queue{"a": tagged("a", mine), "b": tagged("b", mine), "c": tagged("c", mine)},
			map[string]time.Time{"a": now.Add(-time.Hour), "b": now.Add(-2 * time.Hour), "c": now.Add(-time.Minute)}, "b"},
		{"its own first", map[string]queue{"a": tagged("a", mine), "b": tagged("b", others), "c": tagged("c", others)},
			map[string]time.Time{"a": now.Add(-time.Minute)}, "a"},
		{"of who has more", map[string]queue{"b": tagged("b", others)}, nil, "b"},
		{"not of who has as many", map[string]queue{"a": tagged("a", mine), "b": tagged("b", others)}, map[string]time.Time{"a": now.Add(time.Hour)}, ""},
		{"not one that was asked for a moment ago", map[string]queue{"a": tagged("a", mine)}, map[string]time.Time{"a": now.Add(time.Hour)}, ""},
		{"not one of runners' agents", map[string]queue{"a": runners}, nil, ""},
	} {
		s := New(Config{Bus: natstest.Bus(t), Log: natstest.Log(t)}).queues
		for lane, q := range tt.queues {
			s.all[lane] = q
			if at, ok := tt.used[lane]; ok {
				s.made[lane] = new(atomic.Int64)
				s.made[lane].Store(at.UnixNano())
			}
		}
		if got, _ := s.unused(tagged("new", mine)); got != tt.want {
			t.Errorf("%s: %q goes, want %q", tt.what, got, tt.want)
		}
	}
	c := New(Config{Bus: natstest.Bus(t), Log: natstest.Log(t)})
	c.queues.all["a"] = runners
	c.fleet.members["rnr_a"] = &member{id: "rnr_a", own: "a"}
	if got, _ := c.queues.unused(runners); got != "" {
		t.Errorf("the queue of a registered runner's agents goes: %q", got)
	}
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
	c.queues.mu.RLock()
	defer c.queues.mu.RUnlock()
	if got, want := c.queues.all[lane].Caller, c.callerOf("somebody"); got != want || got == "" || got == c.callerOf("another") {
		t.Errorf("it counts to %q, want %q", got, want)
	}
}

// Registrations of a profile hold no more than is free, in bytes.
func TestAProfileHasItsShareOfBytes(t *testing.T) {
	t.Parallel()
	c := begin(t, natstest.Bus(t), Config{})
	c.fleet.mu.Lock()
	c.fleet.members["rnr_large"] = &member{Runner: runner("one"), id: "rnr_large", heard: time.Now(), size: registryBytes/2 - 100}
	c.fleet.mu.Unlock()
	if err := c.registrar.admit("rnr_large", runner("two").Identity, registryBytes/2-100); err != nil {
		t.Errorf("it takes its own place: %v", err)
	}
	more := runner("one")
	more.Tags = []string{strings.Repeat("x", 1000)}
	if _, err := c.Register(t.Context(), more); fault.KindOf(err) != fault.Busy || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("got %v", err)
	}
	more.ExecutorProfile = "other"
	register(t, c, more)
}

// A profile's agents have as much of the table of names as is free. Who is registered keeps its names; those that no runner announces
// any more make room.
func TestAProfileHasItsShareOfNames(t *testing.T) {
	t.Parallel()
	c := begin(t, natstest.Bus(t), Config{})
	host := func(profile string, i int) fleet.Runner {
		var agents []agent.Blueprint
		for n := range maxAgents {
			agents = append(agents, echo(fmt.Sprintf("%s-%d-%d%s", profile, i, n, strings.Repeat("x", 40))))
		}
		r := runner("one", agents...)
		r.ExecutorProfile, r.Hostname = profile, fmt.Sprint("host", i)
		return r
	}
	made := 0
	for ; made < 10; made++ {
		_, err := c.Register(t.Context(), host("greedy", made))
		if err == nil {
			continue
		}
		if fault.KindOf(err) != fault.Busy || !strings.Contains(err.Error(), "procedural.greedy") || !strings.Contains(err.Error(), "names") || fault.Of(err).RetryAfter == 0 {
			t.Errorf("the refusal says %v", err)
		}
		break
	}
	if made == 0 || made == 10 {
		t.Fatalf("%d runners with 1000 agents each", made)
	}
	register(t, c, host("honest", 0))
	register(t, c, host("greedy", 0)) // who is there keeps its place

	other := host("greedy", 0)
	for i := range other.Agents {
		other.Agents[i].Name = "G" + other.Agents[i].Name[1:]
	}
	register(t, c, other) // its own names of before make room

	last := host("greedy", made-1)
	if err := c.leaving.remove(t.Context(), last.ID(), is(last.Instance)); err != nil {
		t.Fatal(err)
	}
	err := c.names.change(t.Context(), func(owners map[string]owner) (bool, error) { // as if its end had freed none of them
		for _, a := range last.Agents {
			owners[a.Name] = owner{Hash: a.Hash(), Type: run.Procedural, Profile: "greedy", Runner: last.ID()}
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
	register(t, c, host("greedy", made))
	owners, _, err := c.names.owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, kept := owners[host("honest", 0).Agents[0].Name]; !kept {
		t.Error("a name went that a runner announces")
	}
}

// Too many agents are refused before they are read.
func TestTooManyAgentsAreNotRead(t *testing.T) {
	t.Parallel()
	body := []byte(`{"executor_type":"` + run.Procedural + `","agents":[` + strings.Repeat("{},", maxAgents) + `{}]}`)
	if err := fewAgents(body); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}
