package worker

import (
	"context"
	"fmt"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/trace"
)

// handle brings a delivery to its end: rejected, claimed elsewhere, or executed with an end record.
func (w *Worker) handle(d bus.Delivery) {
	q, partition, err := decodeQueued(d)
	if q.V > w.RecordVersion { // a newer worker can take it
		w.log.Warn("queued run has a newer record version than this worker reads, redelivering", "run", q.ID,
			"version", q.V, "reads", w.RecordVersion)
		d.NakWithDelay(redeliverAfter)
		return
	}
	if err != nil {
		w.log.Error("queued run is unreadable, moving it to "+subject.Rejected, "subject", d.Subject, "err", err)
		d.Reject(w.shutdown.hardStop, err.Error())
		return
	}
	if q.Owner != "" {
		if _, ok := w.definitions.serves(q.Agent, q.Owner); !ok {
			w.log.Warn("queued run names a definition of an agent that this worker does not serve, redelivering",
				"run", q.ID, "agent", q.Agent)
			d.NakWithDelay(redeliverAfter)
			return
		}
	}
	ok, trial := w.rests.admit(q.Agent, q.Owner)
	if !ok {
		d.NakWithDelay(redeliverAfter)
		return
	}
	if trial {
		defer w.rests.done()
	}
	a, claimed := w.attempts.add(q.Key, func() *attempt { return w.newAttempt(q, partition) })
	switch { // messages are delivered more than once
	case a == nil && claimed:
		d.Ack()
		return
	case a == nil:
		d.NakWithDelay(redeliverAfter)
		return
	}
	defer w.attempts.forget(a)
	if err := w.payloads.loadInput(a); err != nil {
		w.log.Warn("input not fetched, redelivering the run", "run", a, "err", err)
		d.NakWithDelay(redeliverAfter)
		return
	}
	if w.shutdown.stopping.Load() {
		d.Nak()
		return
	}
	if w.claim(a, d) {
		ev := &events{limit: newEventLimit(w.eventShare, a.ID, w.EventBytes), attempt: a, bus: w.bus,
			log: w.log, remote: &w.remote, records: w.records, canPack: w.remote.canPack(),
			onBegun: func() { w.rests.works(a.Agent, time.Now()) }}
		ev.state = &sessionState{ev: ev, payloads: w.payloads, maxBytes: w.MaxPayload, sizes: w.meter.state}
		started := w.meter.execution[run.Completed].Start()
		o := w.supervisor.execute(a, ev)
		w.meter.execution[o.Status].ObserveSince(started)
		unable := w.rests.note(w.Profile.Command, a.Agent, o, w.attempts.startedAt(a))
		returned := unable && a.Returnable && !ev.begun()
		w.finish(a, o, ev, returned)
		recordOutcome(a.span, o)
		a.span.End()
		if another := returned || o.Status == run.Failed && a.AllowsRetry(a.Attempt); !another { // needs the state
			ev.state.deleteOld()
		}
	}
}

// decodeQueued decodes a queue message and checks that it belongs to the run its subject names.
func decodeQueued(d bus.Delivery) (q run.Queued, partition string, err error) {
	r, err := subject.Parse(d.Subject)
	if err != nil {
		return q, "", err
	}
	q, err = run.DecodeQueued(d.Body, nil)
	if err != nil {
		return q, "", fmt.Errorf("queued record: %w", err)
	}
	switch {
	case q.V < 1:
		return q, "", fmt.Errorf("queued record has version %d", q.V)
	case r.Kind != subject.QueuedKind || q.ID != r.Run || q.Attempt != r.N || q.Attempt < 1:
		return q, "", fmt.Errorf("queued record of run %.80q, attempt %d does not match its subject", q.ID, q.Attempt)
	case subject.Check(q.Key) != nil, subject.Check(q.SessionID) != nil:
		return q, "", fmt.Errorf("queued record of run %s: its key or session id is not valid in a subject", q.ID)
	}
	if q.Input == nil {
		q.Input = &run.Input{}
	}
	return q, r.Partition, nil
}

func (w *Worker) newAttempt(q run.Queued, partition string) *attempt {
	a := &attempt{Queued: q, partition: partition, killed: make(chan struct{})}
	traced := trace.ContextWith(context.Background(), q.Trace)
	traced, a.span = w.spans.Start(traced, trace.Consumer, "attempt")
	a.ctx, a.cancel = context.WithCancelCause(traced)
	a.recordCtx, a.cancelRecords = context.WithCancelCause(w.shutdown.hardStop)
	return a
}
