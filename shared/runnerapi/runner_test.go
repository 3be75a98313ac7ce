package runnerapi

import (
	"testing"
	"time"

	"ao/shared/agent"
	"ao/shared/run"
)

func TestSatisfies(t *testing.T) {
	r := Runner{Identity: Identity{Hostname: "h", ProjectDir: "/p", ExecutorProfile: "text", ExecutorType: run.Procedural}, Tags: []string{"gpu", "eu"}, Set: map[string]string{"a": "1", "b": "2"}}
	shy := r
	shy.RequireMatchingTags = true
	for _, tt := range []struct {
		name string
		r    Runner
		w    Want
		want bool
	}{
		{"its type is enough", r, Want{Type: run.Procedural}, true},
		{"another type", r, Want{Type: run.Autonomous}, false},
		{"its profile", r, Want{Type: run.Procedural, Profile: "text"}, true},
		{"another profile", r, Want{Type: run.Procedural, Profile: "data"}, false},
		{"another host", r, Want{Type: run.Procedural, Hostname: "x"}, false},
		{"its folder", r, Want{Type: run.Procedural, ProjectDir: "/p"}, true},
		{"all tags", r, Want{Type: run.Procedural, Tags: []string{"eu", "gpu"}}, true},
		{"one tag too many", r, Want{Type: run.Procedural, Tags: []string{"eu", "us"}}, false},
		{"exactly these agents", r, Want{Type: run.Procedural, Agents: map[string]string{"a": "1", "b": "2"}}, true},
		{"fewer agents than it has", r, Want{Type: run.Procedural, Agents: map[string]string{"a": "1"}}, true},
		{"another definition", r, Want{Type: run.Procedural, Agents: map[string]string{"a": "9"}}, false},
		{"an agent it has not", r, Want{Type: run.Procedural, Agents: map[string]string{"c": "1"}}, false},
		{"requires a common tag, none wanted", shy, Want{Type: run.Procedural}, false},
		{"requires a common tag, one wanted", shy, Want{Type: run.Procedural, Tags: []string{"eu"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.Satisfies(tt.w); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLaneNames(t *testing.T) {
	for _, tt := range []struct {
		w    Want
		want string
	}{
		{Want{Type: "procedural"}, "procedural._._"},
		{Want{Type: "procedural", Profile: "text"}, "procedural.text._"},
		{Want{Type: "procedural", Profile: "text", Tags: []string{"eu"}}, "procedural.text.c0ae42b8509bbff1"},
	} {
		if got := tt.w.Lane(); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.w, got, tt.want)
		}
	}
}

func TestPatience(t *testing.T) {
	for _, tt := range []struct {
		silence time.Duration
		want    string
	}{{0, Online}, {119 * time.Second, Online}, {120 * time.Second, Stale}, {599 * time.Second, Stale}, {600 * time.Second, Removed}} {
		if got := (Patience{}).Status(tt.silence); got != tt.want {
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
