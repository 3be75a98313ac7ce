package coordinator

import (
	"ao/coordinator/journal"
)

// begun is the history, of attempts that a runner has begun.
type begun interface {
	Begun(f func(journal.Active) bool)
}

// begunBy are the attempts that a runner has begun, and not done its part of.
func begunBy(history begun, runner string) (all []journal.Active) {
	history.Begun(func(a journal.Active) bool {
		if a.Claim.RunnerID == runner && a.OfferSeq == 0 {
			all = append(all, a)
		}
		return true
	})
	return all
}

// begunCounts is how many such attempts each runner has.
func begunCounts(history begun) map[string]int {
	n := map[string]int{}
	history.Begun(func(a journal.Active) bool {
		if a.OfferSeq == 0 {
			n[a.Claim.RunnerID]++
		}
		return true
	})
	return n
}
