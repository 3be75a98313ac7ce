package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
)

// Where a runner stands that goes (decision 0032): it drains; its process is gone, and its registration stays for a grace, so that its
// agents' names are not free and runs of them are accepted and wait; then it is removed.

// Deregister takes a runner's process out, for that process alone. One that still finishes its runs drains; after one that is gone its agents' names are held
// for a grace. Its running attempts keep their leases.
func (c *Coordinator) Deregister(ctx context.Context, f fleet.Farewell) error {
	if err := fleet.CheckID(f.RunnerID); err != nil {
		return err
	}
	return c.fleet.leave(ctx, f, func(r fleet.Runner) error { return mayLeave(ctx, r, f) })
}

// leaveSince notes when a runner left: now, where old says that it was known and there before; else what its registration says, which
// may be by a clock that is ahead.
func (m *member) leaveSince(old *member) {
	now := time.Now()
	switch {
	case m.LeftAt.IsZero():
	case old != nil && old.LeftAt.Equal(m.LeftAt):
		m.left = old.left
	case old != nil && old.Instance == m.Instance, m.LeftAt.After(now):
		m.left, m.heard = now, time.Time{}
	default:
		m.left, m.heard = m.LeftAt, time.Time{}
	}
}

// parting is when the last runner that had an agent left, and until when its name is held; false: one is there. Of an agent that no
// runner owns neither is so.
func (r *roster) parting(name string) (left, until time.Time, ok bool) {
	all := r.list(func(m *member) bool { return m.Set[name] != "" })
	if len(all) == 0 || all[0].Status != fleet.Left {
		return left, until, false
	}
	return all[0].Left, all[0].Until, !all[0].over()
}

// parted are those runners whose end somebody is to note, by id with their registrations: those that were told to end and are
// silent for a lease, and those whose grace is over. heard is how long everything was heard. The caller holds mu.
func (r *roster) parted(heard time.Duration) (ended, over []fleet.Runner) {
	if heard < r.c.Lease {
		return nil, nil
	}
	for _, m := range r.listed(func(m *member) bool { return m.Leaving || !m.LeftAt.IsZero() }) {
		switch {
		case m.over():
			over = append(over, m.Runner)
		case m.Leaving && m.LeftAt.IsZero() && time.Since(m.Heard) >= r.c.Lease:
			ended = append(ended, m.Runner)
		}
	}
	return ended, over
}

// part notes what parted found. What NATS does not take is tried again a second later.
func (r *roster) part(ctx context.Context, ended, over []fleet.Runner) {
	for _, m := range ended {
		if err := r.leave(ctx, fleet.Farewell{RunnerID: m.ID(), Instance: m.Instance}, nobodyAsks); err != nil {
			r.c.log.Warn("a runner's end is not noted; trying again", "runner", m.ID(), "err", err)
		}
	}
	for _, m := range over {
		same := func(now fleet.Runner) bool { return now.Instance == m.Instance && now.LeftAt.Equal(m.LeftAt) }
		if err := r.remove(ctx, m.ID(), same); err != nil {
			r.c.log.Warn("a runner that left is not removed; trying again", "runner", m.ID(), "err", err)
			continue
		}
		r.c.log.Info("the grace of a runner that left is over", "runner", m.ID(), "agents", fleet.Names(m.Set))
	}
}

// nobodyAsks is who may say a farewell where a coordinator has found that a process is gone.
func nobodyAsks(fleet.Runner) error { return nil }

// leave notes a farewell of who may say it. One without agents, of which nothing is to be held, goes at once. A successor that has registered meanwhile
// stays as it is.
func (r *roster) leave(ctx context.Context, f fleet.Farewell, may func(fleet.Runner) error) error {
	for range 8 {
		m, rev, err := r.stored(ctx, f.RunnerID)
		if err != nil || rev == 0 {
			return err
		}
		if err := may(m); err != nil {
			return err
		}
		switch {
		case m.Instance != f.Instance:
			return nil
		case f.Finishing && (m.Leaving || !m.LeftAt.IsZero()):
			return nil
		case !f.Finishing && len(m.Set) == 0:
			return r.remove(ctx, f.RunnerID, is(f.Instance))
		}
		r.c.log.Info("runner deregisters", "runner", f.RunnerID, "finishing", f.Finishing)
		if m.Draining, m.Leaving = true, true; !f.Finishing {
			m.LeftAt = time.Now().UTC()
		}
		value, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := r.write(ctx, f.RunnerID, value, rev); !errors.Is(err, bus.ErrTaken) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "", "The runner registers just now; try again").After(time.Second)
}

// stored reads a registration, and notes what it read. Revision 0: there is none.
func (r *roster) stored(ctx context.Context, id string) (is fleet.Runner, rev uint64, err error) {
	raw, rev, err := r.c.bus.Bucket(subject.Runners).Get(ctx, id)
	switch {
	case errors.Is(err, bus.ErrNone):
		r.put(id, nil)
		return is, 0, nil
	case err != nil:
		return is, 0, unavailable(err)
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return is, 0, err
	}
	r.put(id, raw)
	return is, rev, nil
}

// is matches the registration of one process; "" is any.
func is(instance string) func(fleet.Runner) bool {
	return func(r fleet.Runner) bool { return instance == "" || r.Instance == instance }
}

// remove forgets a runner and frees the names that no replica of it has. It must be the one that is stored: a successor may have registered
// elsewhere a moment ago.
func (r *roster) remove(ctx context.Context, id string, same func(fleet.Runner) bool) error {
	gone, rev, err := r.stored(ctx, id)
	if err != nil || rev == 0 || !same(gone) {
		return err
	}
	if err := r.c.bus.Bucket(subject.Runners).DeleteRev(ctx, id, rev); errors.Is(err, bus.ErrTaken) {
		return nil
	} else if err != nil {
		return unavailable(err)
	}
	r.put(id, nil)
	return r.c.changeOwners(ctx, func(owners map[string]owner) (bool, error) {
		changed := false
		for name, hash := range gone.Set {
			if o, ok := owners[name]; !ok || o.Hash != hash || o.Profile != gone.ExecutorProfile {
				continue
			}
			if heir := r.heir(name, hash, gone.ExecutorProfile); heir != "" {
				owners[name] = owner{hash, gone.ExecutorType, gone.ExecutorProfile, heir, time.Now().UTC()}
			} else {
				delete(owners, name)
			}
			changed = true
		}
		return changed, nil
	})
}

// heir is another runner of the same profile that announced the same definition.
func (r *roster) heir(name, hash, profile string) string {
	if all := r.list(func(m *member) bool { return m.Set[name] == hash && m.ExecutorProfile == profile }); len(all) > 0 {
		return all[0].ID
	}
	return ""
}

// Drain tells a runner to take no more, finish and go; the process that has just taken its place, too. Of one that left it ends the grace.
func (c *Coordinator) Drain(ctx context.Context, id string) error {
	for try := 1; ; try++ {
		runner, err := c.markDraining(ctx, id)
		if errors.Is(err, bus.ErrTaken) && try < 5 {
			continue
		}
		if try > 1 && fault.KindOf(err) == fault.NotFound { // it has gone meanwhile, as it was to
			return nil
		}
		if err != nil {
			return err
		}
		if !runner.LeftAt.IsZero() {
			return c.fleet.remove(ctx, id, is(runner.Instance))
		}
		reply, err := c.insistent(ctx, id, runner.RegisteredAt, fleet.Command{Type: fleet.CommandDrain, Instance: runner.Instance})
		switch {
		case err == nil && !runner.Answered(reply) && try < 3: // somebody else answered
			continue
		case errors.Is(err, bus.ErrNobody): // nobody is there to drain
			if err := c.fleet.leave(ctx, fleet.Farewell{RunnerID: id, Instance: runner.Instance}, nobodyAsks); err != nil {
				return err
			}
			if m, ok := c.fleet.of(id); ok && m.LeftAt.IsZero() && try < 5 { // another process has begun meanwhile
				continue
			}
			return nil
		case err != nil && (fault.KindOf(err) == fault.Forbidden && try < 5 || try < 3): // it is another process now, or may be: it did not answer
			continue
		}
		return nil
	}
}

// markDraining notes that a runner is to go, and gives its registration. ErrTaken: it has changed meanwhile.
func (c *Coordinator) markDraining(ctx context.Context, id string) (r fleet.Runner, err error) {
	if err := fleet.CheckID(id); err != nil {
		return r, err
	}
	r, rev, err := c.fleet.stored(ctx, id)
	switch {
	case err != nil || !r.LeftAt.IsZero():
		return r, err
	case rev == 0:
		return r, fault.Newf(fault.NotFound, "There is no runner %.80q; GET /runners lists them", id).With("runner_id", id)
	}
	r.Draining = true
	value, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	return r, c.fleet.write(ctx, id, value, rev)
}
