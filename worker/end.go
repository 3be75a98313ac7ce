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

// maxExcerpt is how much of a refused result is logged, in bytes.
const maxExcerpt = 2 << 10

// finish appends the end record of an attempt. It retries until the record is committed, refused, or not needed any
// more. For a run with an output schema a completed result is appended unverified: a coordinator checks it and
// appends the end record. The unverified result ends the attempt and its lease here.
func (w *Worker) finish(a *attempt, o run.Outcome, ev *events, returned bool) {
	if o.Status == run.Failed && o.Error != nil && (returned || a.AllowsRetry(a.Attempt)) { // else it would be lost
		said := fmt.Sprintf("attempt %d of %d failed", a.Attempt, a.Attempts)
		if returned {
			said = "runner " + w.client.id + " cannot work and gives the run back"
		}
		why := string(process.Cut([]byte(o.Error.Message), maxMessage))
		ev.emit(a.recordCtx, run.EventMessage, run.TextMessage("system", said+": "+why))
	}
	_, span := trace.Start(a.ctx, "ended")
	seq := ev.flush(a.recordCtx)
	e, r, err := w.records.ended(a, o, seq, w.attempts.startedAt(a), returned)
	if err != nil {
		w.log.Error("end record", "run", a, "err", err)
		return
	}
	unverified := a.HasOutputSchema && r.Status == run.Completed
	if unverified {
		e.Subject = subject.Offered(a.partition, a.ID, a.Key)
	}
	seq, err = appendWithRetry(a.recordCtx, w.bus, e, hasNonce(r.Nonce), func(try int, err error) {
		if try == 1 && a.recordCtx.Err() == nil {
			w.log.Warn("end record not written yet, retrying", "run", a, "status", o.Status, "err", err)
		}
	})
	switch {
	case errors.Is(err, bus.ErrTaken), err == nil && unverified && w.endedBefore(a, seq):
		w.counts.refused.Add(1)
		span.SetError("refused")
		w.log.Warn("end record refused: the attempt has ended already", "run", a, "status", o.Status,
			"result", excerpt(o.Result))
	case err != nil:
		w.log.Warn("no end record: the attempt was abandoned", "run", a, "why", err, "status", o.Status,
			"result", excerpt(o.Result))
		return
	default:
		w.counts.ended.Add(1)
		if o.Result != nil {
			w.meter.result.Observe(float64(resultSize(o.Result)))
		}
		span.Set(trace.Status, string(r.Status))
		w.log.Debug("run ended", "run", a, "status", r.Status, "unverified", unverified)
	}
	span.End()
}

// endedBefore reports whether the attempt's end record precedes its unverified result, which nobody checks then.
func (w *Worker) endedBefore(a *attempt, unverified uint64) bool {
	ctx, cancel := context.WithTimeout(a.recordCtx, 2*time.Second)
	defer cancel()
	m, err := w.bus.Last(ctx, subject.Ended(a.partition, a.ID, a.Key))
	return err == nil && m.Seq < unverified
}

// excerpt returns the start and the end of a refused result. No run has that result, so only the log shows what was
// done. It is the only content of a run that a log may show.
func excerpt(r *run.Result) string {
	if r == nil {
		return ""
	}
	raw, err := strictjson.Encode(r)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return string(process.Cut(raw, maxExcerpt))
}
