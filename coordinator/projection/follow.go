package projection

import (
	"context"
	"errors"
	"sync"
	"time"

	"ao/nats/stream"
)

// lookEvery is how often a Follower looks whether history was truncated that it had not read.
const lookEvery = 10 * time.Second

// Run follows the stream until ctx ends, from a snapshot where there is one of it. It goes on by itself after any
// trouble with NATS, and begins anew where the stream is not the one that was read.
func (w *Follower) Run(ctx context.Context) error {
	w.shelf.open(ctx)
	defer w.shelf.last()
	last := w.shelf.restore(ctx)
	for {
		if err := w.read(ctx, last); !errors.Is(err, stream.ErrHistoryReplaced) {
			return err
		}
		w.log.Error("NATS lost records or got older ones back; reading the history anew", "seq", w.p.Seq())
		last = Record{}
		w.reset()
		w.shelf.drop(stream.ErrHistoryReplaced)
		w.shelf.open(ctx) // perhaps it is another stream
	}
}

func (w *Follower) read(ctx context.Context, last Record) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wg.Go(func() {
		if err := w.watch(ctx); errors.Is(err, stream.ErrHistoryReplaced) {
			cancel(err)
		}
	})
	wg.Go(func() { w.shelf.keep(ctx) })
	err := w.source.FollowRuns(ctx, last, w.suspectLoss, func(r Record) error {
		w.p.apply(r)
		return nil
	})
	if errors.Is(context.Cause(ctx), stream.ErrHistoryReplaced) {
		return stream.ErrHistoryReplaced
	}
	return err
}

// reset has all begin anew: what was read is not what NATS holds.
func (w *Follower) reset() {
	w.p.live.Store(false) // first: nobody is to rely on what follows
	w.anew.Add(1)
	w.lossSuspected.Store(nil)
	w.p.renew()
}

// watch waits until the fold has reached what the stream held at the beginning; from then on it looks whether it misses
// anything. It ends with ctx, or with ErrHistoryReplaced.
func (w *Follower) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		if state, err := w.source.State(ctx); err == nil {
			w.goal.Store(state.Last)
			if w.Await(ctx, state.Last) == nil {
				break
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
	for first := uint64(0); ctx.Err() == nil; {
		now, err := w.missed(ctx, first)
		switch {
		case errors.Is(err, stream.ErrHistoryReplaced):
			return err
		case err != nil: // NATS is away
			pause(ctx, 100*time.Millisecond)
			continue
		}
		first = now
		if !w.p.live.Swap(true) {
			w.p.wake(HistoryConfirmed)
		}
		pause(ctx, w.lookEvery)
	}
	return ctx.Err()
}

// missed forgets what was truncated since the stream began with the given sequence, and tells where it begins now.
// History goes while it is read, and a consumer that comes to the gap counts on as if nothing was there: a run of which
// only the end was not read yet stays open here for ever. But nobody truncates past an open run, so once all is read
// that was there when it was truncated, one that begins before the stream does has ended unseen: ErrHistoryReplaced.
// What ended is only forgotten.
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
	case w.p.truncated(state.First):
		return first, stream.ErrHistoryReplaced
	}
	return state.First, nil
}

// doubt notes that what was read seems to be lost, or that it is not.
func (w *Follower) suspectLoss(is bool) {
	if !is {
		w.lossSuspected.Store(nil)
		w.p.wake(HistoryConfirmed)
		return
	}
	now := time.Now()
	w.lossSuspected.Store(&now)
}

// Saved is the newest snapshot that this projection wrote; zero: none yet.
func (w *Follower) LastSnapshot() SnapshotStats {
	if s := w.shelf.newest.Load(); s != nil {
		return *s
	}
	return SnapshotStats{}
}
