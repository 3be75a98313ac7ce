package clock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if !Sleep(t.Context(), time.Minute) || time.Since(begin) != time.Minute {
			t.Errorf("slept %s of a minute", time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if Sleep(ctx, time.Minute) || time.Since(begin) != time.Second {
			t.Errorf("the context ended after a second, Sleep after %s", time.Since(begin))
		}
	})
}
