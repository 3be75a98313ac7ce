package bus

import (
	"context"
	"errors"
	"math/bits"
	"sync"
	"time"
)

// group is group commit. An append goes out by itself while few are in flight, or while that is the cheaper
// way; else it waits until the batch before it is written, and goes with all who waited as one atomic batch:
// one sync to disk for all of them.
type group struct {
	b       *Bus
	mu      sync.Mutex
	alone   int // in flight by themselves
	batched int // in flight in a batch; one batch at a time
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

func (g *group) init(b *Bus) { g.b = b }

func (g *group) append(ctx context.Context, e Entry) (uint64, error) {
	g.mu.Lock()
	start := time.Now()
	load := g.alone + g.batched + len(g.waiting) + 1
	if !g.pace.grouped(load, start) {
		g.alone++
		g.mu.Unlock()
		seq, err := g.b.publish(ctx, e)
		g.mu.Lock()
		g.alone--
		if err == nil {
			g.pace.alone(load, time.Since(start))
		}
		g.send()
		g.mu.Unlock()
		return seq, err
	}
	w := &waiter{ctx: ctx, e: e, done: make(chan appended, 1)}
	g.waiting = append(g.waiting, w)
	g.send()
	g.mu.Unlock()
	select {
	case r := <-w.done:
		return r.seq, r.err
	case <-ctx.Done():
		return 0, away(ctx, ctx.Err())
	}
}

// send lets those go who wait, when it is their turn. The caller holds the lock.
func (g *group) send() {
	if g.batched > 0 || len(g.waiting) == 0 {
		return
	}
	if len(g.waiting) < fewest && g.alone > 0 {
		return // company may come before the next answer does
	}
	n, size := 0, 0
	for n < len(g.waiting) && n < maxBatch && (n == 0 || size+len(g.waiting[n].e.Body) <= maxBatchBytes) {
		size += len(g.waiting[n].e.Body)
		n++
	}
	members := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	if len(g.waiting) == 0 {
		g.waiting = nil
	}
	g.batched = n
	go g.commit(members)
}

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
	if len(live) < fewest {
		g.each(live)
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		last, err := g.b.batch(ctx, entries)
		cancel()
		if err == nil {
			took := time.Since(start)
			g.mu.Lock()
			g.pace.batch(len(live), took)
			g.mu.Unlock()
		}
		if _, refused := errors.AsType[*refusal](err); refused || errors.Is(err, ErrTaken) {
			g.each(live) // one member is to blame, the others are not
		} else {
			for i, w := range live {
				if err != nil {
					w.done <- appended{err: err}
				} else {
					w.done <- appended{seq: last - uint64(len(live)-1-i)}
				}
			}
		}
	}
	g.mu.Lock()
	g.batched = 0
	g.send()
	g.mu.Unlock()
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

// fewest is the smallest batch: below it a batch costs more than its members one by one, on every server.
const fewest = 8

// pace knows what a message costs alone and in a batch, by how many are under way (a power of two each), and
// which is cheaper on this server: with a sync per write a batch is, without it is not. It measures both for a
// moment at first and again every few seconds, instead of asking anybody to configure it.
type pace [12]struct {
	single, shared cost
	group          bool
	until, trial   time.Time // when to choose again; when to try the other way again
}

const (
	trialFor   = 20 * time.Millisecond
	trialEvery = 10 * time.Second
	choiceFor  = 250 * time.Millisecond
)

// cost is a moving average, in nanoseconds a message.
type cost struct {
	mean float64
	n    int
}

func (c *cost) add(v float64, weight int) {
	c.n++
	c.mean += (v - c.mean) / float64(min(c.n, weight))
}

func (p *pace) class(load int) int { return min(bits.Len(uint(load)), len(p)-1) }

// grouped says whether an append joins a group when load are under way, itself included.
func (p *pace) grouped(load int, now time.Time) bool {
	if load <= fewest {
		return false
	}
	c := &p[p.class(load)]
	if now.Before(c.until) {
		return c.group
	}
	best := c.shared.mean < c.single.mean
	switch {
	case c.shared.n < 3:
		c.group, c.until = true, now.Add(trialFor)
	case c.single.n < 3*fewest:
		c.group, c.until = false, now.Add(trialFor)
	case now.After(c.trial):
		c.trial = now.Add(trialEvery)
		c.group, c.until = !best, now.Add(trialFor)
	default:
		c.group, c.until = best, now.Add(choiceFor)
	}
	return c.group
}

// alone notes what a message cost by itself with load under way (Little's law).
func (p *pace) alone(load int, took time.Duration) {
	p[p.class(load)].single.add(float64(took)/float64(load), 64)
}

func (p *pace) batch(n int, took time.Duration) {
	p[p.class(n)].shared.add(float64(took)/float64(n), 8)
}
