package config

import (
	"io"
	"log/slog"
)

// Logger makes a program's log from the values of LogLevel and LogFormat. An unknown level means info, an
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
