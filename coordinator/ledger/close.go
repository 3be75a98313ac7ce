package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ao/shared/run"
)

// Close adds up: now is the time, last the sequence that was the stream's last when the reading began.
func (b *book) Close(now time.Time, last uint64) Report {
	r := Report{Sequence: last, Before: b.first, Records: b.records, Unknown: b.unknown, Foreign: b.nobodys,
		Strays: append([]uint64{}, b.foreign...)}
	b.entries.all(func(at uint32, e *entry) {
		switch {
		case e.is(gone):
			return
		case !e.is(known):
			if since := b.runs.promised[at]; since != 0 && now.Sub(time.Unix(0, since)) <= overdue {
				return // it is being accepted
			}
			if b.explained(finding{Wrong: Wrong{Sequence: e.first}, session: e.session, run: at, excuse: cutOff,
				born: e.id.born()}) {
				return
			}
			b.finding(kindUnknownRun, e, fmt.Sprintf("Record %d is of a run that nobody accepted", e.first))
		default:
			r.Runs.Accepted++
		}
		b.runs.count(&r, at, e, now)
		b.calls.count(&r, at, e, now)
	})
	b.places.all(func(_ uint32, p *place) {
		if p.runs > 0 {
			r.Sessions++
		}
	})
	if c := r.Runs; c.Accepted != c.Waiting+c.Running+c.Ended {
		b.keep(finding{Wrong: Wrong{Kind: kindSum, Message: fmt.Sprintf("%d runs were accepted, but %d wait, %d run "+
			"and %d have ended, which makes %d",
			c.Accepted, c.Waiting, c.Running, c.Ended, c.Waiting+c.Running+c.Ended)}})
	}
	r.Wrong = []Wrong{}
	for _, f := range b.found {
		if !b.explained(f) {
			r.Wrong = append(r.Wrong, f.Wrong)
		}
	}
	slices.SortStableFunc(r.Wrong, func(x, y Wrong) int { return cmp.Compare(x.Sequence, y.Sequence) })
	r.Count = len(r.Wrong) + b.dropped
	r.Wrong = r.Wrong[:min(len(r.Wrong), maxWrong)]
	r.OK = r.Count == 0
	return r
}

// explained tells whether the absence of records that were taken away explains a finding.
func (b *book) explained(f finding) bool {
	deleted := b.places.at(f.session).deleted
	switch {
	case deleted > f.Sequence:
		return true
	case f.excuse == never:
		return false
	case f.excuse == late && deleted != 0, f.excuse == unknown && !b.lastDeleted.Before(f.born.Add(-skew)) &&
		!b.lastDeleted.IsZero():
		return true
	}
	open := b.entries.at(f.run).is(running | held) // such a run is never truncated
	return b.first > 1 && !open && !f.born.After(b.cut.Add(skew))
}

// callback adds a run that a parent is to be told of.
func (b *callsBook) callback(c *Callbacks, at uint32, e *entry, now time.Time) {
	c.Owed++
	switch {
	case b.told(e) && e.is(hushed):
		c.Suppressed++
		return
	case b.told(e):
		c.Delivered++
		return
	case b.obstacle(e) != "":
		c.Undeliverable++
		return
	}
	c.Waiting++
	p := b.places.at(e.parent)
	patience := overdue
	if p.flags&missed != 0 {
		patience = overdueMissed
	}
	idle := now.Sub(time.Unix(0, max(p.idle, b.runs.ends[at])))
	if len(b.runs.open[e.parent]) == 0 && idle > patience {
		b.finding(kindOverdue, e, fmt.Sprintf("Its parent has been idle for %s and was not told of it",
			idle.Round(time.Second)))
	}
}

// count adds a run to the sums of callbacks.
func (b *callsBook) count(r *Report, at uint32, e *entry, now time.Time) {
	if e.is(hooked) && e.is(final) {
		r.Webhooks.Owed++
		switch b.hooks[at].status {
		case run.NotifyDelivered:
			r.Webhooks.Delivered++
		case run.NotifyDead:
			r.Webhooks.Dead++
		default:
			r.Webhooks.Waiting++
		}
	}
	if e.is(calls) && e.is(final) {
		b.callback(&r.Callbacks, at, e, now)
	}
}

// count adds a run to the sums. That it runs, and that it has ended, are facts of their own: where both are, the sum is
// wrong.
func (b *runsBook) count(r *Report, at uint32, e *entry, now time.Time) {
	for _, c := range []struct {
		of bool
		n  *int
	}{
		{e.is(known) && !e.is(running|final), &r.Runs.Waiting}, {e.is(running), &r.Runs.Running},
		{e.is(final), &r.Runs.Ended},
		{e.is(completed), &r.Runs.Completed}, {e.is(failed), &r.Runs.Failed}, {e.is(stopped), &r.Runs.Stopped},
	} {
		if c.of {
			*c.n++
		}
	}
	r.Attempts.Begun += int(e.begins)
	r.Attempts.Ended += int(e.words)
	r.Attempts.Retried += max(int(e.begins)-1, 0)
	if e.is(held) && now.Sub(time.Unix(0, b.live[at].carried)) > overdue {
		b.finding(kindUnfinished, e, fmt.Sprintf("A coordinator claimed attempt %d, to end it, and it has no last word",
			e.claimed))
	}
	if l := b.live[at]; l.offered != 0 && now.Sub(time.Unix(0, l.offered)) > overdueOffer {
		b.keep(finding{Wrong: Wrong{Kind: kindUnchecked, RunID: e.id.runID(), Sequence: l.offer,
			Message: fmt.Sprintf(
				"The result of attempt %d was offered %s ago, and no coordinator has said the last word", l.n,
				now.Sub(time.Unix(0, l.offered)).Round(time.Second))}})
	}
}
