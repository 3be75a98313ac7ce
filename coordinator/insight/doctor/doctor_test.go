package doctor

import (
	"strings"
	"testing"
	"time"

	"ao/coordinator/health"
	"ao/nats/bus"
	"ao/shared/run"
)

// TestReplicas: how many servers keep what is written, and whether they have it.
func TestReplicas(t *testing.T) {
	stream := func(n int, behind ...string) bus.StreamHealth {
		return bus.StreamHealth{Name: "RUNS", Replicas: n, Behind: behind}
	}
	for _, tt := range []struct {
		name string
		s    bus.ServerHealth
		want health.Verdict
		say  string
	}{
		{"one server", bus.ServerHealth{Streams: []bus.StreamHealth{stream(1)}}, health.OK, "a single NATS server"},
		{"three", bus.ServerHealth{Cluster: "c", Streams: []bus.StreamHealth{stream(3), stream(3)}}, health.OK,
			"3 replicas, all complete"},
		{"a cluster that keeps one copy", bus.ServerHealth{Cluster: "c", Streams: []bus.StreamHealth{stream(3), stream(
			1)}}, health.Warn, "on only one of its servers"},
		{"two", bus.ServerHealth{Cluster: "c", Streams: []bus.StreamHealth{stream(2)}}, health.Warn, "2 replicas"},
		{"one is away", bus.ServerHealth{Cluster: "c", Streams: []bus.StreamHealth{stream(3, "b"), stream(3, "b",
			"c")}}, health.Warn, "missing or incomplete: b, c"},
	} {
		if f := replicas(tt.s); f.Verdict != tt.want || !strings.Contains(f.Message, tt.say) {
			t.Errorf("%s: %+v, want %s %s", tt.name, f, tt.want, tt.say)
		}
	}
}

// TestCallbacks: those pending for long, and those given up.
func TestCallbacks(t *testing.T) {
	now := time.Now()
	ended := func(ago time.Duration) run.Run {
		at := now.Add(-ago)
		return run.Run{EndedAt: &at}
	}
	for _, tt := range []struct {
		name    string
		pending []run.Run
		dead    int
		want    health.Verdict
		say     string
	}{
		{"none", nil, 0, health.OK, "0 pending"},
		{"pending since a moment", []run.Run{ended(time.Minute), {}}, 0, health.OK, "2 pending"},
		{"pending for long", []run.Run{ended(time.Minute), ended(time.Hour), ended(16 * time.Minute)}, 0, health.Warn,
			"2 pending for more than 15m0s, the oldest since " + now.Add(-time.Hour).UTC().Format(time.RFC3339)},
		{"given up", nil, 3, health.Warn, "3 failed in all attempts"},
	} {
		if all := judgeCallbacks(tt.pending, tt.dead, now); len(all) != 1 || all[0].Verdict != tt.want ||
			!strings.Contains(all[0].Message, tt.say) {
			t.Errorf("%s: %+v, want %s %s", tt.name, all, tt.want, tt.say)
		}
	}
}

// TestVersions: all versions are reported, and only known ones that differ are warned of.
func TestVersions(t *testing.T) {
	type of = map[string]int
	for _, tt := range []struct {
		name                  string
		coordinators, runners of
		want                  health.Verdict
		say                   string
	}{
		{"all of one", of{"v2": 2}, of{"v2": 3}, health.OK, "coordinators: 2 of version v2; runners: 3 of version v2"},
		{"no runner", of{"v2": 1}, nil, health.OK, "coordinators: 1 of version v2"},
		{"an older coordinator", of{"v1": 1, "v2": 1}, of{"v2": 1}, health.Warn,
			"coordinators: 1 of version v1, 1 of version v2; runners: 1 of version v2"},
		{"older runners", of{"v2": 1}, of{"v1": 4}, health.Warn, "runners: 4 of version v1"},
		{"a build without a version", of{"v2": 1, "unknown": 1}, of{"unknown": 1}, health.OK,
			"1 of version unknown, 1 of version v2; runners: 1 of version unknown"},
	} {
		if f := judgeVersions(tt.coordinators, tt.runners); f.Verdict != tt.want || !strings.HasSuffix(f.Message,
			tt.say) {
			t.Errorf("%s: %+v, want %s %s", tt.name, f, tt.want, tt.say)
		}
	}
}

// TestRefused: refused messages of the inbox are told of for a day.
func TestRefused(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name string
		s    bus.StreamHealth
		want health.Verdict
		say  string
	}{
		{"none", bus.StreamHealth{Name: "REJECTED"}, health.OK, "no message was refused within 24h"},
		{"of yesterday", bus.StreamHealth{Name: "REJECTED", Msgs: 2, LastTime: now.Add(-25 * time.Hour)}, health.OK,
			"no message"},
		{"just now", bus.StreamHealth{Name: "REJECTED", Msgs: 2, LastTime: now}, health.Warn, "2 refused messages"},
	} {
		all := refused([]bus.StreamHealth{{Name: "RUNS", Msgs: 9, LastTime: now}, tt.s}, now)
		if len(all) != 1 || all[0].Verdict != tt.want || !strings.Contains(all[0].Message, tt.say) {
			t.Errorf("%s: %+v, want %s %s", tt.name, all, tt.want, tt.say)
		}
	}
}
