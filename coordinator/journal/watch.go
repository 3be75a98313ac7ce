package journal

import (
	"context"
	"errors"
	"time"

	"ao/nats/bus"
)

// lookEvery is how often a journal looks whether history was truncated that it had not read.
const lookEvery = 10 * time.Second

// watch waits until the fold has reached what the stream held at the beginning; from then on it looks whether it misses
// anything. It ends with ctx, or with ErrRewound.
func (j *Journal) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		if state, err := j.bus.State(ctx); err == nil {
			j.goal.Store(state.Last)
			if j.Await(ctx, state.Last) == nil {
				break
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
	for first := uint64(0); ctx.Err() == nil; {
		now, err := j.missed(ctx, first)
		switch {
		case errors.Is(err, bus.ErrRewound):
			return err
		case err != nil: // NATS is away
			pause(ctx, 100*time.Millisecond)
			continue
		}
		if first = now; !j.live.Swap(true) {
			j.wake(Certain)
		}
		pause(ctx, j.lookEvery)
	}
	return ctx.Err()
}

// missed forgets what was truncated since the stream began with the given sequence, and tells where it begins now. History goes
// while it is read, and a consumer that comes to the gap counts on as if nothing was there: a run of which only the end was not
// read yet stays open here for ever. But nobody truncates past an open run, so once all is read that was there when it was
// truncated, one that begins before the stream does has ended unseen: ErrRewound. What ended is only forgotten.
func (j *Journal) missed(ctx context.Context, first uint64) (uint64, error) {
	state, err := j.bus.State(ctx)
	if err != nil {
		return first, err
	}
	if err := j.Await(ctx, state.Last); err != nil {
		return first, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if state.First <= first {
		return first, nil
	}
	if head := j.fold.head; head != nil && head.first < state.First {
		return first, bus.ErrRewound
	}
	j.evicted = max(j.evicted, j.fold.forget(state.First))
	return state.First, nil
}

// fleeting is how long a doubt whether what was read is lost may last that nobody needs to know of.
const fleeting = time.Second

// doubt notes that what was read seems to be lost, or that it is not.
func (j *Journal) doubt(is bool) {
	if !is {
		j.doubted.Store(nil)
		j.wake(Certain)
		return
	}
	now := time.Now()
	j.doubted.Store(&now)
}
