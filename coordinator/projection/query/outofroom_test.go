package query

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ao/coordinator/budget"
	"ao/coordinator/projection"
	"ao/shared/fault"
	"ao/shared/run"
)

// TestListsCountAgainstTheBudget: rows are small each, and together they need room as one large body does. A live list
// without room reports how many changed.
func TestListsCountAgainstTheBudget(t *testing.T) {
	t.Parallel() // it waits for ten seconds
	b := start(t, projection.Config{})
	const rows, size = 80, 15 << 10
	var last uint64
	for i := range rows {
		a := b.actor(fmt.Sprintf("ses_%d", i))
		a.Spec.Parameters = []byte(`{"prompt":"` + strings.Repeat("x", size) + `"}`)
		last = b.write(a.Queued(1), a.Claimed(1), a.Ended(1, run.Completed, 0))
	}
	if err := b.Await(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	memory := budget.New(8 << 20) // half of it is one caller's
	mine := &budget.Answering{Context: t.Context()}
	mine.Answer.Begin(memory, "me")
	if p, err := b.Runs(mine, Query{Limit: rows}); err != nil || len(p.Runs) != rows {
		t.Fatalf("%d runs, %v", len(p.Runs), err)
	}
	if err := memory.Open("me").Take(1 << 20); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("beside %d rows there is room: %v", rows, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	live := &budget.Answering{Context: ctx}
	live.Answer.Begin(memory, "me")
	var events []string
	err := b.WatchRuns(live, Query{}, "1", func(i Item) error { // all but the first changed since
		events = append(events, i.Event)
		if i.Event == ItemMore {
			budget.Sent(mine)
			again := b.actor("ses_again")
			b.write(again.Queued(1))
		}
		if i.Event == ItemRuns {
			cancel()
		}
		return nil
	})
	if ctx.Err() == nil || strings.Join(events, " ") != "more runs" {
		t.Errorf("got %v, %v", events, err)
	}
}
