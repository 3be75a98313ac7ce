package projection

import (
	"cmp"
	"slices"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// maxLines is how many lanes are remembered of which nothing waits in any more.
const maxLines = 1024

// enter puts a run at the end of a line.
func (l *line) enter(r *row, at int64) {
	p := r.live
	p.in, p.before, p.behind, p.since = l, l.last, nil, at
	if l.last == nil {
		l.first = r
	} else {
		l.last.live.behind = r
	}
	l.last = r
	l.n++
}

// quit takes a run out of the line that it is in.
func (r *row) quit() {
	p, l := r.live, r.live.in
	if p.before != nil {
		p.before.live.behind = p.behind
	} else {
		l.first = p.behind
	}
	if p.behind != nil {
		p.behind.live.before = p.before
	} else {
		l.last = p.before
	}
	l.n--
	p.in, p.before, p.behind = nil, nil, nil
}

// into moves a run into another line.
func (l *line) into(r *row, at int64) {
	r.quit()
	l.enter(r, at)
}

// lane is the line of those that wait in a lane; its name is kept once.
func (ls *lines) lane(name string) *line {
	if l := ls.lanes[name]; l != nil {
		return l
	}
	if len(ls.lanes) >= maxLines {
		for other, l := range ls.lanes {
			if l.n == 0 {
				delete(ls.lanes, other)
			}
		}
	}
	l := &line{lane: string([]byte(name))} // without the subject that it is a part of
	ls.lanes[l.lane] = l
	return l
}

// lineUp puts the runs of a snapshot into their lines, in the order in which they came there.
func (ls *lines) lineUp(head *row) {
	came := func(r *row) uint64 { return max(r.live.snap.QueuedSeq, r.live.snap.ClaimSeq, r.first) }
	var all []*row
	for r := head; r != nil; r = r.live.next {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *row) int { return cmp.Compare(came(a), came(b)) })
	for _, r := range all {
		l, since := &ls.apart, r.created
		switch a := r.live.snap; {
		case a.Claim != nil:
			l, since = &ls.underway, r.claimed
		case a.Queue != "":
			l = ls.lane(a.Queue)
		}
		l.enter(r, since)
	}
}

// Line is what waits for one thing.
type Waitlist struct {
	Queue   string // empty: nobody has queued it, since it is not its turn, or no runner matches
	Waiting int
	RunID   string    // the one that waits there for longest
	Since   time.Time // … since then; of runs that a snapshot had, since they were accepted
}

func (l *line) shown() Waitlist {
	s := Waitlist{Queue: l.lane, Waiting: l.n}
	if l.first != nil {
		s.RunID, s.Since = l.first.runID(), moment(l.first.live.since)
	}
	return s
}

// Totals are what this projection has seen since it had caught up.
type Totals struct {
	Accepted  uint64 `json:"accepted"`
	Retried   uint64 `json:"retried"` // attempts that failed with another to follow
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Stopped   uint64 `json:"stopped"`
}

// count takes a change into the totals.
func (t *Totals) count(ch Change) {
	switch {
	case ch.Before == "" && ch.RunID != "":
		t.Accepted++
	case ch.Kind == subject.EndedKind && ch.After == run.Pending:
		t.Retried++
	case ch.After == run.Completed:
		t.Completed++
	case ch.After == run.Failed:
		t.Failed++
	case ch.After == run.Stopped:
		t.Stopped++
	}
}
