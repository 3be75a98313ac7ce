package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
)

// clock is the simulated time in microseconds, with the planned events.
type clock struct {
	now    float64
	events agenda
	order  int
	rng    *rand.Rand
}

type event struct {
	at    float64
	order int // order of events at the same time
	do    func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// after plans an event.
func (c *clock) after(micros float64, do func()) {
	c.order++
	heap.Push(&c.events, event{c.now + micros, c.order, do})
}

// run advances the time.
func (c *clock) run(until float64) {
	for len(c.events) > 0 && c.events[0].at <= until {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	c.now = until
}

// cores are the CPUs of one machine: first come, first served.
type cores struct {
	c     *clock
	free  int
	all   int
	queue []job
	used  float64 // CPU time in microseconds
}

type job struct {
	micros float64
	then   func()
}

func (p *cores) use(micros float64, then func()) {
	if p.free == 0 {
		p.queue = append(p.queue, job{micros, then})
		return
	}
	p.free--
	p.begin(job{micros, then})
}

func (p *cores) begin(j job) {
	p.used += j.micros
	p.c.after(j.micros, func() {
		if len(p.queue) > 0 {
			next := p.queue[0]
			p.queue = p.queue[1:]
			p.begin(next)
		} else {
			p.free++
		}
		j.then()
	})
}

// disk commits the batches of a stream, one after the other.
type disk struct {
	c      *clock
	cost   func(n int) float64
	until  float64 // busy until
	used   float64
	writes int
}

func (d *disk) commit(n int, then func()) {
	took := d.cost(n)
	d.until = max(d.until, d.c.now) + took
	d.used += took
	d.writes++
	d.c.after(d.until-d.c.now, then)
}

// writer is a process's writer for a stream: one batch in flight, and the next one takes all waiting records.
type writer struct {
	nats    *cores
	disk    *disk
	pending []func()
	busy    bool
}

// append writes a record; then is called when it is committed.
func (w *writer) append(then func()) {
	w.pending = append(w.pending, then)
	if !w.busy {
		w.flush()
	}
}

func (w *writer) flush() {
	batch := slices.Clone(w.pending[:min(len(w.pending), 1000)])
	w.pending = append(w.pending[:0], w.pending[len(batch):]...)
	w.busy = len(batch) > 0
	if !w.busy {
		return
	}
	w.nats.use(natsAppendCost*float64(len(batch)), func() {
		w.disk.commit(len(batch), func() {
			w.flush()
			for _, then := range batch {
				then()
			}
		})
	})
}
