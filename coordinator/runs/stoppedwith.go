package runs

import (
	"context"
	"encoding/json"

	"ao/coordinator/projection/query"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// TreeStops finds out with which session's tree a run was stopped.
type TreeStops struct {
	History interface {
		Trace(ctx context.Context, id string) (query.Trace, error)
		Session(ctx context.Context, id string) (run.Session, error)
	}
	Stream interface {
		Last(ctx context.Context, subj string) (bus.Message, error)
		Records(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
	}
}

// note sets StoppedWith of a stopped run.
func (t TreeStops) note(ctx context.Context, of *run.Run) {
	if of.Status == run.Stopped {
		of.StoppedWith = t.StoppedWith(ctx, *of)
	}
}

// StoppedWith returns the session whose tree was stopped, and a stopped run with it. Empty: the run was stopped by its
// own name, or NATS does not answer.
func (t TreeStops) StoppedWith(ctx context.Context, of run.Run) string {
	if of.Error != nil {
		if with, _ := of.Error.Text("stopped_with"); with != "" {
			return with
		}
	}
	if of.RunnerID == "" {
		return ""
	}
	m, err := t.Stream.Last(ctx, subject.Stopping(subject.Partition(of.SessionID), of.ID))
	var s run.Stop
	if err != nil || json.Unmarshal(m.Body, &s) != nil {
		return ""
	}
	if s.With != "" {
		return s.With
	}
	return t.after(ctx, of, m.Seq)
}

// after looks for the stop of a tree that came while a run was already stopping. The run's only request to stop was
// written before.
func (t TreeStops) after(ctx context.Context, of run.Run, seq uint64) (with string) {
	trace, err := t.History.Trace(ctx, of.ID)
	if err != nil {
		return ""
	}
	before := trace.End
	for id, n := of.SessionID, 0; id != "" && n <= run.MaxDepth; n++ {
		stops, err := t.Stream.Records(ctx, subject.Tree(subject.Partition(id), id, "*"), seq, maxTreeStops)
		if err != nil {
			return with
		}
		for _, m := range stops {
			var stop run.TreeStop
			if m.Seq < before && json.Unmarshal(m.Body, &stop) == nil &&
				(id != of.SessionID || stop.RunID == "" || stop.RunID == of.ID) {
				before, with = m.Seq, id // the first one counts
			}
		}
		s, err := t.History.Session(ctx, id)
		if err != nil { // it was deleted
			return with
		}
		id = s.Parent
	}
	return with
}

// maxTreeStops is how many stops of a session's tree are looked at.
const maxTreeStops = 20
