package state

import (
	"strings"

	"ao/coordinator/projection/scan"
	"ao/coordinator/projection/text"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// applyResult notes a worker's result of an attempt with an output schema. A coordinator checks it and writes the end
// record. An unreadable result counts too: its subject is taken, no other can come.
func (f *State) applyResult(ch *Change, r *Row, m Record) {
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

func (r *Row) awaitsResult() bool {
	a := r.live.snap
	return a.Claim != nil && a.Claim.RunnerID != "" && a.UnverifiedSeq == 0 && a.CarriedEndSeq == 0 &&
		a.Spec.HasOutputSchema
}

// blockResult applies a coordinator's record in the result's place: no result is taken any more. The record carries the
// end record, which follows.
func (f *State) blockResult(r *Row, m Record) {
	if r.awaitsResult() && isCarriedEnd(f.scan, m.Body) {
		r.change().CarriedEndSeq = m.Seq
	}
}

// isCarriedEnd reports whether this is an end record of a coordinator. Such a record never says completed without a
// result, and is smaller than the largest record, which would make a batch fail.
func isCarriedEnd(sc *scan.Scanner, word []byte) bool {
	if len(word) == 0 || len(word) > run.MaxEndRecord || !strictjson.Valid(word) {
		return false
	}
	e, err := sc.Ended(word)
	return err == nil && e.RunnerID == "" && (e.Status == run.Failed || e.Status == run.Stopped)
}

// mayComplete reports whether "completed" counts. With an output schema, it needs the signature of a coordinator that
// checked the result: anybody with the attempt's key can write an end record.
func (f *State) mayComplete(r *Row, mark string) bool {
	a := r.live.snap
	return !a.Spec.HasOutputSchema || f.checked != nil && f.checked(r.ID(), a.AttemptNumber(), mark)
}

// failureOf returns the text by which a run is found that did not complete: the code and message of its error.
func failureOf(body []byte) string {
	code, message := scan.ErrorOf(body)
	return text.Short(strings.TrimSpace(code + " " + message))
}
