package projection

import (
	"ao/nats/stream"
	"ao/shared/run"
)

// LastFingerprints returns those of the last applied records, oldest first.
func (w *Follower) LastFingerprints() []stream.Fingerprint {
	return read(w.p, func(f *reducer) []stream.Fingerprint { return f.lastRead.Last() })
}

// keepFormer keeps what was known of a history that is not the stream's any more, for FormerRuns. The first one counts:
// a later one was read from what was left.
func keepFormer(p *Projection, f *reducer) {
	if len(f.runs) > 0 {
		p.former.CompareAndSwap(nil, f)
	}
}

// DropFormer forgets what FormerRuns returns.
func (w *Follower) DropFormer() { w.p.former.Store(nil) }

// FormerRuns calls f with each run whose claim or end was in a history that has since lost it. missing: the run itself
// is lost.
func (w *Follower) FormerRuns(f func(id string, was run.Status, missing bool)) {
	former := w.p.former.Load()
	if former == nil {
		return
	}
	for id, was := range former.runs { // nobody changes it any more
		status := was.shown()
		if status == run.Pending {
			continue
		}
		now, missing := run.Pending, false
		w.p.reading(func(r *reducer) {
			if at := r.runs[id]; at != nil {
				now = at.shown()
			} else {
				missing = true
			}
		})
		if missing || now != status && !now.Final() {
			f(was.runID(), status, missing)
		}
	}
}

// Reread makes the Follower read the whole history again, since the stream has lost records that it has read.
func (w *Follower) Reread() {
	select {
	case w.reread <- struct{}{}:
	default:
	}
}
