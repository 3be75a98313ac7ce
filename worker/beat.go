package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"ao/shared/fleet"
)

var (
	errFenced     = errors.New("killed, as heartbeats were not answered for nearly a lease and the run may be attempted again")
	errStopped    = errors.New("stopped")
	errGivenUp    = errors.New("given up by the coordinator")
	errShutdown   = errors.New("the worker ends")
	errSuperseded = errors.New("another process is this runner now (same hostname, project_dir and profile); this one ends")
)

// beatNow has the next beat come at once.
func (w *Worker) beatNow() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// beats says in its rhythm that the worker is alive, and with which attempts.
func (w *Worker) beats(ctx context.Context) {
	silent := false
	for {
		t := time.NewTimer(w.terms.beat())
		select {
		case <-t.C:
		case <-w.poke:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
		err := w.beatOnce(ctx)
		switch {
		case err == nil:
			w.meter.beats[0].Inc()
		case ctx.Err() == nil:
			w.meter.beats[1].Inc()
		}
		switch {
		case err == nil:
			silent = false
		case ctx.Err() == nil && !silent:
			silent = true
			w.log.Warn("heartbeats are not answered", "err", err)
		}
	}
}

// beatOnce names all attempts begun here and does what the answers say.
func (w *Worker) beatOnce(ctx context.Context) error {
	all := w.attempts.alive()
	if len(all) == 0 {
		return w.beatOf(ctx, nil)
	}
	for some := range slices.Chunk(all, fleet.MaxBeatAttempts) {
		if err := w.beatOf(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) beatOf(ctx context.Context, attempts []fleet.Attempt) error {
	ctx, cancel := context.WithTimeout(ctx, max(w.terms.beat(), time.Second))
	defer cancel()
	sent := time.Now()
	r, err := w.me.beat(ctx, fleet.Beat{Attempts: attempts, Idle: firstOf(w.sessions.idle(), fleet.MaxBeatIdle), Draining: w.end.leaving.Load()})
	if err != nil {
		return err
	}
	w.attempts.heard(attempts, sent)
	w.terms.answered(r)
	w.obey(r)
	return nil
}

// firstOf is at most so many of all.
func firstOf(all []string, most int) []string { return all[:min(len(all), most)] }

// obey does what the answer to a beat says.
func (w *Worker) obey(r fleet.BeatReply) {
	leaving := w.end.leaving.Load() // then a successor may be there already, and what is to be killed is named
	for _, key := range r.GivenUp {
		w.giveUp(key)
	}
	for _, key := range r.Stop {
		w.attempts.stop(key)
	}
	w.sessions.forget(r.Forget)
	switch {
	case r.Superseded && !leaving:
		w.end.die(errSuperseded)
	case r.Drain && r.Known:
		w.end.goAway()
	case !r.Known && !leaving:
		w.rejoin()
	case r.Known && !r.Superseded && !leaving:
		w.lanes.set(r.Lanes)
	}
}

// giveUp kills an attempt that is over for the coordinator.
func (w *Worker) giveUp(key string) {
	if a := w.attempts.giveUp(key); a != nil {
		w.counts.givenUp.Add(1)
		w.log.Warn("attempt given up by the coordinator; killing its executor", "run", a)
	}
}
