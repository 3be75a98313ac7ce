package projection

import (
	"errors"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// applyResult notes a worker's result of an attempt with an output schema. A coordinator checks it and writes the end
// record. An unreadable result counts too: its subject is taken, no other can come.
func (f *reducer) applyResult(ch *Change, r *row, m Record) {
	if !r.awaitsResult() {
		return
	}
	ch.before(r)
	r.change().UnverifiedSeq = m.Seq
	r.show()
	f.results = append(f.results, r)
	ch.Applied = true
	ch.after(r)
}

func (r *row) awaitsResult() bool {
	a := r.live.snap
	return a.Claim != nil && a.Claim.RunnerID != "" && a.UnverifiedSeq == 0 && a.CarriedEndSeq == 0 &&
		a.Spec.HasOutputSchema
}

// blockResult applies a coordinator's record in the result's place: no result is taken any more. The record carries the
// end record, which follows.
func (f *reducer) blockResult(r *row, m Record) {
	if r.awaitsResult() && f.scan.isCarriedEnd(m.Body) {
		r.change().CarriedEndSeq = m.Seq
	}
}

// isCarriedEnd reports whether this is an end record of a coordinator. Such a record never says completed without a
// result, and is smaller than the largest record, which would make a batch fail.
func (sc *scanner) isCarriedEnd(word []byte) bool {
	if len(word) == 0 || len(word) > run.MaxEndRecord || !strictjson.Valid(word) {
		return false
	}
	e, err := sc.ended(word)
	return err == nil && e.RunnerID == "" && (e.Status == run.Failed || e.Status == run.Stopped)
}

// mayComplete reports whether "completed" counts. With an output schema, it needs the signature of a coordinator that
// checked the result: anybody with the attempt's key can write an end record.
func (f *reducer) mayComplete(r *row, mark string) bool {
	a := r.live.snap
	return !a.Spec.HasOutputSchema || f.checked != nil && f.checked(r.runID(), a.AttemptNumber(), mark)
}

// errUnchecked returns the error of a run that its worker reported as completed without a check of the result.
func errUnchecked() *fault.Fault {
	return fault.New(fault.Internal, "result_unchecked",
		"The runner itself reported the run as completed, but a result with an output schema counts only after a "+
			"coordinator has checked it; it is not shown")
}

// ErrUnreadable says that a stored record or body is invalid, and will remain so.
var ErrUnreadable = errors.New("unreadable")
