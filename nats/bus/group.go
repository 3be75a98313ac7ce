package bus

import (
	"context"
	"errors"
	"math/bits"
	"sync"
	"time"
)

// group is group commit. An append goes out by itself while few are under way; when many are, and a batch is
// the cheaper way, it waits until the batch before it is written and goes with all who waited as one atomic
// batch: one sync to disk for all of them.
type group struct {
	b       *Bus
	mu      sync.Mutex
	alone   int // under way by themselves
	batched int // under way in the one batch, or about to come back from it
	expect  int // > 0: the batch is written, its callers are awaited until so many wait, or until the timer fires
	linger  *time.Timer
	waiting []*waiter
	strokes int // answers to those who went alone, with others beside them all the time since began
	began   time.Time
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

func (g *group) init(b *Bus) {
	g.b = b
	g.linger = time.AfterFunc(time.Hour, g.lingered)
	g.linger.Stop()
}

func (g *group) append(ctx context.Context, e Entry) (uint64, error) {
	g.mu.Lock()
	start := time.Now()
	load := g.alone + g.batched + len(g.waiting) + 1
	grouping := g.batched > 0 || len(g.waiting) > 0
	if !grouping && !g.pace.worth(load, start) {
		g.alone++
		g.mu.Unlock()
		seq, err := g.b.publish(ctx, e)
		g.mu.Lock()
		g.stroke()
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

// stroke counts an answer to one who went alone: what such a message costs is told by how many are answered in a
// time in which several were under way, and no batch.
func (g *group) stroke() {
	switch {
	case g.batched > 0 || g.alone < fewest/2:
		g.strokes = 0
	case g.strokes == 0:
		g.strokes, g.began = 1, time.Now()
	case g.strokes == 64:
		g.pace.single.add(time.Since(g.began), 64)
		g.strokes = 0
	default:
		g.strokes++
	}
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
	worth := g.pace.worth(n, time.Now())
	if !worth && g.alone > 0 && n < len(g.waiting)+g.alone && g.pace.worth(n+g.alone, time.Now()) {
		return // with those who are about to come back it will be
	}
	members := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	if len(g.waiting) == 0 {
		g.waiting = nil
	}
	if worth {
		g.batched = n
		g.strokes = 0
		go g.commit(members)
		return
	}
	g.alone += n
	for _, w := range members {
		go func() {
			seq, err := g.b.publish(w.ctx, w.e)
			w.done <- appended{seq, err}
			g.mu.Lock()
			g.stroke()
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last uint64
	var err error
	if len(entries) > 0 {
		last, err = g.b.batch(ctx, entries)
	}
	took := time.Since(start)
	if _, refused := errors.AsType[*refusal](err); refused || errors.Is(err, ErrTaken) {
		g.each(live) // one member is to blame, the others are not
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

// finish ends a batch of n. Its callers often come back at once with their next append, and a batch costs about
// the same whatever it holds: so it waits for them a little, an eighth of what the batch took.
func (g *group) finish(n int, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n == 0 {
		g.batched = 0
		g.send()
		return
	}
	g.pace.class(n).add(took, n)
	g.expect = n + len(g.waiting)
	g.linger.Reset(min(took/8, time.Millisecond))
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

// fewest is the smallest batch: below it a batch costs more than its members one by one, on every server.
const fewest = 8

// stale is how old a measurement may be before it is made again, enough how many of a kind are needed.
const (
	stale  = 10 * time.Second
	enough = 3
)

// pace knows what a message costs by itself (when several are under way) and in a batch, by its size (powers
// of two), and so which is the cheaper way on this server: with a sync per write a batch is, from some size on;
// without it none is. It measures instead of asking anybody to configure it.
type pace struct {
	single cost
	shared [12]cost
}

// cost is a moving average of nanoseconds a message.
type cost struct {
	mean float64
	n    int
	at   time.Time
}

func (c *cost) add(took time.Duration, messages int) {
	c.n++
	c.mean += (float64(took)/float64(messages) - c.mean) / float64(min(c.n, 8))
	c.at = time.Now()
}

func (c *cost) unknown(now time.Time) bool { return c.n < enough || now.Sub(c.at) > stale }

func (p *pace) class(n int) *cost { return &p.shared[min(bits.Len(uint(n)), len(p.shared)-1)] }

// worth says whether n messages should go as a batch.
func (p *pace) worth(n int, now time.Time) bool {
	if n < fewest || p.single.unknown(now) {
		return false // first see what it costs without
	}
	c := p.class(n)
	return c.unknown(now) || c.mean < p.single.mean
}
