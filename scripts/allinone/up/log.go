package up

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// startLog demotes what is logged as info to debug until the start is over: the welcome says all that a user needs.
type startLog struct {
	slog.Handler
	over *atomic.Bool
}

// quietStart returns a logger whose start is over once over is called.
func quietStart(log *slog.Logger) (quiet *slog.Logger, over func()) {
	h := startLog{log.Handler(), &atomic.Bool{}}
	return slog.New(h), func() { h.over.Store(true) }
}

func (h startLog) level(l slog.Level) slog.Level {
	if l == slog.LevelInfo && !h.over.Load() {
		return slog.LevelDebug
	}
	return l
}

// Enabled implements slog.Handler.
func (h startLog) Enabled(ctx context.Context, l slog.Level) bool {
	return h.Handler.Enabled(ctx, h.level(l))
}

// Handle implements slog.Handler.
func (h startLog) Handle(ctx context.Context, r slog.Record) error {
	r.Level = h.level(r.Level)
	if !h.Handler.Enabled(ctx, r.Level) { // the start ended, or began, meanwhile
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
