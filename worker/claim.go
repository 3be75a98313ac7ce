package worker

import (
	"context"
	"errors"
	"time"

	"ao/nats/bus"
	"ao/shared/runnerapi"
	"ao/shared/trace"
)

// again is after how long a run that could not be begun comes again.
const again = 2 * time.Second

// claim begins the attempt, unless another did. As long as nobody can say whether the claim stands it asks again, with
// the same nonce, and the queue message stays unacknowledged: should this worker be the one that is cut off, the run
// comes to another.
func (w *Worker) claim(a *attempt, d bus.Delivery) bool {
	since := time.Now()
	_, span := trace.Begin(a.ctx, "claim")
	e, nonce, err := w.records.claimed(a, since)
	if err != nil {
		w.log.Error("claim", "run", a, "err", err)
		d.NakWithDelay(again)
		return false
	}
	_, err = insist(w.end.dead, w.bus, e, mine(nonce), func(try int, err error) {
		if try == 1 {
			w.log.Warn("not known whether the claim stands; asking again", "run", a, "err", err)
		}
		d.NakWithDelay(again)
	})
	switch {
	case errors.Is(err, bus.ErrTaken):
		d.Ack()
		w.counts.lost.Add(1)
		w.log.Debug("another has the claim", "run", a)
		return false
	case err != nil:
		d.NakWithDelay(again)
		return false
	}
	d.Ack()
	span.End()
	w.spans.waited(a, d.Time)
	w.counts.claimed.Add(1)
	w.attempts.begin(a)
	if time.Since(since) > w.terms.lease()/2 {
		w.askWhether(a)
	}
	w.attempts.heard([]runnerapi.Attempt{{Key: a.Key}}, since)
	return true
}

// askWhether asks about an attempt whose claim took so long that the coordinator may have given it up meanwhile: then the
// answer ends it before it began.
func (w *Worker) askWhether(a *attempt) {
	ctx, cancel := context.WithTimeout(w.end.dead, 2*time.Second)
	defer cancel()
	if err := w.pulse.once(ctx); err != nil {
		w.log.Debug("no answer whether a late claim still counts", "run", a, "err", err)
	}
}
