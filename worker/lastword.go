package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/shared/trace"
	"ao/worker/process"
)

// maxEvidence is how much of a result that came too late is logged, in bytes.
const maxEvidence = 2 << 10

// finish says the last word of an attempt: exactly one, tried again until it stands, is refused, or the worker dies. Where an
// output schema holds, a good end is only offered: a coordinator looks at the result once more and says the last word. The offer ends
// the attempt here, and its lease.
func (w *Worker) finish(a *attempt, o run.Outcome, ev *events) {
	if o.Status == run.Failed && o.Error != nil && a.Again(a.Attempt) { // nobody else would say why
		why := string(process.Cut([]byte(o.Error.Message), maxMessage))
		ev.emit(a.wanted, run.EventMessage, run.Say("system", fmt.Sprintf("attempt %d of %d failed: %s", a.Attempt, a.Attempts, why)))
	}
	_, span := trace.Begin(a.ctx, "ended")
	seq := ev.flush(a.wanted)
	e, r, err := w.records.ended(a, o, seq, w.attempts.started(a))
	if err != nil {
		w.log.Error("last word", "run", a, "err", err)
		return
	}
	offer := a.Contract && r.Status == run.Completed
	if offer {
		e.Subject = subject.Offered(a.partition, a.ID, a.Key)
	}
	seq, err = insist(a.wanted, w.bus, e, mine(r.Nonce), func(try int, err error) {
		if try == 1 && a.wanted.Err() == nil {
			w.log.Warn("last word not written yet, trying again", "run", a, "status", o.Status, "err", err)
		}
	})
	switch {
	case errors.Is(err, bus.ErrTaken), err == nil && offer && w.late(a, seq):
		w.counts.refused.Add(1)
		span.Fail("refused")
		w.log.Warn("last word refused: the attempt had been ended already", "run", a, "status", o.Status, "result", evidence(o.Result))
	case err != nil:
		w.log.Warn("no last word: nobody wants it any more", "run", a, "why", err, "status", o.Status, "result", evidence(o.Result))
		return
	default:
		w.counts.ended.Add(1)
		if o.Result != nil {
			w.meter.result.Observe(float64(size(o.Result)))
		}
		span.Set(trace.Status, string(r.Status))
		w.log.Debug("run ended", "run", a, "status", r.Status, "offered", offer)
	}
	span.End()
}

// late tells whether an offer came after the attempt's last word: then nobody looks at it. What stands after the offer is the answer to it.
func (w *Worker) late(a *attempt, offer uint64) bool {
	ctx, cancel := context.WithTimeout(a.wanted, 2*time.Second)
	defer cancel()
	m, err := w.bus.Last(ctx, subject.Ended(a.partition, a.ID, a.Key))
	return err == nil && m.Seq < offer
}

// evidence is the beginning and end of a result that came too late: it is in no run, so the log is the only place where anyone
// can see what was done. It is the one thing of a run's content that a log may show.
func evidence(r *run.Result) string {
	if r == nil {
		return ""
	}
	raw, err := strictjson.Encode(r)
	if err != nil {
		return "not readable: " + err.Error()
	}
	return string(process.Cut(raw, maxEvidence))
}
