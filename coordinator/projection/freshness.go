package projection

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"
)

// probeAfter is how long a wait for a sequence takes until somebody checks whether any record is left up to it. The
// last ones may have been purged. One of those who wait asks for all.
const probeAfter = 100 * time.Millisecond

// lossGrace is how long a suspected data loss may last before it is reported.
const lossGrace = time.Second

// Await waits until a sequence of the stream is applied. For one that NATS has lost it waits until ctx ends or the
// history is read again.
func (w *Follower) Await(ctx context.Context, seq uint64) error {
	done := w.p.await(seq) // reset closes it
	seen := uint64(0)      // sequence after which nothing follows, as one answer said
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
		state, err := w.source.State(ctx) // first: later records are not up to its last
		end := min(seq, state.Last)       // beyond the last one nothing exists yet
		follows := true
		if err == nil && end > at {
			follows, err = w.source.HasRecords(ctx, at, end)
		}
		switch empty := err == nil && end > at && !follows; {
		case !empty:
			seen = 0
		case seen != at+1: // a replica that lags may have answered: ask again
			seen = at + 1
		default:
			w.p.noteGap(end)
		}
		w.probing.Store(false)
	}
}

// WaitOwnWrites waits until everything noted by NoteWritten is applied, except what a rebuilt history lost.
func (w *Follower) WaitOwnWrites(ctx context.Context) error { return w.Await(ctx, w.p.written()) }

// waitLoaded waits up to two seconds until history is loaded, and after an outage of NATS until what was read is
// confirmed. Before that runs are missing or outdated. While NATS is away, what was read counts.
func (w *Follower) waitLoaded(ctx context.Context) error {
	if w.complete() {
		return nil
	}
	return w.catchUp(ctx)
}

// complete reports whether all of the history is applied, as far as anybody can say.
func (w *Follower) complete() bool { return w.p.live.Load() && w.intact() }

// intact reports whether NATS was seen to hold what was read, since its last outage. During one, nobody can say.
func (w *Follower) intact() bool { return w.source.Confirmed() || !w.source.Connected() }

// catchUp makes reads follow writes. It waits for what the stream holds now: up to four seconds, or two while loading.
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
	if err == nil { // until history is complete and confirmed, "not found" would claim too much
		for !w.complete() && short.Err() == nil {
			clock.Sleep(short, 5*time.Millisecond)
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

// Ready returns nil when the projection has caught up and could read every record, else the reason.
func (w *Follower) Ready() error {
	newer, seq := read2(w.p, func(f *reducer) (newer, seq uint64) { return f.newer, f.seq })
	suspected, goal := w.lossSuspected.Load(), w.goal.Load()
	switch {
	case newer != 0:
		return fault.Newf(fault.Unavailable,
			"record %d was written by a newer version than this one; update this coordinator", newer)
	case !w.p.live.Load() && goal == 0:
		return fault.New(fault.Unavailable, "", "the history is being read").After(time.Second)
	case !w.p.live.Load():
		return fault.Newf(fault.Unavailable, "the history is being read; at record %d of %d", seq, max(seq, goal)).
			After(time.Second)
	case suspected != nil && time.Since(*suspected) > lossGrace:
		return fault.New(fault.Unavailable, "", "NATS may have lost records; checking").After(time.Second)
	case !w.intact():
		return fault.New(fault.Unavailable, "", "NATS was away; checking whether it still holds what was read").
			After(time.Second)
	}
	return nil
}

// Rebuilds counts how often a replaced history was read again.
func (w *Follower) Rebuilds() uint64 { return w.rebuilds.Load() }

// Confirmed reports whether decisions may be based on the projection. It must be ready, and NATS must still have what
// was read before the last outage. Otherwise consequences of lost records would be written.
func (w *Follower) Confirmed() bool {
	return w.source.Confirmed() && w.lossSuspected.Load() == nil && w.Ready() == nil
}

// catchUpUntilDone is catchUp for readers that can wait out an outage of NATS.
func (w *Follower) catchUpUntilDone(ctx context.Context) error {
	for {
		err := w.catchUp(ctx)
		if fault.KindOf(err) != fault.Unavailable {
			return err
		}
		clock.Sleep(ctx, 100*time.Millisecond)
	}
}

// Follower keeps a Projection up to date with NATS, and knows how far it can be relied on.
type Follower struct {
	source      Source
	log         *slog.Logger
	p           *Projection
	checkpoints checkpointStore

	rebuilds        atomic.Uint64 // how often a replaced history was read again
	goal            atomic.Uint64 // the last record when reading started
	truncationCheck time.Duration
	lossSuspected   atomic.Pointer[time.Time] // since when data loss is suspected
	reread          chan struct{}             // holds a request of Reread
	probing         atomic.Bool               // somebody is checking whether the tail was purged
}
