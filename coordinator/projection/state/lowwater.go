package state

import (
	"time"

	"ao/shared/run"
)

// Prunable returns the sequence before which history may be truncated. It is never past an open run, nor past a
// callback record written after called (decision 0014). It leaves keep of the runs that ended after old.
func Prunable(f *State, keep int, old, called time.Time) uint64 {
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
}

// lowWater returns the sequence from which history is still needed by what is yet to start or to be reported:
//   - pending children, and webhooks with tries left;
//   - for each parent with pending children, the newest run before the oldest of them, and the newest claimed run, from
//     which it resumes;
//   - the same for each session with an unclaimed turn.
func (f *State) lowWater(kept time.Time) uint64 {
	k := lowWaterScan{f: f, least: f.seq + 1, oldest: map[*Session]*Row{}, resumed: map[*Session]bool{}}
	for _, r := range f.Callbacks.recent {
		if r.At.After(kept) {
			k.least = r.Seq
			break
		}
	}
	k.open()
	k.owed()
	k.resumes()
	return f.Late.lowWater(f.Trees.lowWater(k.least))
}

// lowWaterScan finds that sequence.
type lowWaterScan struct {
	f       *State
	least   uint64
	oldest  map[*Session]*Row // oldest pending child by parent
	resumed map[*Session]bool // sessions that continue, or will
}

// child keeps a run whose callback is pending.
func (k *lowWaterScan) child(r *Row) {
	if p := k.f.parentOf(r); p != nil {
		k.least = min(k.least, r.First)
		if o := k.oldest[p]; o == nil || r.First < o.First {
			k.oldest[p] = r
		}
	}
}

// open keeps what open runs need.
func (k *lowWaterScan) open() {
	for r := k.f.head; r != nil; r = r.live.next {
		if a := r.live.snap; a.Attempt == 0 || a.Claim == nil && a.Spec.Type == run.Resume {
			k.resumed[r.session] = true
		}
		if r.Callback {
			k.child(r)
		}
		for _, child := range r.live.children {
			k.child(child)
		}
	}
}

// owed keeps pending callbacks and webhooks.
func (k *lowWaterScan) owed() {
	for p := range k.f.pending {
		for _, r := range p.pending {
			if k.f.Callbacks.IsPending(r) {
				k.child(r)
			}
		}
	}
	for _, p := range k.f.Callbacks.reserved {
		k.least = min(k.least, p.seq)
		for _, child := range p.children {
			k.child(child)
		}
	}
	for _, to := range k.f.Webhooks.Hosts.first {
		for _, h := range to.queue {
			k.least = min(k.least, h.row.First)
		}
	}
}

// resumes keeps the runs from which sessions continue.
func (k *lowWaterScan) resumes() {
	for p, child := range k.oldest {
		keep := p.firstRow
		for r := p.firstRow; r != nil && r.First < child.First; r = r.next {
			keep = r
		}
		k.least = min(k.least, keep.First)
		k.resumed[p] = true
	}
	for s := range k.resumed {
		if keep := s.NewestClaimed(nil); keep != nil {
			k.least = min(k.least, keep.First)
		}
	}
}
