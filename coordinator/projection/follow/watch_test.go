package follow

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
)

// What one coordinator truncates another may not have read: its consumer continues behind the gap as if nothing were
// missing. A run whose claim it read, and whose end record it did not, would stay open there for ever.
func TestUnreadTruncationIsNoticed(t *testing.T) {
	for _, tt := range []struct {
		name string
		live bool // it had read all that there was before
	}{{"while it starts", false}, {"later", true}} {
		t.Run(tt.name, func(t *testing.T) {
			conn := natstest.Bus(t)
			b := &bench{nil, t, conn, conn.Emitter(context.Background(), nil)}
			x := b.actor(run.NewSessionID())
			first := b.write(x.Queued(1)) + 1
			at, gate := make(chan struct{}), make(chan struct{})
			var once sync.Once
			j := joined(conn, projection.Config{Log: natstest.Log(t), OnChange: func(c state.Change) {
				if tt.live && c.RunID == x.Spec.ID && c.Before == "" {
					return
				}
				once.Do(func() { close(at) })
				<-gate
			}})
			if tt.live {
				j.truncationCheck = 5 * time.Millisecond
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			t.Cleanup(wg.Wait)
			t.Cleanup(cancel)
			launch := func() { wg.Go(func() { j.Run(ctx) }) }
			if tt.live {
				launch()
				natstest.Until(t, "it is ready", func() bool { return j.Ready() == nil })
			}
			b.write(x.Claimed(1))
			var all []entry
			for range 1500 { // more than it has asked for
				a := b.actor(run.NewSessionID())
				all = append(all, a.Queued(1), a.Claimed(1), a.Ended(1, run.Completed, 0))
				if len(all) >= 900 {
					if _, err := conn.AppendBatch(t.Context(), all...); err != nil {
						t.Fatal(err)
					}
					all = nil
				}
			}
			b.write(x.Ended(1, run.Completed, 0))
			for range 2 {
				a := b.actor(run.NewSessionID())
				b.write(a.Queued(1), a.Claimed(1), a.Ended(1, run.Completed, 0))
			}
			if !tt.live {
				launch()
			}
			<-at
			other := another(t, conn, projection.Config{})
			before := other.Prunable(2, time.Now(), time.Now())
			if before <= first+4500 {
				t.Fatalf("another may truncate before %d only", before)
			}
			if err := conn.Truncate(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			other.Forget(before)
			close(gate)
			waiting, claimed, ended := another(t, conn, projection.Config{}).Counts()
			if waiting+claimed != 0 || ended > 9 {
				t.Fatalf("a new one has %d waiting, %d claimed, %d ended", waiting, claimed, ended)
			}
			natstest.Until(t, "it has what a new one has", func() bool {
				w, b, e := j.Counts()
				return j.Ready() == nil && w == waiting && b == claimed && e == ended
			})
			if _, there := j.Active(x.Spec.ID); there {
				t.Error("a run is open that has ended")
			}
		})
	}
}

// While a loss is suspected nothing is done that relies on the history. A suspicion that clears at once disturbs
// nobody.
func TestALongSuspectedLossIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects state.Effect
		j := joined(&bus.Bus{Reader: &bus.Reader{Conn: &bus.Conn{}}},
			projection.Config{OnEffect: func(e state.Effect) { effects |= e }})
		j.Live.Store(true)
		j.suspectLoss(true)
		time.Sleep(lossGrace)
		if err := j.Ready(); err != nil {
			t.Errorf("after a moment: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := j.Ready(); fault.KindOf(err) != fault.Unavailable ||
			!strings.Contains(err.Error(), "may have lost records") {
			t.Errorf("later: %v", err)
		}
		j.suspectLoss(false)
		if err := j.Ready(); err != nil {
			t.Errorf("when it was not so: %v", err)
		}
		if effects != state.HistoryConfirmed {
			t.Errorf("nothing is woken for what was left undone: %b", effects)
		}
	})
}
