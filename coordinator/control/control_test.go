package control

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a scheduler in virtual time for as long as during lasts.
func bubble(t *testing.T, during func(*Scheduler), plans ...Plan) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := New(slog.New(slog.DiscardHandler), plans...)
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	synctest.Wait()
	during(s)
	cancel()
	<-done
}

func TestWakesDuringACallAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, at atomic.Int32
		release := make(chan struct{})
		do := func(ctx context.Context) error {
			if at.Add(1) > 1 {
				t.Error("twice at once")
			}
			defer at.Add(-1)
			calls.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		}
		bubble(t, func(s *Scheduler) {
			s.Wake(2)
			synctest.Wait()
			if n := calls.Load(); n != 0 {
				t.Errorf("%d calls for a signal that it does not wait for", n)
			}
			for range 1000 {
				s.Wake(1)
				synctest.Wait()
			}
			close(release)
			synctest.Wait()
			if n := calls.Load(); n != 2 {
				t.Errorf("%d calls, want 2", n)
			}
		}, Plan{Name: "a", Wakes: 1, Every: time.Hour, Do: Func(do)})
	})
}

// TestASignalBeforeRunIsKept: the history is read, and reports what is due, before a controller runs.
func TestASignalBeforeRunIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := make(chan struct{}, 1)
		s := New(
			slog.Default(),
			Plan{
				Name:  "a",
				Wakes: 1,
				Every: time.Hour,
				Do:    Func(func(context.Context) error { called <- struct{}{}; return nil }),
			},
		)
		s.Wake(1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		<-called
		cancel()
		<-done
	})
}

func TestHangingControllerDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		hang := Func(func(ctx context.Context) error { <-ctx.Done(); return nil })
		tick := Func(func(context.Context) error { n.Add(1); return nil })
		bubble(t, func(s *Scheduler) {
			time.Sleep(30*time.Second + time.Millisecond)
			if n.Load() != 120 {
				t.Errorf("%d ticks in 30 s, want 120", n.Load())
			}
		}, Plan{Name: "hangs", Every: time.Second, Do: hang}, Plan{Name: "ticks", Every: 250 * time.Millisecond,
			Do: tick})
	})
}

func TestErrorsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		fails := Func(func(context.Context) error { n.Add(1); return errors.New("no") })
		bubble(t, func(s *Scheduler) {
			for range 600 {
				time.Sleep(100 * time.Millisecond)
				s.Wake(1)
			}
			if n.Load() < 7 || n.Load() > 10 {
				t.Errorf("%d calls in a minute", n.Load())
			}
		}, Plan{Name: "fails", Wakes: 1, Every: time.Second, Do: fails})
	})
}

func TestControllersWaitUntilConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		var sure atomic.Bool
		bubble(t, func(s *Scheduler) {
			s.Wake(1)
			time.Sleep(time.Minute + 500*time.Millisecond)
			if n.Load() != 0 {
				t.Errorf("%d calls while nothing is confirmed", n.Load())
			}
			sure.Store(true)
			time.Sleep(time.Second)
			if n.Load() != 1 {
				t.Errorf("%d calls in the next second", n.Load())
			}
		}, Plan{Name: "a", Wakes: 1, Every: time.Second, Allowed: sure.Load,
			Do: Func(func(context.Context) error { n.Add(1); return nil })})
	})
}

// TestDueWorkIsDoneSoonAfterConfirmation, however seldom the controller is called.
func TestDueWorkIsDoneSoonAfterConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		var sure atomic.Bool
		do := Func(func(context.Context) error { n.Add(1); return nil })
		bubble(t, func(s *Scheduler) {
			s.Wake(1)
			time.Sleep(time.Minute)
			sure.Store(true)
			time.Sleep(2 * time.Second)
			if n.Load() != 1 {
				t.Errorf("%d calls in the two seconds after the signal could be acted on", n.Load())
			}
			sure.Store(false)
			time.Sleep(time.Hour)
			sure.Store(true)
			time.Sleep(2 * time.Second)
			if n.Load() != 2 {
				t.Errorf("%d calls in the two seconds after its time had come", n.Load()-1)
			}
		}, Plan{Name: "a", Wakes: 1, Every: time.Hour, Allowed: sure.Load, Do: do})
	})
}

func TestMinimumPauseBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		bubble(t, func(s *Scheduler) {
			for range 99 {
				s.Wake(1)
				time.Sleep(10 * time.Millisecond)
			}
			if n.Load() != 10 {
				t.Errorf("%d calls in a second, want 10", n.Load())
			}
		}, Plan{Name: "a", Wakes: 1, Every: time.Hour, Rest: 100 * time.Millisecond,
			Do: Func(func(context.Context) error { n.Add(1); return nil })})
	})
}
