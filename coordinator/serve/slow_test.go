package serve

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowStart: a start of more than a second says what it waits for, and a quick one nothing.
func TestSlowStart(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		want  int
	}{
		{900 * time.Millisecond, 0},
		{1500 * time.Millisecond, 1},
		{7 * time.Second, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var b strings.Builder
			stop := tellSlow(slog.New(slog.NewTextHandler(&b, nil)), func() error { return errors.New("it reads") })
			time.Sleep(tt.takes)
			stop()
			time.Sleep(time.Minute)
			if n := strings.Count(b.String(), `msg="still starting" why="it reads"`); n != tt.want {
				t.Errorf("a start of %s: %s", tt.takes, b.String())
			}
		})
	}
}
