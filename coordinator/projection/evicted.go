package projection

import (
	"ao/shared/fault"
	"ao/shared/run"
)

// noRun says that a run is not there: that it is no longer kept, where its id is older than what is.
func (x *Reader) noRun(id string) *fault.Fault {
	if x.before(id) {
		return evicted("run", id)
	}
	return fault.Newf(fault.NotFound, "There is no run %s; GET /runs lists those that are kept", id).With("run_id", id)
}

// noSession is noRun for sessions. Of an id that its caller chose nobody knows how old it is.
func (x *Reader) noSession(id string) *fault.Fault {
	deleted := read(x.p, func(f *fold) bool { return f.deleted[identOf(sessionPrefix, id)] != 0 })
	if !deleted && x.before(id) {
		return evicted("session", id)
	}
	return fault.Newf(fault.NotFound, "There is no session %s; GET /sessions lists those that are kept", id).With("session_id", id)
}

func evicted(what, id string) *fault.Fault {
	say := "The " + what + " " + id + " is no longer kept: RUN_KEEP or RUN_RETENTION came first, or it was deleted. An Idempotency-Key goes on to give its ids, and does it not again"
	return fault.New(fault.NotFound, "no_longer_kept", say).With(what+"_id", id)
}

// before tells whether an id of ours was made before everything that is kept, of a history that has lost its beginning.
func (x *Reader) before(id string) bool {
	made, ok := run.MadeAt(id)
	if !ok {
		return false
	}
	return read(x.p, func(f *fold) bool {
		if !made.After(moment(x.p.evicted)) {
			return true
		}
		for _, r := range f.order {
			if !r.gone {
				return r.first > 1 && made.Before(moment(r.created))
			}
		}
		return false
	})
}
