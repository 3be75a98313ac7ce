package clock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !Sleep(t.Context(), time.Minute) || time.Since(start) != time.Minute {
			t.Errorf("slept %s of a minute", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if Sleep(ctx, time.Minute) || time.Since(start) != time.Second {
			t.Errorf("the context ended after a second, Sleep after %s", time.Since(start))
		}
	})
}
