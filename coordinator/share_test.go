package coordinator

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/runners"
	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
)

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
	c.queues.own = func() map[string]bool { return map[string]bool{"a": true} }
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

// Too many agents are refused before they are read.
func TestTooManyAgentsAreNotRead(t *testing.T) {
	t.Parallel()
	body := []byte(`{"executor_type":"` + run.Procedural + `","agents":[` + strings.Repeat("{},", runners.MaxAgents) + `{}]}`)
	if err := fewAgents(body); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}
