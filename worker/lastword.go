package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/trace"
	"ao/shared/wire"
	"ao/worker/process"
)

// maxMessage is the longest message of an error that a record carries, in bytes.
const maxMessage = 32 << 10

// maxEvidence is how much of a result that came too late is logged, in bytes.
const maxEvidence = 2 << 10

// maxRecord is the largest record that fits into a message, in bytes.
const maxRecord = 900 << 10

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
	body, r, err := w.ended(a, o, seq)
	if err != nil {
		w.log.Error("last word", "run", a, "err", err)
		return
	}
	offer, e := a.Contract && r.Status == run.Completed, bus.Entry{Subject: subject.Ended(a.partition, a.ID, a.Key), Body: body}
	if offer {
		e.Subject = subject.Offered(a.partition, a.ID, a.Key)
	}
	for try, pause := 1, 100*time.Millisecond; ; try, pause = try+1, min(2*pause, 2*time.Second) {
		if a.wanted.Err() != nil {
			w.log.Warn("no last word: nobody wants it any more", "run", a, "why", context.Cause(a.wanted), "status", o.Status, "result", evidence(o.Result))
			return
		}
		switch seq, err = w.bus.Win(a.wanted, e, mine(r.Nonce)); {
		case errors.Is(err, bus.ErrTaken), err == nil && offer && w.late(a, seq):
			w.counts.refused.Add(1)
			span.Fail("refused")
			span.End()
			w.log.Warn("last word refused: the attempt had been ended already", "run", a, "status", o.Status, "result", evidence(o.Result))
			return
		case err == nil:
			w.counts.ended.Add(1)
			if o.Result != nil {
				w.meter.result.Observe(float64(size(o.Result)))
			}
			span.Set(trace.Status, string(r.Status))
			span.End()
			w.log.Debug("run ended", "run", a, "status", r.Status, "offered", offer)
			return
		case try == 1 && a.wanted.Err() == nil:
			w.log.Warn("last word not written yet, trying again", "run", a, "status", o.Status, "err", err)
		}
		wait(a.wanted, pause/2+rand.N(pause/2))
	}
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
	raw, err := wire.Encode(r)
	if err != nil {
		return "not readable: " + err.Error()
	}
	return string(process.Cut(raw, maxEvidence))
}

// ended makes the record of the last word. A result that is too large for it is stored first; where it cannot be, the run failed.
func (w *Worker) ended(a *attempt, o run.Outcome, events uint64) (body []byte, r run.Ended, err error) {
	r = run.Ended{
		V: w.version(a), SessionID: a.SessionID, RunnerID: w.me.id, Nonce: w.nonce(), Attempt: a.Attempt, Status: o.Status, Error: o.Error, Result: o.Result,
		Events: events, StartedAt: w.attempts.started(a), At: time.Now().UTC(),
	}
	if r.Error != nil && len(r.Error.Message) > maxMessage {
		short := *r.Error
		short.Message = string(process.Cut([]byte(short.Message), maxMessage))
		r.Error = &short
	}
	if r.Result != nil && size(r.Result) > MaxInline/6 { // with its escapes it may be too large: look
		w.outsource(a, &r)
	}
	body, err = r.Encode()
	if err != nil { // a result that is no JSON
		r.Status, r.Result, r.Body = run.Failed, nil, nil
		r.Error = fault.New(fault.Internal, "result_unreadable", "The executor's result is not valid JSON")
		body, err = r.Encode()
	}
	if len(body) > maxRecord {
		r.Error = fault.New(fault.Internal, cmp.Or(codeOf(r.Error), "result_too_large"), "The end of the run is too large to be told")
		r.Status, r.Result = run.Failed, nil
		body, err = r.Encode()
	}
	return body, r, err
}

func codeOf(f *fault.Fault) string {
	if f == nil {
		return ""
	}
	return f.Code
}

func size(r *run.Result) int {
	n := len(r.Data) + len(r.SchemaValidation)
	for _, s := range []*string{r.Text, r.RawOutput} {
		if s != nil {
			n += len(*s)
		}
	}
	return n
}

// outsource puts a reference in the place of a result that is too large for a record. One that nobody takes is
// refused: a run fails by that, one that failed anyhow says it beside its own error.
func (w *Worker) outsource(a *attempt, r *run.Ended) {
	raw, err := wire.Encode(r.Result)
	if err != nil || len(raw) <= MaxInline {
		return
	}
	var no *fault.Fault
	if int64(len(raw)) > w.MaxPayload {
		no = fault.Newf(fault.TooLarge, "The result has %d bytes; at most %d are kept (AO_MAX_PAYLOAD)", len(raw), w.MaxPayload)
	} else if r.Body, err = w.bodies.store(a, raw); err != nil {
		no = fault.Of(err)
	}
	r.Result = nil
	switch {
	case no == nil:
	case r.Status == run.Completed:
		r.Status = run.Failed
		code := "result_not_stored"
		if no.Kind == fault.TooLarge {
			code = "result_too_large"
		}
		r.Error = fault.New(fault.TooLarge, code, no.Message).With("size", len(raw)).With("limit", w.MaxPayload)
	case r.Error != nil:
		own := *r.Error
		own.Fields = append(own.Fields[:len(own.Fields):len(own.Fields)], fault.Field{Name: "result_lost", Value: no.Message})
		r.Error = &own
	}
}
