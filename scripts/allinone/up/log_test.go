package up

import (
	"log/slog"
	"strings"
	"testing"

	coordinator "ao/coordinator/serve"
)

// TestInternalsOfTheStartAreDebug: until the welcome, info is logged at level debug, but for what a slow start waits
// for. Warnings are logged as ever.
func TestInternalsOfTheStartAreDebug(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelInfo:  "WARN two. INFO still. INFO three.",
		slog.LevelDebug: "DEBUG one. WARN two. INFO still. INFO three. DEBUG four.",
	} {
		var b strings.Builder
		log, over := quietStart(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level})))
		part := log.With("part", "x").WithGroup("g")
		part.Info("one")
		log.Warn("two")
		part.Info(coordinator.StillStarting, "why", "x")
		over()
		part.Info("three", "a", 1)
		part.Debug("four")
		var got []string
		for line := range strings.Lines(b.String()) {
			_, rest, _ := strings.Cut(line, "level=")
			l, rest, _ := strings.Cut(rest, " msg=")
			word, _, _ := strings.Cut(strings.Trim(rest, "\" \n"), " ")
			got = append(got, l+" "+word+".")
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("at level %s: %q, want %q", level, s, want)
		}
	}
}
