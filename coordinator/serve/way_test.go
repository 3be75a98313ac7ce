package serve

import (
	"strings"
	"testing"

	"ao/coordinator/health"
	"ao/nats/bus"
	"ao/nats/subject"
)

// TestBatchStagingOfARemoteServer: known with replicas only; otherwise the answer says how to find out.
func TestBatchStagingOfARemoteServer(t *testing.T) {
	for replicas, want := range map[int]health.Verdict{3: health.OK, 1: health.Skip} {
		f := remoteStaging(bus.ServerHealth{Streams: []bus.StreamHealth{{Name: subject.Events, Replicas: 4 - replicas},
			{Name: subject.Runs, Replicas: replicas}}})
		if f.Check != "nats-staging" || f.Verdict != want ||
			strings.Contains(f.Advice, "findmnt") != (want == health.Skip) {
			t.Errorf("%d replicas: %+v", replicas, f)
		}
	}
}

// TestNATSConnectionIsExamined: who gets in there, and who can listen on the way.
func TestNATSConnectionIsExamined(t *testing.T) {
	const here, there = "nats://127.0.0.1:4222", "nats://nats:4222"
	for _, tt := range []struct {
		name    string
		at      bus.ServerHealth
		private bool
		want    health.Verdict
	}{
		{"plain, elsewhere", bus.ServerHealth{URL: there}, false, health.Warn},
		{"plain, in a network of its own", bus.ServerHealth{URL: there}, true, health.OK},
		{"open, in a network of its own", bus.ServerHealth{URL: there, Open: true}, true, health.Fail},
		{"with TLS", bus.ServerHealth{URL: there, TLS: true}, false, health.OK},
		{"plain, here", bus.ServerHealth{URL: here}, false, health.OK},
		{"open, here", bus.ServerHealth{URL: here, Open: true}, false, health.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if f := remoteAccess(tt.at, tt.private); f.Verdict != tt.want || f.Check != "nats-users" {
				t.Errorf("got %+v, want %s", f, tt.want)
			}
		})
	}
}
