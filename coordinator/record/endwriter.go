package record

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/trace"
)

// past waits for what is on the stream. Errors say that NATS did not answer.
type barrier interface {
	CatchUp(ctx context.Context) error             // until the fold has what was written before
	WaitFor(ctx context.Context, seq uint64) error // until it has that record
}

// Ender says the last words of coordinators on attempts. Who came first keeps the word: that it is taken is no error.
type EndWriter struct{ Needs }

// Needs is what an Ender works with. Spans may be nil.
type Needs struct {
	Records *Writer
	Stream  interface {
		Last(ctx context.Context, subj string) (bus.Message, error)
		LastEvent(ctx context.Context, filter string) (uint64, error)
		Purge(ctx context.Context, stream, filter string, before uint64) error
	}
	History interface {
		Active(id string) (projection.Active, bool)
		CarriedEnd(ctx context.Context, a projection.Active) ([]byte, error)
		Seq() uint64
		Confirmed() bool
	}
	Barrier    barrier
	Heartbeats interface {
		NotHeard(key string) bool // nobody was heard, for a lease of listening, to have an attempt whose claim is not known
	}
	Stopper interface {
		SendStop(ctx context.Context, a projection.Active) // once; the leases repeat it
	}
	Spans *trace.Tracer
	Log   *slog.Logger
}

// NewEnder makes one.
func NewEndWriter(n Needs) *EndWriter { return &EndWriter{n} }

// attempt is the attempt that is next or under way, with its key; any coordinator can make it, also of a run never queued.
func (e *EndWriter) attempt(a projection.Active) (int, string) {
	n := a.AttemptNumber()
	return n, e.Records.keys.Of(a.Spec.ID, n)
}

// AttemptOf is the attempt of a run that this key is of: its own one, an earlier one, or the next, of which the fold may not know
// yet. 0: it is of none.
func (e *EndWriter) AttemptOf(a projection.Active, key string) int {
	if key == "" {
		return 0
	}
	if key == a.Key {
		return a.AttemptNumber()
	}
	for n := a.AttemptNumber() + 1; n > 0; n-- {
		if e.Records.keys.Of(a.Spec.ID, n) == key {
			return n
		}
	}
	return 0
}

// GoesOn tells whether an attempt is still under way by the claim that was looked at; NATS may have lost that, and another runner begun
// the attempt since.
func (e *EndWriter) IsCurrent(a projection.Active) bool {
	now, ok := e.History.Active(a.Spec.ID)
	return ok && now.Key == a.Key && now.ClaimSeq == a.ClaimSeq
}

// errUnsure says that nothing follows from the history at the moment.
var errUnconfirmed = fault.New(fault.Unavailable, "", "The history is not confirmed by NATS at the moment; trying again").After(time.Second)

// Moot tells whether a last word on an attempt is not to be said: it no longer goes on, or, with an error, nobody can tell at the moment.
func (e *EndWriter) Superseded(a projection.Active) (bool, error) {
	if !e.History.Confirmed() {
		return true, errUnconfirmed
	}
	return !e.IsCurrent(a), nil
}

// Lose ends an attempt whose worker is gone. One that was to be stopped is stopped by that.
func (e *EndWriter) FailLost(ctx context.Context, a projection.Active, why string) error {
	if moot, err := e.Superseded(a); moot {
		return err
	}
	if now, ok := e.History.Active(a.Spec.ID); ok && now.CarriedEndSeq != 0 {
		return e.AppendCarriedEnd(ctx, now)
	}
	status := run.Failed
	f := fault.New(fault.Internal, run.CodeDisconnected, "Runner disconnected during execution").
		With("runner_id", a.Claim.RunnerID).With("detail", why)
	e.Log.Warn("attempt given up", "run", a.Spec.ID, "runner", a.Claim.RunnerID, "why", why)
	if a.Stopping {
		status = run.Stopped
		f.Code, f.Message = "stopped", "Stopped; its runner disconnected before it could say so"
	}
	err := e.end(ctx, a, status, f)
	if err != nil {
		e.Log.Warn("attempt not ended yet; trying again", "run", a.Spec.ID, "err", err)
	}
	return err
}

// end says the last word of a begun attempt. An attempt whose result is offered meanwhile is not given up: its offer is the end of its
// lease.
func (e *EndWriter) end(ctx context.Context, a projection.Active, status run.Status, f *fault.Fault) error {
	word, err := e.ended(ctx, a, status, f)
	if err != nil {
		return err
	}
	if a.Spec.HasOutputSchema {
		return e.endIfUnreported(ctx, a, word)
	}
	return e.AppendEnd(ctx, a, word)
}

// Shutting are the records that say a last word on an attempt if nothing was offered: the first takes the offer's place,
// and carries that word.
func (e *EndWriter) EndIfUnreported(ctx context.Context, a projection.Active, status run.Status, f *fault.Fault) ([]bus.Entry, error) {
	word, err := e.ended(ctx, a, status, f)
	return blockResult(a, word), err
}

func blockResult(a projection.Active, word bus.Entry) []bus.Entry {
	return []bus.Entry{{Subject: subject.Offered(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), Body: word.Body}, word}
}

// endUnoffered says a last word if nothing was offered, so that no worker can come between.
func (e *EndWriter) endIfUnreported(ctx context.Context, a projection.Active, word bus.Entry) error {
	all := blockResult(a, word)
	seq, err := e.Records.AppendBatch(ctx, all...)
	switch {
	case err == nil:
		e.Records.NoteWritten(seq)
		e.traceEnd(a, word)
		return nil
	case !errors.Is(err, bus.ErrTaken):
		return bus.WriteUnanswered(err)
	}
	if err := e.Barrier.CatchUp(ctx); err != nil {
		return err
	}
	switch now, ok := e.History.Active(a.Spec.ID); {
	case !ok || now.Key != a.Key || now.UnverifiedSeq != 0:
		return nil // ended, or offered: then the check decides
	case now.CarriedEndSeq != 0: // by this coordinator or another
		return e.AppendCarriedEnd(ctx, now)
	}
	if m, err := e.Stream.Last(ctx, all[0].Subject); err == nil && m.Seq < a.FirstSeq {
		if err := e.purge(ctx, m.Subject, a.FirstSeq); err != nil {
			return err
		}
	}
	return e.AppendEnd(ctx, a, word) // what stands in the offer's place is none
}

// EndAsCarried says the last word that a coordinator's claim, or its record in an offer's place, carries.
func (e *EndWriter) AppendCarriedEnd(ctx context.Context, a projection.Active) error {
	if moot, err := e.Superseded(a); moot {
		return err
	}
	word, err := e.History.CarriedEnd(ctx, a)
	if err != nil {
		return err
	}
	return e.AppendEnd(ctx, a, bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), Body: word})
}

// Say appends the last word of a begun attempt. Who came first keeps it. One that precedes the attempt's own claim, or what queues it,
// is not of this attempt, but of one that NATS has lost and that was begun again: it goes.
func (e *EndWriter) AppendEnd(ctx context.Context, a projection.Active, word bus.Entry) error {
	err := e.Records.Append(ctx, word)
	if err == nil { // nearly always, and there is nothing more to ask
		e.traceEnd(a, word)
		return nil
	}
	since, taken := max(a.ClaimSeq, a.QueuedSeq), errors.Is(err, bus.ErrTaken)
	switch stands, readErr := e.existingEnd(ctx, word.Subject, since); {
	case stands == ownEnd: // somebody's, or this one, and its answer was lost
		return nil
	case stands == earlierEnd:
		return e.replaceEnd(ctx, a, word, since)
	case taken && stands == noEnd: // it was, and is gone: who removed it goes on
		return nil
	case taken:
		return bus.WriteUnanswered(readErr)
	}
	return bus.WriteUnanswered(err)
}

// lastWord is what stands in the place of an attempt's last word.
type endState int

const (
	unknownEnd endState = iota // NATS did not say
	noEnd                      // nothing
	ownEnd                     // a last word of the attempt
	earlierEnd                 // one that precedes what began the attempt
)

// standing is which word stands under a subject, of an attempt that was begun or queued by a record.
func (e *EndWriter) existingEnd(ctx context.Context, subj string, since uint64) (endState, error) {
	switch m, err := e.Stream.Last(ctx, subj); {
	case errors.Is(err, bus.ErrNotFound):
		return noEnd, nil
	case err != nil:
		return unknownEnd, err
	case m.Seq >= since:
		return ownEnd, nil
	}
	return earlierEnd, nil
}

// sayInstead says a last word in the place of one that precedes what began the attempt.
func (e *EndWriter) replaceEnd(ctx context.Context, a projection.Active, word bus.Entry, since uint64) error {
	if err := e.Barrier.CatchUp(ctx); err != nil {
		return err
	}
	if moot, err := e.Superseded(a); moot {
		return err
	}
	if err := e.purge(ctx, word.Subject, since); err != nil {
		return err
	}
	return e.Records.Put(ctx, word)
}

// purge removes what a subject holds before a record.
func (e *EndWriter) purge(ctx context.Context, subj string, before uint64) error {
	if err := e.Stream.Purge(ctx, subject.Runs, subj, before); err != nil {
		return bus.WriteUnanswered(err)
	}
	return nil
}

// ended is the coordinator's last word on an attempt. Of a begun one it names the last event, so that readers get all of them
// first; where that is not to be had the end is told without.
func (e *EndWriter) ended(ctx context.Context, a projection.Active, status run.Status, f *fault.Fault) (bus.Entry, error) {
	attempt, key := e.attempt(a)
	var events uint64
	if a.Claim != nil {
		var err error
		if events, err = e.Stream.LastEvent(ctx, subject.RunEvents(a.Spec.SessionID, a.Spec.ID)); err != nil {
			e.Log.Debug("the last event of a run is not known", "run", a.Spec.ID, "err", err)
		}
	}
	body, err := run.Ended{V: e.Records.versions.Of(a), SessionID: a.Spec.SessionID, Nonce: Nonce(), Attempt: attempt, Status: status, Error: f, Events: events, StartedAt: a.Started, At: time.Now().UTC()}.Encode()
	return bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, key), Body: body}, err
}

// Word is the beginning of a last word on a begun attempt.
func (e *EndWriter) NewEnd(a projection.Active) run.Ended {
	return run.Ended{V: e.Records.versions.Of(a), SessionID: a.Spec.SessionID, Nonce: Nonce(), Attempt: a.Attempt, StartedAt: a.Started, At: time.Now().UTC()}
}

// Mark proves that a coordinator has checked the result of an attempt.
func (e *EndWriter) SignChecked(a projection.Active) string {
	return e.Records.keys.SignChecked(a.Spec.ID, a.Attempt)
}

// over makes the span of an attempt that is over by a coordinator's last word, of the times in its records: of a run that nobody
// began its waiting, of a begun one all that is known of what its worker did, who is gone and tells nothing.
func (e *EndWriter) traceEnd(a projection.Active, last bus.Entry) {
	if e.Spans == nil || a.UnverifiedSeq != 0 { // its worker has told
		return
	}
	end, err := run.DecodeEnded(last.Body)
	if err != nil {
		return
	}
	name, from := "queue", a.Spec.CreatedAt
	if a.Claim != nil && a.Claim.RunnerID != "" {
		name, from = "attempt", a.Claim.At
	}
	s := e.Spans.Finished(trace.ContextWith(context.Background(), a.Spec.Trace), name, from, end.At)
	defer s.End()
	s.SetRun(a.Spec)
	s.SetInt(trace.Attempt, end.Attempt)
	s.Set(trace.Status, string(end.Status))
	if a.Claim != nil {
		s.Set(trace.Runner, a.Claim.RunnerID)
	}
	if end.Status == run.Failed {
		s.SetFault(end.Error)
	}
}
