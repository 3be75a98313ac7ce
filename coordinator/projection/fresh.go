package projection

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"ao/shared/fault"
)

// freshness is what readers ask of who follows the history.
type freshness interface {
	Await(ctx context.Context, seq uint64) error // until the fold has a sequence
	catchUp(ctx context.Context) error           // until it has what the stream holds now, for some seconds
	catchUpUntilDone(ctx context.Context) error  // the same, as long as it takes
	waitLoaded(ctx context.Context) error        // until all is read that history held at the beginning
	complete() bool                              // what was read is all, as far as anybody can say
	intact() bool                                // NATS holds what was read, as far as anybody can say
	Confirmed() bool                             // consequences may be drawn
}

// tail is how long a wait for a sequence takes before it is asked whether there is anything at all up to it: the last
// records of a stream may have been purged. One of those who wait asks for all.
const probeAfter = 100 * time.Millisecond

// fleeting is how long a doubt whether what was read is lost may last that nobody needs to know of.
const lossGrace = time.Second

// Await waits until the fold has reached a sequence of the stream. One that NATS has lost is waited for in vain, until ctx ends or
// the history is read anew.
func (w *Follower) Await(ctx context.Context, seq uint64) error {
	done := w.p.await(seq) // all the time: reset closes it
	seen := uint64(0)      // nothing follows this one, somebody said
	for d := probeAfter; ; d = min(2*d, time.Second) {
		t := time.NewTimer(d)
		select {
		case <-done:
			t.Stop()
			return nil
		case <-ctx.Done():
			t.Stop()
			w.p.unawait(done)
			return ctx.Err()
		case <-t.C:
		}
		if !w.probing.CompareAndSwap(false, true) {
			continue
		}
		at := w.p.Seq()
		state, err := w.source.State(ctx) // first: what is written later is not up to its last
		end := min(seq, state.Last)       // what is beyond the last one is there in vain, or yet to come
		follows := true
		if err == nil && end > at {
			follows, err = w.source.HasRecords(ctx, at, end)
		}
		switch empty := err == nil && end > at && !follows; {
		case !empty:
			seen = 0
		case seen != at+1: // a replica that lags may have answered: ask once more
			seen = at + 1
		default:
			w.p.nothing(end)
		}
		w.probing.Store(false)
	}
}

// Own waits until the fold has all that Wrote was told of, but for what went with a history that is read anew.
func (w *Follower) WaitOwnWrites(ctx context.Context) error {
	return w.Await(ctx, w.p.written())
}

// whole waits, at most two seconds, until all is read that history held at the beginning, and after NATS was away until it was seen to
// hold what was read: before that runs are missing, and others are shown as they once were. While NATS is away what was read counts.
func (w *Follower) waitLoaded(ctx context.Context) error {
	if w.complete() {
		return nil
	}
	return w.catchUp(ctx)
}

// certain tells whether what was read is all of the history, as far as anybody can say.
func (w *Follower) complete() bool { return w.p.live.Load() && w.intact() }

// holds tells whether NATS, since it was away last, was seen to hold what was read. While it is away nobody can say.
func (w *Follower) intact() bool { return w.source.Confirmed() || !w.source.Connected() }

// catchUp makes reads follow writes: it waits for what the stream holds now, at most four seconds, or two while history is read.
func (w *Follower) catchUp(ctx context.Context) error {
	most, say := 2*time.Second, "the history is being read; try again in a moment"
	if w.p.live.Load() {
		most, say = 4*time.Second, "NATS does not answer; try again in a moment"
	}
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	state, err := w.source.State(short)
	if err == nil {
		err = w.Await(short, state.Last)
	}
	if err == nil { // while history is read, or NATS's word on it doubted, "there is none" is more than can be said
		for !w.complete() && short.Err() == nil {
			pause(short, 5*time.Millisecond)
		}
		err = w.Ready()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.Unavailable, "", say, err).After(time.Second)
	}
	return err
}

// Ready is nil when the fold has caught up with the stream and could read all of it; else it says why not.
func (w *Follower) Ready() error {
	newer, seq := read2(w.p, func(f *fold) (newer, seq uint64) { return f.newer, f.seq })
	suspected := w.lossSuspected.Load()
	switch {
	case newer != 0:
		return fault.Newf(fault.Unavailable, "record %d was written by a newer version than this one; update this coordinator", newer)
	case !w.p.live.Load():
		return fault.Newf(fault.Unavailable, "the history is being read; at record %d of %d", seq, max(seq, w.goal.Load())).After(time.Second)
	case suspected != nil && time.Since(*suspected) > lossGrace:
		return fault.New(fault.Unavailable, "", "NATS may have lost records; looking again").After(time.Second)
	case !w.intact():
		return fault.New(fault.Unavailable, "", "NATS was away; looking whether it still holds what was read").After(time.Second)
	}
	return nil
}

// Anew counts how often a history that was replaced was read anew.
func (w *Follower) Rebuilds() uint64 { return w.anew.Load() }

// Sure tells whether consequences may be drawn from the fold: it is ready, and NATS, since it was away last, was seen to hold what the
// fold was made of. Else what follows from records that NATS has lost would be written behind those that it has left.
func (w *Follower) Confirmed() bool {
	return w.source.Confirmed() && w.lossSuspected.Load() == nil && w.Ready() == nil
}

// surelyCaughtUp is catchUp for a reader who can wait: as long as NATS is away.
func (w *Follower) catchUpUntilDone(ctx context.Context) error {
	for {
		err := w.catchUp(ctx)
		if fault.KindOf(err) != fault.Unavailable {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// Follower keeps a fold up with the history that NATS holds, and knows how far that can be relied on.
type Follower struct {
	source Source
	log    *slog.Logger
	p      *Projection
	shelf  shelf

	anew          atomic.Uint64 // how often a replaced history was read anew
	goal          atomic.Uint64 // the last record when the reading began
	lookEvery     time.Duration
	lossSuspected atomic.Pointer[time.Time] // since when what was read seems to be lost
	probing       atomic.Bool               // somebody asks whether the tail was purged
}
