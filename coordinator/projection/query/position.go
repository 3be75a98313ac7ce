package query

import (
	"context"
	"strconv"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"
)

// behind is how long a reader waits for a position that is not applied here yet.
const behind = time.Second

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
