package runners

import (
	"sync"
	"time"

	"ao/shared/fault"

	"golang.org/x/time/rate"
)

// Pace limits how often a runner may register again, since every registration makes all coordinators look at what
// waits. Its zero value is ready to use.
type Pace struct {
	mu  sync.Mutex
	all map[string]*rate.Limiter
}

// A runner may register this often at once, and once a second after that.
const (
	paceBurst = 20
	paceEvery = time.Second
)

// paceRunners bounds the memory: beyond it all runners start again.
const paceRunners = 10_000

// allow refuses a registration of a runner that registers too often.
func (p *Pace) allow(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= paceRunners {
		p.all = map[string]*rate.Limiter{}
	}
	if p.all[id] == nil {
		p.all[id] = rate.NewLimiter(rate.Every(paceEvery), paceBurst)
	}
	if p.all[id].Allow() {
		return nil
	}
	return fault.New(fault.Busy, "too_many_registrations", "This runner registers too often: at most once a second, "+
		"and 20 times in a burst. Announce several changed agents together").With("runner_id", id).After(paceEvery)
}
