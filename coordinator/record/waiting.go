package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// WaitingEnd returns the records that end an unclaimed run: a claim that carries the end record, and the end record.
func (e *EndWriter) WaitingEnd(ctx context.Context, a state.Active, status run.Status, f *fault.Fault,
) ([]bus.Entry, error) {
	last, err := e.ended(ctx, a, status, f)
	if err != nil {
		return nil, err
	}
	attempt, key := e.attempt(a)
	claim, err := run.Claim{V: e.Records.versions.Of(a), SessionID: a.Spec.SessionID, Nonce: Nonce(), Attempt: attempt,
		At: time.Now().UTC(), Queued: cmp.Or(a.QueuedSeq, a.FirstSeq), Next: last.Body}.Encode()
	return []bus.Entry{
		{Subject: subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, key), Body: claim},
		last,
	}, err
}

// EndWaiting ends an unclaimed run. No worker can claim it in between.
// ErrTaken: it was claimed, or somebody is ending it.
func (e *EndWriter) EndWaiting(ctx context.Context, a state.Active, status run.Status, f *fault.Fault) error {
	all, err := e.WaitingEnd(ctx, a, status, f)
	if err != nil {
		return err
	}
	seq, err := e.Records.AppendBatch(ctx, all...)
	if errors.Is(err, bus.ErrTaken) {
		return e.endBehindIgnored(ctx, a, status, all)
	}
	if err != nil {
		return bus.WriteUnanswered(err)
	}
	e.traceEnd(a, all[1])
	return e.Barrier.WaitFor(ctx, seq)
}

// endBehindIgnored ends a waiting run whose claim or end subject is taken by a record that counts for nothing. That was
// written before NATS lost the attempt's queued record. The claim's owner is told to stop. The run fails only if no
// heartbeat named the attempt. ErrTaken: a runner has claimed it after all, or nothing is in the way any more.
func (e *EndWriter) endBehindIgnored(ctx context.Context, a state.Active, status run.Status, all []bus.Entry,
) error {
	if err := e.Barrier.CatchUp(ctx); err != nil {
		return err
	}
	_, key := e.attempt(a)
	last := all[1]
	claim, err := e.lastOrZero(ctx, subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, key))
	if err != nil {
		return err
	}
	end, err := e.lastOrZero(ctx, last.Subject)
	if err != nil {
		return err
	}
	if max(claim.Seq, end.Seq) > e.History.Seq() {
		return bus.ErrTaken
	}
	if now, ok := e.History.Active(a.Spec.ID); !ok || now.Claim != nil || now.AttemptNumber() != a.AttemptNumber() ||
		!e.History.Confirmed() { // both are applied by now
		return bus.ErrTaken
	}
	if claim.Seq != 0 && status != run.Stopped && !e.Heartbeats.NotHeard(key) {
		return bus.ErrTaken
	}
	if claim.Seq == 0 && end.Seq == 0 && e.Damaged(a.FirstSeq) {
		if err := endBehindUnreadable(ctx, e, a, all...); err != nil {
			return err
		}
		return e.Barrier.CatchUp(ctx)
	}
	if end.Seq != 0 {
		if err := e.purge(ctx, last.Subject, end.Seq+1); err != nil {
			return err
		}
	}
	if claim.Seq == 0 {
		return bus.ErrTaken
	}
	if err := e.AppendEnd(ctx, a, last); err != nil {
		return err
	}
	var early run.Claim
	if json.Unmarshal(claim.Body, &early) == nil {
		a.Claim, a.Key = &early, key
		go e.Stopper.SendStop(context.WithoutCancel(ctx), a)
	}
	return e.Barrier.CatchUp(ctx)
}

// lastOrZero returns the last message of a subject, or one with sequence 0.
func (e *EndWriter) lastOrZero(ctx context.Context, subj string) (bus.Message, error) {
	m, err := e.Stream.Last(ctx, subj)
	if errors.Is(err, bus.ErrNotFound) {
		return bus.Message{}, nil
	} else if err != nil {
		return m, bus.WriteUnanswered(err)
	}
	return m, nil
}

// requestStop records the request to stop an attempt.
func requestStop(ctx context.Context, e *EndWriter, a state.Active) error {
	body, err := strictjson.Encode(run.Stop{V: e.Records.versions.Now(), SessionID: a.Spec.SessionID,
		With: a.TreeStop.Session, At: time.Now().UTC()})
	if err != nil {
		return err
	}
	return e.Records.Put(ctx, bus.Entry{Subject: subject.Stopping(subject.Partition(a.Spec.SessionID), a.Spec.ID),
		Body: body})
}

// Stop records the request to stop an attempt and sends it to the runner. The lease controller repeats it.
func (e *EndWriter) Stop(ctx context.Context, a state.Active) error {
	if err := requestStop(ctx, e, a); err != nil {
		return err
	}
	if a.UnverifiedSeq == 0 { // otherwise its worker is done, and the result check decides
		go e.Stopper.SendStop(context.WithoutCancel(ctx), a)
	}
	return nil
}
