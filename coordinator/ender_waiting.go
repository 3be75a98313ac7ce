package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// ending are the records that end a run that nobody has begun: the claim, which carries the last word, and that.
func (e *ender) ending(ctx context.Context, a journal.Active, status run.Status, f *fault.Fault) ([]bus.Entry, error) {
	last, err := e.ended(ctx, a, status, f)
	if err != nil {
		return nil, err
	}
	attempt, key := e.attempt(a)
	claim, err := run.Claim{V: e.records.versions.Of(a), SessionID: a.Spec.SessionID, Nonce: nonce(), Attempt: attempt, At: time.Now().UTC(), Next: last.Body}.Encode()
	return []bus.Entry{{Subject: subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, key), Body: claim}, last}, err
}

// EndWaiting ends a run that nobody has begun, so that no worker can come between. ErrTaken: somebody has begun it, or
// is ending it.
func (e *ender) EndWaiting(ctx context.Context, a journal.Active, status run.Status, f *fault.Fault) error {
	all, err := e.ending(ctx, a, status, f)
	if err != nil {
		return err
	}
	last := all[1]
	seq, err := e.records.AppendAll(ctx, all...)
	if errors.Is(err, bus.ErrTaken) {
		return e.endIgnored(ctx, a, status, last)
	}
	if err != nil {
		return unavailable(err)
	}
	e.over(a, last)
	return e.past.Reached(ctx, seq)
}

// endIgnored ends a waiting run whose claim, or last word, is taken by one that counts for nothing: it was on its way when NATS lost what
// had queued the attempt. Whose claim it is, is told to stop; that it fails, only where nobody was heard to have it. ErrTaken: it is not
// so, a runner has begun it; or nothing is in the way any more.
func (e *ender) endIgnored(ctx context.Context, a journal.Active, status run.Status, last bus.Entry) error {
	if err := e.past.CaughtUp(ctx); err != nil {
		return err
	}
	_, key := e.attempt(a)
	claim, err := e.lastOr(ctx, subject.Claimed(subject.Partition(a.Spec.SessionID), a.Spec.ID, key))
	if err != nil {
		return err
	}
	word, err := e.lastOr(ctx, last.Subject)
	if err != nil {
		return err
	}
	if max(claim.Seq, word.Seq) > e.history.Seq() {
		return bus.ErrTaken
	}
	if now, ok := e.history.Active(a.Spec.ID); !ok || now.Claim != nil || now.Next() != a.Next() || !e.history.Sure() { // both are read by now
		return bus.ErrTaken
	}
	if claim.Seq != 0 && status != run.Stopped && !e.heard.Silent(key) {
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
	if err := e.Say(ctx, a, last); err != nil {
		return err
	}
	var early run.Claim
	if json.Unmarshal(claim.Body, &early) == nil {
		a.Claim, a.Key = &early, key
		go e.stopper.TellStop(context.WithoutCancel(ctx), a)
	}
	return e.past.CaughtUp(ctx)
}

// lastOr gives the message of a subject; one of sequence 0 where there is none.
func (e *ender) lastOr(ctx context.Context, subj string) (bus.Message, error) {
	m, err := e.stream.Last(ctx, subj)
	if errors.Is(err, bus.ErrNone) {
		return bus.Message{}, nil
	} else if err != nil {
		return m, unavailable(err)
	}
	return m, nil
}

// Stop makes the wish durable to stop an attempt, and tells its runner; the leases repeat it until the end comes.
func (e *ender) Stop(ctx context.Context, a journal.Active) error {
	body, err := json.Marshal(run.Stop{V: e.records.versions.Now(), SessionID: a.Spec.SessionID, With: a.Halt.Session, At: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := e.records.Put(ctx, bus.Entry{Subject: subject.Stopping(subject.Partition(a.Spec.SessionID), a.Spec.ID), Body: body}); err != nil {
		return err
	}
	if a.OfferSeq == 0 { // else its worker has done its part, and what becomes of the offer decides
		go e.stopper.TellStop(context.WithoutCancel(ctx), a)
	}
	return nil
}
