package completion_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"ao/coordinator/control/completion"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
)

// world is a history with a run that another record carries, and what is done about it.
type world struct {
	exists, unreadable bool
	damage             error
	did                string
}

func (w *world) UnwrittenEnds() []state.Active { return nil }

func (w *world) Reservations() []state.Reservation {
	return []state.Reservation{{Seq: 7, RunID: "run_1", SessionID: "ses_1"}}
}

func (w *world) ReservedRecord(context.Context, state.Reservation) ([]byte, error) {
	return nil, nil
}
func (w *world) IsReserved(string) bool                               { return true }
func (w *world) Confirmed() bool                                      { return true }
func (w *world) AppendCarriedEnd(context.Context, state.Active) error { return nil }

func (w *world) RemoveStale(context.Context, string, string, uint64) (bool, error) {
	return w.exists, w.damage
}
func (w *world) RemoveEarlier(context.Context, string, string) { w.did += " and removed" }
func (w *world) Put(context.Context, bus.Entry) error          { w.did += "accepted"; return nil }
func (w *world) Passed(context.Context, string) (bool, bool, error) {
	return true, w.unreadable, nil
}
func (w *world) AcceptDamaged(context.Context, bus.Entry) error { w.did += "failed"; return nil }

// TestACarriedRunIsAcceptedOnce: another coordinator may have accepted it meanwhile, since it had been claimed behind a
// claim that is older than the run. Then nothing is removed.
func TestACarriedRunIsAcceptedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		world
		want string
	}{
		"it does not exist":            {world{}, "accepted and removed"},
		"it had begun before a damage": {world{damage: fault.New(fault.Conflict, run.CodeDamaged, "")}, "failed"},
		"NATS cannot read its record":  {world{unreadable: true}, "acceptedfailed"},
		"somebody has accepted it":     {world{exists: true}, ""},
		"NATS does not answer":         {world{damage: errors.New("no answer")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &completion.Controller{History: &tt.world, Records: &tt.world, Repair: &tt.world,
					Log: slog.New(slog.DiscardHandler)}
				for range 3 {
					if err := c.Reconcile(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(completion.Every)
				}
				if tt.did != tt.want {
					t.Errorf("it was %q, want %q", tt.did, tt.want)
				}
			})
		})
	}
}
