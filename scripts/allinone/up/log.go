package up

import (
	"context"
	"log/slog"
	"sync/atomic"

	coordinator "ao/coordinator/serve"
)

// startLog demotes what is logged as info to debug until the start is over: the welcome says all that a user needs.
// What a slow start waits for stays.
type startLog struct {
	slog.Handler
	over *atomic.Bool
}

// quietStart returns a logger whose start is over once over is called.
func quietStart(log *slog.Logger) (quiet *slog.Logger, over func()) {
	h := startLog{log.Handler(), &atomic.Bool{}}
	return slog.New(h), func() { h.over.Store(true) }
}

// Handle implements slog.Handler.
func (h startLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelInfo && !h.over.Load() && r.Message != coordinator.StillStarting {
		r.Level = slog.LevelDebug
	}
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h startLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return startLog{h.Handler.WithAttrs(attrs), h.over}
}

// WithGroup implements slog.Handler.
func (h startLog) WithGroup(name string) slog.Handler {
	return startLog{h.Handler.WithGroup(name), h.over}
}
