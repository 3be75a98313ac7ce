package record

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// Ending are the records that end a run that nobody has begun: the claim, which carries the last word, and that.
func (e *EndWriter) WaitingEnd(ctx context.Context, a projection.Active, status run.Status, f *fault.Fault) ([]bus.Entry, error) {
	last, err := e.ended(ctx, a, status, f)
	if err != nil {
		return nil, err
	}
	attempt, key := e.attempt(a)
	claim, err := run.Claim{V: e.Records.versions.Of(a), SessionID: a.Spec.SessionID, Nonce: Nonce(), Attempt: attempt, At: time.Now().UTC(), Next: last.Body}.Encode()
	return []bus.Entry{{Subject: subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, key), Body: claim}, last}, err
}

// EndWaiting ends a run that nobody has begun, so that no worker can come between. ErrTaken: somebody has begun it, or
// is ending it.
func (e *EndWriter) EndWaiting(ctx context.Context, a projection.Active, status run.Status, f *fault.Fault) error {
	all, err := e.WaitingEnd(ctx, a, status, f)
	if err != nil {
		return err
	}
	last := all[1]
	seq, err := e.Records.AppendBatch(ctx, all...)
	if errors.Is(err, bus.ErrTaken) {
		return e.endBehindIgnored(ctx, a, status, last)
	}
	if err != nil {
		return bus.WriteUnanswered(err)
	}
	e.traceEnd(a, last)
	return e.Barrier.WaitFor(ctx, seq)
}

// endIgnored ends a waiting run whose claim, or last word, is taken by one that counts for nothing: it was on its way when NATS lost what
// had queued the attempt. Whose claim it is, is told to stop; that it fails, only where nobody was heard to have it. ErrTaken: it is not
// so, a runner has begun it; or nothing is in the way any more.
func (e *EndWriter) endBehindIgnored(ctx context.Context, a projection.Active, status run.Status, last bus.Entry) error {
	if err := e.Barrier.CatchUp(ctx); err != nil {
		return err
	}
	_, key := e.attempt(a)
	claim, err := e.lastOrZero(ctx, subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, key))
	if err != nil {
		return err
	}
	word, err := e.lastOrZero(ctx, last.Subject)
	if err != nil {
		return err
	}
	if max(claim.Seq, word.Seq) > e.History.Seq() {
		return bus.ErrTaken
	}
	if now, ok := e.History.Active(a.Spec.ID); !ok || now.Claim != nil || now.AttemptNumber() != a.AttemptNumber() || !e.History.Confirmed() { // both are read by now
		return bus.ErrTaken
	}
	if claim.Seq != 0 && status != run.Stopped && !e.Heartbeats.NotHeard(key) {
		return bus.ErrTaken
	}
	if word.Seq != 0 {
		if err := e.purge(ctx, last.Subject, word.Seq+1); err != nil {
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

// lastOr gives the message of a subject; one of sequence 0 where there is none.
func (e *EndWriter) lastOrZero(ctx context.Context, subj string) (bus.Message, error) {
	m, err := e.Stream.Last(ctx, subj)
	if errors.Is(err, bus.ErrNotFound) {
		return bus.Message{}, nil
	} else if err != nil {
		return m, bus.WriteUnanswered(err)
	}
	return m, nil
}

// Stop makes the wish durable to stop an attempt, and tells its runner; the leases repeat it until the end comes.
func (e *EndWriter) Stop(ctx context.Context, a projection.Active) error {
	body, err := json.Marshal(run.Stop{V: e.Records.versions.Now(), SessionID: a.Spec.SessionID, With: a.TreeStop.Session, At: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := e.Records.Put(ctx, bus.Entry{Subject: subject.Stopping(subject.Partition(a.Spec.SessionID), a.Spec.ID), Body: body}); err != nil {
		return err
	}
	if a.UnverifiedSeq == 0 { // else its worker has done its part, and what becomes of the offer decides
		go e.Stopper.SendStop(context.WithoutCancel(ctx), a)
	}
	return nil
}
