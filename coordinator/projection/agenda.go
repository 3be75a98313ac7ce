package projection

import (
	"slices"
	"time"

	"ao/shared/run"
)

// Agenda is what there is to do: turns to be queued, results to be checked, parents and receivers to be told, history to be truncated.
// What names things since it was asked last has one reader.
type Worklist struct{ p *Projection }

// Due are those that became ready to be told since it was asked last.
func (x *Worklist) NewCallbacks() []PendingCallback {
	return change(x.p, func(f *fold) []PendingCallback {
		var all []PendingCallback
		for _, s := range f.debts.due {
			s.due = false
			if o, ok := f.debts.owingOf(s, time.Now()); ok {
				all = append(all, o)
			}
		}
		f.debts.due = nil
		return all
	})
}

// Owing are all that can be told now.
func (x *Worklist) DueCallbacks() []PendingCallback {
	return read(x.p, func(f *fold) (all []PendingCallback) {
		for s := range f.owing {
			if o, ok := f.debts.owingOf(s, time.Now()); ok {
				all = append(all, o)
			}
		}
		return all
	})
}

// OwingOf is what a parent can be told now; not ok: nothing.
func (x *Worklist) DueCallback(session string) (PendingCallback, bool) {
	return read2(x.p, func(f *fold) (PendingCallback, bool) {
		s := f.sessions[identOf(sessionPrefix, session)]
		if s == nil {
			return PendingCallback{}, false
		}
		return f.debts.owingOf(s, time.Now())
	})
}

// Debts counts them. It costs what there are of parents with children to be told of, and of receivers.
func (x *Worklist) CallbackBacklog() CallbackBacklog {
	return read(x.p, func(f *fold) (d CallbackBacklog) {
		for p := range f.owing {
			if len(p.owed) == 0 || !p.hears() {
				continue
			}
			d.Parents++
			d.Children += len(p.owed)
			if at := moment(p.owed[0].ended); d.Oldest.IsZero() || at.Before(d.Oldest) {
				d.Oldest = at
			}
		}
		for _, to := range f.webhooks.hosts.first {
			d.Webhooks += len(to.owed)
		}
		if len(f.webhooks.hosts.first) > 0 {
			d.Due = f.webhooks.hosts.first[0].when()
		}
		d.Dead = len(f.webhooks.of) - d.Webhooks
		return d
	})
}

// Hooks are HTTP callbacks whose time has come: of each receiver those that are due for longest.
func (x *Worklist) DueWebhooks(l WebhookQuery) []Webhook {
	return read(x.p, func(f *fold) (due []Webhook) {
		f.webhooks.hosts.first.walk(func(to *receiver) bool {
			if len(due) >= l.Limit || to.when().After(l.Now) {
				return false
			}
			room := min(l.Capacity(to.host), l.Limit-len(due))
			if room <= 0 {
				return true
			}
			to.owed.walk(func(h *hook) bool {
				if h.next.After(l.Now) {
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

// Hook is a run's HTTP callback, with its newest record's number; dead or owed only.
func (x *Worklist) Webhook(id string) (at Webhook, call run.CallbackState, ok bool) {
	x.p.reading(func(f *fold) {
		r := f.runs[identOf(runPrefix, id)]
		if h := f.webhooks.of[r]; h != nil {
			at, call, ok = h.shown(), *callsOf(f, r).http, true
		}
	})
	return at, call, ok
}

// Prunable is the sequence up to which, itself not included, the history may be truncated: never past a run that has not
// ended, and leaving `keep` ended runs of those that ended after `old`; nor past a callback record that was written after `told`
// (decision 0014).
func (x *Worklist) Prunable(keep int, old, told time.Time) uint64 {
	return read(x.p, func(f *fold) uint64 {
		left, held := f.ended, f.held(told)
		for _, r := range f.order {
			switch {
			case r.gone:
				continue
			case r.first >= held:
				return held
			case r.live != nil, left <= keep && max(r.ended, r.created) >= old.UnixNano(): // a worker's clock says when it ended
				return r.first
			}
			left--
		}
		return min(held, f.seq+1)
	})
}

// Eligible are the accepted runs that have become the next turn of a session in which nothing is open, since it was asked last.
func (x *Worklist) Eligible() []Active {
	return change(x.p, func(f *fold) []Active {
		var all []Active
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

// Late are the queued records that came too late and are not purged, as far as is known; the oldest first.
func (x *Worklist) LateRecords() []LateRecord {
	return read(x.p, func(f *fold) []LateRecord {
		return slices.Clone(f.late.all)
	})
}

// Purged lets go of a late record that RUNS no longer has: it holds truncation back no more.
func (x *Worklist) ForgetLate(gone LateRecord) {
	x.p.changing(func(f *fold) {
		f.late.all = slices.DeleteFunc(f.late.all, func(l LateRecord) bool { return l.Seq == gone.Seq && l.Subject == gone.Subject })
	})
}

// Offers are the runs of which results were offered since it was asked last, and not decided.
func (x *Worklist) NewResults() []Active {
	return change(x.p, func(f *fold) (all []Active) {
		for _, r := range f.offers {
			if r.live != nil && r.live.snap.UnverifiedSeq != 0 {
				all = append(all, *r.live.snap)
			}
		}
		f.offers = nil
		return all
	})
}

// Halting calls f with the runs that are to be stopped with their tree and have not ended, in no order, until f says false. It costs
// what these are.
func (x *Worklist) StoppingTrees(f func(Active) bool) {
	tell(change(x.p, func(f *fold) []*Active {
		f.trees.halted = false
		all := make([]*Active, 0, len(f.trees.halting))
		for r := range f.trees.halting {
			all = append(all, r.live.snap)
		}
		return all
	}), f)
}

// Suppressing are children that ended, of which their parent is not told, with what a record of that needs: Told and Begun.
func (x *Worklist) SuppressedCallbacks() []PendingCallback {
	return read(x.p, func(f *fold) (all []PendingCallback) {
		for p, rows := range f.trees.suppressing {
			root := p.root()
			if !root.begun || !p.hears() {
				continue
			}
			o := PendingCallback{Session: p.sessionID(), LastClaimed: root.runID()}
			for _, r := range rows[:min(len(rows), maxTold)] {
				if r.gone {
					continue
				}
				if len(o.Children) == 0 {
					o.Deliveries = int(r.tellings)
				}
				o.Children = append(o.Children, Child{r.runID(), r.session.sessionID(), r.base(), moment(r.ended)})
			}
			if len(o.Children) > 0 {
				all = append(all, o)
			}
		}
		return all
	})
}
