package query

import (
	"iter"
	"slices"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
)

// ActiveRuns are the runs that have not ended, and the waitlists they are in.
type ActiveRuns struct{ p *projection.Projection }

// Oldest returns the first sequence of the oldest open run; without one, the sequence after the last record.
func (x *ActiveRuns) Oldest() uint64 {
	return projection.Read(x.p, state.OldestOpen)
}

// Counts returns how many runs wait, are claimed, and have ended.
func (x *ActiveRuns) Counts() (waiting, begun, ended int) {
	x.p.Reading(func(f *state.State) { waiting, begun, ended = state.Counts(f) })
	return waiting, begun, ended
}

// Pending yields the runs that wait for a runner: queued and unclaimed ones, and those whose turn it is to be queued.
// The runs are of one moment; their reader may take its time.
func (x *ActiveRuns) Pending() iter.Seq[state.Active] {
	return openRuns(x.p, func(r *state.Row) bool {
		a := r.Active()
		return a.Claim == nil && (a.QueuedSeq != 0 || r.Session().NextTurn() == r)
	})
}

// Unclaimed yields all open runs that are not claimed. The runs are of one moment.
func (x *ActiveRuns) Unclaimed() iter.Seq[state.Active] {
	return openRuns(x.p, func(r *state.Row) bool { return r.Active().Claim == nil })
}

// Claimed yields the claimed runs, in the order of their claims. The cost does not depend on how many runs wait.
func (x *ActiveRuns) Claimed() iter.Seq[state.Active] {
	return actives(projection.Read(x.p, func(f *state.State) []*state.Active { return f.Waitlists.Claimed() }))
}

// ClaimedBy returns the attempts claimed by a runner that has not done its part of them.
func (x *ActiveRuns) ClaimedBy(runner string) (all []state.Active) {
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

func openRuns(p *projection.Projection, want func(*state.Row) bool) iter.Seq[state.Active] {
	return actives(projection.Read(p, func(f *state.State) (all []*state.Active) {
		for r := range state.OpenRuns(f) {
			if want(r) {
				all = append(all, r.Active())
			}
		}
		return all
	}))
}

// Waitlists returns the queues with waiting runs, in no order, and what is not queued yet. The cost grows
// with the queues.
func (x *ActiveRuns) Waitlists() (queues []state.Waitlist, unqueued state.Waitlist) {
	return projection.Read2(x.p, func(f *state.State) ([]state.Waitlist, state.Waitlist) { return f.Waitlists.Shown() })
}

// HasWaiting reports whether runs wait in a queue.
func (x *ActiveRuns) HasWaiting(queue string) bool {
	return projection.Read(x.p, func(f *state.State) bool { return f.Waitlists.HasWaiting(queue) })
}

// UnwrittenEnds returns the attempts whose end record another record carries and that have none of their own yet.
func (x *ActiveRuns) UnwrittenEnds() (all []state.Active) {
	for a := range x.Claimed() {
		if a.CarriedEndSeq != 0 {
			all = append(all, a)
		}
	}
	return all
}

// UnverifiedResults returns all attempts with a reported result that is not checked yet.
func (x *ActiveRuns) UnverifiedResults() []state.Active {
	return slices.Collect(openRuns(x.p, func(r *state.Row) bool { return r.Active().UnverifiedSeq != 0 }))
}

// Reservations returns all runs that another record carries and that have no record of their own yet.
func (x *ActiveRuns) Reservations() []state.Reservation {
	return projection.Read(x.p, func(f *state.State) []state.Reservation { return f.Callbacks.Reservations() })
}

// Kept returns how many runs and sessions the index has, ended ones included.
func (x *ActiveRuns) Kept() (runs, sessions int) {
	return projection.Read2(x.p, state.Kept)
}

// Waiting counts the waiting runs of all, of a caller, and of the tree that a session is in; without one, of none.
func (x *ActiveRuns) Waiting(caller, session string) state.Waiting {
	return projection.Read(x.p, func(f *state.State) state.Waiting { return state.WaitingOf(f, caller, session) })
}

// Used returns how much of RUNS the records of kept runs take. all is of all runs, mine of a caller's, and tree of
// those in a session's tree.
func (x *ActiveRuns) Used(caller, session string) (all, mine, tree state.Used) {
	x.p.Reading(func(f *state.State) { all, mine, tree = state.UsedBy(f, caller, session) })
	return all, mine, tree
}
