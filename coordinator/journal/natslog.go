package journal

import (
	"context"
	"errors"

	"ao/nats/bus"
	"ao/nats/subject"
)

// logOf is the Log that NATS keeps.
type logOf struct{ bus *bus.Bus }

// none has readers know one ErrNone alone, whatever NATS's is.
func none(err error) error {
	if errors.Is(err, bus.ErrNone) {
		return ErrNone
	}
	return err
}

func (l logOf) Get(ctx context.Context, seq uint64) (Record, error) {
	m, err := l.bus.Get(ctx, seq)
	return Record(m), none(err)
}

func (l logOf) GetPart(ctx context.Context, name string, n int) ([]byte, error) {
	part, err := l.bus.GetPart(ctx, name, n)
	return part, none(err)
}

func (l logOf) Bounds(ctx context.Context) (records, events Bounds, err error) {
	r, err := l.bus.State(ctx)
	if err != nil {
		return records, events, err
	}
	e, err := l.bus.StreamState(ctx, subject.Events)
	return Bounds{r.First, r.Last}, Bounds{e.First, e.Last}, err
}

func (l logOf) Events(ctx context.Context, filter string, after uint64, most int) ([]Record, error) {
	page, err := l.bus.Events(ctx, filter, after, most)
	all := make([]Record, len(page))
	for i, m := range page {
		all[i] = Record(m)
	}
	return all, err
}

func (l logOf) NextEvent(ctx context.Context, filter string, after uint64) (Record, error) {
	m, err := l.bus.NextEvent(ctx, filter, after)
	return Record(m), none(err)
}

func (l logOf) Follow(ctx context.Context, stream string, after uint64, filters []string, f func(Record) error) error {
	return l.bus.Follow(ctx, stream, after, filters, func(m bus.Message) error { return f(Record(m)) })
}
