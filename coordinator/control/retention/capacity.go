package retention

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
)

// CapacityGuard knows whether the history has room for new runs.
type CapacityGuard struct {
	Log    *slog.Logger
	Stream interface {
		CheckStorage(context.Context) error
		State(context.Context) (bus.State, error)
	}

	full atomic.Bool
}

// Reconcile checks how full the history is. New runs are refused from nine tenths on, so that claims and end records
// always fit: a full stream takes neither.
func (r *CapacityGuard) Reconcile(ctx context.Context) error {
	_ = r.Stream.CheckStorage(ctx) // reported by Ready, and to whoever writes
	s, err := r.Stream.State(ctx)
	if err != nil {
		return nil // whoever writes gets the error
	}
	full := s.MaxBytes > 0 && int64(s.Bytes) >= s.MaxBytes/10*9 ||
		s.MaxMsgs > 0 && int64(s.Msgs) >= s.MaxMsgs/10*9
	switch {
	case r.full.Swap(full) == full:
	case full:
		r.Log.Error("the history is nine tenths full: new runs are refused until there is room", "stream", "RUNS",
			"bytes", s.Bytes, "max_bytes", s.MaxBytes, "messages", s.Msgs, "max_messages", s.MaxMsgs)
	default:
		r.Log.Info("the history has room again", "bytes", s.Bytes, "max_bytes", s.MaxBytes)
	}
	return nil
}

// Admit returns an error if the history has no room for a new run.
func (r *CapacityGuard) Admit() error {
	if !r.full.Load() {
		return nil
	}
	return fault.New(fault.Unavailable, "", "the history is nine tenths full, and open runs need the rest; keep "+
		"fewer runs (RUN_KEEP, RUN_RETENTION), or raise the limit of the stream RUNS: its max_bytes, or its number of "+
		"records (AO_NATS_MEMORY)").After(30 * time.Second)
}
