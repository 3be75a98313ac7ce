package projection

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

// Pending calls f with the runs that wait for a runner until f returns false. They are queued and unclaimed, or it is
// their turn to be queued. The runs are of one moment; f may take its time.
func (x *ActiveRuns) Pending(f func(Active) bool) {
	each(x.p, func(r *row) bool {
		a := r.live.snap
		return a.Claim == nil && (a.QueuedSeq != 0 || r.session.turn() == r)
	}, f)
}

// Unclaimed calls f with all open runs that are not claimed, until f returns false. The runs are of one moment.
func (x *ActiveRuns) Unclaimed(f func(Active) bool) {
	each(x.p, func(r *row) bool { return r.live.snap.Claim == nil }, f)
}

// Claimed calls f with the claimed runs, in the order of their claims, until f returns false. The cost does not depend
// on how many runs wait.
func (x *ActiveRuns) Claimed(f func(Active) bool) {
	forEach(read(x.p, func(f *reducer) (all []*Active) {
		for r := f.waitlists.claimed.first; r != nil; r = r.live.behind {
			all = append(all, r.live.snap)
		}
		return all
	}), f)
}

// ClaimedBy returns the attempts claimed by a runner that has not done its part of them.
func (x *ActiveRuns) ClaimedBy(runner string) (all []Active) {
	x.Claimed(func(a Active) bool {
		if a.Claim.RunnerID == runner && a.UnverifiedSeq == 0 {
			all = append(all, a)
		}
		return true
	})
	return all
}

// ClaimedCounts returns how many such attempts each runner has.
func (x *ActiveRuns) ClaimedCounts() map[string]int {
	n := map[string]int{}
	x.Claimed(func(a Active) bool {
		if a.UnverifiedSeq == 0 {
			n[a.Claim.RunnerID]++
		}
		return true
	})
	return n
}

func each(p *Projection, want func(*row) bool, f func(Active) bool) {
	forEach(read(p, func(f *reducer) (all []*Active) {
		for r := f.head; r != nil; r = r.live.next {
			if want(r) {
				all = append(all, r.live.snap)
			}
		}
		return all
	}), f)
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
	x.Claimed(func(a Active) bool {
		if a.CarriedEndSeq != 0 {
			all = append(all, a)
		}
		return true
	})
	return all
}

// UnverifiedResults returns all attempts with a reported result that is not checked yet.
func (x *ActiveRuns) UnverifiedResults() (all []Active) {
	each(x.p, func(r *row) bool { return r.live.snap.UnverifiedSeq != 0 }, func(a Active) bool {
		all = append(all, a)
		return true
	})
	return all
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
