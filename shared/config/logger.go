package config

import (
	"io"
	"log/slog"
)

// Logger makes the log of a program from LogLevel and LogFormat as they were parsed. An unknown level is info, an
// unknown format text.
func Logger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
