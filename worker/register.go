package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// register tries until it succeeds, ctx ends, or it is clear that it never will.
func (w *Worker) register(ctx context.Context) error {
	var said string
	var at time.Time
	for pause := 200 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 10*time.Second) {
		err := w.registerOnce()
		if err == nil {
			return nil
		}
		if !worthAnother(err) {
			return err
		}
		if w.NotReady != nil {
			w.NotReady(err)
		}
		limit := pause
		if fault.KindOf(err) != fault.Conflict {
			limit = min(pause, time.Second) // a coordinator may come any moment
		}
		if err.Error() != said || time.Since(at) > 10*time.Second {
			w.me.sayWhy(err)
			said, at = err.Error(), time.Now()
		}
		wait(ctx, limit/2+rand.N(limit/2))
	}
	return ctx.Err()
}

// worthAnother: a registration that is not well-formed will never be taken, whatever else may change.
func worthAnother(err error) bool { return fault.KindOf(err) != fault.Invalid }

// registerOnce asks once, and begins to take runs.
func (w *Worker) registerOnce() error {
	r, err := w.me.register()
	if err != nil {
		return err
	}
	w.terms.registered(r)
	w.lanes.set(r.Lanes)
	select {
	case <-w.ready:
	default:
		close(w.ready)
	}
	w.log.Info("registered", "profile", w.Profile.Name, "project_dir", w.ProjectDir, "slots", w.slots.most, "agents", runnerapi.Names(runnerapi.AgentSet(w.me.Agents)))
	return nil
}

// rejoin registers again, in a goroutine of its own, one at a time: the coordinators do not know the runner any more.
// While it is refused nothing is taken.
func (w *Worker) rejoin() {
	w.joins.begin(func() {
		switch err := w.registerOnce(); {
		case err == nil:
		case !worthAnother(err):
			w.end.die(err)
		default:
			w.me.sayWhy(err)
			if fault.KindOf(err) == fault.Conflict {
				w.lanes.set(nil)
			}
		}
	})
}

// deregister says farewell. The worker is leaving, so no registration begins any more.
func (w *Worker) deregister(finishing bool) {
	w.joins.wait()
	w.me.farewell(w.end.dead, finishing)
}
