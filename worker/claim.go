package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fleet"
	"ao/shared/run"
	"ao/shared/trace"
)

// claim begins the attempt, unless another did. As long as nobody can say whether the claim stands it asks again, with
// the same nonce, and the queue message stays unacknowledged: should this worker be the one that is cut off, the run
// comes to another.
func (w *Worker) claim(a *attempt, d bus.Delivery) bool {
	nonce, since := w.nonce(), time.Now()
	_, span := trace.Begin(a.ctx, "claim")
	body, err := run.Claim{
		V: w.version(a), SessionID: a.SessionID, RunnerID: w.me.id, Instance: w.me.Instance, Nonce: nonce, Attempt: a.Attempt, At: since.UTC(), Proves: true,
	}.Encode()
	if err != nil {
		w.log.Error("claim", "run", a, "err", err)
		d.Later(again)
		return false
	}
	e := bus.Entry{Subject: subject.Claimed(a.partition, a.ID, a.Key), Body: body}
	for try, pause := 1, 100*time.Millisecond; ; try, pause = try+1, min(2*pause, 2*time.Second) {
		switch _, err = w.bus.Win(w.end.dead, e, mine(nonce)); {
		case err == nil:
			d.Done()
			span.End()
			w.spans.waited(a, d.Time)
			w.counts.claimed.Add(1)
			w.attempts.begin(a)
			if time.Since(since) > w.terms.lease()/2 {
				w.askWhether(a)
			}
			w.attempts.heard([]fleet.Attempt{{Key: a.Key}}, since)
			return true
		case errors.Is(err, bus.ErrTaken):
			d.Done()
			w.counts.lost.Add(1)
			w.log.Debug("another has the claim", "run", a)
			return false
		}
		if try == 1 {
			w.log.Warn("not known whether the claim stands; asking again", "run", a, "err", err)
		}
		d.Later(again)
		if !wait(w.end.dead, pause/2+rand.N(pause/2)) {
			return false
		}
	}
}

// askWhether asks about an attempt whose claim took so long that the coordinator may have given it up meanwhile: then the
// answer ends it before it began.
func (w *Worker) askWhether(a *attempt) {
	ctx, cancel := context.WithTimeout(w.end.dead, 2*time.Second)
	defer cancel()
	if err := w.beatOnce(ctx); err != nil {
		w.log.Debug("no answer whether a late claim still counts", "run", a, "err", err)
	}
}
