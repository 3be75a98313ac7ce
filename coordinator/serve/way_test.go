package serve

import (
	"testing"

	"ao/coordinator/checkup"
	"ao/nats/bus"
)

// TestTheWayToNATS: who gets in there, and who can listen on the way.
func TestTheWayToNATS(t *testing.T) {
	const here, there = "nats://127.0.0.1:4222", "nats://nats:4222"
	for _, tt := range []struct {
		name    string
		at      bus.Standing
		private bool
		want    checkup.Verdict
	}{
		{"plain, elsewhere", bus.Standing{URL: there}, false, checkup.Warn},
		{"plain, in a network of its own", bus.Standing{URL: there}, true, checkup.OK},
		{"open, in a network of its own", bus.Standing{URL: there, Open: true}, true, checkup.Fail},
		{"with TLS", bus.Standing{URL: there, TLS: true}, false, checkup.OK},
		{"plain, here", bus.Standing{URL: here}, false, checkup.OK},
		{"open, here", bus.Standing{URL: here, Open: true}, false, checkup.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if f := way(tt.at, tt.private); f.Verdict != tt.want || f.Check != "nats-users" {
				t.Errorf("got %+v, want %s", f, tt.want)
			}
		})
	}
}
