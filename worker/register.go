package worker

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
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
			w.sayWhy(err)
			said, at = err.Error(), time.Now()
		}
		wait(ctx, limit/2+rand.N(limit/2))
	}
	return ctx.Err()
}

// worthAnother: a registration that is not well-formed will never be taken, whatever else may change.
func worthAnother(err error) bool { return fault.KindOf(err) != fault.Invalid }

func (w *Worker) sayWhy(err error) {
	switch f := fault.Of(err); {
	case errors.Is(err, bus.ErrNobody):
		w.log.Warn("waiting for a coordinator: none answers on this NATS; start one with `coordinator`, `scripts/up` or `docker compose up`")
	case f.Kind == fault.Conflict:
		w.log.Warn("registration refused, trying again", "reason", f.Code, "message", f.Message)
	default:
		w.log.Warn("not registered, trying again", "err", err)
	}
}

// registerOnce asks once. It does not stop in the middle: an answer that nobody waits for would leave a runner behind.
func (w *Worker) registerOnce() error {
	ask, err := json.Marshal(fleet.Registration{Runner: w.me, Secret: w.secret})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	at := subject.Fleet(fleet.OpRegister)
	if w.bus.Door() != "" { // who may register as what is a question of permissions
		at = subject.Register(w.Profile.Type, w.Profile.Name)
	}
	answer, err := w.bus.Request(ctx, at, ask)
	if err != nil {
		return err
	}
	var r fleet.Registered
	if err := json.Unmarshal(answer, &r); err != nil {
		return fault.Wrap(fault.Internal, "", "The coordinator's answer to the registration cannot be read", err)
	}
	if r.RunnerID != w.id {
		return fault.Newf(fault.Invalid, "The coordinator calls this runner %s, not %s: they are of different versions", r.RunnerID, w.id)
	}
	w.terms.registered(r)
	if w.commands == nil { // before it takes runs, so that each can be stopped and asked after; not before it is the runner
		door, err := w.bus.Open(subject.CommandsAt(w.bus.Door(), w.id), "")
		if err != nil {
			return err
		}
		w.commands = door
	}
	w.lanes.set(r.Lanes)
	select {
	case <-w.ready:
	default:
		close(w.ready)
	}
	w.log.Info("registered", "profile", w.Profile.Name, "project_dir", w.ProjectDir, "slots", w.slots.most, "agents", fleet.Names(fleet.AgentSet(w.me.Agents)))
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
			w.sayWhy(err)
			if fault.KindOf(err) == fault.Conflict {
				w.lanes.set(nil)
			}
		}
	})
}

// deregister says farewell: that the worker finishes what it has and another process may be this runner, or that it goes. It is leaving,
// so no registration begins any more.
func (w *Worker) deregister(finishing bool) {
	w.joins.wait()
	ask, err := json.Marshal(fleet.Farewell{RunnerID: w.id, Instance: w.me.Instance, Secret: w.secret, Finishing: finishing})
	if err != nil {
		return
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(w.end.dead, 2*time.Second)
		_, err = w.bus.Request(ctx, subject.Fleet(fleet.OpDeregister), ask)
		cancel()
		if err == nil || w.end.dead.Err() != nil || errors.Is(err, bus.ErrNobody) || fault.KindOf(err) == fault.Forbidden {
			break
		}
		wait(w.end.dead, 200*time.Millisecond)
	}
	if err != nil {
		w.log.Warn("not deregistered; the coordinator will notice by itself", "err", err)
	}
}

// wait waits for d or the end of ctx, and says whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
