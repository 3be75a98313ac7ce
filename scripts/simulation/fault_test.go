package simulation

import (
	"fmt"
	"time"

	"ao/nats/subject"
)

// inject has something go wrong, and ends that later.
func (w *world) inject(f faultEvent) {
	w.log.Info("fault", "what", f.What, "who", f.Who, "for", f.For)
	over := func(end func()) { w.loop.after(f.For, "end of "+f.What, end) }
	c, k := w.coordinators[f.Who%len(w.coordinators)], w.workers[f.Who%len(w.workers)]
	switch f.What {
	case killCoordinator:
		w.killCoordinator(c, f.For)
	case killWorker:
		w.killWorker(k, f.For)
	case cutCoordinator:
		c.disconnect()
		over(func() { w.reconnect(c.client) })
	case cutWorker:
		k.disconnect()
		over(func() { w.reconnect(k.client) })
	case outage, crash, rot:
		w.crash(f)
		over(func() {
			if w.runs.down {
				w.restart()
			}
		})
	case unreadable:
		w.decay(f)
		over(w.restart)
		if f.Who%2 == 0 { // whoever starts reads them
			w.killCoordinator(c, f.For)
		}
	case tornBatch:
		w.tearing = &f
	case absence:
		w.absence(w.workers[f.Who%len(w.workers)].runner.ExecutorType, f.For*time.Duration(1+f.Who%3))
	case lostConsumers:
		for _, k := range w.workers {
			k.disconnect()
		}
		over(func() {
			for name, q := range w.consumers {
				w.redeliver(name, 0, q.next)
			}
			clear(w.consumers)
			if f.Who%2 == 0 { // with a restart
				w.restart()
			}
			for _, k := range w.workers {
				w.reconnect(k.client)
			}
		})
	case oldConsumers:
		w.ageConsumers(f.Who)
		w.restart()
	case lateWatch:
		c.blind++
		over(func() {
			if c.blind--; c.blind == 0 {
				for _, put := range c.unseen {
					put()
				}
				c.unseen = nil
			}
		})
	case garbage:
		w.garbage(f.Who)
	default:
		w.active[f.What]++
		over(func() {
			w.active[f.What]--
			w.steadySince = time.Now()
			if f.What == slow {
				w.slowUntil = time.Now()
			}
		})
	}
}

func (w *world) killCoordinator(c *coordinator, away time.Duration) {
	if !w.isRunning(c) {
		return
	}
	c.stop()
	w.oracle.forgets()
	c.disconnect()
	w.past = append(w.past, c)
	w.loop.after(away, "start", func() {
		for i, at := range w.coordinators {
			if at == c {
				started := w.startCoordinator(c.name)
				w.coordinators = w.coordinators[:len(w.coordinators)-1]
				w.coordinators[i] = started
			}
		}
	})
}

func (w *world) isRunning(c *coordinator) bool {
	for _, p := range w.past {
		if p == c {
			return false
		}
	}
	return true
}

func (w *world) killWorker(k *worker, away time.Duration) {
	if k.ctx.Err() != nil {
		return
	}
	w.loop.later(k.kill)
	k.disconnect()
	w.loop.after(away, "start", func() {
		for i, at := range w.workers {
			if at == k {
				w.startWorker(k.runner.Hostname, k.runner.ExecutorType)
				started := w.workers[len(w.workers)-1]
				w.workers = w.workers[:len(w.workers)-1]
				w.workers[i] = started
			}
		}
	})
}

// absence shuts all workers of a kind down, which deregister, and starts them again.
func (w *world) absence(kind string, away time.Duration) {
	for _, k := range w.workers {
		if k.runner.ExecutorType == kind {
			w.killWorker(k, away)
			w.deregister(k.runner)
		}
	}
}

// tears reports whether this is the batch that is torn: any, or one that ends a run which waits.
func (w *world) tears(a *act, entries []entry) bool {
	if w.tearing == nil || len(entries) < 2 {
		return false
	}
	rec, err := subject.Parse(entries[0].Subject)
	return err == nil && rec.Kind == subject.ClaimedKind || w.tearing.Who%2 == 0 && a.fate%4 == 0
}

// tear crashes NATS after the first records of a batch.
func (w *world) tear(c *client, entries []entry) {
	f := *w.tearing
	w.tearing = nil
	c.write(entries[:1+len(entries)/3]...)
	f.What = outage
	w.inject(f)
}

// reconnect connects a process again, unless NATS is away.
func (w *world) reconnect(c *client) {
	if !w.runs.down {
		c.reconnect()
	}
}

// crash stops NATS. It may lose its last records, and write only the beginning of batches.
func (w *world) crash(f faultEvent) {
	w.loop.crash()
	w.runs.down = true
	w.runs.ends++
	for _, c := range w.clients {
		c.disconnect()
	}
	clear(w.runs.held)
	if f.What == crash {
		n := 1 + w.loop.number("tail", f.Who)%40
		from := max(w.runs.last(), n) - n + 1
		for seq := range w.runs.rotten {
			from = min(from, seq) // NATS stops reading its file there
		}
		if from > w.runs.first {
			w.oracle.misses(w.runs.cut(from), false)
		}
	}
	if f.What == rot {
		n := 1 + w.loop.number("rot", f.Who)%60
		w.oracle.misses(w.runs.hole(w.runs.first+n, n), true)
	}
}

// decay ends NATS cleanly. Records of some kind are unreadable when it comes back. In a cluster others can read them.
func (w *world) decay(f faultEvent) {
	w.runs.down = true
	w.runs.ends++
	for _, c := range w.clients {
		c.disconnect()
	}
	kinds := []subject.Kind{subject.ClaimedKind, subject.EndedKind, subject.QueuedKind, subject.AcceptedKind,
		subject.Unknown}
	kind := kinds[f.Who%len(kinds)] // the last one: any
	var all []message
	for _, m := range w.runs.read("ao.runs.>", 0, 1<<20) {
		if time.Since(m.Time) > retentionTime*4/5 { // soon truncated
			continue
		}
		if rec, err := subject.Parse(m.Subject); kind == subject.Unknown || err == nil && rec.Kind == kind {
			all = append(all, m)
		}
	}
	for n := range min(2, len(all)) {
		m := all[w.loop.number("decay", f.Who+n)%uint64(len(all))]
		if !w.runs.rotten[m.Seq] && !w.runs.clustered {
			w.runs.decay(m.Seq)
			w.oracle.decays(m)
		}
	}
}

// restart starts NATS, and has everybody reconnect.
func (w *world) restart() {
	w.runs.down = false
	for _, c := range w.clients {
		if c.up {
			c.disconnect()
		}
		w.loop.after(time.Duration(w.loop.number(c.name, c.link)%400)*time.Millisecond, "reconnect", func() {
			if !w.runs.down {
				c.reconnect()
			}
		})
	}
}

// ageConsumers restores older states: what was acknowledged is delivered again.
func (w *world) ageConsumers(n int) {
	for name, q := range w.consumers {
		back, end := w.loop.number(name, n)%60, q.next
		q.next = max(q.next, back+1) - back
		w.redeliver(name, q.next, end)
		clear(q.waiting)
	}
}

// redeliver notes which runs a queue delivers once more. If NATS loses their claims, too, they may start again.
func (w *world) redeliver(queue string, from, end uint64) {
	for _, seq := range w.runs.queued[queue] {
		if rec, err := subject.Parse(w.runs.msgs[seq].Subject); err == nil && from <= seq && seq < end {
			w.oracle.losses.again[rec.Run] = true
		}
	}
}

// garbage writes records that nobody can read, as anybody with a worker's credential could.
func (w *world) garbage(n int) {
	by := w.clients[0]
	if ids := w.oracle.order; len(ids) > 0 {
		id := ids[n%len(ids)]
		part := subject.Partition(w.oracle.runs[id].session)
		_, _ = by.write(entry{Subject: subject.Ended(part, id, fmt.Sprintf("%032x", n)), Body: []byte(`{"v":1}`)})
	}
	_, _ = by.write(entry{Subject: fmt.Sprintf("ao.runs.7.unheard.of%d", w.runs.last()), Body: []byte("{")})
}

// heal ends all faults.
func (w *world) heal() {
	w.runs.down, w.tearing = false, nil
	clear(w.active)
	w.oracle.calm = true
	if w.oracle.losses.any {
		w.calling++
		w.loop.later(func() { w.loop.spawn(func() { w.accept(); w.returned("admin", func() {}) }) })
	}
	for _, c := range w.clients {
		w.reconnect(c)
	}
}
