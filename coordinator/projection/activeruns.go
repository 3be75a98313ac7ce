package projection

import (
	"iter"
	"slices"
)

// ActiveRuns are the runs that have not ended, and the waitlists they are in.
type ActiveRuns struct{ p *Projection }

// Oldest returns the first sequence of the oldest open run; without one, the sequence after the last record.
func (x *ActiveRuns) Oldest() uint64 {
	return read(x.p, func(f *reducer) uint64 {
		if f.head == nil {
			return f.seq + 1
		}
		return f.head.First
	})
}

// Counts returns how many runs wait, are claimed, and have ended.
func (x *ActiveRuns) Counts() (waiting, begun, ended int) {
	x.p.reading(func(f *reducer) { waiting, begun, ended = f.waiting, f.claimed, f.ended })
	return waiting, begun, ended
}

// Pending yields the runs that wait for a runner: queued and unclaimed ones, and those whose turn it is to be queued.
// The runs are of one moment; their reader may take its time.
func (x *ActiveRuns) Pending() iter.Seq[Active] {
	return openRuns(x.p, func(r *row) bool {
		a := r.live.snap
		return a.Claim == nil && (a.QueuedSeq != 0 || r.session.turn() == r)
	})
}

// Unclaimed yields all open runs that are not claimed. The runs are of one moment.
func (x *ActiveRuns) Unclaimed() iter.Seq[Active] {
	return openRuns(x.p, func(r *row) bool { return r.live.snap.Claim == nil })
}

// Claimed yields the claimed runs, in the order of their claims. The cost does not depend on how many runs wait.
func (x *ActiveRuns) Claimed() iter.Seq[Active] {
	return actives(read(x.p, func(f *reducer) (all []*Active) {
		for r := f.waitlists.claimed.first; r != nil; r = r.live.behind {
			all = append(all, r.live.snap)
		}
		return all
	}))
}

// ClaimedBy returns the attempts claimed by a runner that has not done its part of them.
func (x *ActiveRuns) ClaimedBy(runner string) (all []Active) {
	for a := range x.Claimed() {
		if a.Claim.RunnerID == runner && a.UnverifiedSeq == 0 {
			all = append(all, a)
		}
	}
	return all
}

// ClaimedCounts returns how many such attempts each runner has.
func (x *ActiveRuns) ClaimedCounts() map[string]int {
	n := map[string]int{}
	for a := range x.Claimed() {
		if a.UnverifiedSeq == 0 {
			n[a.Claim.RunnerID]++
		}
	}
	return n
}

func openRuns(p *Projection, want func(*row) bool) iter.Seq[Active] {
	return actives(read(p, func(f *reducer) (all []*Active) {
		for r := f.head; r != nil; r = r.live.next {
			if want(r) {
				all = append(all, r.live.snap)
			}
		}
		return all
	}))
}

// Waitlists returns the queues with waiting runs, in no order, and what is not queued yet. The cost grows
// with the queues.
func (x *ActiveRuns) Waitlists() (queues []Waitlist, unqueued Waitlist) {
	return read2(x.p, func(f *reducer) (queues []Waitlist, unqueued Waitlist) {
		for _, l := range f.waitlists.queues {
			if l.n > 0 {
				queues = append(queues, l.shown())
			}
		}
		return queues, f.waitlists.unqueued.shown()
	})
}

// HasWaiting reports whether runs wait in a queue.
func (x *ActiveRuns) HasWaiting(queue string) bool {
	return read(x.p, func(f *reducer) bool {
		l := f.waitlists.queues[queue]
		return l != nil && l.n > 0
	})
}

// UnwrittenEnds returns the attempts whose end record another record carries and that have none of their own yet.
func (x *ActiveRuns) UnwrittenEnds() (all []Active) {
	for a := range x.Claimed() {
		if a.CarriedEndSeq != 0 {
			all = append(all, a)
		}
	}
	return all
}

// UnverifiedResults returns all attempts with a reported result that is not checked yet.
func (x *ActiveRuns) UnverifiedResults() []Active {
	return slices.Collect(openRuns(x.p, func(r *row) bool { return r.live.snap.UnverifiedSeq != 0 }))
}

// Reservations returns all runs that another record carries and that have no record of their own yet.
func (x *ActiveRuns) Reservations() []Reservation {
	return read(x.p, func(f *reducer) (all []Reservation) {
		for id, p := range f.callbacks.reserved {
			all = append(all, Reservation{id.text(runPrefix), p.session, p.seq})
		}
		return all
	})
}

// Kept returns how many runs and sessions the index has, ended ones included.
func (x *ActiveRuns) Kept() (runs, sessions int) {
	return read2(x.p, func(f *reducer) (runs, sessions int) { return len(f.runs), len(f.sessions) })
}
