package worker

import (
	"context"
	"fmt"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// begin brings a delivery to an attempt's end: refused, another's, or its last word.
func (w *Worker) begin(d bus.Delivery) {
	q, partition, err := read(d)
	if q.V > w.RecordVersion { // a newer worker may take it
		w.log.Warn("a queued run is of a newer version than this worker; it comes again", "run", q.ID, "version", q.V, "reads", w.RecordVersion)
		d.NakWithDelay(again)
		return
	}
	if err != nil {
		w.log.Error("a queued run cannot be read; it is put aside in "+subject.Rejected, "subject", d.Subject, "err", err)
		d.Reject(w.end.dead, err.Error())
		return
	}
	if q.Owner != "" && w.serves[q.Agent] != q.Owner {
		w.log.Warn("a run of an agent that is not served here came; it comes again", "run", q.ID, "agent", q.Agent)
		d.NakWithDelay(again)
		return
	}
	a, begun := w.attempts.add(q.Key, func() *attempt { return w.adopt(q, partition) })
	switch { // messages come more than once
	case a == nil && begun:
		d.Ack()
		return
	case a == nil:
		d.NakWithDelay(again)
		return
	}
	defer w.attempts.forget(a)
	if err := w.bodies.load(a); err != nil {
		w.log.Warn("input not fetched; the run comes again", "run", a, "err", err)
		d.NakWithDelay(again)
		return
	}
	if w.end.leaving.Load() {
		d.Nak()
		return
	}
	if w.claim(a, d) {
		ev := &events{a: a, bus: w.bus, log: w.log, terms: &w.terms, records: w.records, packs: w.terms.packs()}
		ev.memory = &memory{ev: ev, bodies: w.bodies, most: w.MaxPayload, size: w.meter.state}
		began := w.meter.execution[run.Completed].Start()
		o := w.hosting.execute(a, ev)
		w.meter.execution[o.Status].Since(began)
		w.finish(a, o, ev)
		a.told(o)
		if o.Status != run.Failed || !a.Again(a.Attempt) { // else the next attempt may begin with what there was before
			ev.memory.tidy()
		}
	}
}

// read checks a queue message: that it can be read, and is of the run that its subject names.
func read(d bus.Delivery) (q run.Queued, partition string, err error) {
	r, err := subject.Parse(d.Subject)
	if err != nil {
		return q, "", err
	}
	if q, err = run.DecodeQueued(d.Body, nil); err != nil {
		return q, "", fmt.Errorf("queued record: %w", err)
	}
	switch {
	case q.V < 1:
		return q, "", fmt.Errorf("queued record of version %d", q.V)
	case r.Kind != subject.QueuedKind || q.ID != r.Run || q.Attempt != r.N || q.Attempt < 1:
		return q, "", fmt.Errorf("queued record of run %.80q, attempt %d, under another's subject", q.ID, q.Attempt)
	case subject.Check(q.Key) != nil, subject.Check(q.SessionID) != nil:
		return q, "", fmt.Errorf("queued record of run %s: its key or session cannot stand in a subject", q.ID)
	}
	if q.Input == nil {
		q.Input = &run.Input{}
	}
	return q, r.Partition, nil
}

// adopt makes an attempt of a queued run.
func (w *Worker) adopt(q run.Queued, partition string) *attempt {
	a := &attempt{Queued: q, partition: partition}
	ctx, span := w.spans.begin(context.Background(), &a.Queued)
	a.span = span
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.killed, a.kill = context.WithCancel(context.Background())
	a.wanted, a.unwant = context.WithCancelCause(w.end.dead)
	return a
}
