package bus

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	rtt     time.Duration // of the connection; 0: not known
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
	for range 8 { // the least of some: one is what the machine was busy with at that moment
		if rtt, err := b.nc.RTT(); err == nil && (g.rtt == 0 || rtt < g.rtt) {
			g.rtt = rtt // one that cannot be had now is done without
		}
	}
}

func (g *group) append(ctx context.Context, e Entry) (uint64, error) {
	g.mu.Lock()
	load := g.alone + g.batched + len(g.waiting) + 1
	grouping := g.batched > 0 || len(g.waiting) > 0
	if !grouping && !g.pace.worth(load) {
		g.alone++
		g.mu.Unlock()
		start := time.Now()
		seq, err := g.b.publish(ctx, e)
		took := time.Since(start)
		g.mu.Lock()
		if load == 1 && g.alone == 1 && err == nil && g.rtt > 0 {
			g.pace.learn(&g.pace.lone, took-g.rtt)
		}
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
		g.pace.learn(&g.pace.crowd, time.Since(g.began)/64)
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

// fewest is the smallest batch: below it a batch costs more than its members one by one, on every server.
const fewest = 8

// What a batch costs the server, measured on 2 shared cores with nats-server 2.15 (a folder to stage it in, and one sync for
// all), and what each of its messages adds.
const (
	batchCost   = 3 * time.Millisecond
	messageCost = 25 * time.Microsecond
)

// pace tells whether appends should go as a batch. It measures what a message costs by itself on this server instead of
// asking anybody to configure it: with a sync to disk per write a batch is the cheaper way from about 20 messages on,
// without one it is not. What a batch takes is not measured: it waits for what other processes write at that moment, and a
// process that thinks its batches dear would go back to what makes them all slow.
type pace struct {
	crowd cost          // one of many under way: the time from answer to answer
	lone  cost          // one by itself: the time to its answer, less that of the way there and back

	// single is what a message costs by itself; 0: not known yet. The crowd's time may be that of slow callers, the lone one's
	// that of distant replicas, so the lesser counts.
	single time.Duration
	known  time.Duration // > 0: it is known and not measured
}

// learn takes a measurement in.
func (p *pace) learn(c *cost, d time.Duration) {
	c.add(d)
	p.single = p.crowd.least()
	if p.lone.n > 0 && p.crowd.n > 0 {
		p.single = min(p.single, p.lone.usual())
	}
}

// worth says whether n messages should go as a batch.
func (p *pace) worth(n int) bool {
	return n >= fewest && time.Duration(n)*cmp.Or(p.known, p.single) > batchCost+time.Duration(n)*messageCost
}

// cost is the last measurements of one.
type cost struct {
	last [16]time.Duration
	n    int
}

func (c *cost) add(d time.Duration) {
	c.last[c.n%len(c.last)] = max(d, 0)
	c.n++
}

// least of them: what is more is others' work on the same server.
func (c *cost) least() time.Duration { return slices.Min(c.last[:max(1, min(c.n, len(c.last)))]) }

// usual is the one in their middle: a difference of two short times is now and then nothing at all.
func (c *cost) usual() time.Duration {
	all := slices.Sorted(slices.Values(c.last[:max(1, min(c.n, len(c.last)))]))
	return all[len(all)/2]
}
