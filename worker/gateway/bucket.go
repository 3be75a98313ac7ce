package gateway

import (
	"math"
	"sync"
	"time"
)

// bucket lets through size requests at once and rate per second in the long run.
type bucket struct {
	rate, size float64

	mu   sync.Mutex
	used float64
	at   time.Time
}

// take takes one; otherwise it says when there will be one, in whole seconds.
func (b *bucket) take(now time.Time) (wait int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = max(0, b.used-b.rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.used+1 > b.size {
		return int(math.Ceil(max((b.used+1-b.size)/b.rate, 1))), false
	}
	b.used++
	return 0, true
}
