// Package clock waits.
package clock

import (
	"context"
	"time"
)

// Sleep waits for d or until ctx ends. It reports whether ctx goes on.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}
