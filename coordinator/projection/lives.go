package projection

// Lives are the runs that have not ended, and what waits behind what.
type ActiveRuns struct{ p *Projection }

// Oldest is the sequence of the first record of the oldest run that has not ended; where there is none, the one after the last.
func (x *ActiveRuns) Oldest() uint64 {
	return read(x.p, func(f *fold) uint64 {
		if f.head == nil {
			return f.seq + 1
		}
		return f.head.first
	})
}

// Counts are the runs that wait, that are begun, and that have ended.
func (x *ActiveRuns) Counts() (waiting, begun, ended int) {
	x.p.reading(func(f *fold) { waiting, begun, ended = f.waiting, f.begun, f.ended })
	return waiting, begun, ended
}

// Pending is Actives of those that wait for a runner: queued and not begun, or to be queued since nothing precedes them in
// their session.
func (x *ActiveRuns) Pending(f func(Active) bool) {
	each(x.p, func(r *row) bool {
		a := r.live.snap
		return a.Claim == nil && (a.QueuedSeq != 0 || r.session.turn() == r)
	}, f)
}

// Begun is Actives of those that a runner has begun, in the order in which they were. It costs what these are, however many wait.
func (x *ActiveRuns) Claimed(f func(Active) bool) {
	tell(read(x.p, func(f *fold) (all []*Active) {
		for r := f.lines.underway.first; r != nil; r = r.live.behind {
			all = append(all, r.live.snap)
		}
		return all
	}), f)
}

// BegunBy are the attempts that a runner has begun, and not done its part of.
func (x *ActiveRuns) ClaimedBy(runner string) (all []Active) {
	x.Claimed(func(a Active) bool {
		if a.Claim.RunnerID == runner && a.UnverifiedSeq == 0 {
			all = append(all, a)
		}
		return true
	})
	return all
}

// BegunCounts is how many such attempts each runner has.
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
	tell(read(p, func(f *fold) (all []*Active) {
		for r := f.head; r != nil; r = r.live.next {
			if want(r) {
				all = append(all, r.live.snap)
			}
		}
		return all
	}), f)
}

// Lines are the lanes in which runs wait, in no order, and what is not queued yet. It costs what there are of lanes.
func (x *ActiveRuns) Waitlists() (lanes []Waitlist, apart Waitlist) {
	return read2(x.p, func(f *fold) (lanes []Waitlist, apart Waitlist) {
		for _, l := range f.lines.lanes {
			if l.n > 0 {
				lanes = append(lanes, l.shown())
			}
		}
		return lanes, f.lines.apart.shown()
	})
}

// Waits tells whether runs wait in a lane.
func (x *ActiveRuns) HasWaiting(lane string) bool {
	return read(x.p, func(f *fold) bool {
		l := f.lines.lanes[lane]
		return l != nil && l.n > 0
	})
}

// Ending are the attempts whose last word another record carries, and that have none yet.
func (x *ActiveRuns) UnwrittenEnds() (all []Active) {
	x.Claimed(func(a Active) bool {
		if a.CarriedEndSeq != 0 {
			all = append(all, a)
		}
		return true
	})
	return all
}

// Offered are all such runs.
func (x *ActiveRuns) UnverifiedResults() (all []Active) {
	each(x.p, func(r *row) bool { return r.live.snap.UnverifiedSeq != 0 }, func(a Active) bool {
		all = append(all, a)
		return true
	})
	return all
}

// Promised are all of them.
func (x *ActiveRuns) Reservations() []Reservation {
	return read(x.p, func(f *fold) (all []Reservation) {
		for id, p := range f.debts.promised {
			all = append(all, Reservation{id.text(runPrefix), p.session, p.seq})
		}
		return all
	})
}

// Kept are the runs and sessions that the index has, ended ones too.
func (x *ActiveRuns) Kept() (runs, sessions int) {
	return read2(x.p, func(f *fold) (runs, sessions int) { return len(f.runs), len(f.sessions) })
}
