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

// Deregistrar is how runners go, and are told to.
type Deregistrar struct {
	Log        *slog.Logger
	Runners    *Registry
	Registered *Registrations
	Names      *Names
	Commands   *Commander
}

// Deregister takes a runner's process out, for that process alone. One that still finishes its runs drains; after one
// that is gone its agents' names are held for a grace. Its running attempts keep their leases.
func (l *Deregistrar) Deregister(ctx context.Context, f runnerapi.Deregistration) error {
	if err := runnerapi.CheckID(f.RunnerID); err != nil {
		return err
	}
	return l.deregister(ctx, f, func(r runnerapi.Runner) error { return checkDeregister(ctx, r, f) })
}

// unchecked is who may say a farewell where a coordinator has found that a process is gone.
func unchecked(runnerapi.Runner) error { return nil }

// deregister notes a farewell of who may say it. One without agents, of which nothing is to be held, goes at once. A
// successor that has registered meanwhile stays as it is.
func (l *Deregistrar) deregister(ctx context.Context, f runnerapi.Deregistration, may func(runnerapi.Runner) error) error {
	for range 8 {
		m, rev, err := l.Registered.Load(ctx, f.RunnerID)
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
		case !f.Finishing && len(m.AgentHashes) == 0:
			return l.remove(ctx, f.RunnerID, sameProcess(f.Instance))
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

// sameProcess matches the registration of one process; "" is any.
func sameProcess(instance string) func(runnerapi.Runner) bool {
	return func(r runnerapi.Runner) bool { return instance == "" || r.Instance == instance }
}

// remove forgets a runner and frees the names that no replica of it has. It must be the one that is stored: a successor
// may have registered elsewhere a moment ago.
func (l *Deregistrar) remove(ctx context.Context, id string, same func(runnerapi.Runner) bool) error {
	stored, rev, err := l.Registered.Load(ctx, id)
	if err != nil || rev == 0 || !same(stored) {
		return err
	}
	if err := l.Registered.remove(ctx, id, rev); errors.Is(err, bus.ErrTaken) {
		return nil
	} else if err != nil {
		return err
	}
	return l.Names.release(ctx, stored)
}

// tries is how often somebody tries at most, by what came of a try.
type tries int

const (
	oneTry     tries = 1
	threeTries tries = 3 // nobody knows who is there
	fiveTries  tries = 5 // it is another process now
)

// Drain tells a runner to take no more, finish and go; the process that has just taken its place, too. Of one that left
// it ends the grace.
func (l *Deregistrar) Drain(ctx context.Context, id string) error {
	for try := tries(1); ; try++ {
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
func (l *Deregistrar) drainOnce(ctx context.Context, id string) (tries, error) {
	r, err := l.markDraining(ctx, id)
	switch {
	case errors.Is(err, bus.ErrTaken):
		return fiveTries, err
	case err != nil:
		return oneTry, err
	case !r.LeftAt.IsZero():
		return oneTry, l.remove(ctx, id, sameProcess(r.Instance))
	}
	reply, err := l.Commands.commandWithRetry(ctx, id, r.RegisteredAt, runnerapi.Command{Type: runnerapi.CommandDrain,
		Instance: r.Instance})
	switch {
	case err == nil && r.IsReplyOf(reply):
		return oneTry, nil
	case errors.Is(err, bus.ErrNoResponders): // nobody is there to drain
		return l.drainAbsent(ctx, id, r.Instance)
	case fault.KindOf(err) == fault.Forbidden: // it is another process now
		return fiveTries, nil
	}
	return threeTries, nil // it may be: somebody else answered, or nobody did
}

// drainAbsent notes that a process is gone that was to be drained.
func (l *Deregistrar) drainAbsent(ctx context.Context, id, instance string) (tries, error) {
	if err := l.deregister(ctx, runnerapi.Deregistration{RunnerID: id, Instance: instance}, unchecked); err != nil {
		return oneTry, err
	}
	if m, ok := l.Runners.Runner(id); ok && m.LeftAt.IsZero() { // another process has begun meanwhile
		return fiveTries, nil
	}
	return oneTry, nil
}

// markDraining notes that a runner is to go, and gives its registration. ErrTaken: it has changed meanwhile.
func (l *Deregistrar) markDraining(ctx context.Context, id string) (r runnerapi.Runner, err error) {
	if err := runnerapi.CheckID(id); err != nil {
		return r, err
	}
	r, rev, err := l.Registered.Load(ctx, id)
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
