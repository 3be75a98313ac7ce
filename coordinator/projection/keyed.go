package projection

import (
	"encoding/json"

	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// keyed takes a record of a kind that workers write. Whoever has a worker's credential can write such a subject; so
// nothing in the body, not even its version, is looked at before the key fits the current attempt.
//
// A record above the attempt's version is a failed end, whichever program reads it: the bound stands with the attempt.
// One that the attempt allows and this program cannot read makes it not ready, since others make more of it.
func (f *fold) keyed(ch *Change, rec subject.Record, m Record) (version int, err error) {
	r := f.current(rec)
	if r == nil {
		return 0, nil
	}
	var take func()
	switch rec.Kind {
	case subject.ClaimedKind:
		var c run.Claim
		c, err = f.scan.claim(m.Body)
		version, take = c.V, func() { f.claim(ch, r, rec, c, m) }
	case subject.BoundKind:
		var b run.Bound
		err = json.Unmarshal(m.Body, &b)
		version, take = b.V, func() {
			if err == nil {
				f.bind(ch, r, rec, b)
			}
		}
	default:
		var e run.Ended
		e, err = f.scan.ended(m.Body)
		if err != nil {
			e = run.Ended{V: e.V}
		}
		version, take = e.V, func() { f.end(ch, r, e, m) }
		if rec.Kind == subject.OfferedKind {
			take = func() {
				if err == nil && e.RunnerID == "" {
					f.shut(r, m)
					return
				}
				f.offer(ch, r, m)
			}
		}
	}
	switch {
	case version > r.live.snap.MaxVersion():
		f.overstep(ch, r, m)
		return 0, nil
	case version <= f.version:
		take()
	}
	return version, err
}

// overstep ends an attempt with a record that is newer than the attempt allows. The next attempt, where one is left, is
// bound anew.
func (f *fold) overstep(ch *Change, r *row, m Record) {
	ch.Kind, ch.overstep = subject.EndedKind, true
	f.end(ch, r, run.Ended{Status: run.Failed}, m)
	r.overstep = r.live == nil
}

// current is the row of a live run whose current attempt has this key; nil otherwise.
func (f *fold) current(rec subject.Record) *row {
	r := f.runs[identOf(runPrefix, rec.Run)]
	if r == nil || r.live == nil {
		return nil
	}
	switch a := r.live.snap; {
	case a.Key != "" && a.Key == rec.Key:
		return r
	case a.Key == "" && (f.key == nil || f.key(rec.Run, a.AttemptNumber()) == rec.Key):
		// not queued: a coordinator ends it
		return r
	}
	return nil
}

// CodeOverstep is the code of the error of a run whose worker wrote a record above its attempt's version.
const CodeRecordVersion = "record_version"

// Overstep is that error.
func NewerVersionError() *fault.Fault {
	return fault.New(fault.Internal, CodeRecordVersion, "The runner wrote a record of this run in a newer version "+
		"than the coordinators had allowed; what it holds is not read. Update the coordinators, or run the worker "+
		"in their version")
}

// Version is the version of a record; 0: it cannot be read.
func RecordVersion(body []byte) int {
	v, err := scanVersion(body)
	if err != nil {
		return 0
	}
	return v
}
