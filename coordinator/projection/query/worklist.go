package query

import (
	"iter"
	"math"
	"slices"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/run"
)

// Worklist is the work that is due: turns to queue, results to check, callbacks and webhooks to deliver, history to
// truncate. Methods that return what is new since the last call may have one caller only.
type Worklist struct{ p *projection.Projection }

// NewCallbacks returns the parents that became ready for a callback since the last call.
func (x *Worklist) NewCallbacks() []state.PendingCallback {
	return projection.Update(x.p, func(f *state.State) []state.PendingCallback {
		return state.TakeCallbacks(f, time.Now())
	})
}

// DueCallbacks returns all callbacks that can be delivered now.
func (x *Worklist) DueCallbacks() []state.PendingCallback {
	return projection.Read(x.p, func(f *state.State) []state.PendingCallback {
		return state.DueCallbacks(f, time.Now())
	})
}

// DueCallback returns the callback of a parent session that is due now; not ok: nothing.
func (x *Worklist) DueCallback(session string) (state.PendingCallback, bool) {
	return projection.Read2(x.p, func(f *state.State) (state.PendingCallback, bool) {
		s := f.Session(session)
		if s == nil {
			return state.PendingCallback{}, false
		}
		return f.Callbacks.Of(s, time.Now())
	})
}

// Eligible returns accepted runs that became the next turn of a session with nothing open, since the last call.
func (x *Worklist) Eligible() []state.Active {
	return projection.Update(x.p, state.TakeEligible)
}

// LateRecords returns the late queued records that are not known to be purged, oldest first.
func (x *Worklist) LateRecords() []state.LateRecord {
	return projection.Read(x.p, func(f *state.State) []state.LateRecord { return f.Late.LateRecords() })
}

// ForgetLate forgets a late record that RUNS no longer has. It no longer holds truncation back.
func (x *Worklist) ForgetLate(gone state.LateRecord) {
	x.p.Updating(func(f *state.State) { f.Late.Forget(gone) })
}

// Ignored returns at most n sequences of records of workers that belonged to no current attempt, the oldest first.
func (x *Worklist) Ignored(n int) []uint64 {
	return projection.Read(x.p, func(f *state.State) []uint64 {
		return slices.Clone(f.Ignored[:min(n, len(f.Ignored))])
	})
}

// Misplaced reports whether a record has another partition than its run, as far as that is kept.
func (x *Worklist) Misplaced(rec subject.Record) bool {
	return projection.Read(x.p, func(f *state.State) bool {
		r := f.Run(rec.Run)
		return r != nil && state.Misplaced(r.Session().ID(), rec)
	})
}

// ForgetIgnored forgets those up to a sequence.
func (x *Worklist) ForgetIgnored(last uint64) {
	x.p.Updating(func(f *state.State) { f.Ignored.Forget(last + 1) })
}

// NewResults returns the runs whose results were reported since the last call and are not decided yet.
func (x *Worklist) NewResults() []state.Active {
	return projection.Update(x.p, state.TakeResults)
}

// StoppingTrees yields the open runs that are to be stopped with their tree, in no order.
func (x *Worklist) StoppingTrees() iter.Seq[state.Active] {
	return actives(projection.Update(x.p, state.TakeStopping))
}

// CallbackBacklog counts pending callbacks and webhooks. The cost grows with the parents and receivers that have some.
func (x *Worklist) CallbackBacklog() state.CallbackBacklog {
	return projection.Read(x.p, func(f *state.State) state.CallbackBacklog {
		d := state.PendingParents(f)
		f.Webhooks.Count(&d)
		return d
	})
}

// DueWebhooks returns webhooks whose time has come: of each receiver the longest overdue ones.
func (x *Worklist) DueWebhooks(l state.WebhookQuery) []state.Webhook {
	return projection.Read(x.p, func(f *state.State) []state.Webhook { return f.Webhooks.Hosts.Due(l) })
}

// Webhook returns a run's webhook that is pending or dead, and its state.
func (x *Worklist) Webhook(id string) (at state.Webhook, call run.CallbackState, ok bool) {
	x.p.Reading(func(f *state.State) {
		r := f.Run(id)
		if h := f.Webhooks.Of(r); h != nil {
			at, call, ok = h.Shown(), *state.CallsOf(f, r).HTTP, true
		}
	})
	return at, call, ok
}

// Prunable returns the sequence before which history may be truncated. It is never past an open run, nor past a
// callback record written after called (decision 0014). It leaves keep of the runs that ended after old.
func (x *Worklist) Prunable(keep int, old, called time.Time) uint64 {
	return projection.Read(x.p, func(f *state.State) uint64 { return state.Prunable(f, keep, old, called) })
}

// SuppressedCallbacks returns ended children whose parent is not called back, with what the record of that needs:
// Deliveries and LastClaimed.
func (x *Worklist) SuppressedCallbacks() []state.PendingCallback {
	return projection.Read(x.p, state.SuppressedCallbacks)
}

// FormerRuns calls f with each run whose claim or end was in a history that has since lost it. missing: the run itself
// is lost.
func (x *Worklist) FormerRuns(f func(id string, was run.Status, missing bool)) {
	former := x.p.Former.Load()
	if former == nil {
		return
	}
	for _, was := range state.RunsBelow(former, math.MaxUint64) { // nobody changes it any more
		status := was.Status()
		if was.Evicted || status == run.Pending {
			continue
		}
		now, missing := run.Pending, false
		x.p.Reading(func(r *state.State) {
			if at := r.Run(was.ID()); at != nil {
				now = at.Status()
			} else {
				missing = true
			}
		})
		if missing || now != status && !now.Final() {
			f(was.ID(), status, missing)
		}
	}
}

// DropFormer forgets what FormerRuns returns.
func (x *Worklist) DropFormer() { x.p.Former.Store(nil) }
