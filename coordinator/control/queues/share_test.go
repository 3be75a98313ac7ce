package queues

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"ao/shared/run"
	"ao/shared/runnerapi"
)

// nothingWaits is a history without runs.
type nothingWaits struct{}

func (nothingWaits) Oldest() uint64         { return 1 }
func (nothingWaits) HasWaiting(string) bool { return false }

func (nothingWaits) CatchUp(context.Context) error { return nil }

// owners are registered runners whose own agents have these queues.
type owners map[string]bool

func (o owners) AgentQueues() map[string]bool { return o }
func (owners) Announce(runnerapi.RoutingKey)  {}

// The queue that is evicted when there are too many: an unused one, the caller's own first, else one of whoever has
// most.
func TestQueueToEvict(t *testing.T) {
	t.Parallel()
	now := time.Now()
	blank := Config{History: nothingWaits{}, Runners: owners{}}
	const mine, others = "x", "y"
	tagged := func(tag, caller string) queue {
		return queue{runnerapi.RoutingKey{Type: run.Procedural, Tags: []string{tag}}, caller}
	}
	runners := queue{
		runnerapi.RoutingKey{Type: run.Procedural, Profile: "procedural", Agents: map[string]string{"a": "h"}},
		"",
	}
	for _, tt := range []struct {
		what   string
		queues map[string]queue
		used   map[string]time.Time
		want   string
	}{
		{"the one that was not used for longest", map[string]queue{"a": tagged("a", mine), "b": tagged("b", mine),
			"c": tagged("c", mine)},
			map[string]time.Time{"a": now.Add(-time.Hour), "b": now.Add(-2 * time.Hour), "c": now.Add(-time.Minute)},
			"b"},
		{"its own first", map[string]queue{"a": tagged("a", mine), "b": tagged("b", others), "c": tagged("c", others)},
			map[string]time.Time{"a": now.Add(-time.Minute)}, "a"},
		{"of who has more", map[string]queue{"b": tagged("b", others)}, nil, "b"},
		{"not of who has as many", map[string]queue{"a": tagged("a", mine), "b": tagged("b", others)},
			map[string]time.Time{"a": now.Add(time.Hour)}, ""},
		{"not one that was asked for a moment ago", map[string]queue{"a": tagged("a", mine)}, map[string]time.Time{
			"a": now.Add(time.Hour)}, ""},
		{"not one of runners' agents", map[string]queue{"a": runners}, nil, ""},
	} {
		s := New(blank)
		for name, q := range tt.queues {
			s.all[name] = q
			if at, ok := tt.used[name]; ok {
				s.made[name] = new(atomic.Int64)
				s.made[name].Store(at.UnixNano())
			}
		}
		if got, _ := s.unused(tagged("new", mine)); got != tt.want {
			t.Errorf("%s: %q goes, want %q", tt.what, got, tt.want)
		}
	}
	s := New(blank)
	s.all["a"], s.cfg.Runners = runners, owners{"a": true}
	if got, _ := s.unused(runners); got != "" {
		t.Errorf("the queue of a registered runner's agents goes: %q", got)
	}
}
