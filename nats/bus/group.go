package bus

import (
	"context"
	"errors"
	"sync"
	"time"
)

// group is group commit. An append goes out by itself while few are under way; when many are, and a batch is
// the cheaper way, it waits until the batch before it is written and goes with all who waited as one atomic
// batch: one sync to disk for all of them.
type group struct {
	b       *Log
	mu      sync.Mutex
	alone   int // under way by themselves
	batched int // under way in the one batch, or about to come back from it
	expect  int // > 0: the batch is written, its callers are awaited until so many wait, or until the timer fires
	linger  *time.Timer
	waiting []*waiter
	pace    pace
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
	g.linger = time.AfterFunc(time.Hour, g.lingered)
	g.linger.Stop()
	return g
}

func (g *group) append(ctx context.Context, e Entry) (uint64, error) {
	g.mu.Lock()
	load := g.alone + g.batched + len(g.waiting) + 1
	grouping := g.batched > 0 || len(g.waiting) > 0
	if load == 1 {
		g.pace.quiet(time.Now())
	}
	if !grouping && !g.pace.worth(load) {
		g.alone++
		g.mu.Unlock()
		seq, err := g.b.publish(ctx, e)
		g.mu.Lock()
		g.answered(1)
		g.alone--
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
		return 0, away(ctx, ctx.Err())
	}
}

// answered tells the pace of n answers. The caller holds the lock.
func (g *group) answered(n int) {
	g.pace.answered(n, g.alone+g.batched+len(g.waiting), time.Now())
}

// send lets those go who wait, when it is their turn. The caller holds the lock.
func (g *group) send() {
	if g.batched > 0 || len(g.waiting) == 0 {
		return
	}
	n, size := 0, 0
	for n < len(g.waiting) && n < maxBatch && (n == 0 || size+len(g.waiting[n].e.Body) <= maxBatchBytes) {
		size += len(g.waiting[n].e.Body)
		n++
	}
	worth := g.pace.worth(n)
	if !worth && g.alone > 0 && n < len(g.waiting)+g.alone && g.pace.worth(n+g.alone) {
		return // with those who are about to come back it will be
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
	g.alone += n
	for _, w := range members {
		go func() {
			seq, err := g.b.publish(w.ctx, w.e)
			w.done <- appended{seq, err}
			g.mu.Lock()
			g.answered(1)
			g.alone--
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
			continue // its caller has left
		}
		live = append(live, w)
		entries = append(entries, w.e)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), g.b.brief())
	defer cancel()
	var last uint64
	var err error
	if len(entries) > 0 {
		last, err = g.b.tryBatch(ctx, entries)
	}
	took := time.Since(start)
	if _, refused := errors.AsType[*refusal](err); refused || errors.Is(err, ErrTaken) {
		g.each(live) // one member is to blame, the others are not; or there are too many batches
		g.finish(0, 0)
		return
	}
	if err == nil {
		g.finish(len(live), took)
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

// finish ends a batch of n. Its callers often come back soon with their next append, and a batch costs about the same
// whatever it holds: so it waits for them, half of what the batch took at most.
func (g *group) finish(n int, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n == 0 {
		g.batched = 0
		g.send()
		return
	}
	g.answered(n)
	g.expect = n + len(g.waiting)
	g.linger.Reset(min(took/2, 4*time.Millisecond))
}

func (g *group) lingered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.expect == 0 {
		return // they came, just now
	}
	g.batched, g.expect = 0, 0
	g.send()
}

// each writes the members one by one, side by side, and waits for all.
func (g *group) each(members []*waiter) {
	var wg sync.WaitGroup
	for _, w := range members {
		wg.Go(func() {
			seq, err := g.b.publish(w.ctx, w.e)
			w.done <- appended{seq, err}
		})
	}
	wg.Wait()
}
