package runners

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// Where a runner stands that goes (decision 0032): it drains; its process is gone, and its registration stays for a
// grace, so that its agents' names are not free and runs of them are accepted and wait; then it is removed.

// Leaving is how runners go, and are told to.
type Leaving struct {
	Log        *slog.Logger
	Runners    *Registry
	Registered *Registrations
	Names      *Names
	Commands   *Commander
}

// Deregister takes a runner's process out, for that process alone. One that still finishes its runs drains; after one
// that is gone its agents' names are held for a grace. Its running attempts keep their leases.
func (l *Leaving) Deregister(ctx context.Context, f runnerapi.Farewell) error {
	if err := runnerapi.CheckID(f.RunnerID); err != nil {
		return err
	}
	return l.leave(ctx, f, func(r runnerapi.Runner) error { return mayLeave(ctx, r, f) })
}

// nobodyAsks is who may say a farewell where a coordinator has found that a process is gone.
func nobodyAsks(runnerapi.Runner) error { return nil }

// leave notes a farewell of who may say it. One without agents, of which nothing is to be held, goes at once. A
// successor that has registered meanwhile stays as it is.
func (l *Leaving) leave(ctx context.Context, f runnerapi.Farewell, may func(runnerapi.Runner) error) error {
	for range 8 {
		m, rev, err := l.Registered.Stored(ctx, f.RunnerID)
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
			return l.remove(ctx, f.RunnerID, is(f.Instance))
		}
		l.Log.Info("runner deregisters", "runner", f.RunnerID, "finishing", f.Finishing)
		m.Draining, m.Leaving = true, true
		if !f.Finishing {
			m.LeftAt = time.Now().UTC()
		}
		value, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := l.Registered.write(ctx, f.RunnerID, value, rev); !errors.Is(err, bus.ErrTaken) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "", "The runner registers just now; try again").After(time.Second)
}

// is matches the registration of one process; "" is any.
func is(instance string) func(runnerapi.Runner) bool {
	return func(r runnerapi.Runner) bool { return instance == "" || r.Instance == instance }
}

// remove forgets a runner and frees the names that no replica of it has. It must be the one that is stored: a successor
// may have registered elsewhere a moment ago.
func (l *Leaving) remove(ctx context.Context, id string, same func(runnerapi.Runner) bool) error {
	gone, rev, err := l.Registered.Stored(ctx, id)
	if err != nil || rev == 0 || !same(gone) {
		return err
	}
	if err := l.Registered.drop(ctx, id, rev); errors.Is(err, bus.ErrTaken) {
		return nil
	} else if err != nil {
		return err
	}
	return l.Names.free(ctx, gone)
}

// chances is how often somebody tries at most, by what came of a try.
type chances int

const (
	done        chances = 1
	someChances chances = 3 // nobody knows who is there
	manyChances chances = 5 // it is another process now
)

// Drain tells a runner to take no more, finish and go; the process that has just taken its place, too. Of one that left
// it ends the grace.
func (l *Leaving) Drain(ctx context.Context, id string) error {
	for try := chances(1); ; try++ {
		most, err := l.drainOnce(ctx, id)
		switch {
		case try > 1 && fault.KindOf(err) == fault.NotFound: // it has gone meanwhile, as it was to
			return nil
		case try >= most:
			return err
		}
	}
}

// drainOnce is one try of Drain; an error counts where no other try follows.
func (l *Leaving) drainOnce(ctx context.Context, id string) (chances, error) {
	r, err := l.markDraining(ctx, id)
	switch {
	case errors.Is(err, bus.ErrTaken):
		return manyChances, err
	case err != nil:
		return done, err
	case !r.LeftAt.IsZero():
		return done, l.remove(ctx, id, is(r.Instance))
	}
	reply, err := l.Commands.insistent(ctx, id, r.RegisteredAt, runnerapi.Command{Type: runnerapi.CommandDrain,
		Instance: r.Instance})
	switch {
	case err == nil && r.Answered(reply):
		return done, nil
	case errors.Is(err, bus.ErrNoResponders): // nobody is there to drain
		return l.drainNobody(ctx, id, r.Instance)
	case fault.KindOf(err) == fault.Forbidden: // it is another process now
		return manyChances, nil
	}
	return someChances, nil // it may be: somebody else answered, or nobody did
}

// drainNobody notes that a process is gone that was to be drained.
func (l *Leaving) drainNobody(ctx context.Context, id, instance string) (chances, error) {
	if err := l.leave(ctx, runnerapi.Farewell{RunnerID: id, Instance: instance}, nobodyAsks); err != nil {
		return done, err
	}
	if m, ok := l.Runners.Of(id); ok && m.LeftAt.IsZero() { // another process has begun meanwhile
		return manyChances, nil
	}
	return done, nil
}

// markDraining notes that a runner is to go, and gives its registration. ErrTaken: it has changed meanwhile.
func (l *Leaving) markDraining(ctx context.Context, id string) (r runnerapi.Runner, err error) {
	if err := runnerapi.CheckID(id); err != nil {
		return r, err
	}
	r, rev, err := l.Registered.Stored(ctx, id)
	switch {
	case err != nil || !r.LeftAt.IsZero():
		return r, err
	case rev == 0:
		return r, fault.Newf(fault.NotFound, "There is no runner %.80q; GET /runners lists them", id).
			With("runner_id", id)
	}
	r.Draining = true
	value, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	return r, l.Registered.write(ctx, id, value, rev)
}
