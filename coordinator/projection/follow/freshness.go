package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/clock"
	"ao/shared/fault"
)

// probeAfter is how long a wait for a sequence takes until somebody checks whether any record is left up to it. The
// last ones may have been purged. One of those who wait asks for all.
const probeAfter = 100 * time.Millisecond

// positionWait is how long WaitPosition waits for a position that is not applied here yet.
const positionWait = time.Second

// lossGrace is how long a suspected data loss may last before it is reported.
const lossGrace = time.Second

// Await waits until a sequence of the stream is applied. For one that NATS has lost it waits until ctx ends or the
// history is read again.
func (w *Follower) Await(ctx context.Context, seq uint64) error {
	done := w.p.WhenApplied(seq) // reset closes it
	seen := uint64(0)            // sequence after which nothing follows, as one answer said
	for d := probeAfter; ; d = min(2*d, time.Second) {
		t := time.NewTimer(d)
		select {
		case <-done:
			t.Stop()
			return nil
		case <-ctx.Done():
			t.Stop()
			w.p.StopWaiting(done)
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
			w.p.NoteGap(end)
		}
		w.probing.Store(false)
	}
}

// WaitOwnWrites waits until everything noted by NoteWritten is applied, except what a rebuilt history lost.
func (w *Follower) WaitOwnWrites(ctx context.Context) error { return w.Await(ctx, w.p.NewestWritten()) }

// Complete reports whether all of the history is applied, as far as anybody can say.
func (w *Follower) Complete() bool { return w.p.Live.Load() && w.Intact() }

// Intact reports whether NATS was seen to hold what was read, since its last outage. During one, nobody can say.
func (w *Follower) Intact() bool { return w.source.Confirmed() || !w.source.Connected() }

// CatchUp makes reads follow writes. It waits for what the stream holds now: up to four seconds, or two while loading.
func (w *Follower) CatchUp(ctx context.Context) error {
	most, say := 2*time.Second, "the history is being read; try again in a moment"
	if w.p.Live.Load() {
		most, say = 4*time.Second, "NATS does not answer; try again in a moment"
	}
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	state, err := w.source.State(short)
	if err == nil {
		err = w.Await(short, state.Last)
	}
	if err == nil { // until history is complete and confirmed, "not found" would claim too much
		for !w.Complete() && short.Err() == nil {
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
	newer, seq := projection.Read2(w.p, func(f *state.State) (newer, seq uint64) {
		return state.NewerRecord(f), state.LastSeq(f)
	})
	suspected, goal := w.lossSuspected.Load(), w.goal.Load()
	switch {
	case newer != 0:
		return fault.Newf(fault.Unavailable,
			"record %d was written by a newer version than this one; update this coordinator", newer)
	case !w.p.Live.Load() && goal == 0:
		return fault.New(fault.Unavailable, "", "the history is being read").After(time.Second)
	case !w.p.Live.Load():
		return fault.Newf(fault.Unavailable, "the history is being read; at record %d of %d", seq, max(seq, goal)).
			After(time.Second)
	case suspected != nil && time.Since(*suspected) > lossGrace:
		return fault.New(fault.Unavailable, "", "NATS may have lost records; checking").After(time.Second)
	case !w.Intact():
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

// Follower keeps a Projection up to date with NATS, and knows how far it can be relied on.
type Follower struct {
	source      Source
	log         *slog.Logger
	p           *projection.Projection
	checkpoints checkpointStore

	rebuilds        atomic.Uint64 // how often a replaced history was read again
	goal            atomic.Uint64 // the last record when reading started
	truncationCheck time.Duration
	lossSuspected   atomic.Pointer[time.Time] // since when data loss is suspected
	reread          chan struct{}             // holds a request of Reread
	probing         atomic.Bool               // somebody is checking whether the tail was purged
}

// Position returns the sequence that is applied here: answers from now on show everything before it.
func (w *Follower) Position() uint64 { return w.p.Seq() }

// Written returns Position, or the newest record that this coordinator wrote if that is higher.
func (w *Follower) Written() uint64 { return max(w.p.Seq(), w.p.NewestWritten()) }

// WaitPosition waits up to a second until a position is applied here. Unavailable: it is not yet. Conflict: NATS has no
// such record, so the position belongs to another history.
func (w *Follower) WaitPosition(ctx context.Context, seq uint64) error {
	if seq <= w.p.Seq() {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, positionWait)
	defer cancel()
	err := w.Await(short, seq)
	if err == nil || ctx.Err() != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, positionWait)
	defer cancel()
	if state, err := w.source.State(asking); err == nil && state.Last < seq {
		return fault.New(fault.Conflict, "position_unknown", fmt.Sprintf(
			"Position %d is beyond the end of the history, which is %d: forget it, and read again from the start",
			seq, state.Last))
	}
	return fault.Newf(fault.Unavailable,
		"this coordinator has read up to position %d, not to %d yet; try again in a moment", w.p.Seq(), seq).
		After(time.Second)
}
