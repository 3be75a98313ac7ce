// Package pool does what may take long beside who asks for it: some of it at once, and nothing twice at once.
package pool

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Config is how a Pool works. Its zero value has no limits, no pauses, and tells nobody.
type Config struct {
	Slots   int                           // how much is done at once; 0: no limit
	Each    int                           // how much of one group; 0: no limit
	Backoff func(times int) time.Duration // how long a key rests that has failed so often in a row
	Idle    func()                        // hears of every end: there is room again; must not block
}

// Pool is what is under way. What failed rests for a while.
type Pool struct {
	Config

	mu     sync.Mutex
	busy   map[string]string // keys under way, with their groups
	groups map[string]int    // how much of each is under way
	rests  map[string]rest
	wg     sync.WaitGroup
}

// rest is a key that failed.
type rest struct {
	times int
	until time.Time
}

// New makes a Pool.
func New(cfg Config) *Pool {
	return &Pool{Config: cfg, busy: map[string]string{}, groups: map[string]int{}, rests: map[string]rest{}}
}

// Go does f beside the caller. False: it does not, since the key is busy or rests, there is no room, or ctx has ended.
func (p *Pool) Go(ctx context.Context, key, group string, f func(context.Context) error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, busy := p.busy[key]; busy || p.free(group) <= 0 || time.Now().Before(p.rests[key].until) || ctx.Err() != nil {
		return false
	}
	p.busy[key] = group
	p.groups[group]++
	p.wg.Go(func() { p.end(key, f(ctx)) })
	return true
}

func (p *Pool) end(key string, err error) {
	p.mu.Lock()
	group := p.busy[key]
	delete(p.busy, key)
	if p.groups[group]--; p.groups[group] == 0 {
		delete(p.groups, group)
	}
	if err == nil {
		delete(p.rests, key)
	} else if p.Backoff != nil {
		n := p.rests[key].times + 1
		p.rests[key] = rest{n, time.Now().Add(p.Backoff(n))}
	}
	p.mu.Unlock()
	if p.Idle != nil {
		p.Idle()
	}
}

// many is room without a limit.
const many = 1 << 30

// Free is how much more of a group can be done now.
func (p *Pool) Free(group string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free(group)
}

func (p *Pool) free(group string) int {
	n := many
	if p.Slots > 0 {
		n = p.Slots - len(p.busy)
	}
	if p.Each > 0 {
		n = min(n, p.Each-p.groups[group])
	}
	return n
}

// Busy are the keys under way, with their groups.
func (p *Pool) Busy() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.busy)
}

// Keep forgets how often keys failed of which nothing is to be done any more. still must not call the pool.
func (p *Pool) Keep(still func(key string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.rests, func(key string, _ rest) bool { return !still(key) })
}

// Wait returns when nothing is under way. Who calls Go has ended before.
func (p *Pool) Wait() { p.wg.Wait() }
