package projection

import (
	"iter"
	"slices"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// Worklist is the work that is due: turns to queue, results to check, callbacks and webhooks to deliver, history to
// truncate. Methods that return what is new since the last call may have one caller only.
type Worklist struct{ p *Projection }

// NewCallbacks returns the parents that became ready for a callback since the last call.
func (x *Worklist) NewCallbacks() []PendingCallback {
	return change(x.p, func(f *reducer) (all []PendingCallback) {
		for _, s := range f.callbacks.due {
			s.due = false
			if o, ok := f.callbacks.pendingCallback(s, time.Now()); ok {
				all = append(all, o)
			}
		}
		f.callbacks.due = nil
		return all
	})
}

// DueCallbacks returns all callbacks that can be delivered now.
func (x *Worklist) DueCallbacks() []PendingCallback {
	return read(x.p, func(f *reducer) (all []PendingCallback) {
		for s := range f.pending {
			if o, ok := f.callbacks.pendingCallback(s, time.Now()); ok {
				all = append(all, o)
			}
		}
		return all
	})
}

// DueCallback returns the callback of a parent session that is due now; not ok: nothing.
func (x *Worklist) DueCallback(session string) (PendingCallback, bool) {
	return read2(x.p, func(f *reducer) (PendingCallback, bool) {
		s := f.session(session)
		if s == nil {
			return PendingCallback{}, false
		}
		return f.callbacks.pendingCallback(s, time.Now())
	})
}

// CallbackBacklog counts pending callbacks and webhooks. The cost grows with the parents and receivers that have some.
func (x *Worklist) CallbackBacklog() CallbackBacklog {
	return read(x.p, func(f *reducer) (d CallbackBacklog) {
		for p := range f.pending {
			if len(p.pending) == 0 || !p.canReceiveCallback() {
				continue
			}
			d.Parents++
			d.Children += len(p.pending)
			if at := moment(p.pending[0].Ended); d.Oldest.IsZero() || at.Before(d.Oldest) {
				d.Oldest = at
			}
		}
		for _, to := range f.webhooks.hosts.first {
			d.Webhooks += len(to.queue)
		}
		if len(f.webhooks.hosts.first) > 0 {
			d.Due = f.webhooks.hosts.first[0].when()
		}
		d.Dead = len(f.webhooks.of) - d.Webhooks
		return d
	})
}

// DueWebhooks returns webhooks whose time has come: of each receiver the longest overdue ones.
func (x *Worklist) DueWebhooks(l WebhookQuery) []Webhook {
	return read(x.p, func(f *reducer) (due []Webhook) {
		f.webhooks.hosts.first.walk(func(to *receiver) bool {
			if len(due) >= l.Limit || to.when().After(l.Now) {
				return false
			}
			room := min(l.Capacity(to.host), l.Limit-len(due))
			if room <= 0 {
				return true
			}
			to.queue.walk(func(h *webhook) bool {
				if h.Next.After(l.Now) {
					return false
				}
				if d := h.shown(); !l.Skip(d) {
					due = append(due, d)
					room--
				}
				return room > 0
			})
			return true
		})
		return due
	})
}

// Webhook returns a run's webhook that is pending or dead, and its state.
func (x *Worklist) Webhook(id string) (at Webhook, call run.CallbackState, ok bool) {
	x.p.reading(func(f *reducer) {
		r := f.run(id)
		if h := f.webhooks.of[r]; h != nil {
			at, call, ok = h.shown(), *callsOf(f, r).http, true
		}
	})
	return at, call, ok
}

// Prunable returns the sequence before which history may be truncated. It is never past an open run, nor past a
// callback record written after called (decision 0014). It leaves keep of the runs that ended after old.
func (x *Worklist) Prunable(keep int, old, called time.Time) uint64 {
	return read(x.p, func(f *reducer) uint64 {
		left, low := f.ended, f.lowWater(called)
		for _, r := range f.order {
			switch {
			case r.Evicted:
				continue
			case r.First >= low:
				return low
			case r.live != nil,
				left <= keep && max(r.Ended, r.Created) >= old.UnixNano(): // ended is by the worker's clock
				return r.First
			}
			left--
		}
		return min(low, f.seq+1)
	})
}

// Eligible returns accepted runs that became the next turn of a session with nothing open, since the last call.
func (x *Worklist) Eligible() []Active {
	return change(x.p, func(f *reducer) (all []Active) {
		for _, r := range f.fresh {
			if r.live == nil {
				continue
			}
			r.live.fresh = false
			if r.session.turn() == r {
				all = append(all, *r.live.snap)
			}
		}
		f.fresh = nil
		return all
	})
}

// LateRecords returns the late queued records that are not known to be purged, oldest first.
func (x *Worklist) LateRecords() []LateRecord {
	return read(x.p, func(f *reducer) []LateRecord { return slices.Clone(f.late.all) })
}

// ForgetLate forgets a late record that RUNS no longer has. It no longer holds truncation back.
func (x *Worklist) ForgetLate(gone LateRecord) {
	x.p.changing(func(f *reducer) {
		f.late.all = slices.DeleteFunc(f.late.all,
			func(l LateRecord) bool { return l.Seq == gone.Seq && l.Subject == gone.Subject })
	})
}

// Ignored returns at most n sequences of records of workers that belonged to no current attempt, the oldest first.
func (x *Worklist) Ignored(n int) []uint64 {
	return read(x.p, func(f *reducer) []uint64 { return slices.Clone(f.ignored[:min(n, len(f.ignored))]) })
}

// Misplaced reports whether a record has another partition than its run, as far as that is kept.
func (x *Worklist) Misplaced(rec subject.Record) bool {
	return read(x.p, func(f *reducer) bool {
		r := f.run(rec.Run)
		return r != nil && misplaced(r.session.sessionID(), rec)
	})
}

// ForgetIgnored forgets those up to a sequence.
func (x *Worklist) ForgetIgnored(last uint64) {
	x.p.changing(func(f *reducer) { f.ignored.forget(last + 1) })
}

// NewResults returns the runs whose results were reported since the last call and are not decided yet.
func (x *Worklist) NewResults() []Active {
	return change(x.p, func(f *reducer) (all []Active) {
		for _, r := range f.results {
			if r.live != nil && r.live.snap.UnverifiedSeq != 0 {
				all = append(all, *r.live.snap)
			}
		}
		f.results = nil
		return all
	})
}

// StoppingTrees yields the open runs that are to be stopped with their tree, in no order.
func (x *Worklist) StoppingTrees() iter.Seq[Active] {
	return actives(change(x.p, func(f *reducer) (all []*Active) {
		f.trees.changed = false
		for r := range f.trees.stopping {
			all = append(all, r.live.snap)
		}
		return all
	}))
}

// SuppressedCallbacks returns ended children whose parent is not called back, with what the record of that needs:
// Deliveries and LastClaimed.
func (x *Worklist) SuppressedCallbacks() []PendingCallback {
	return read(x.p, func(f *reducer) (all []PendingCallback) {
		for p, rows := range f.trees.suppressing {
			root := p.root()
			if !root.ClaimedByRunner || !p.canReceiveCallback() {
				continue
			}
			o := PendingCallback{Session: p.sessionID(), LastClaimed: root.runID()}
			for _, r := range rows[:min(len(rows), maxTold)] {
				if r.Evicted {
					continue
				}
				if len(o.Children) == 0 {
					o.Deliveries = int(r.Deliveries)
				}
				o.Children = append(o.Children, Child{r.runID(), r.session.sessionID(), r.base(), moment(r.Ended)})
			}
			if len(o.Children) > 0 {
				all = append(all, o)
			}
		}
		return all
	})
}
