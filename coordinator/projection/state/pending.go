package state

import (
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// PendingCallback is a parent session with nothing open, and its ended children whose callback is pending.
type PendingCallback struct {
	ReadAt      time.Time // when it was read
	Session     string
	LastRun     string    // its run that ended last
	LastClaimed string    // its newest run that a runner claimed
	Ended       time.Time // when LastRun ended, by its own clock
	Parent      string    // of the turn to be written
	Mode        string    // likewise
	Misses      int       // callback turns in a row that ended unclaimed
	Deliveries  int       // how often the first child was reported before, by turns that ended unclaimed
	Children    []Child   // in the order of their ends
}

// Subject returns the subject of the record that reports the children. Each further record that reports the first child
// has the next number.
func (o *PendingCallback) Subject() string {
	return subject.Callback(subject.Partition(o.Session), o.Session, o.Children[0].RunID, o.Deliveries)
}

// maxTold is how many children one turn reports at most. The next turn reports more.
const maxTold = 1000

// Child is an ended run whose callback is pending.
type Child struct {
	RunID, SessionID string
	Status           run.Status
	Ended            time.Time // by its own clock
}

// Of returns the callback of a session that is due now; not ok: nothing.
func (d *callbacks) Of(s *Session, now time.Time) (o PendingCallback, ok bool) {
	if s.runs == 0 || len(s.live) > 0 || s.lastEnded == nil || len(s.pending) == 0 || !s.canReceiveCallback() ||
		d.hasReservedTurn(s) {
		return o, false
	}
	o = PendingCallback{ReadAt: now, Session: s.ID(), LastRun: s.lastEnded.ID(),
		Ended: Moment(s.lastEnded.Ended), Misses: int(s.Misses)}
	if r := s.NewestClaimed(nil); r != nil {
		o.LastClaimed = r.ID()
	}
	o.Parent, o.Mode = s.Reply()
	o.report(s.pending)
	return o, len(o.Children) > 0
}

// SuppressedCallbacks returns ended children whose parent is not called back, with what the record of that needs.
func SuppressedCallbacks(f *State) (all []PendingCallback) {
	for p, rows := range f.Trees.suppressing {
		root := p.Root()
		if !root.ClaimedByRunner || !p.canReceiveCallback() {
			continue
		}
		o := PendingCallback{Session: p.ID(), LastClaimed: root.ID()}
		o.report(rows)
		if len(o.Children) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// report adds the children that the next record reports.
func (o *PendingCallback) report(children []*Row) {
	for _, r := range children[:min(len(children), maxTold)] {
		if r.Evicted {
			continue
		}
		if len(o.Children) == 0 {
			o.Deliveries = int(r.Deliveries)
		}
		o.Children = append(o.Children, Child{r.ID(), r.session.ID(), r.base(), Moment(r.Ended)})
	}
}

// CallbackBacklog counts pending callbacks and webhooks.
type CallbackBacklog struct {
	Parents  int       // sessions with pending children that can be called back, now or after their open runs
	Children int       // their ended children
	Oldest   time.Time // end of the one that waits longest, by its own clock; zero: none waits

	Webhooks int       // webhooks with tries left
	Due      time.Time // when the first of them is or was due; zero: there is none
	Dead     int       // webhooks without tries left
}

// PendingParents counts the pending callbacks.
func PendingParents(f *State) (d CallbackBacklog) {
	for p := range f.pending {
		if len(p.pending) == 0 || !p.canReceiveCallback() {
			continue
		}
		d.Parents++
		d.Children += len(p.pending)
		if at := Moment(p.pending[0].Ended); d.Oldest.IsZero() || at.Before(d.Oldest) {
			d.Oldest = at
		}
	}
	return d
}
