package gateway

import (
	"math"
	"sync"
	"time"
)

// rateLimiter allows bursts of size requests, and rate per second on average.
type rateLimiter struct {
	rate, size float64

	mu      sync.Mutex
	level   float64
	updated time.Time
}

// take takes a token. Without one, wait is how long until there is one, in whole seconds.
func (b *rateLimiter) take(now time.Time) (wait int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.level = max(0, b.level-b.rate*now.Sub(b.updated).Seconds())
	b.updated = now
	if b.level+1 > b.size {
		return int(math.Ceil(max((b.level+1-b.size)/b.rate, 1))), false
	}
	b.level++
	return 0, true
}
