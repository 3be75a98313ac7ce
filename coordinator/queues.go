package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fleet"

	"golang.org/x/sync/errgroup"
)

// queues is the queues in use. What type and profile name needs no entry: those are bounded by the runners. Every other queue has one in
// bucket `lanes`, and its maker's share of AO_MAX_QUEUES (share.go). The roster's mutex guards it.
type queues struct {
	all     map[string]queue
	making  map[string]queue         // those that this process makes at the moment; they count
	made    map[string]*atomic.Int64 // whose consumer this process has seen made: when it was asked for last
	closing map[string]time.Time     // whose entry this process has removed, and whose consumer may yet have to go
	news    map[string]bool          // runners that are to be told of their queues
}

func newQueues() *queues {
	return &queues{
		all: map[string]queue{}, making: map[string]queue{}, made: map[string]*atomic.Int64{}, closing: map[string]time.Time{},
		news: map[string]bool{},
	}
}

// queue is an entry of bucket `lanes`: what its runs want.
type queue struct {
	fleet.Want
	Caller string `json:"caller,omitempty"` // for whose runs it was made
}

// ofRunners tells whether a queue is that of runners' own agents, which exists because they registered.
func (q queue) ofRunners() bool {
	return len(q.Agents) > 0 && q.Hostname == "" && q.ProjectDir == "" && len(q.Tags) == 0
}

// putLane takes over what bucket `lanes` has under a name; nil: nothing.
func (r *roster) putLane(lane string, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.forget()
	if value == nil {
		delete(r.queues.all, lane)
		delete(r.queues.made, lane)
		return
	}
	var q queue
	if err := json.Unmarshal(value, &q); err != nil {
		r.c.log.Error("stored lane is unreadable", "lane", lane, "err", err)
		return
	}
	r.queues.all[lane] = q
}

// want is what a queue stands for.
func (r *roster) want(lane string) (fleet.Want, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	q, ok := r.queues.all[lane]
	return q.Want, ok
}

// lane makes sure that the queue for w exists, and gives its name. caller is whose share it counts to.
func (r *roster) lane(ctx context.Context, w fleet.Want, caller string) (string, error) {
	return r.ensure(ctx, w.Lane(), queue{w, caller}, false)
}

// ensure is lane for who knows its name already. A queue in which runs wait already is made again whatever the share says.
func (r *roster) ensure(ctx context.Context, lane string, q queue, again bool) (string, error) {
	r.mu.RLock()
	used := r.queues.made[lane]
	r.mu.RUnlock()
	if used != nil {
		used.Store(time.Now().UnixNano())
		return lane, nil
	}
	if !q.Base() {
		if err := r.reserve(ctx, lane, q, again); err != nil {
			return "", err
		}
		defer r.unreserve(lane)
		value, err := json.Marshal(q)
		if err != nil {
			return "", err
		}
		if _, err := r.c.bus.Bucket(subject.Lanes).Create(ctx, lane, value); err == nil {
			r.putLane(lane, value)
		} else if !errors.Is(err, bus.ErrTaken) {
			return "", unavailable(err)
		} else if err := r.refreshLane(ctx, lane); err != nil {
			return "", unavailable(err)
		}
	}
	if err := r.c.bus.EnsureLane(ctx, lane, r.c.Journal.Oldest()); err != nil {
		return "", unavailable(err)
	}
	used = new(atomic.Int64)
	used.Store(time.Now().UnixNano())
	r.mu.Lock()
	if _, ok := r.queues.all[lane]; ok || q.Base() { // it may be gone again
		r.queues.made[lane] = used
	}
	r.mu.Unlock()
	r.announce(q.Want)
	return lane, nil
}

// refreshLane reads a queue's entry anew: another coordinator may have made or removed it a moment ago.
func (r *roster) refreshLane(ctx context.Context, lane string) error {
	value, _, err := r.c.bus.Bucket(subject.Lanes).Get(ctx, lane)
	if err != nil && !errors.Is(err, bus.ErrNone) {
		return err
	}
	r.putLane(lane, value)
	return nil
}

// made tells whether a queue has been made and is there, as far as is known here.
func (r *roster) made(lane string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.queues.made[lane] != nil
}

// lanesOf are all queues that a runner takes from.
func (r *roster) lanesOf(m fleet.Runner) []string {
	lanes := m.BaseLanes()
	r.mu.RLock()
	defer r.mu.RUnlock()
	for lane, q := range r.queues.all {
		if m.Satisfies(q.Want) {
			lanes = append(lanes, lane)
		}
	}
	slices.Sort(lanes)
	return slices.Compact(lanes)
}

// grace is how long a queue's consumer outlives its entry: by then every coordinator has heard that the entry is gone.
const grace = time.Second

// retire removes the entry of a queue that nobody uses, by compare-and-set. Its consumer goes later (closeQueues); a run that another
// coordinator queues there meanwhile is found by the next sweep of any of them, and its queue made again.
func (r *roster) retire(ctx context.Context, lane string) (gone bool, err error) {
	if err := r.c.caughtUp(ctx); err != nil { // another coordinator may have queued a run there a moment ago
		return false, err
	}
	if r.c.Journal.Waits(lane) {
		return false, nil
	}
	b := r.c.bus.Bucket(subject.Lanes)
	_, rev, err := b.Get(ctx, lane)
	if err == nil {
		err = b.DeleteRev(ctx, lane, rev)
	}
	if errors.Is(err, bus.ErrTaken) {
		return false, r.refreshLane(ctx, lane)
	} else if err != nil && !errors.Is(err, bus.ErrNone) {
		return false, err
	}
	r.putLane(lane, nil)
	if err == nil {
		r.mu.Lock()
		r.queues.closing[lane] = time.Now()
		r.mu.Unlock()
	}
	return true, nil
}

// closeQueues removes the consumers of queues whose entries this process has removed.
func (r *roster) closeQueues(ctx context.Context) error {
	var due []string
	r.mu.RLock()
	for lane, at := range r.queues.closing {
		if time.Since(at) >= grace {
			due = append(due, lane)
		}
	}
	r.mu.RUnlock()
	for _, lane := range due {
		if err := r.closeQueue(ctx, lane); err != nil {
			r.c.log.Warn("queue not closed yet; trying again", "lane", lane, "err", err)
			return nil
		}
		r.mu.Lock()
		delete(r.queues.closing, lane)
		r.mu.Unlock()
	}
	return nil
}

// closeQueue removes the consumer of a queue without an entry. Who needs the queue again makes the entry first and then the consumer,
// so a look at both afterwards shows whether this one took it away from somebody. It can be repeated at any point.
func (r *roster) closeQueue(ctx context.Context, lane string) error {
	needed, err := r.needed(ctx, lane)
	if err == nil && !needed {
		if err = r.c.bus.DropLane(ctx, lane); err == nil {
			needed, err = r.needed(ctx, lane)
		}
	}
	if err == nil && needed {
		err = r.c.bus.EnsureLane(ctx, lane, r.c.Journal.Oldest())
	}
	return err
}

// needed tells whether a queue has an entry, or runs wait in it, as NATS has it now.
func (r *roster) needed(ctx context.Context, lane string) (bool, error) {
	_, _, err := r.c.bus.Bucket(subject.Lanes).Get(ctx, lane)
	if err == nil {
		return true, nil
	} else if !errors.Is(err, bus.ErrNone) {
		return false, err
	}
	if err := r.c.caughtUp(ctx); err != nil {
		return false, err
	}
	return r.c.Journal.Waits(lane), nil
}

// announce has the runners that satisfy w told of their queues, so that a new one is served at once and not at the next heartbeat.
func (r *roster) announce(w fleet.Want) {
	r.mu.Lock()
	for _, m := range r.members {
		if r.status(m) == fleet.Online && m.Satisfies(w) {
			r.queues.news[m.id] = true
		}
	}
	r.mu.Unlock()
	r.c.scheduler.Wake(requeued)
}

// announcing is how many runners are told of their queues at once.
const announcing = 16

// announcements tells runners of their queues. However many queues are made, a runner is told ten times a second at most.
func (r *roster) announcements(ctx context.Context) error {
	r.mu.Lock()
	var told []fleet.Runner
	for id := range r.queues.news {
		if m := r.members[id]; m != nil {
			told = append(told, m.Runner)
		}
	}
	clear(r.queues.news)
	r.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(announcing)
	for _, m := range told {
		g.Go(func() error {
			cmd := fleet.Command{Type: fleet.CommandLanes, Instance: m.Instance, Lanes: r.lanesOf(m)}
			if _, err := r.c.commands.Command(ctx, m.ID(), cmd); err != nil {
				r.c.log.Debug("lanes not told; the next beat does", "runner", m.ID(), "err", err)
			}
			return nil
		})
	}
	return g.Wait()
}
