// Package simulation runs whole deployments in virtual time. The projection, the controllers and the ledger are the
// product's. NATS, the workers and the callers are simulated, and a seed decides what happens to them.
package simulation

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// loop decides what happens next. Goroutines ask it to do things, and block until it has done them. It acts only while
// all goroutines of its bubble are blocked, so each act is atomic.
type loop struct {
	seed  uint64
	steps atomic.Int64
	check func(what string) // called after each act

	mu       sync.Mutex
	arrivals []*act
	closed   bool
	wake     chan struct{} // holds one

	spare   chan func()   // goroutines that have nothing to do wait here
	ended   chan struct{} // closed in the end
	pending actHeap
	wakes   []func() // once the act is over
	order   int
	counts  map[string]int // of acts so far, by key
	delays  func(a *act) time.Duration
}

// see has a goroutine see what the loop has done. Those that a timer wakes call it before they look at the world. In
// the other direction synctest.Wait does it.
func (l *loop) see() { l.steps.Load() }

func newLoop(seed uint64) *loop {
	return &loop{seed: seed, wake: make(chan struct{}, 1), counts: map[string]int{},
		spare: make(chan func()), ended: make(chan struct{})}
}

// spawn calls f in another goroutine: in one that is done with its work, whose stack has grown already, or a new one.
func (l *loop) spawn(f func()) {
	select {
	case l.spare <- f:
	default:
		go func() {
			for {
				f()
				select {
				case f = <-l.spare:
				case <-l.ended:
					return
				}
			}
		}()
	}
}

// act is something that the loop does for a goroutine, or at a time.
type act struct {
	key   string               // who asks, and for what
	do    func() time.Duration // does it; the asker learns of it after that time
	done  chan struct{}        // nil: nobody waits
	crash func()               // called instead of do when the server crashes; nil: it is done later
	due   time.Time
	order int
	fate  uint64 // a number that depends on the seed, the key and how many acts of that key came before
}

// call has the loop do something for the caller, who waits. If ctx ends first, it may still be done.
func (l *loop) call(ctx context.Context, a *act) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.done = make(chan struct{})
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return context.Canceled
	}
	l.arrivals = append(l.arrivals, a)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// after does something after a while. Only the loop may call it.
func (l *loop) after(d time.Duration, key string, f func()) {
	l.push(&act{key: key, do: func() time.Duration { f(); return 0 }}, d)
}

func (l *loop) push(a *act, delay time.Duration) {
	l.name(a)
	a.due = time.Now().Add(delay)
	heap.Push(&l.pending, a)
}

// name gives an act its fate and its place among those of one moment.
func (l *loop) name(a *act) {
	n := l.counts[a.key] + 1
	l.counts[a.key] = n
	a.fate = l.number(a.key, n)
	l.order++
	a.order = l.order
}

// number returns a number that depends on the seed, a text and a count only.
func (l *loop) number(key string, n int) uint64 {
	x := uint64(14695981039346656037) // FNV-1a
	for i := range len(key) {
		x = (x ^ uint64(key[i])) * 1099511628211
	}
	x ^= l.seed*0x9e3779b97f4a7c15 ^ uint64(n)*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// run acts until over reports true or the time has come.
func (l *loop) run(until time.Time, over func() bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	l.release()
	for {
		synctest.Wait()
		l.take()
		if over() {
			return
		}
		now := time.Now()
		pause := until.Sub(now)
		if len(l.pending) > 0 {
			pause = min(pause, l.pending[0].due.Sub(now))
		}
		if pause > 0 {
			timer.Reset(pause)
			select {
			case <-l.wake:
			case <-timer.C:
			}
			continue
		}
		if !now.Before(until) {
			return
		}
		l.act(heap.Pop(&l.pending).(*act))
	}
}

func (l *loop) act(a *act) {
	answer := a.do()
	l.check(a.key) // first: whoever asked goes on at once
	l.release()
	if a.done != nil {
		if answer > 0 {
			l.push(&act{key: "answer " + a.key, done: a.done, do: func() time.Duration { return 0 }}, answer)
		} else {
			close(a.done)
		}
	}
}

// later has goroutines start or go on once the act is over: they must not see half of it.
func (l *loop) later(wake func()) { l.wakes = append(l.wakes, wake) }

func (l *loop) release() {
	l.steps.Add(1)
	for _, wake := range l.wakes {
		wake()
	}
	l.wakes = l.wakes[:0]
}

// take orders what has arrived: by key, so that the order in which goroutines came does not matter.
func (l *loop) take() {
	l.mu.Lock()
	all := l.arrivals
	l.arrivals = nil
	l.mu.Unlock()
	select {
	case <-l.wake: // for what is taken now
	default:
	}
	slices.SortStableFunc(all, func(a, b *act) int {
		switch {
		case a.key < b.key:
			return -1
		case a.key > b.key:
			return 1
		}
		return 0
	})
	for _, a := range all {
		l.name(a)
		a.due = time.Now().Add(l.delays(a))
		heap.Push(&l.pending, a)
	}
}

// close lets everybody go who waits or will.
func (l *loop) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.ended)
	}
	l.mu.Unlock()
}

// crash takes what a crashing server had in its hands.
func (l *loop) crash() {
	for _, a := range slices.Clone(l.pending) {
		if a.crash != nil {
			a.crash()
		}
	}
}

type actHeap []*act

func (h actHeap) Len() int      { return len(h) }
func (h actHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h actHeap) Less(i, j int) bool {
	if c := h[i].due.Compare(h[j].due); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}
func (h *actHeap) Push(x any) { *h = append(*h, x.(*act)) }
func (h *actHeap) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return a
}
