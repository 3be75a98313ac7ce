// Package follow reads the RUNS stream into a projection, notices when NATS has lost what was read, and keeps
// checkpoints.
package follow

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/clock"
)

// truncationCheck is how often a Follower checks whether history was truncated that it had not read.
const truncationCheck = 10 * time.Second

// Run follows the stream until ctx ends, from a checkpoint if there is one. It recovers from every problem with NATS,
// and starts over if the stream is not the one it read.
func (w *Follower) Run(ctx context.Context) error {
	w.checkpoints.open(ctx)
	defer w.checkpoints.saveFinal()
	w.checkpoints.restore(ctx)
	for {
		if err := w.read(ctx); !errors.Is(err, stream.ErrHistoryReplaced) {
			return err
		}
		w.log.Error("NATS lost records or restored older ones; reading the whole history again", "seq", w.p.Seq())
		w.reset()
		w.checkpoints.discard(stream.ErrHistoryReplaced)
		w.checkpoints.open(ctx) // it may be another stream
	}
}

func (w *Follower) read(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wg.Go(func() {
		if err := w.watch(ctx); errors.Is(err, stream.ErrHistoryReplaced) {
			cancel(err)
		}
	})
	wg.Go(func() {
		select {
		case <-w.reread:
			cancel(stream.ErrHistoryReplaced)
		case <-ctx.Done():
		}
	})
	wg.Go(func() { w.checkpoints.run(ctx) })
	err := w.source.FollowRuns(ctx, w.LastFingerprints, w.suspectLoss, func(r state.Record) error {
		if w.missedEnd(ctx, w.p.Apply(r)) {
			return stream.ErrHistoryReplaced
		}
		return nil
	})
	if errors.Is(context.Cause(ctx), stream.ErrHistoryReplaced) {
		return stream.ErrHistoryReplaced
	}
	return err
}

// missedEnd reports whether a deletion that was ignored here was valid all the same. A reader that lags may have read
// how a run of the session began, and not its end, which was purged meanwhile. The purge removes how it began first.
func (w *Follower) missedEnd(ctx context.Context, ch state.Change) bool {
	if ch.Kind != subject.DeletedKind || ch.Applied {
		return false
	}
	first := projection.Read(w.p, func(f *state.State) uint64 {
		if s := f.Session(ch.SessionID); s != nil {
			return s.FirstRun()
		}
		return 0
	})
	for first != 0 && ctx.Err() == nil {
		_, err := w.source.Get(ctx, first)
		if err == nil || errors.Is(err, stream.ErrNotFound) {
			return err != nil
		}
		clock.Sleep(ctx, 100*time.Millisecond)
	}
	return false
}

// reset starts over: what was read is not what NATS holds.
func (w *Follower) reset() {
	w.p.Live.Store(false) // first, so that nobody relies on what follows
	w.rebuilds.Add(1)
	w.lossSuspected.Store(nil)
	w.p.Clear()
}

// watch waits until everything that the stream held at the start is applied, and then checks for missed truncations. It
// ends with ctx, or with ErrHistoryReplaced.
func (w *Follower) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		if state, err := w.source.State(ctx); err == nil {
			w.goal.Store(state.Last)
			if w.Await(ctx, state.Last) == nil {
				break
			}
		}
		clock.Sleep(ctx, 100*time.Millisecond)
	}
	for first := uint64(0); ctx.Err() == nil; {
		now, err := w.missed(ctx, first)
		switch {
		case errors.Is(err, stream.ErrHistoryReplaced):
			return err
		case err != nil: // NATS is away
			clock.Sleep(ctx, 100*time.Millisecond)
			continue
		}
		first = now
		if !w.p.Live.Swap(true) {
			w.p.Signal(state.HistoryConfirmed)
		}
		clock.Sleep(ctx, w.truncationCheck)
	}
	return ctx.Err()
}

// missed forgets what was truncated since the stream began at first, and returns where it begins now. While history is
// read some of it may be truncated, and the consumer silently skips the gap. A run whose end was not read yet would
// stay open for ever. Nobody truncates past an open run. So once all is applied, a run that is still open here and
// begins before the stream does has ended unseen: ErrHistoryReplaced. Ended runs are just forgotten.
func (w *Follower) missed(ctx context.Context, first uint64) (uint64, error) {
	state, err := w.source.State(ctx)
	if err != nil {
		return first, err
	}
	if err := w.Await(ctx, state.Last); err != nil {
		return first, err
	}
	switch {
	case state.First <= first:
		return first, nil
	case w.p.ForgetUnneeded(state.First):
		return first, stream.ErrHistoryReplaced
	}
	return state.First, nil
}

// suspectLoss notes that NATS seems to have lost what was read, or that it has not.
func (w *Follower) suspectLoss(is bool) {
	if !is {
		w.lossSuspected.Store(nil)
		w.p.Signal(state.HistoryConfirmed)
		return
	}
	w.lossSuspected.Store(new(time.Now()))
}

// LastSnapshot returns the newest checkpoint that this process wrote; zero: none yet.
func (w *Follower) LastSnapshot() SnapshotStats {
	if s := w.checkpoints.newest.Load(); s != nil {
		return *s
	}
	return SnapshotStats{}
}

// Source is the stream of records (RUNS), as the Follower reads it.
type Source interface {
	State(ctx context.Context) (stream.State, error)
	Get(ctx context.Context, seq uint64) (state.Record, error)
	// FollowRuns calls f with every record after the last one that was read. read returns the last ones, those of f
	// included. ErrHistoryReplaced: the stream no longer holds them. Before that is certain doubt is called with true,
	// and with false if it turns out not to be so.
	FollowRuns(ctx context.Context, read func() []stream.Fingerprint, doubt func(bool),
		f func(state.Record) error) error
	// HasRecords reports whether there is a record with a sequence above after and not above last.
	HasRecords(ctx context.Context, after, last uint64) (bool, error)
	// Confirmed reports whether, since the last reconnect, the stream was seen to hold what FollowRuns has read.
	Confirmed() bool
	Connected() bool
}

// LastFingerprints returns those of the last applied records, oldest first.
func (w *Follower) LastFingerprints() []stream.Fingerprint {
	return projection.Read(w.p, state.LastFingerprints)
}

// Reread makes the Follower read the whole history again, since the stream has lost records that it has read.
func (w *Follower) Reread() {
	select {
	case w.reread <- struct{}{}:
	default:
	}
}

// New returns a follower that has not read anything. dir is the folder of checkpoints; empty: every start reads
// the whole history.
func New(p *projection.Projection, source Source, dir string, log *slog.Logger) *Follower {
	log = cmp.Or(log, slog.Default())
	return &Follower{
		source: source, log: log, p: p, truncationCheck: truncationCheck, reread: make(chan struct{}, 1),
		checkpoints: checkpointStore{p: p, source: source, log: log, dir: dir},
	}
}
