package record

import (
	"context"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// AttemptKey returns the key of the current or next attempt.
func (e *EndWriter) AttemptKey(a state.Active) string {
	_, key := e.attempt(a)
	return key
}

// FailDamaged fails a run whose claim or end the history has lost, and which is therefore not attempted again. evidence
// says how it is known that it had begun, or why no worker can get it.
func (e *EndWriter) FailDamaged(ctx context.Context, a state.Active, evidence string) error {
	f := damaged(evidence)
	e.Log.Warn("run failed: the history is damaged", "run", a.Spec.ID, "evidence", evidence)
	if a.Claim == nil {
		return e.EndWaiting(ctx, a, run.Failed, f)
	}
	if a.Spec.AllowsRetry(a.AttemptNumber()) && !a.Stopping { // every version reads that as: no further attempt
		if err := requestStop(ctx, e, a); err != nil {
			return err
		}
	}
	return e.end(ctx, a, run.Failed, f)
}

func damaged(evidence string) *fault.Fault {
	return fault.New(fault.Internal, run.CodeDamaged, "The history lost records, and with them what became of this "+
		"run. It may have begun, and is not started again").With("evidence", evidence)
}

// AcceptDamaged accepts a run that another record carries and that had begun before the history was damaged, and fails
// it. Its claim comes first, so that no worker starts it again. Where NATS cannot read the record that accepts it, a
// queued one does.
func (e *EndWriter) AcceptDamaged(ctx context.Context, accepted bus.Entry) error {
	q, err := run.DecodeQueued(accepted.Body, nil)
	if err != nil {
		return err
	}
	a := state.Active{Spec: &q.Spec}
	all, err := e.WaitingEnd(ctx, a, run.Failed, damaged("another record carries it"))
	if err != nil {
		return err
	}
	e.Log.Warn("run failed: the history is damaged", "run", q.ID)
	for _, one := range []bus.Entry{all[0], accepted} { // a claim that is there does as well
		if err := e.Records.Put(ctx, one); err != nil {
			return err
		}
	}
	first, err := e.lastOrZero(ctx, accepted.Subject)
	if err == nil && first.Seq == 0 && !e.Stream.Clustered() {
		err = putQueued(ctx, e, q.Spec)
	}
	if err != nil {
		return err
	}
	// under the attempt's own key another attempt would follow, and its end may be there already
	all[1].Subject = subject.Ended(subject.Partition(q.SessionID), q.ID, e.Records.keys.Of(q.ID, run.NoAttempt))
	return e.Records.Put(ctx, all[1])
}

// putQueued writes the queued record of a run that is claimed, whatever its queue.
func putQueued(ctx context.Context, e *EndWriter, s run.Spec) error {
	queue := runnerapi.NewRoutingKey(s.AgentType, s.Demands, nil).TaskQueue()
	queued, err := e.Records.Queued(subject.Partition(s.SessionID), queue, s, 1, false)
	if err == nil {
		err = e.Records.Put(ctx, queued)
	}
	return err
}
