// Package pool runs slow work in the background: some of it at once, and none of it twice at once.
package pool

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Config configures a Pool. Its zero value has no limits and no backoff.
type Config struct {
	Slots   int                           // how much runs at once; 0: no limit
	Each    int                           // how much of one group; 0: no limit
	Backoff func(times int) time.Duration // how long a key waits after so many failures in a row
	Idle    func()                        // called when work has ended, so there is room again; must not block
}

// Pool is the work in progress. Failed keys back off.
type Pool struct {
	Config

	mu       sync.Mutex
	busy     map[string]string // keys in progress, with their groups
	groups   map[string]int    // how much of each group is in progress
	backoffs map[string]backoff
	wg       sync.WaitGroup
}

// backoff is a key that failed.
type backoff struct {
	times int
	until time.Time
}

// New returns a Pool.
func New(cfg Config) *Pool {
	return &Pool{Config: cfg, busy: map[string]string{}, groups: map[string]int{}, backoffs: map[string]backoff{}}
}

// Go runs f in the background. It reports false if it does not: the key is busy or backing off, there is no room, or
// ctx has ended.
func (p *Pool) Go(ctx context.Context, key, group string, f func(context.Context) error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, busy := p.busy[key]; busy || p.free(group) <= 0 || time.Now().Before(p.backoffs[key].until) ||
		ctx.Err() != nil {
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
	p.groups[group]--
	if p.groups[group] == 0 {
		delete(p.groups, group)
	}
	if err == nil {
		delete(p.backoffs, key)
	} else if p.Backoff != nil {
		n := p.backoffs[key].times + 1
		p.backoffs[key] = backoff{n, time.Now().Add(p.Backoff(n))}
	}
	p.mu.Unlock()
	if p.Idle != nil {
		p.Idle()
	}
}

// unlimited is room without a limit.
const unlimited = 1 << 30

// Free returns how much more of a group may run now.
func (p *Pool) Free(group string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free(group)
}

func (p *Pool) free(group string) int {
	n := unlimited
	if p.Slots > 0 {
		n = p.Slots - len(p.busy)
	}
	if p.Each > 0 {
		n = min(n, p.Each-p.groups[group])
	}
	return n
}

// Busy returns the keys in progress, with their groups.
func (p *Pool) Busy() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.busy)
}

// Keep forgets the failures of keys for which still reports false. still must not call the pool.
func (p *Pool) Keep(still func(key string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.backoffs, func(key string, _ backoff) bool { return !still(key) })
}

// Wait returns when nothing is in progress. Call it after the last Go.
func (p *Pool) Wait() { p.wg.Wait() }
