package projection

import (
	"errors"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// offer is the result of an attempt with an output schema, as its worker has it: the last word is a coordinator's,
// which checks it. One that cannot be read counts, too: its subject is taken, no other will come.
func (f *fold) offer(ch *Change, r *row, m Record) {
	if !r.mayOffer() {
		return
	}
	ch.before(r)
	r.change().UnverifiedSeq = m.Seq
	r.show()
	f.offers = append(f.offers, r)
	ch.Applied = true
	ch.after(r)
}

func (r *row) mayOffer() bool {
	a := r.live.snap
	return a.Claim != nil && a.Claim.RunnerID != "" && a.UnverifiedSeq == 0 && a.CarriedEndSeq == 0 && a.Spec.HasOutputSchema
}

// shut is a coordinator's record in an offer's place: none is taken any more. It is the last word, which stands behind
// it.
func (f *fold) shut(r *row, m Record) {
	if r.mayOffer() && f.scan.carries(m.Body) {
		r.change().CarriedEndSeq = m.Seq
	}
}

// carries tells whether this is a last word that a coordinator says of itself: that an attempt completed it never does
// without an offer, and it is never as large as a record may be, which would fail a batch together with others' records.
func (sc *scanner) carries(word []byte) bool {
	if len(word) == 0 || len(word) > run.MaxEndRecord || !strictjson.Valid(word) {
		return false
	}
	e, err := sc.ended(word)
	return err == nil && e.RunnerID == "" && (e.Status == run.Failed || e.Status == run.Stopped)
}

// mayComplete tells whether "completed" counts: with an output schema only if a coordinator has checked the result. Whoever has the
// attempt's key can write a last word, but none but coordinators can make the mark.
func (f *fold) mayComplete(r *row, mark string) bool {
	a := r.live.snap
	return !a.Spec.HasOutputSchema || f.checked != nil && f.checked(r.runID(), a.AttemptNumber(), mark)
}

// errUnchecked is the error of a run that its worker called completed although the result was not checked.
func errUnchecked() *fault.Fault {
	return fault.New(fault.Internal, "result_unchecked", "The runner said itself that the run was completed, but a result with an output schema counts only after a coordinator has checked it; it is not shown")
}

// ErrUnreadable says that what was written is not what it should be, and will never be.
var ErrUnreadable = errors.New("unreadable")
