package runnerapi

import (
	"testing"
	"time"

	"ao/shared/agent"
	"ao/shared/run"
)

func TestSatisfies(t *testing.T) {
	r := Runner{Identity: Identity{Hostname: "h", ProjectDir: "/p", ExecutorProfile: "text",
		ExecutorType: run.Procedural}, Tags: []string{"gpu", "eu"}, AgentHashes: map[string]string{"a": "1", "b": "2"},
		OlderHashes: map[string][]string{"a": {"0", "8"}}}
	shy := r
	shy.RequireMatchingTags = true
	for _, tt := range []struct {
		name string
		r    Runner
		w    RoutingKey
		want bool
	}{
		{"its type is enough", r, RoutingKey{Type: run.Procedural}, true},
		{"another type", r, RoutingKey{Type: run.Autonomous}, false},
		{"its profile", r, RoutingKey{Type: run.Procedural, Profile: "text"}, true},
		{"another profile", r, RoutingKey{Type: run.Procedural, Profile: "data"}, false},
		{"another host", r, RoutingKey{Type: run.Procedural, Hostname: "x"}, false},
		{"its folder", r, RoutingKey{Type: run.Procedural, ProjectDir: "/p"}, true},
		{"all tags", r, RoutingKey{Type: run.Procedural, Tags: []string{"eu", "gpu"}}, true},
		{"one tag too many", r, RoutingKey{Type: run.Procedural, Tags: []string{"eu", "us"}}, false},
		{"exactly these agents", r, RoutingKey{Type: run.Procedural, Agents: map[string]string{"a": "1", "b": "2"}},
			true},
		{"fewer agents than it has", r, RoutingKey{Type: run.Procedural, Agents: map[string]string{"a": "1"}}, true},
		{"an older definition that it still serves", r, RoutingKey{Type: run.Procedural,
			Agents: map[string]string{"a": "8", "b": "2"}}, true},
		{"another definition", r, RoutingKey{Type: run.Procedural, Agents: map[string]string{"a": "9"}}, false},
		{"an agent it has not", r, RoutingKey{Type: run.Procedural, Agents: map[string]string{"c": "1"}}, false},
		{"requires a common tag, none wanted", shy, RoutingKey{Type: run.Procedural}, false},
		{"requires a common tag, one wanted", shy, RoutingKey{Type: run.Procedural, Tags: []string{"eu"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.Matches(tt.w); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestQueueNames(t *testing.T) {
	for _, tt := range []struct {
		w    RoutingKey
		want string
	}{
		{RoutingKey{Type: "procedural"}, "procedural._._"},
		{RoutingKey{Type: "procedural", Profile: "text"}, "procedural.text._"},
		{RoutingKey{Type: "procedural", Profile: "text", Tags: []string{"eu"}}, "procedural.text.c0ae42b8509bbff1"},
	} {
		if got := tt.w.TaskQueue(); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.w, got, tt.want)
		}
	}
}

func TestStatusByThreshold(t *testing.T) {
	for _, tt := range []struct {
		silence time.Duration
		want    string
	}{{0, Online}, {119 * time.Second, Online}, {120 * time.Second, Stale}, {599 * time.Second, Stale},
		{600 * time.Second, Removed}} {
		if got := (Thresholds{}).Status(tt.silence); got != tt.want {
			t.Errorf("after %s: got %s, want %s", tt.silence, got, tt.want)
		}
	}
}

func TestSameIdentitySameRunner(t *testing.T) {
	a := Identity{"h", "/p", "text", "procedural"}
	again, other := a, a
	other.ExecutorProfile = "data"
	if a.ID() != again.ID() || a.ID() == other.ID() {
		t.Errorf("ids: %s %s %s", a.ID(), again.ID(), other.ID())
	}
}

func TestAgentSetDoesNotCountTheOwner(t *testing.T) {
	a := agent.Blueprint{Name: "x", Type: run.Procedural, Command: "./x", Status: agent.Active}
	b := a
	b.RunnerID = "rnr_1"
	if AgentSet([]agent.Blueprint{a})["x"] != AgentSet([]agent.Blueprint{b})["x"] {
		t.Error("the owner counts")
	}
	b.Command = "./y"
	if AgentSet([]agent.Blueprint{a})["x"] == AgentSet([]agent.Blueprint{b})["x"] {
		t.Error("the command does not count")
	}
}
