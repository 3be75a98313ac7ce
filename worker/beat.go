package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"ao/shared/metric"
	"ao/shared/runnerapi"
)

// pulse says in its rhythm that the worker is alive, and with which attempts.
type pulse struct {
	me       *member
	terms    *terms
	attempts *attempts
	sessions *kept
	end      *ending
	obey     func(runnerapi.BeatReply)
	log      *slog.Logger

	poke chan struct{} // beat at once
}

// now has the next beat come at once.
func (p *pulse) now() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// run beats until ctx ends. It counts those that were answered, and those that were not.
func (p *pulse) run(ctx context.Context, answered, unanswered *metric.Counter) {
	silent := false
	for {
		t := time.NewTimer(p.terms.beat())
		select {
		case <-t.C:
		case <-p.poke:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
		switch err := p.once(ctx); {
		case err == nil:
			answered.Inc()
			silent = false
		case ctx.Err() != nil:
		default:
			unanswered.Inc()
			if !silent {
				silent = true
				p.log.Warn("heartbeats are not answered", "err", err)
			}
		}
	}
}

// once names all attempts begun here and does what the answers say.
func (p *pulse) once(ctx context.Context) error {
	all := p.attempts.alive()
	if len(all) == 0 {
		return p.of(ctx, nil)
	}
	for some := range slices.Chunk(all, runnerapi.MaxBeatAttempts) {
		if err := p.of(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// of names these attempts.
func (p *pulse) of(ctx context.Context, attempts []runnerapi.Attempt) error {
	ctx, cancel := context.WithTimeout(ctx, max(p.terms.beat(), time.Second))
	defer cancel()
	sent := time.Now()
	r, err := p.me.beat(ctx, runnerapi.Beat{Attempts: attempts, Idle: firstOf(p.sessions.idle(), runnerapi.MaxBeatIdle), Draining: p.end.leaving.Load()})
	if err != nil {
		return err
	}
	p.attempts.heard(attempts, sent)
	p.terms.answered(r)
	p.obey(r)
	return nil
}

// firstOf is at most so many of all.
func firstOf(all []string, most int) []string { return all[:min(len(all), most)] }

// obey does what the answer to a beat says.
func (w *Worker) obey(r runnerapi.BeatReply) {
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
