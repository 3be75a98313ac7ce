package runs

import (
	"context"
	"encoding/json"

	"ao/nats/subject"
	"ao/shared/run"
)

// noteTreeStop notes with which session's tree a run was stopped.
func (r *Service) noteTreeStop(ctx context.Context, of *run.Run) {
	if of.Status == run.Stopped {
		of.StoppedWith = r.StoppedWith(ctx, *of)
	}
}

// StoppedWith returns the session whose tree was stopped, and a stopped run with it. Empty: the run was stopped by its
// own name, or NATS does not answer.
func (r *Service) StoppedWith(ctx context.Context, of run.Run) string {
	if of.Error != nil {
		if with, _ := of.Error.Text("stopped_with"); with != "" {
			return with
		}
	}
	if of.RunnerID == "" {
		return ""
	}
	m, err := r.stream.Last(ctx, subject.Stopping(subject.Partition(of.SessionID), of.ID))
	var s run.Stop
	if err != nil || json.Unmarshal(m.Body, &s) != nil {
		return ""
	}
	if s.With != "" {
		return s.With
	}
	return r.treeStoppedAfter(ctx, of, m.Seq)
}

// treeStoppedAfter looks for the stop of a tree while a run was already stopping: the run has one request to stop it,
// which was written before.
func (r *Service) treeStoppedAfter(ctx context.Context, of run.Run, seq uint64) (with string) {
	t, err := r.history.Trace(ctx, of.ID)
	if err != nil {
		return ""
	}
	before := t.End
	for id, n := of.SessionID, 0; id != "" && n <= run.MaxDepth; n++ {
		stops, err := r.stream.Records(ctx, subject.Tree(subject.Partition(id), id, "*"), seq, maxTreeStops)
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
		s, err := r.history.Session(ctx, id)
		if err != nil { // it was deleted
			return with
		}
		id = s.Parent
	}
	return with
}

// maxTreeStops is how many stops of a session's tree are looked at.
const maxTreeStops = 20
