package record

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
)

// leftover is a history that has a claim of a run, and no record that stores the run.
type leftover struct {
	claim   string
	counted uint64 // records that NATS counts and does not give
	purged  bool
}

func (*leftover) State(context.Context) (bus.State, error)              { return bus.State{Last: 9}, nil }
func (l *leftover) Counted(context.Context, string) (uint64, error)     { return l.counted, nil }
func (*leftover) Clustered() bool                                       { return false }
func (*leftover) LastEvent(context.Context, string) (uint64, error)     { return 0, nil }
func (l *leftover) Purge(context.Context, string, string, uint64) error { l.purged = true; return nil }
func (*leftover) Active(string) (a state.Active, ok bool)               { return a, false }
func (*leftover) Ended(string) bool                                     { return false }
func (*leftover) CatchUp(context.Context) error                         { return nil }
func (*leftover) WaitFor(context.Context, uint64) error                 { return nil }
func (*leftover) Affects(uint64) bool                                   { return false }
func (*leftover) Lost(string, uint64) (possible, begun bool)            { return false, false }
func (l *leftover) Records(_ context.Context, filter string, _ uint64, _ int) ([]bus.Message, error) {
	if strings.Contains(filter, ".claimed.") {
		return []bus.Message{{Seq: 5, Body: []byte(l.claim)}}, nil
	}
	return nil, nil
}

// TestRemoveStale: what a worker wrote about a lost run is removed. A claim of a coordinator that is failing the run
// stays, and so does everything where the run is stored and NATS cannot read it.
func TestRemoveStale(t *testing.T) {
	for name, tt := range map[string]struct {
		leftover
		stays bool
	}{
		"a worker's claim":       {leftover{claim: `{"runner_id":"rnr_1","nonce":"n"}`}, false},
		"a coordinator's claim":  {leftover{claim: `{"nonce":"n","next":{"status":"failed"}}`}, true},
		"NATS counts its record": {leftover{claim: `{"runner_id":"rnr_1","nonce":"n"}`, counted: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &tt.leftover
			repair := NewCrashRepair(l, l, l, l, slog.New(slog.DiscardHandler))
			_, err := repair.RemoveStale(t.Context(), "run_1", "ses_1", 1)
			damaged := err != nil && fault.Of(err).Code == run.CodeDamaged
			if damaged != tt.stays || l.purged == tt.stays {
				t.Errorf("purged %t, %v", l.purged, err)
			}
		})
	}
}
