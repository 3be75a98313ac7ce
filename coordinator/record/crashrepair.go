package record

import (
	"context"
	"log/slog"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
)

// Torn mends what a crash of NATS leaves: the run's own records may be lost, and what its worker said of it kept. A run that is
// stored again has attempts of the same keys, and would find them taken.
type CrashRepair struct {
	stream  lossyStream
	history runIndex
	barrier
	log *slog.Logger
}

// torn is a stream that may have lost some records and kept others.
type lossyStream interface {
	State(ctx context.Context) (bus.State, error)
	Records(ctx context.Context, filter string, after uint64, limit int) ([]bus.Message, error)
	Purge(ctx context.Context, stream, filter string, before uint64) error
}

// known is which runs there are.
type runIndex interface {
	Active(id string) (projection.Active, bool)
	Ended(id string) bool
}

// NewTorn makes who mends that.
func NewCrashRepair(s lossyStream, h runIndex, p barrier, log *slog.Logger) *CrashRepair {
	return &CrashRepair{stream: s, history: h, barrier: p, log: log}
}

// Stands tells whether a run is there: in the fold, or on the stream, since a fold that begins anew has nothing yet.
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

// Unsay removes what a worker said of a run whose own records NATS has lost with a crash, before it is stored again.
func (t *CrashRepair) RemoveStale(ctx context.Context, run, session string) error {
	s, err := t.stream.State(ctx)
	if err != nil {
		return bus.WriteUnanswered(err)
	}
	if err := t.barrier.CatchUp(ctx); err != nil {
		return err
	}
	if stands, err := t.Exists(ctx, run, session); err != nil || stands { // it was stored at this moment
		return err
	}
	return t.remove(ctx, run, session, s.Last+1) // what follows is of the run that is there then
}

// UnsayEarlier removes what was said of a run before its first record: what a worker said of its old attempt after Unsay looked, and
// before the run stood again, is no word on this one either.
func (t *CrashRepair) RemoveEarlier(ctx context.Context, run, session string) {
	err := t.barrier.CatchUp(ctx)
	if now, open := t.history.Active(run); err == nil && open {
		err = t.remove(ctx, run, session, now.FirstSeq)
	}
	if err != nil { // the run stands; who gives it up looks once more
		t.log.Warn("words on a run that was lost are not removed", "run", run, "err", err)
	}
}

// unsay removes what was said of a run before a record.
func (t *CrashRepair) remove(ctx context.Context, run, session string, before uint64) error {
	part := subject.Partition(session)
	for _, filter := range []string{subject.Claimed(part, run, "*"), subject.Offered(part, run, "*"), subject.Ended(part, run, "*"), subject.Stopping(part, run)} {
		if err := t.stream.Purge(ctx, subject.Runs, filter, before); err != nil {
			return bus.WriteUnanswered(err)
		}
	}
	return nil
}
