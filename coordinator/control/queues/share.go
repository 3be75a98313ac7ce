package queues

import (
	"context"
	"time"

	"ao/coordinator/share"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// sharer is who a queue counts to, in the pool of its kind.
func (q queue) sharer() string {
	if q.ofRunners() {
		return q.Type + "." + q.Profile
	}
	return q.Caller
}

// sharedBy counts a pool's queues by sharer, those included that are being made. The caller holds mu.
func (s *Table) sharedBy(ofRunners bool) (all int, by map[string]int) {
	by = map[string]int{}
	count := func(lane string, q queue) {
		if q.ofRunners() == ofRunners {
			all++
			by[q.sharer()]++
		}
	}
	for lane, q := range s.all {
		count(lane, q)
	}
	for lane, q := range s.making {
		if _, ok := s.all[lane]; !ok {
			count(lane, q)
		}
	}
	return all, by
}

// InUse is how many queues callers' demands have made, or are making.
func (s *Table) InUse() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	used, _ := s.sharedBy(false)
	return used
}

// maxClosing is how many consumers may outlive their entries: so many queues can be made anew within the grace.
const maxClosing = 128

// reserve takes a place for a queue out of its sharer's share; where there is none, a queue that nobody uses goes. unreserve follows.
func (s *Table) reserve(ctx context.Context, lane string, q queue, again bool) error {
	for try := 1; ; try++ {
		all, mine, ok := s.take(lane, q, again)
		if ok {
			return nil
		}
		victim, closing := s.unused(q)
		if victim == "" || closing >= maxClosing || try > 20 {
			return s.usedUp(q, all, mine)
		}
		if _, err := s.retire(ctx, victim); err != nil {
			return bus.WriteUnanswered(err)
		}
	}
}

// take is reserve where there is room; else it says how many queues there are, and how many of them are the sharer's.
func (s *Table) take(lane string, q queue, again bool) (all, mine int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, exists := s.all[lane]
	all, by := s.sharedBy(q.ofRunners())
	mine = by[q.sharer()]
	if ok = exists || again || share.Has(s.cfg.Most, all, mine); ok {
		s.making[lane] = q
	}
	return all, mine, ok
}

func (s *Table) unreserve(lane string) {
	s.mu.Lock()
	delete(s.making, lane)
	s.mu.Unlock()
}

// warm is how long a queue counts as used that was asked for here: the run may be on its way.
const warm = 2 * time.Second

// unused is the queue that can go for q: in which no run waits, which no registered runner has for its agents, and that was not used for
// longest; one of q's own sharer first, else of somebody who has more. Empty: there is none. closing is how many are going already.
func (s *Table) unused(q queue) (found string, closing int) {
	own := s.cfg.Runners.AgentQueues()
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, by := s.sharedBy(q.ofRunners())
	mine := by[q.sharer()]
	var ours bool
	var oldest int64
	for lane, other := range s.all {
		same := other.sharer() == q.sharer()
		if other.ofRunners() != q.ofRunners() || own[lane] || !same && by[other.sharer()] <= mine || s.cfg.History.HasWaiting(lane) {
			continue
		}
		var used int64
		if at := s.made[lane]; at != nil {
			used = at.Load()
		}
		if time.Since(time.Unix(0, used)) < warm || found != "" && (ours && !same || ours == same && used >= oldest) {
			continue
		}
		found, ours, oldest = lane, same, used
	}
	return found, len(s.closing)
}

// usedUp says whose share is used up, and what to do.
func (s *Table) usedUp(q queue, all, mine int) error {
	room := s.cfg.Most
	free := max(room-all, 0)
	f := fault.Newf(fault.Busy, "your share of queues is used up: runs of yours wait in %d different ones, and %d of %d are free (AO_MAX_QUEUES); a caller may have as many as are free. "+
		"Wait until some of these runs were taken, or ask for fewer different demands", mine, free, room)
	switch {
	case q.ofRunners() && free > 0:
		f = fault.Newf(fault.Busy, "the share of profile %s is used up: its runners announced %d different sets of agents, and %d of %d queues for such are free (AO_MAX_QUEUES); a profile may have as many as are free. "+
			"Announce the same agents, or end runners of that profile", q.sharer(), mine, free, room)
	case q.ofRunners():
		f = fault.Newf(fault.Unavailable, "the runners of all profiles announced %d different sets of agents, the most there may be (AO_MAX_QUEUES); profile %s has %d of them. End runners that are not needed", all, q.sharer(), mine)
	case free == 0:
		f = fault.Newf(fault.Unavailable, "runs of several callers wait in %d different queues, the most there may be (AO_MAX_QUEUES); %d of them are your share. Wait until some were taken, or ask for fewer different demands", all, mine)
	}
	f.Code = "too_many_queues"
	return f.With("limit", "AO_MAX_QUEUES").After(5 * time.Second)
}

// HasRoom tells whether the queue for w exists, or may be made for this caller.
func (s *Table) HasRoom(w runnerapi.RoutingKey, caller string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	q := queue{w, caller}
	_, exists := s.all[w.TaskQueue()]
	all, by := s.sharedBy(q.ofRunners())
	return exists || w.IsBase() || share.Has(s.cfg.Most, all, by[q.sharer()])
}
