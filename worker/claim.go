package worker

import (
	"context"
	"errors"
	"time"

	"ao/nats/bus"
	"ao/shared/runnerapi"
	"ao/shared/trace"
)

// redeliverAfter is the delay before a run that could not be claimed is redelivered.
const redeliverAfter = 2 * time.Second

// claim appends the attempt's claim and reports whether this worker owns the attempt. While the result is unknown it
// retries with the same nonce and leaves the queue message unacknowledged. If this worker is cut off, another one
// gets the run.
func (w *Worker) claim(a *attempt, d bus.Delivery) bool {
	since := time.Now()
	_, span := trace.Start(a.ctx, "claim")
	e, nonce, err := w.records.claimed(a, d.Seq, since)
	if err != nil {
		w.log.Error("claim", "run", a, "err", err)
		d.NakWithDelay(redeliverAfter)
		return false
	}
	_, err = appendWithRetry(w.shutdown.hardStop, w.bus, e, hasNonce(nonce), func(try int, err error) {
		if try == 1 {
			w.log.Warn("claim result unknown, retrying", "run", a, "err", err)
		}
		d.NakWithDelay(redeliverAfter)
	})
	switch {
	case errors.Is(err, bus.ErrTaken):
		d.Ack()
		w.counts.lost.Add(1)
		w.log.Debug("claimed by another worker", "run", a)
		return false
	case err != nil:
		d.NakWithDelay(redeliverAfter)
		return false
	}
	d.Ack()
	span.End()
	w.spans.recordWait(a, d.Time)
	w.counts.claimed.Add(1)
	w.attempts.markClaimed(a)
	if time.Since(since) > w.remote.lease()/2 {
		w.confirmClaim(a)
	}
	w.attempts.markAcked([]runnerapi.Attempt{{Key: a.Key}}, since)
	return true
}

// confirmClaim sends a heartbeat after a slow claim: the coordinator may have abandoned the attempt meanwhile. The
// reply then ends it before it starts.
func (w *Worker) confirmClaim(a *attempt) {
	ctx, cancel := context.WithTimeout(w.shutdown.hardStop, 2*time.Second)
	defer cancel()
	if err := w.heartbeats.sendAll(ctx); err != nil {
		w.log.Debug("heartbeat after a slow claim not answered", "run", a, "err", err)
	}
}
