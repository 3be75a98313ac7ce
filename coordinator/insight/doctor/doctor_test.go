package doctor

import (
	"strings"
	"testing"
	"time"

	"ao/coordinator/checkup"
	"ao/nats/bus"
	"ao/shared/run"
)

// TestJudgedReplicas: how many servers keep what is written, and whether they have it.
func TestJudgedReplicas(t *testing.T) {
	stream := func(n int, behind ...string) bus.StreamHealth {
		return bus.StreamHealth{Name: "RUNS", Replicas: n, Behind: behind}
	}
	for _, tt := range []struct {
		name string
		s    bus.ServerHealth
		want checkup.Verdict
		say  string
	}{
		{"one server", bus.ServerHealth{Streams: []bus.StreamHealth{stream(1)}}, checkup.OK, "a single NATS server"},
		{"three", bus.ServerHealth{Cluster: "c", Streams: []bus.StreamHealth{stream(3), stream(3)}}, checkup.OK,
			"3 replicas, all complete"},
		{"a cluster that keeps one copy",
			bus.ServerHealth{Cluster: "c", Streams: []bus.StreamHealth{stream(3), stream(1)}}, checkup.Warn,
			"on one of its servers only"},
		{"two", bus.ServerHealth{Cluster: "c", Streams: []bus.StreamHealth{stream(2)}}, checkup.Warn, "2 replicas"},
		{"one is away", bus.ServerHealth{Cluster: "c",
			Streams: []bus.StreamHealth{stream(3, "b"), stream(3, "b", "c")}},
			checkup.Warn, "away or not complete: b, c"},
	} {
		if f := replicas(tt.s); f.Verdict != tt.want || !strings.Contains(f.Say, tt.say) {
			t.Errorf("%s: %+v, want %s %s", tt.name, f, tt.want, tt.say)
		}
	}
}

// TestJudgedCallbacks: those owed for long, and those given up.
func TestJudgedCallbacks(t *testing.T) {
	now := time.Now()
	ended := func(ago time.Duration) run.Run {
		at := now.Add(-ago)
		return run.Run{EndedAt: &at}
	}
	for _, tt := range []struct {
		name string
		owed []run.Run
		dead int
		want checkup.Verdict
		say  string
	}{
		{"none", nil, 0, checkup.OK, "0 owed"},
		{"owed since a moment", []run.Run{ended(time.Minute), {}}, 0, checkup.OK, "2 owed"},
		{"owed for long", []run.Run{ended(time.Minute), ended(time.Hour), ended(16 * time.Minute)}, 0, checkup.Warn,
			"2 are owed for more than 15m0s, one since " + now.Add(-time.Hour).UTC().Format(time.RFC3339)},
		{"given up", nil, 3, checkup.Warn, "3 were given up"},
	} {
		if all := pendingCallbacks(tt.owed, tt.dead, now); len(all) != 1 || all[0].Verdict != tt.want ||
			!strings.Contains(all[0].Say, tt.say) {
			t.Errorf("%s: %+v, want %s %s", tt.name, all, tt.want, tt.say)
		}
	}
}

// TestJudgedVersions: all versions are told, and only known ones that differ are warned of.
func TestJudgedVersions(t *testing.T) {
	type of = map[string]int
	for _, tt := range []struct {
		name                  string
		coordinators, runners of
		want                  checkup.Verdict
		say                   string
	}{
		{"all of one", of{"v2": 2}, of{"v2": 3}, checkup.OK, "coordinators: 2 of version v2; runners: 3 of version v2"},
		{"no runner", of{"v2": 1}, nil, checkup.OK, "coordinators: 1 of version v2"},
		{"an older coordinator", of{"v1": 1, "v2": 1}, of{"v2": 1}, checkup.Warn,
			"coordinators: 1 of version v1, 1 of version v2; runners: 1 of version v2"},
		{"older runners", of{"v2": 1}, of{"v1": 4}, checkup.Warn, "runners: 4 of version v1"},
		{"a build without a version", of{"v2": 1, "unknown": 1}, of{"unknown": 1}, checkup.OK,
			"1 of version unknown, 1 of version v2; runners: 1 of version unknown"},
	} {
		if f := judgeVersions(tt.coordinators, tt.runners); f.Verdict != tt.want || !strings.HasSuffix(f.Say, tt.say) {
			t.Errorf("%s: %+v, want %s %s", tt.name, f, tt.want, tt.say)
		}
	}
}
