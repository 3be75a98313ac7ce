package record

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/trace"
)

// barrier waits for the projection. An error means that NATS did not answer.
type barrier interface {
	CatchUp(ctx context.Context) error             // until the projection has everything written before the call
	WaitFor(ctx context.Context, seq uint64) error // until it has that record
}

// EndWriter appends end records on behalf of coordinators. If one already exists, that is not an error: the first wins.
type EndWriter struct{ Needs }

// Needs is what an EndWriter works with. Spans may be nil.
type Needs struct {
	Records *Writer
	Stream  interface {
		Last(ctx context.Context, subj string) (bus.Message, error)
		LastEvent(ctx context.Context, filter string) (uint64, error)
		Purge(ctx context.Context, stream, filter string, before uint64) error
		Clustered() bool // another server may have what this one does not give
	}
	History interface {
		Active(id string) (state.Active, bool)
		CarriedEnd(ctx context.Context, a state.Active) ([]byte, error)
		Seq() uint64
		Confirmed() bool
	}
	Barrier    barrier
	Heartbeats interface {
		NotHeard(key string) bool // no heartbeat named the attempt for a whole lease, although its claim is unknown
	}
	Stopper interface {
		SendStop(ctx context.Context, a state.Active) // sends once; the lease controller repeats it
	}
	Damaged func(seq uint64) bool // whether records after that one may have been lost
	Held    func() error          // while the runs that a damage affects are not known
	Spans   *trace.Tracer
	Log     *slog.Logger
}

// NewEndWriter returns an EndWriter.
func NewEndWriter(n Needs) *EndWriter { return &EndWriter{n} }

// attempt returns the number and key of the current or next attempt. Any coordinator can compute them.
func (e *EndWriter) attempt(a state.Active) (int, string) {
	n := a.AttemptNumber()
	return n, e.Records.keys.Of(a.Spec.ID, n)
}

// AttemptOf returns the number of the attempt that key belongs to, 0 if it is none of the run's.
// The number may be one higher than the projection knows.
func (e *EndWriter) AttemptOf(a state.Active, key string) int {
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

// IsCurrent reports whether the attempt is still open under the claim in a.
// NATS may have lost that claim, and another runner may have claimed the attempt since.
func (e *EndWriter) IsCurrent(a state.Active) bool {
	now, ok := e.History.Active(a.Spec.ID)
	return ok && now.Key == a.Key && now.ClaimSeq == a.ClaimSeq
}

// errUnconfirmed is returned while no decision may be based on the projection.
var errUnconfirmed = fault.New(fault.Unavailable, "", "the history is not confirmed by NATS at the moment, retrying").
	After(time.Second)

// Superseded reports whether an end record for a must not be written, because the attempt is no longer current. An
// error means that the projection is not confirmed, so nobody can tell: retry.
func (e *EndWriter) Superseded(a state.Active) (bool, error) {
	if !e.History.Confirmed() {
		return true, errUnconfirmed
	}
	return !e.IsCurrent(a), nil
}

// FailLost ends an attempt whose worker is gone. An attempt that was being stopped ends as stopped.
func (e *EndWriter) FailLost(ctx context.Context, a state.Active, why string) error {
	if moot, err := e.Superseded(a); moot {
		return err
	}
	if now, ok := e.History.Active(a.Spec.ID); ok && now.CarriedEndSeq != 0 {
		return e.AppendCarriedEnd(ctx, now)
	}
	if e.Damaged(a.ClaimSeq) && !a.Stopping {
		if err := e.Held(); err != nil { // the damage counts the run first
			return err
		}
		return e.FailDamaged(ctx, a, "no heartbeat names it")
	}
	status := run.Failed
	f := fault.New(fault.Internal, run.CodeDisconnected, "Runner disconnected during execution").
		With("runner_id", a.Claim.RunnerID).With("detail", why)
	e.Log.Warn("attempt abandoned", "run", a.Spec.ID, "runner", a.Claim.RunnerID, "why", why)
	if a.Stopping {
		status = run.Stopped
		f.Code, f.Message = "stopped", "Stopped; its runner disconnected before it could say so"
	}
	err := e.end(ctx, a, status, f)
	if err != nil {
		e.Log.Warn("attempt not ended yet, retrying", "run", a.Spec.ID, "err", err)
	}
	return err
}

// end appends the end record of a claimed attempt.
// If the worker reports a result meanwhile, that result decides and nothing is appended.
func (e *EndWriter) end(ctx context.Context, a state.Active, status run.Status, f *fault.Fault) error {
	end, err := e.ended(ctx, a, status, f)
	if err != nil {
		return err
	}
	if a.Spec.HasOutputSchema {
		return e.endIfUnreported(ctx, a, end)
	}
	return e.AppendEnd(ctx, a, end)
}

// EndIfUnreported returns the records that end an attempt unless its worker has reported a result.
// The first takes the result's subject and carries the end record.
func (e *EndWriter) EndIfUnreported(ctx context.Context, a state.Active, status run.Status, f *fault.Fault,
) ([]bus.Entry, error) {
	end, err := e.ended(ctx, a, status, f)
	return blockResult(a, end), err
}

func blockResult(a state.Active, end bus.Entry) []bus.Entry {
	return []bus.Entry{
		{Subject: subject.Offered(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), Body: end.Body},
		end,
	}
}

// endIfUnreported ends an attempt unless a result was reported. No worker can write in between.
func (e *EndWriter) endIfUnreported(ctx context.Context, a state.Active, end bus.Entry) error {
	all := blockResult(a, end)
	seq, err := e.Records.AppendBatch(ctx, all...)
	switch {
	case err == nil:
		e.Records.NoteWritten(seq)
		e.traceEnd(a, end)
		return nil
	case !errors.Is(err, bus.ErrTaken):
		return bus.WriteUnanswered(err)
	}
	if err := e.Barrier.CatchUp(ctx); err != nil {
		return err
	}
	switch now, ok := e.History.Active(a.Spec.ID); {
	case !ok || now.Key != a.Key || now.UnverifiedSeq != 0:
		return nil // ended, or a result was reported: its check decides
	case now.CarriedEndSeq != 0: // by this coordinator or another one
		return e.AppendCarriedEnd(ctx, now)
	}
	if m, err := e.Stream.Last(ctx, all[0].Subject); err == nil && m.Seq < a.FirstSeq {
		if err := e.purge(ctx, m.Subject, a.FirstSeq); err != nil {
			return err
		}
	}
	return e.AppendEnd(ctx, a, end) // the record in the result's place is not a result
}

// AppendCarriedEnd appends the end record that another record of a coordinator carries: its claim, or the record it
// wrote in place of a result.
func (e *EndWriter) AppendCarriedEnd(ctx context.Context, a state.Active) error {
	if moot, err := e.Superseded(a); moot {
		return err
	}
	end, err := e.History.CarriedEnd(ctx, a)
	if err != nil {
		return err
	}
	return e.AppendEnd(ctx, a,
		bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), Body: end})
}

// AppendEnd appends the end record of a claimed attempt. The first one wins. An end record older than the attempt's
// claim or queued record belongs to an attempt that NATS lost. It is replaced.
func (e *EndWriter) AppendEnd(ctx context.Context, a state.Active, end bus.Entry) error {
	err := e.Records.Append(ctx, end)
	if err == nil { // the usual case
		e.traceEnd(a, end)
		return nil
	}
	since, taken := max(a.ClaimSeq, a.QueuedSeq), errors.Is(err, bus.ErrTaken)
	switch exists, readErr := e.existingEnd(ctx, end.Subject, since); {
	case exists == ownEnd: // somebody else's, or ours and the answer was lost
		return nil
	case exists == earlierEnd:
		return e.replaceEnd(ctx, a, end, since)
	case taken && exists == noEnd && e.Damaged(max(since, a.FirstSeq)):
		return endBehindUnreadable(ctx, e, a, end)
	case taken && exists == noEnd: // it existed and was removed: whoever removed it goes on
		return nil
	case taken:
		return bus.WriteUnanswered(readErr)
	}
	return bus.WriteUnanswered(err)
}

// endBehindUnreadable appends records that end an attempt of a damaged history, and that were refused although their
// subjects gave nothing. If that happens again, there is a record that NATS cannot read. Then the end record, the last
// one, is written under the key of no attempt, and ends the run. No worker has that key. In a cluster the record may be
// on its way, or another server has it: the caller tries again.
func endBehindUnreadable(ctx context.Context, e *EndWriter, a state.Active, all ...bus.Entry) error {
	seq, err := e.Records.AppendBatch(ctx, all...)
	if err == nil {
		e.Records.NoteWritten(seq)
		return nil
	}
	if !errors.Is(err, bus.ErrTaken) || e.Stream.Clustered() {
		return bus.WriteUnanswered(err)
	}
	for _, one := range all {
		if m, err := e.lastOrZero(ctx, one.Subject); err != nil || m.Seq != 0 { // somebody else's
			return err
		}
	}
	e.Log.Error("NATS cannot read how a run was claimed or ended; its end is written in another place", "run",
		a.Spec.ID)
	key := e.Records.keys.Of(a.Spec.ID, run.NoAttempt)
	return e.Records.Put(ctx, bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, key),
		Body: all[len(all)-1].Body})
}

// endState is what an attempt's end subject holds.
type endState int

const (
	unknownEnd endState = iota // NATS did not answer
	noEnd                      // nothing
	ownEnd                     // an end record of this attempt
	earlierEnd                 // one that is older than the attempt
)

// existingEnd returns what a subject holds. since is the sequence of the record that claimed or queued the attempt.
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

// replaceEnd removes an end record older than the attempt and appends this one.
func (e *EndWriter) replaceEnd(ctx context.Context, a state.Active, end bus.Entry, since uint64) error {
	if err := e.Barrier.CatchUp(ctx); err != nil {
		return err
	}
	if moot, err := e.Superseded(a); moot {
		return err
	}
	if err := e.purge(ctx, end.Subject, since); err != nil {
		return err
	}
	return e.Records.Put(ctx, end)
}

// purge removes what a subject holds before a sequence.
func (e *EndWriter) purge(ctx context.Context, subj string, before uint64) error {
	if err := e.Stream.Purge(ctx, subject.Runs, subj, before); err != nil {
		return bus.WriteUnanswered(err)
	}
	return nil
}

// ended builds a coordinator's end record. For a claimed attempt it names the last event, so that readers get all
// events first. If NATS does not say which that is, the record goes without.
func (e *EndWriter) ended(ctx context.Context, a state.Active, status run.Status, f *fault.Fault,
) (bus.Entry, error) {
	attempt, key := e.attempt(a)
	end := e.NewEnd(a)
	end.Attempt, end.Status, end.Error = attempt, status, f
	if a.Claim != nil {
		var err error
		end.Events, err = e.Stream.LastEvent(ctx, subject.RunEvents(a.Spec.SessionID, a.Spec.ID))
		if err != nil {
			e.Log.Debug("last event of a run is unknown", "run", a.Spec.ID, "err", err)
		}
	}
	end.At = time.Now().UTC()
	body, err := end.Encode()
	return bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, key), Body: body}, err
}

// NewEnd returns the common members of an end record for a claimed attempt.
func (e *EndWriter) NewEnd(a state.Active) run.Ended {
	return run.Ended{V: e.Records.versions.Of(a), SessionID: a.Spec.SessionID, Nonce: Nonce(), Attempt: a.Attempt,
		StartedAt: a.Started, At: time.Now().UTC()}
}

// SignChecked returns the signature that proves that a coordinator checked the attempt's result.
func (e *EndWriter) SignChecked(a state.Active) string {
	return e.Records.keys.SignChecked(a.Spec.ID, a.Attempt)
}

// traceEnd makes the span of an attempt that a coordinator ended, from the times in its records.
// An unclaimed run gets a span of its waiting; a claimed one stands for the worker that can no longer report.
func (e *EndWriter) traceEnd(a state.Active, last bus.Entry) {
	if e.Spans == nil || a.UnverifiedSeq != 0 { // its worker has reported its own span
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
