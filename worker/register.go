package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// register retries until it succeeds, ctx ends, or the error is permanent.
func (w *Worker) register(ctx context.Context) error {
	var logged string
	var at time.Time
	for pause := 200 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 10*time.Second) {
		err := w.registerOnce(false)
		if err == nil {
			return nil
		}
		if !canRetry(err) {
			return err
		}
		if w.NotReady != nil {
			w.NotReady(err)
		}
		limit := pause
		if fault.KindOf(err) != fault.Conflict {
			limit = min(pause, time.Second) // a coordinator may appear at any moment
		}
		if err.Error() != logged || time.Since(at) > 10*time.Second {
			w.client.logRegisterError(err)
			logged, at = err.Error(), time.Now()
		}
		clock.Sleep(ctx, limit/2+rand.N(limit/2))
	}
	return ctx.Err()
}

// canRetry reports whether a registration may succeed later. An invalid one never will.
func canRetry(err error) bool { return fault.KindOf(err) != fault.Invalid }

// registerOnce sends one registration; on success the worker takes runs. all: also the agents whose names coordinators
// refused before.
func (w *Worker) registerOnce(all bool) error {
	me, state := w.definitions.describe(w.client.Runner, all)
	r, err := w.client.register(me)
	if err != nil {
		return err
	}
	w.definitions.accepted(state, r)
	w.remote.applyRegistered(r)
	w.queues.set(r.TaskQueues)
	select {
	case <-w.ready:
	default:
		close(w.ready)
	}
	w.log.Info("registered", "profile", w.Profile.Name, "project_dir", w.ProjectDir, "slots", w.slots.limit,
		"agents", runnerapi.Names(runnerapi.AgentSet(me.Agents)), "older", me.Older(), "refused", len(r.Refused))
	return nil
}

// reregister registers again in its own goroutine, one at a time, because coordinators no longer know the runner.
// After a conflict the worker takes no runs.
func (w *Worker) reregister() {
	w.registrations.start(func() {
		switch err := w.registerOnce(false); {
		case err == nil:
		case !canRetry(err):
			w.shutdown.fail(err)
		default:
			w.client.logRegisterError(err)
			if fault.KindOf(err) == fault.Conflict {
				w.queues.set(nil)
			}
		}
	})
}

// deregister tells coordinators that the runner shuts down. No registration starts after stopTaking.
func (w *Worker) deregister(finishing bool) {
	w.registrations.wait()
	w.client.deregister(w.shutdown.hardStop, finishing)
}
