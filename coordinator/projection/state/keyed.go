package state

import (
	"encoding/json"

	"ao/coordinator/projection/scan"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// keyed applies records of kinds that workers write. Anybody with a worker's credential can write such a subject. So
// nothing of the body, not even its version, is read before the key is that of the current attempt.
//
// A record above the attempt's version is a failed end for every program, because the bound belongs to the attempt. A
// record that the attempt allows but this program cannot read makes the program not ready, since others understand it.
func (f *State) keyed(ch *Change, rec subject.Record, m Record) (version int, err error) {
	r, last := f.current(rec), false
	if r == nil && rec.Kind == subject.EndedKind {
		r, last = behindUnreadable(f, rec), true
	}
	if r == nil || Misplaced(r.live.snap.Spec.SessionID, rec) {
		f.Ignored.add(m.Seq)
		return 0, nil
	}
	var take func()
	switch rec.Kind {
	case subject.ClaimedKind:
		var c run.Claim
		c, err = f.scan.Claim(m.Body)
		version, take = c.V, func() { f.claim(ch, r, rec, c, m) }
	case subject.BoundKind:
		var b run.Bound
		err = json.Unmarshal(m.Body, &b)
		version, take = b.V, func() {
			if err == nil {
				f.applyBound(ch, r, rec, b)
			}
		}
	default:
		var e run.Ended
		e, err = f.scan.Ended(m.Body)
		if err != nil {
			e = run.Ended{V: e.V}
		}
		if last && e.Attempt != r.live.snap.AttemptNumber() {
			return 0, nil
		}
		version, take = e.V, func() { f.end(ch, r, e, m, last) }
		if rec.Kind == subject.OfferedKind {
			take = func() {
				if err == nil && e.RunnerID == "" {
					f.blockResult(r, m)
					return
				}
				f.applyResult(ch, r, m)
			}
		}
	}
	switch {
	case version > r.live.snap.MaxVersion():
		f.exceedVersion(ch, r, m)
		return 0, nil
	case version <= f.version:
		take()
	}
	return version, err
}

// Misplaced reports whether a record of a session has another partition than the session. There could be one in each
// that a worker makes up.
func Misplaced(session string, rec subject.Record) bool {
	return rec.Partition != subject.Partition(session)
}

// exceedVersion ends an attempt because of a record newer than the attempt allows. The next attempt has its own bound.
func (f *State) exceedVersion(ch *Change, r *Row, m Record) {
	ch.Kind, ch.versionExceeded = subject.EndedKind, true
	f.end(ch, r, run.Ended{Status: run.Failed}, m, false)
	r.VersionExceeded = r.live == nil
}

// current returns the open run whose current attempt has this key; nil otherwise.
func (f *State) current(rec subject.Record) *Row {
	r := f.Run(rec.Run)
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

// behindUnreadable returns the open run that an end record under the key of no attempt ends, nil otherwise. A
// coordinator writes that where the subject of the attempt that it names has a record that NATS cannot read (decision
// 0045).
func behindUnreadable(f *State, rec subject.Record) *Row {
	r := f.Run(rec.Run)
	if r == nil || r.live == nil || f.key == nil || f.key(rec.Run, run.NoAttempt) != rec.Key {
		return nil
	}
	return r
}

// CodeRecordVersion is the error code of a run whose worker wrote a record above its attempt's version.
const CodeRecordVersion = "record_version"

// NewerVersionError is that run's error.
func NewerVersionError() *fault.Fault {
	return fault.New(fault.Internal, CodeRecordVersion,
		"The runner wrote a record of this run in a newer version than the coordinators allow; it is not read. Update "+
			"the coordinators, or run the worker in their version")
}

// RecordVersion returns the version of a record; 0: it is unreadable.
func RecordVersion(body []byte) int {
	v, err := scan.Version(body)
	if err != nil {
		return 0
	}
	return v
}
