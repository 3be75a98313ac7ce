package retention

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
)

// Room knows whether the history has room for new runs.
type CapacityGuard struct {
	Log    *slog.Logger
	Stream interface {
		CheckStorage(context.Context) error
		State(context.Context) (bus.State, error)
	}

	full atomic.Bool
}

// Reconcile looks how full the history is. From nine tenths on no new runs are taken, so that claims and ends always
// fit: a full stream takes neither.
func (r *CapacityGuard) Reconcile(ctx context.Context) error {
	_ = r.Stream.CheckStorage(ctx) // told by Ready, and to whoever writes
	s, err := r.Stream.State(ctx)
	if err != nil {
		return nil // whoever writes hears of it
	}
	full := s.MaxBytes > 0 && int64(s.Bytes) >= s.MaxBytes/10*9
	switch {
	case r.full.Swap(full) == full:
	case full:
		r.Log.Error("the history is nine tenths full: new runs are refused until there is room", "stream", "RUNS", "bytes", s.Bytes, "max_bytes", s.MaxBytes)
	default:
		r.Log.Info("the history has room again", "bytes", s.Bytes, "max_bytes", s.MaxBytes)
	}
	return nil
}

// Free refuses what would fill the history.
func (r *CapacityGuard) Admit() error {
	if !r.full.Load() {
		return nil
	}
	return fault.New(fault.Unavailable, "", "The history is nine tenths full, and what has begun needs the rest; raise max_bytes of the stream RUNS, or keep fewer runs (RUN_KEEP, RUN_RETENTION)").After(30 * time.Second)
}
