package queues

import (
	"context"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/share"
)

// sharer returns whose share a queue counts to.
func (q queue) sharer() string {
	if q.ofRunners() {
		return q.Type + "." + q.Profile
	}
	return q.Caller
}

// sharedBy counts queues by sharer, including those being made. The caller holds mu.
func (s *Table) sharedBy(ofRunners bool) (all int, by map[string]int) {
	by = map[string]int{}
	count := func(name string, q queue) {
		if q.ofRunners() == ofRunners {
			all++
			by[q.sharer()]++
		}
	}
	for name, q := range s.all {
		count(name, q)
	}
	for name, q := range s.making {
		if _, ok := s.all[name]; !ok {
			count(name, q)
		}
	}
	return all, by
}

// InUse returns how many queues callers' demands have made.
func (s *Table) InUse() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	used, _ := s.sharedBy(false)
	return used
}

// maxClosing is how many consumers may outlive their entries, and so how many queues can be replaced within the grace.
const maxClosing = 128

// reserve takes a place for a queue from its sharer's share. If none is free, it removes an unused queue.
// Call unreserve afterwards.
func (s *Table) reserve(ctx context.Context, name string, q queue, again bool) error {
	for try := 1; ; try++ {
		all, mine, ok := s.take(name, q, again)
		if ok {
			return nil
		}
		victim, closing := s.unused(q)
		if victim == "" || closing >= maxClosing || try > 20 {
			return s.errUsedUp(q, all, mine)
		}
		if err := s.retire(ctx, victim); err != nil {
			return bus.WriteUnanswered(err)
		}
	}
}

// take reserves a place if one is free; otherwise it returns how many queues there are, and how many are the sharer's.
func (s *Table) take(name string, q queue, again bool) (all, mine int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, exists := s.all[name]
	all, by := s.sharedBy(q.ofRunners())
	mine = by[q.sharer()]
	ok = exists || again || share.Free(int64(s.cfg.Most), int64(all), int64(mine), 1)
	if ok {
		s.making[name] = q
	}
	return all, mine, ok
}

func (s *Table) unreserve(name string) {
	s.mu.Lock()
	delete(s.making, name)
	s.mu.Unlock()
}

// recentUse is how long a queue that was asked for counts as used: the run may be on its way.
const recentUse = 2 * time.Second

// unused returns the queue to remove in favour of q, empty if there is none. It has no waiting runs, and no registered
// runner needs it for its agents. Queues of q's own sharer come first, then those of sharers with more queues; of
// these, it is the longest unused. closing is how many are being removed already.
func (s *Table) unused(q queue) (found string, closing int) {
	own := s.cfg.Runners.AgentQueues()
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, by := s.sharedBy(q.ofRunners())
	mine := by[q.sharer()]
	var ours bool
	var oldest int64
	for name, other := range s.all {
		same := other.sharer() == q.sharer()
		if other.ofRunners() != q.ofRunners() || own[name] || !same && by[other.sharer()] <= mine ||
			s.cfg.History.HasWaiting(name) {
			continue
		}
		var used int64
		if at := s.made[name]; at != nil {
			used = at.Load()
		}
		if time.Since(time.Unix(0, used)) < recentUse ||
			found != "" && (ours && !same || ours == same && used >= oldest) {
			continue
		}
		found, ours, oldest = name, same, used
	}
	return found, len(s.closing)
}

// errUsedUp says whose share is used up, and what to do.
func (s *Table) errUsedUp(q queue, all, mine int) error {
	room := s.cfg.Most
	free := max(room-all, 0)
	f := fault.Newf(fault.Busy,
		"your share of queues is used up: your runs wait in %d different queues, and %d of %d are free "+
			"(AO_MAX_QUEUES); a caller may have as many as are free. "+
			"Wait until some of these runs are claimed, or ask for fewer different demands", mine, free, room)
	switch {
	case q.ofRunners() && free > 0:
		f = fault.Newf(fault.Busy,
			"the share of profile %s is used up: its runners announced %d different sets of agents, and %d of %d "+
				"queues for such sets are free (AO_MAX_QUEUES); a profile may have as many as are free. "+
				"Announce the same agents, or end runners of that profile", q.sharer(), mine, free, room)
	case q.ofRunners():
		f = fault.Newf(fault.Unavailable,
			"the runners of all profiles announced %d different sets of agents, the most that are allowed "+
				"(AO_MAX_QUEUES); profile %s has %d of them. End runners that are not needed", all, q.sharer(), mine)
	case free == 0:
		f = fault.Newf(fault.Unavailable,
			"runs of several callers wait in %d different queues, the most that are allowed (AO_MAX_QUEUES); %d of "+
				"them are your share. Wait until some are claimed, or ask for fewer different demands", all, mine)
	}
	f.Code = "too_many_queues"
	return f.With("limit", "AO_MAX_QUEUES").After(5 * time.Second)
}

// HasRoom reports whether the queue for w exists, or this caller may make it.
func (s *Table) HasRoom(w runnerapi.RoutingKey, caller string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	q := queue{w, caller}
	_, exists := s.all[w.TaskQueue()]
	all, by := s.sharedBy(q.ofRunners())
	return exists || w.IsBase() || share.Free(int64(s.cfg.Most), int64(all), int64(by[q.sharer()]), 1)
}
