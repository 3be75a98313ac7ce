package projection

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"
)

// behind is how long a reader waits for a position that is not applied here yet.
const behind = time.Second

// Position returns the sequence that is applied here: answers from now on show everything before it.
func (w *Follower) Position() uint64 { return w.p.Seq() }

// Written returns Position, or the newest record that this coordinator wrote if that is higher.
func (w *Follower) Written() uint64 { return max(w.p.Seq(), w.p.written()) }

// WaitPosition waits up to a second until a position is applied here. Unavailable: it is not yet. Conflict: NATS has no
// such record, so the position belongs to another history.
func (w *Follower) WaitPosition(ctx context.Context, seq uint64) error {
	if seq <= w.p.Seq() {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, behind)
	defer cancel()
	err := w.Await(short, seq)
	if err == nil || ctx.Err() != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, behind)
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

// inHistory refuses a position that RUNS or EVENTS do not reach within a second: it belongs to another history. The
// leader of a cluster may apply a message later than the replica that has shown it.
func (x *Feed) inHistory(ctx context.Context, p position) error {
	for until := time.Now().Add(behind); !x.reaches(ctx, p); {
		if time.Now().After(until) {
			return fault.New(fault.Conflict, "position_unknown", "Position "+p.String()+" is beyond the end of the "+
				"history: leave after out, and read again from the start").With("field", "after")
		}
		if !clock.Sleep(ctx, behind/5) {
			return ctx.Err()
		}
	}
	return nil
}

// reaches reports whether RUNS and EVENTS reach a position, or NATS does not say within a second.
func (x *Feed) reaches(ctx context.Context, p position) bool {
	ctx, cancel := context.WithTimeout(ctx, behind)
	defer cancel()
	if p.runs > x.p.Seq() {
		if runs, err := x.records.State(ctx); err == nil && p.runs > runs.Last {
			return false
		}
	}
	if p.events == 0 {
		return true
	}
	events, err := x.records.StreamState(ctx, subject.Events)
	return err != nil || p.events <= events.Last
}

// ParsePosition reads a position as readers send it: <runs>, or the id of a live stream's item, <runs>-<events>, of
// which the first part counts.
func ParsePosition(text string) (seq uint64, err error) {
	runs, rest, more := strings.Cut(text, "-")
	seq, err = strconv.ParseUint(runs, 10, 62)
	if err == nil && more {
		_, err = parsePosition(text)
	}
	if err != nil || more && rest == "" {
		return 0, fault.New(fault.Invalid, "",
			`Ao-Position, or Last-Event-ID, must be a number such as "123", or the id of an item of a live stream`).
			With("field", "Ao-Position")
	}
	return seq, nil
}
