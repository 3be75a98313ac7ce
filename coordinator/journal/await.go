package journal

import (
	"context"
	"errors"
	"time"

	"ao/shared/fault"
)

// await is somebody who waits for a sequence of the stream.
type await struct {
	seq  uint64
	done chan struct{}
}

// reached wakes those who wait for a sequence that the fold has now. It wants the lock.
func (j *Journal) reached() {
	seq := max(j.fold.seq, j.empty)
	if len(j.awaits) == 0 || seq < j.due {
		return
	}
	still := j.awaits[:0]
	j.due = 0
	for _, a := range j.awaits {
		if a.seq <= seq {
			close(a.done)
			continue
		}
		if still = append(still, a); j.due == 0 || a.seq < j.due {
			j.due = a.seq
		}
	}
	clear(j.awaits[len(still):])
	j.awaits = still
}

// tail is how long a wait for a sequence takes before it is asked whether there is anything at all up to it: the last
// records of a stream may have been purged. One of those who wait asks for all.
const tail = 100 * time.Millisecond

// Await waits until the fold has reached a sequence of the stream. One that NATS has lost is waited for in vain, until ctx ends or
// the history is read anew.
func (j *Journal) Await(ctx context.Context, seq uint64) error {
	done := j.await(seq) // all the time: reset closes it
	seen := uint64(0)    // nothing follows this one, somebody said
	for d := tail; ; d = min(2*d, time.Second) {
		t := time.NewTimer(d)
		select {
		case <-done:
			t.Stop()
			return nil
		case <-ctx.Done():
			t.Stop()
			j.unawait(done)
			return ctx.Err()
		case <-t.C:
		}
		if !j.probing.CompareAndSwap(false, true) {
			continue
		}
		at := j.Seq()
		state, err := j.bus.State(ctx) // first: what is written later is not up to its last
		end := min(seq, state.Last)    // what is beyond the last one is there in vain, or yet to come
		follows := true
		if err == nil && end > at {
			follows, err = j.bus.Follows(ctx, at, end)
		}
		switch empty := err == nil && end > at && !follows; {
		case !empty:
			seen = 0
		case seen != at+1: // a replica that lags may have answered: ask once more
			seen = at + 1
		default:
			j.mu.Lock()
			j.empty = max(j.empty, end) // never fold.seq: what comes all the same is applied
			j.reached()
			j.mu.Unlock()
		}
		j.probing.Store(false)
	}
}

func (j *Journal) await(seq uint64) chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	done := make(chan struct{})
	if seq <= max(j.fold.seq, j.empty) {
		close(done)
		return done
	}
	if len(j.awaits) == 0 || seq < j.due {
		j.due = seq
	}
	j.awaits = append(j.awaits, await{seq, done})
	return done
}

func (j *Journal) unawait(done chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, a := range j.awaits {
		if a.done == done {
			last := len(j.awaits) - 1
			j.awaits[i] = j.awaits[last]
			j.awaits[last] = await{}
			j.awaits = j.awaits[:last]
			return
		}
	}
}

// Wrote notes the sequence of a record that this process wrote.
func (j *Journal) Wrote(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrote = max(j.wrote, seq)
}

// Own waits until the fold has all that Wrote was told of, but for what went with a history that is read anew.
func (j *Journal) Own(ctx context.Context) error {
	j.mu.RLock()
	seq := j.wrote
	j.mu.RUnlock()
	return j.Await(ctx, seq)
}

// whole waits, at most two seconds, until all is read that history held at the beginning, and after NATS was away until it was seen to
// hold what was read: before that runs are missing, and others are shown as they once were. While NATS is away what was read counts.
func (j *Journal) whole(ctx context.Context) error {
	if j.certain() {
		return nil
	}
	return j.catchUp(ctx)
}

// certain tells whether what was read is all of the history, as far as anybody can say.
func (j *Journal) certain() bool { return j.live.Load() && j.holds() }

// holds tells whether NATS, since it was away last, was seen to hold what was read. While it is away nobody can say.
func (j *Journal) holds() bool { return j.bus.Confirmed() || !j.bus.Connected() }

// catchUp makes reads follow writes: it waits for what the stream holds now, at most four seconds, or two while history is read.
func (j *Journal) catchUp(ctx context.Context) error {
	most, say := 2*time.Second, "the history is being read; try again in a moment"
	if j.live.Load() {
		most, say = 4*time.Second, "NATS does not answer; try again in a moment"
	}
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	state, err := j.bus.State(short)
	if err == nil {
		err = j.Await(short, state.Last)
	}
	if err == nil { // while history is read, or NATS's word on it doubted, "there is none" is more than can be said
		for !j.certain() && short.Err() == nil {
			pause(short, 5*time.Millisecond)
		}
		err = j.Ready()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.Unavailable, "", say, err).After(time.Second)
	}
	return err
}
