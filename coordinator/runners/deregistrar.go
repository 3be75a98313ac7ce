package runners

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// A runner that goes drains first. When its process is gone, its registration stays for a grace: its agents' names stay
// reserved, and runs of them are accepted and wait. Then it is removed (shared/docs/decisions/0032).

// Deregistrar drains, deregisters and removes runners.
type Deregistrar struct {
	Log        *slog.Logger
	Runners    *Registry
	Registered *Registrations
	Names      *Names
	Commands   *Commander
}

// Deregister takes a process off its runner, for that process only. While it finishes its runs, the runner drains. Once
// it is gone, its agents' names are reserved for a grace. Its running attempts keep their leases.
func (l *Deregistrar) Deregister(ctx context.Context, f runnerapi.Deregistration) error {
	if err := runnerapi.CheckID(f.RunnerID); err != nil {
		return err
	}
	return l.deregister(ctx, f, func(r runnerapi.Runner) error { return checkDeregister(ctx, r, f) })
}

// unchecked allows a deregistration: a coordinator found that the process is gone.
func unchecked(runnerapi.Runner) error { return nil }

// deregister stores a deregistration that may allows. A runner without agents is removed at once. A process that has
// registered meanwhile is left alone.
func (l *Deregistrar) deregister(ctx context.Context, f runnerapi.Deregistration,
	may func(runnerapi.Runner) error) error {
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
		value, err := strictjson.Encode(m)
		if err != nil {
			return err
		}
		if err := l.Registered.write(ctx, f.RunnerID, value, rev); !errors.Is(err, bus.ErrTaken) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "", "The runner is being registered; try again").After(time.Second)
}

// sameProcess returns a match for the registration of one process; "" matches any.
func sameProcess(instance string) func(runnerapi.Runner) bool {
	return func(r runnerapi.Runner) bool { return instance == "" || r.Instance == instance }
}

// remove removes a runner and releases the names that none of its replicas has. same must match what is stored, since
// another process may have registered elsewhere just now.
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

// tries is the most tries of a drain; it depends on how the last one ended.
type tries int

const (
	oneTry     tries = 1
	threeTries tries = 3 // it is unknown who is there
	fiveTries  tries = 5 // another process has taken over
)

// Drain asks a runner to claim nothing more, finish and end, also after a take-over. For a runner that left, it ends
// the grace.
func (l *Deregistrar) Drain(ctx context.Context, id string) error {
	for try := tries(1); ; try++ {
		most, err := l.drainOnce(ctx, id)
		switch {
		case try > 1 && fault.KindOf(err) == fault.NotFound: // it ended meanwhile, as asked
			return nil
		case try >= most:
			return err
		}
	}
}

// drainOnce is one try of Drain. Its error counts only for the last try.
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
	case errors.Is(err, bus.ErrNoResponders): // no process is there to drain
		return l.drainAbsent(ctx, id, r.Instance)
	case fault.KindOf(err) == fault.Forbidden: // another process has taken over
		return fiveTries, nil
	}
	return threeTries, nil // another process answered, or none
}

// drainAbsent stores that the process to drain is gone.
func (l *Deregistrar) drainAbsent(ctx context.Context, id, instance string) (tries, error) {
	if err := l.deregister(ctx, runnerapi.Deregistration{RunnerID: id, Instance: instance}, unchecked); err != nil {
		return oneTry, err
	}
	if m, ok := l.Runners.Runner(id); ok && m.LeftAt.IsZero() { // another process has registered meanwhile
		return fiveTries, nil
	}
	return oneTry, nil
}

// markDraining stores that a runner is to end, and returns its registration. ErrTaken: it has changed meanwhile.
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
	value, err := strictjson.Encode(r)
	if err != nil {
		return r, err
	}
	return r, l.Registered.write(ctx, id, value, rev)
}
