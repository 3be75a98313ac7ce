package record

import (
	"context"
	"encoding/json"
	"time"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// CodeDamaged is the error code of a run whose claim or end the history has lost.
const CodeDamaged = "history_damaged"

// AttemptKey returns the key of the current or next attempt.
func (e *EndWriter) AttemptKey(a projection.Active) string {
	_, key := e.attempt(a)
	return key
}

// FailDamaged fails a run whose claim or end the history has lost, and which is therefore not attempted again. evidence
// says how it is known that it had begun.
func (e *EndWriter) FailDamaged(ctx context.Context, a projection.Active, evidence string) error {
	f := fault.New(fault.Internal, CodeDamaged, "The history lost records, and with them what became of this run; "+
		"it had begun, and is not started again").With("evidence", evidence)
	e.Log.Warn("run failed: the history is damaged", "run", a.Spec.ID, "evidence", evidence)
	if a.Claim == nil {
		return e.EndWaiting(ctx, a, run.Failed, f)
	}
	if a.Spec.AllowsRetry(a.AttemptNumber()) && !a.Stopping { // every version reads that as: no further attempt
		body, err := json.Marshal(run.Stop{V: e.Records.versions.Now(), SessionID: a.Spec.SessionID,
			At: time.Now().UTC()})
		if err != nil {
			return err
		}
		stop := bus.Entry{Subject: subject.Stopping(subject.Partition(a.Spec.SessionID), a.Spec.ID), Body: body}
		if err := e.Records.Put(ctx, stop); err != nil {
			return err
		}
	}
	return e.end(ctx, a, run.Failed, f)
}
