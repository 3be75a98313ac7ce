package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ao/shared/run"
)

// Close returns the report. now is the current time, last the stream's last sequence when reading began. More records
// may be added, and reported, afterwards.
func (b *Verifier) Close(now time.Time, last uint64) Report {
	kept, dropped := len(b.violations), b.dropped
	defer func() { b.violations, b.dropped = b.violations[:kept], dropped }() // what is wrong now may come right
	r := Report{Sequence: last, Before: b.first, Records: b.records, Unknown: b.unknown, Foreign: b.foreignCount,
		ForeignSeqs: append([]uint64{}, b.foreign...)}
	b.runStates.all(func(at uint32, e *runState) {
		switch {
		case e.is(deleted):
			return
		case !e.is(known):
			if since := b.runs.reserved[at]; since != 0 && now.Sub(time.Unix(0, since)) <= overdue {
				return // it is being accepted
			}
			f := violation{Wrong: Wrong{Sequence: e.first}, session: e.session, run: at, exemption: cutOff,
				born: bornAt(b.memory, e.id, at, e)}
			if e.is(final) { // or a second end record was on its way
				f.exemption = late
			}
			if b.exempt(f) {
				return
			}
			b.violation(kindUnknownRun, e, "Record %d is of a run that was never accepted", e.first)
		default:
			r.Runs.Accepted++
		}
		b.runs.count(&r, at, e, now)
		b.calls.count(&r, at, e, now)
	})
	b.sessions.all(func(_ uint32, p *sessionState) {
		if p.runs > 0 {
			r.Sessions++
		}
	})
	if c := r.Runs; c.Accepted != c.Waiting+c.Running+c.Ended {
		say := fmt.Sprintf("%d runs were accepted, but %d wait, %d run and %d have ended, which makes %d", c.Accepted,
			c.Waiting, c.Running, c.Ended, c.Waiting+c.Running+c.Ended)
		b.keep(violation{Wrong: Wrong{Kind: kindSum, Message: say}})
	}
	r.Wrong = []Wrong{}
	for _, f := range b.violations {
		if !b.exempt(f) {
			r.Wrong = append(r.Wrong, f.Wrong)
		}
	}
	slices.SortStableFunc(r.Wrong, func(x, y Wrong) int { return cmp.Compare(x.Sequence, y.Sequence) })
	r.Count = len(r.Wrong) + b.dropped
	r.Wrong = r.Wrong[:min(len(r.Wrong), maxWrong)]
	r.OK = r.Count == 0
	return r
}

// exempt reports whether removed records explain a violation.
func (b *Verifier) exempt(f violation) bool {
	deleted := b.sessions.at(f.session).deleted
	switch {
	case !b.Damaged.At.IsZero() && (f.Kind == kindSum || f.before(b.Damaged.At, b.Damaged.Seq+1)):
		return true // an accepted damage explains it
	case deleted > f.Sequence:
		return true
	case f.exemption == never:
		return false
	case f.exemption == late && deleted != 0,
		f.exemption == unknown && !b.lastDeleted.IsZero() && !b.lastDeleted.Before(f.madeAt.Add(-skew)):
		return true
	}
	open := b.runStates.at(f.run).is(running | claimedToEnd) // such a run is never truncated
	return b.first > 1 && !open && f.before(b.cut.Add(skew+1), b.first)
}

// callback counts a run that calls a parent back.
func (b *callbackVerifier) callback(c *Callbacks, at uint32, e *runState, now time.Time) {
	c.Owed++
	switch {
	case b.delivered(e) && e.is(suppressed):
		c.Suppressed++
		return
	case b.delivered(e):
		c.Delivered++
		return
	case b.obstacle(e) != "":
		c.Undeliverable++
		return
	}
	c.Waiting++
	p := b.sessions.at(e.parent)
	limit := overdue
	if p.flags&lastUnclaimed != 0 {
		limit = overdueMissed
	}
	idle := now.Sub(time.Unix(0, max(p.idleSince, b.runs.ends[at])))
	if len(b.runs.open[e.parent]) == 0 && idle > limit {
		b.violation(kindOverdue, e, "Its parent has been idle for %s and was not called back", idle.Round(time.Second))
	}
}

// count adds a run to the sums of callbacks and webhooks.
func (b *callbackVerifier) count(r *Report, at uint32, e *runState, now time.Time) {
	if e.is(hasWebhook) && e.is(final) {
		r.Webhooks.Owed++
		switch b.webhooks[at].status {
		case run.NotifyDelivered:
			r.Webhooks.Delivered++
		case run.NotifyDead:
			r.Webhooks.Dead++
		default:
			r.Webhooks.Waiting++
		}
	}
	if e.is(callsBack) && e.is(final) {
		b.callback(&r.Callbacks, at, e, now)
	}
}

// count adds a run to the sums. Running and ended are counted independently: if a run is both, the sum is wrong.
func (b *runVerifier) count(r *Report, at uint32, e *runState, now time.Time) {
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
	r.Attempts.Claimed += int(e.claims)
	r.Attempts.Ended += int(e.ends)
	r.Attempts.Retried += max(int(e.claims)-1, 0)
	if e.is(claimedToEnd) && now.Sub(time.Unix(0, b.live[at].carriedAt)) > overdue {
		b.violation(kindUnfinished, e, "A coordinator claimed attempt %d to end it, and it has no end record",
			e.claimed)
	}
	if l := b.live[at]; l.reportedAt != 0 && now.Sub(time.Unix(0, l.reportedAt)) > overdueResult {
		say := fmt.Sprintf("The result of attempt %d was reported %s ago, and no coordinator has written the end "+
			"record", l.n, now.Sub(time.Unix(0, l.reportedAt)).Round(time.Second))
		b.keep(violation{Wrong: Wrong{kindUnchecked, e.id.runID(), l.result, say}})
	}
}
