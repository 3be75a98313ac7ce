package bus

import (
	"context"
	"errors"
	"sync"
	"time"
)

// group is group commit. While few appends are in flight, each goes out alone. While many are, and batches are faster,
// an append waits for the batch in flight. Then all that wait go out as one atomic batch with one sync to disk.
type group struct {
	b       *Log
	mu      sync.Mutex
	singles int // in flight without a batch
	batched int // in the batch in flight, or expected back from it
	expect  int // > 0: the batch is written, and the next one waits for so many appends or the timer
	linger  *time.Timer
	waiting []*waiter
	tuner   batchTuner
}

type waiter struct {
	ctx  context.Context
	e    Entry
	done chan appended
}

type appended struct {
	seq uint64
	err error
}

func newGroup(b *Log) *group {
	g := &group{b: b}
	g.linger = time.AfterFunc(time.Hour, g.lingerExpired)
	g.linger.Stop()
	return g
}

func (g *group) append(ctx context.Context, e Entry) (uint64, error) {
	g.mu.Lock()
	load := g.singles + g.batched + len(g.waiting) + 1
	grouping := g.batched > 0 || len(g.waiting) > 0
	if load == 1 {
		g.tuner.idle(time.Now())
	}
	if !grouping && !g.tuner.useBatch(load) {
		g.singles++
		g.mu.Unlock()
		seq, err := g.b.publish(ctx, e)
		g.mu.Lock()
		g.answered(1)
		g.singles--
		g.send()
		g.mu.Unlock()
		return seq, err
	}
	w := &waiter{ctx: ctx, e: e, done: make(chan appended, 1)}
	g.waiting = append(g.waiting, w)
	if g.expect > 0 && len(g.waiting) >= g.expect {
		g.linger.Stop()
		g.batched, g.expect = 0, 0
	}
	g.send()
	g.mu.Unlock()
	select {
	case r := <-w.done:
		return r.seq, r.err
	case <-ctx.Done():
		return 0, asFault(ctx, ctx.Err())
	}
}

// answered reports n replies to the tuner. The caller holds the lock.
func (g *group) answered(n int) {
	g.tuner.answered(n, g.singles+g.batched+len(g.waiting), time.Now())
}

// send sends waiting appends if it is their turn. The caller holds the lock.
func (g *group) send() {
	if g.batched > 0 || len(g.waiting) == 0 {
		return
	}
	n, size := 0, 0
	for n < len(g.waiting) && n < maxBatch && (n == 0 || size+len(g.waiting[n].e.Body) <= maxBatchBytes) {
		size += len(g.waiting[n].e.Body)
		n++
	}
	worth := g.tuner.useBatch(n)
	if !worth && g.singles > 0 && n < len(g.waiting)+g.singles && g.tuner.useBatch(n+g.singles) {
		return // it will be, with the appends in flight
	}
	members := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	if len(g.waiting) == 0 {
		g.waiting = nil
	}
	if worth {
		g.batched = n
		go g.commit(members)
		return
	}
	g.singles += n
	for _, w := range members {
		go func() {
			seq, err := g.b.publish(w.ctx, w.e)
			w.done <- appended{seq, err}
			g.mu.Lock()
			g.answered(1)
			g.singles--
			g.send()
			g.mu.Unlock()
		}()
	}
}

// commit writes a batch.
func (g *group) commit(members []*waiter) {
	live := members[:0:0]
	entries := make([]Entry, 0, len(members))
	for _, w := range members {
		if w.ctx.Err() != nil {
			continue // its caller is gone
		}
		live = append(live, w)
		entries = append(entries, w.e)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), g.b.recordTimeout())
	defer cancel()
	var last uint64
	var err error
	if len(entries) > 0 {
		last, err = g.b.tryBatch(ctx, entries)
	}
	elapsed := time.Since(start)
	if _, refused := errors.AsType[*refusal](err); refused || errors.Is(err, ErrTaken) {
		g.publishEach(live) // one member is refused, the others may not be; or there are too many batches
		g.finish(0, 0)
		return
	}
	if err == nil {
		g.finish(len(live), elapsed)
	} else {
		g.finish(0, 0)
	}
	for i, w := range live {
		if err != nil {
			w.done <- appended{err: err}
		} else {
			w.done <- appended{seq: last - uint64(len(live)-1-i)}
		}
	}
}

// finish ends a batch of n. Its callers often append again soon, and a batch costs about the same whatever its
// size. So the next batch waits for them, half the time of this one at most.
func (g *group) finish(n int, elapsed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n == 0 {
		g.batched = 0
		g.send()
		return
	}
	g.answered(n)
	g.expect = n + len(g.waiting)
	g.linger.Reset(min(elapsed/2, 4*time.Millisecond))
}

func (g *group) lingerExpired() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.expect == 0 {
		return // all have come, just now
	}
	g.batched, g.expect = 0, 0
	g.send()
}

// publishEach writes the members one by one, concurrently, and waits for all.
func (g *group) publishEach(members []*waiter) {
	var wg sync.WaitGroup
	for _, w := range members {
		wg.Go(func() {
			seq, err := g.b.publish(w.ctx, w.e)
			w.done <- appended{seq, err}
		})
	}
	wg.Wait()
}
