package record

import (
	"context"
	"encoding/json"
	"log/slog"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// CrashRepair removes stale records after a crash of NATS lost a run's own records but kept what its worker wrote. A
// run that is stored again has the same attempt keys, and would find them taken.
type CrashRepair struct {
	stream  lossyStream
	history runIndex
	barrier
	damages Damages
	log     *slog.Logger
}

// Damages tells what the history is known to have lost.
type Damages interface {
	Affects(seq uint64) bool // records after that one may have been lost
	// records of the run after that one may have been lost, and it is known to have begun
	Lost(run string, after uint64) (possible, begun bool)
}

// lossyStream is a stream that may have lost some records and kept others.
type lossyStream interface {
	State(ctx context.Context) (bus.State, error)
	Records(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
	Counted(ctx context.Context, filter string) (uint64, error) // also records that NATS cannot read
	Clustered() bool                                            // another server may have what this one does not give
	LastEvent(ctx context.Context, filter string) (uint64, error)
	Purge(ctx context.Context, stream, filter string, before uint64) error
}

// runIndex looks up runs.
type runIndex interface {
	Active(id string) (state.Active, bool)
	Ended(id string) bool
}

// NewCrashRepair returns a CrashRepair.
func NewCrashRepair(s lossyStream, h runIndex, p barrier, d Damages, log *slog.Logger) *CrashRepair {
	return &CrashRepair{stream: s, history: h, barrier: p, damages: d, log: log}
}

// Exists reports whether a run is in the projection or on the stream.
// The stream counts too, because a projection that is rebuilt is still empty.
func (t *CrashRepair) Exists(ctx context.Context, run, session string) (bool, error) {
	if _, open := t.history.Active(run); open || t.history.Ended(run) {
		return true, nil
	}
	part := subject.Partition(session)
	for _, filter := range []string{subject.QueuedOf(part, run), subject.Accepted(part, session, run)} {
		if found, err := t.stream.Records(ctx, filter, 0, 1); err != nil {
			return false, bus.WriteUnanswered(err)
		} else if len(found) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// RemoveStale removes what a worker wrote about a run whose own records NATS lost. They followed that sequence. Call it
// before storing the run again. exists: somebody else has just stored it, perhaps behind a claim that keeps it from
// starting. Then nothing is removed.
func (t *CrashRepair) RemoveStale(ctx context.Context, run, session string, after uint64) (exists bool, err error) {
	s, err := t.stream.State(ctx)
	if err != nil {
		return false, bus.WriteUnanswered(err)
	}
	counted, err := t.counted(ctx, run, session)
	if err != nil {
		return false, err
	}
	if err := t.barrier.CatchUp(ctx); err != nil {
		return false, err
	}
	if exists, err := t.Exists(ctx, run, session); err != nil || exists {
		return exists, err
	}
	if counted { // and not given: it is stored, and NATS cannot read it
		return false, errBegun(run)
	}
	if err := t.checkDamage(ctx, run, session, after); err != nil {
		return false, err
	}
	return false, t.remove(ctx, run, session, s.Last+1) // later records belong to the run stored then
}

// counted reports whether NATS counts a record that stores the run. On a cluster the readers find it, if it is there.
func (t *CrashRepair) counted(ctx context.Context, run, session string) (bool, error) {
	if t.stream.Clustered() {
		return false, nil
	}
	part := subject.Partition(session)
	for _, filter := range []string{subject.QueuedOf(part, run), subject.Accepted(part, session, run)} {
		n, err := t.stream.Counted(ctx, filter)
		if err != nil {
			return false, bus.WriteUnanswered(err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// checkDamage refuses a run that had begun before the history was damaged, or that a coordinator is failing for that.
func (t *CrashRepair) checkDamage(ctx context.Context, run, session string, after uint64) error {
	possible, begun := t.damages.Lost(run, after)
	if possible && !begun {
		last, err := t.stream.LastEvent(ctx, subject.RunEvents(session, run))
		if err != nil {
			return bus.WriteUnanswered(err)
		}
		begun = last != 0
	}
	part := subject.Partition(session)
	for _, filter := range []string{subject.Claimed(part, run, "*"), subject.Ended(part, run, "*")} {
		found, err := t.stream.Records(ctx, filter, 0, 1)
		if err != nil {
			return bus.WriteUnanswered(err)
		}
		begun = begun || len(found) > 0 && (t.damages.Affects(found[0].Seq) || byCoordinator(found[0].Body))
	}
	if begun {
		return errBegun(run)
	}
	return nil
}

// byCoordinator reports whether a record is a coordinator's claim: it keeps the run from starting until it is failed.
func byCoordinator(body []byte) bool {
	var c run.Claim
	return json.Unmarshal(body, &c) == nil && c.RunnerID == "" && len(c.Next) > 0
}

func errBegun(id string) error {
	return fault.New(fault.Conflict, run.CodeDamaged, "The history lost records of run "+id+", which had begun; "+
		"it is not started again").With("run_id", id)
}

// RemoveEarlier removes what was written about a run before its first record. A worker may have written about the old
// attempt between RemoveStale and the moment the run was stored again.
func (t *CrashRepair) RemoveEarlier(ctx context.Context, run, session string) {
	err := t.barrier.CatchUp(ctx)
	if now, open := t.history.Active(run); err == nil && open {
		err = t.remove(ctx, run, session, now.FirstSeq)
	}
	if err != nil { // the run exists; whoever abandons it checks once more
		t.log.Warn("stale records of a lost run not removed", "run", run, "err", err)
	}
}

// remove purges claims, results, ends and stops of a run before a sequence.
func (t *CrashRepair) remove(ctx context.Context, run, session string, before uint64) error {
	part := subject.Partition(session)
	for _, filter := range []string{subject.Claimed(part, run, "*"), subject.Offered(part, run, "*"),
		subject.Ended(part, run, "*"), subject.Stopping(part, run)} {
		if err := t.stream.Purge(ctx, subject.Runs, filter, before); err != nil {
			return bus.WriteUnanswered(err)
		}
	}
	return nil
}
