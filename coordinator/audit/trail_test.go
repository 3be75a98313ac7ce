package audit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
)

// gate is a stream that cannot be written to until it is opened.
type gate struct {
	*bus.Bus
	open chan struct{}
}

var errShut = errors.New("shut")

func (g gate) AppendAudit(ctx context.Context, id string, pack []byte) error {
	select {
	case <-g.open:
		return g.Bus.AppendAudit(ctx, id, pack)
	default:
		return errShut
	}
}

// kept opens a stream, and a trail that is not yet written.
func kept(t *testing.T) (*Trail, gate, *Reader) {
	t.Helper()
	b := natstest.Bus(t)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return NewTrail(natstest.Log(t)), gate{b, make(chan struct{})}, NewReader(b)
}

// TestDroppedEntriesAreAGap: what waited for NATS is there in its order. A gap stands for what had no place to wait.
func TestDroppedEntriesAreAGap(t *testing.T) {
	trail, g, read := kept(t)
	ctx, stop := context.WithCancel(t.Context())
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const n = 2 * queue
	noted := func(i int) {
		trail.record(
			Entry{
				Time:    began.Add(time.Duration(i) * time.Second),
				Action:  "run.create",
				Targets: Targets{Run: fmt.Sprint("run_", i)},
			},
		)
	}
	for i := range n {
		noted(i)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		trail.Run(ctx, g)
	}()
	close(g.open)
	natstest.Until(t, "there is room again", func() bool { return len(trail.in) == 0 })
	noted(n)
	stop()
	<-ended
	var all []Entry
	var gaps []Gap
	for q := (Query{Limit: 1000}); ; {
		p, err := read.Audited(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all, gaps = append(all, p.Entries...), append(gaps, p.Gaps...)
		q.Cursor = p.Next
		if q.Cursor == "" {
			break
		}
	}
	missing := uint64(0)
	for _, g := range gaps {
		missing += g.Count
	}
	if len(gaps) == 0 || uint64(len(all))+missing != n+1 || all[0].Run != fmt.Sprint("run_", n) {
		t.Fatalf("%d entries, the newest %+v, gaps %+v", len(all), all[0], gaps)
	}
	for i, e := range all {
		for _, g := range gaps {
			if !e.Time.Before(g.After) && !e.Time.After(g.Before) {
				t.Errorf("an entry of the gap from %v to %v: %+v", g.After, g.Before, e)
			}
		}
		if i > 0 && !e.Time.Before(all[i-1].Time) {
			t.Fatalf("entry %d of %v comes after one of %v", i, e.Time, all[i-1].Time)
		}
	}
	if p, err := read.Audited(t.Context(), Query{After: began.Add(n*time.Second - 1), Limit: 10}); err != nil ||
		len(p.Entries) != 1 ||
		len(p.Gaps) != 0 {
		t.Errorf("what is later than the gap: %+v, %v", p, err)
	}
}

// TestUnansweredWriteIsRepeated, and is stored once.
func TestUnansweredWriteIsRepeated(t *testing.T) {
	_, g, read := kept(t)
	for range 2 {
		if err := g.Bus.AppendAudit(t.Context(), "p-1",
			[]byte(`{"v":1,"entries":[{"time":"2026-01-01T00:00:00Z","action":"x"}]}`)); err != nil {
			t.Fatal(err)
		}
	}
	// of a later program, or of whoever may write there
	for _, strange := range []string{`{"v":2,"entries":[{"action":"y"}]}`, `no JSON`} {
		if err := g.Bus.AppendAudit(t.Context(), strange[:5], []byte(strange)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := read.Audited(t.Context(), Query{Limit: 10})
	if err != nil || len(p.Entries) != 1 || len(p.Gaps) != 2 || p.Next != "" {
		t.Errorf("%+v, %v", p, err)
	}
}
