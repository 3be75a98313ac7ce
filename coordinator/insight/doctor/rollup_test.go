package doctor

import (
	"testing"

	"ao/coordinator/health"
	"ao/nats/bus"
	"ao/nats/subject"
)

// TestRollups: RUNS must not allow rollups, other streams may.
func TestRollups(t *testing.T) {
	for _, tt := range []struct {
		name string
		on   bool
		want int
	}{{subject.Runs, true, 1}, {subject.Runs, false, 0}, {subject.Events, true, 0}} {
		all := rollups([]bus.StreamHealth{{Name: tt.name, Rollups: tt.on}})
		if len(all) != tt.want || tt.want == 1 && all[0].Verdict != health.Fail {
			t.Errorf("%s with rollups %v: %v", tt.name, tt.on, all)
		}
	}
}
