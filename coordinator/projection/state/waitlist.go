package state

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// maxQueues is how many queues are remembered before empty ones are forgotten.
const maxQueues = 1024

func newWaitlists() *waitlists {
	ls := &waitlists{queues: map[string]*waitlist{}, waits: waits{map[string]int{}, map[string]int{}}}
	ls.unqueued.waits = &ls.waits
	return ls
}

// enter appends a run.
func (l *waitlist) enter(r *Row, at int64) {
	p := r.live
	p.in, p.before, p.behind, p.since = l, l.last, nil, at
	if l.last == nil {
		l.first = r
	} else {
		l.last.live.behind = r
	}
	l.last = r
	l.n++
	if l.waits != nil {
		l.waits.add(r, 1)
	}
}

// leaveWaitlist removes a run from its waitlist.
func (r *Row) leaveWaitlist() {
	p, l := r.live, r.live.in
	if p.before != nil {
		p.before.live.behind = p.behind
	} else {
		l.first = p.behind
	}
	if p.behind != nil {
		p.behind.live.before = p.before
	} else {
		l.last = p.before
	}
	l.n--
	if l.waits != nil {
		l.waits.add(r, -1)
	}
	p.in, p.before, p.behind = nil, nil, nil
}

// moveIn moves a run here from another waitlist.
func (l *waitlist) moveIn(r *Row, at int64) {
	r.leaveWaitlist()
	l.enter(r, at)
}

// queue returns the waitlist of a queue. Its name is stored once.
func (ls *waitlists) queue(name string) *waitlist {
	if l := ls.queues[name]; l != nil {
		return l
	}
	if len(ls.queues) >= maxQueues {
		maps.DeleteFunc(ls.queues, func(_ string, l *waitlist) bool { return l.n == 0 })
	}
	l := &waitlist{queue: string([]byte(name)), waits: &ls.waits} // a copy, not a part of the subject
	ls.queues[l.queue] = l
	return l
}

// rebuild puts the runs of a checkpoint into their waitlists, in the order in which they arrived there.
func (ls *waitlists) rebuild(head *Row, ts *trees) {
	came := func(r *Row) uint64 { return max(r.live.snap.QueuedSeq, r.live.snap.ClaimSeq, r.First) }
	var all []*Row
	for r := head; r != nil; r = r.live.next {
		r.noteOwners(ts)
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Row) int { return cmp.Compare(came(a), came(b)) })
	for _, r := range all {
		l, since := &ls.unqueued, r.Created
		switch a := r.live.snap; {
		case a.Claim != nil:
			l, since = &ls.claimed, r.Claimed
		case a.Queue != "":
			l = ls.queue(a.Queue)
		}
		l.enter(r, since)
	}
}

// Waitlist is a summary of the runs that wait in a queue.
type Waitlist struct {
	Queue   string // empty: not queued, since it is not their turn or no runner matches
	Waiting int
	RunID   string    // the one that has waited longest
	Since   time.Time // since when it waits; after a restart from a checkpoint, since it was accepted
}

func (l *waitlist) shown() Waitlist {
	s := Waitlist{Queue: l.queue, Waiting: l.n}
	if l.first != nil {
		s.RunID, s.Since = l.first.ID(), Moment(l.first.live.since)
	}
	return s
}

// Claimed returns the claimed runs, in the order of their claims.
func (ls *waitlists) Claimed() (all []*Active) {
	for r := ls.claimed.first; r != nil; r = r.live.behind {
		all = append(all, r.live.snap)
	}
	return all
}

// Shown returns the queues with waiting runs, in no order, and what is not queued yet.
func (ls *waitlists) Shown() (queues []Waitlist, unqueued Waitlist) {
	for _, l := range ls.queues {
		if l.n > 0 {
			queues = append(queues, l.shown())
		}
	}
	return queues, ls.unqueued.shown()
}

// HasWaiting reports whether runs wait in a queue.
func (ls *waitlists) HasWaiting(queue string) bool {
	l := ls.queues[queue]
	return l != nil && l.n > 0
}

// Ahead returns how many runs wait before this one in its queue, and since when it waits; not ok: it is in none.
func (r *Row) Ahead() (n int, since time.Time, ok bool) {
	if r == nil || r.live == nil || r.live.in.queue == "" {
		return 0, since, false
	}
	for b := r.live.before; b != nil; b = b.live.before {
		n++
	}
	return n, Moment(r.live.since), true
}
