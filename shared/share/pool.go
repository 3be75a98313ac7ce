package share

import (
	"context"
	"slices"
	"sync"
)

// Pool is room that owners share by a rule. An owner that holds nothing costs no memory.
type Pool struct {
	room int64
	rule Rule

	mu    sync.Mutex
	all   int64
	of    map[string]int64
	queue []*waiter // in the order in which they are served
}

// waiter is an owner that waits for n more.
type waiter struct {
	owner string
	n     int64
	ready chan struct{} // closed when it has them
}

// New returns a pool.
func New(room int64, rule Rule) *Pool { return &Pool{room: room, rule: rule, of: map[string]int64{}} }

// Take takes n more for an owner, ahead of those who wait. It reports whether there was room.
func (p *Pool) Take(owner string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(owner, n)
}

// take is Take for a caller that holds mu.
func (p *Pool) take(owner string, n int64) bool {
	if !p.rule(p.room, p.all, p.of[owner], n) {
		return false
	}
	p.add(owner, n)
	return true
}

func (p *Pool) add(owner string, n int64) {
	p.all += n
	if p.of[owner] += n; p.of[owner] == 0 {
		delete(p.of, owner)
	}
}

// Give gives n back.
func (p *Pool) Give(owner string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(owner, -n)
	p.serve()
}

// Wait is Take for an owner that can wait until ctx ends. Waiters are served in order, so that those who want little do
// not overtake one who wants much for ever. The error is the context's.
func (p *Pool) Wait(ctx context.Context, owner string, n int64) error {
	w := p.enqueue(owner, n)
	if w == nil {
		return nil
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	if p.dequeue(w) {
		return nil
	}
	return ctx.Err()
}

// enqueue takes n more, or returns a waiter for them. Nil: the owner has them.
func (p *Pool) enqueue(owner string, n int64) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 && p.take(owner, n) {
		return nil
	}
	w := &waiter{owner: owner, n: n, ready: make(chan struct{})}
	p.queue = append(p.queue, w)
	p.serve()
	if w.served() {
		return nil
	}
	return w
}

// dequeue ends a wait. It reports whether the owner has what it waited for.
func (p *Pool) dequeue(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.served() {
		return true
	}
	p.queue = slices.DeleteFunc(p.queue, func(other *waiter) bool { return other == w })
	p.serve() // those it kept back
	return false
}

func (w *waiter) served() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// serve serves waiters in order. One that finds too little room keeps it from all behind it. One whose own share is
// spent keeps it from its own owner only. The caller holds mu.
func (p *Pool) serve() {
	if len(p.queue) == 0 {
		return
	}
	full, spent := false, map[string]bool{}
	p.queue = slices.DeleteFunc(p.queue, func(w *waiter) bool {
		switch {
		case full || spent[w.owner]:
		case p.take(w.owner, w.n):
			close(w.ready)
			return true
		case p.rule.Spent(p.room, p.all, p.of[w.owner], w.n):
			spent[w.owner] = true
		default:
			full = true
		}
		return false
	})
}

// Spent reports whether it is the owner's own share that refuses it n more, and not that others have taken all.
func (p *Pool) Spent(owner string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rule.Spent(p.room, p.all, p.of[owner], n)
}

// Room returns how much all owners share.
func (p *Pool) Room() int64 { return p.room }

// Taken returns how much all owners hold.
func (p *Pool) Taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

// Of returns how much an owner holds.
func (p *Pool) Of(owner string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[owner]
}

// Owners returns how many owners hold something.
func (p *Pool) Owners() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.of)
}
