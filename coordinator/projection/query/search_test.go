package query

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/run"
)

// A search that takes its time returns what it has, and continues there: page by page everything is found, once.
func TestSearchInPages(t *testing.T) {
	f := state.New(nil, nil, 0)
	var want []string
	for i := range 2000 {
		a := newActor(t, fmt.Sprintf("run_%d", i), fmt.Sprintf("ses_%d", i), "x")
		text := "hay"
		if i%97 == 0 {
			text = "a needle"
			want = append(want, a.Spec.ID)
		}
		a.Spec.Input = &run.Input{Parameters: json.RawMessage(`{"prompt":"` + text + `"}`)}
		e := a.Queued(1)
		f.Apply(state.Record{Subject: e.Subject, Body: e.Body, Seq: uint64(i + 1), Time: began})
	}
	slices.Reverse(want)
	b := start(t, projection.Config{})
	b.Restore(f)
	b.Lists.searchTime = 1
	var got []string
	partial := 0
	for q := (Query{Text: "NEEDLE", Limit: 9}); ; {
		p, err := b.Runs(t.Context(), q)
		if err != nil || p.Partial && p.Next == "" {
			t.Fatal(p, err)
		}
		for _, r := range p.Runs {
			got = append(got, r.ID)
		}
		if p.Partial {
			partial++
		}
		q.Cursor = p.Next
		if p.Next == "" {
			break
		}
	}
	if !slices.Equal(got, want) || partial < 2 {
		t.Errorf("%d of %d found, %d partial pages", len(got), len(want), partial)
	}
	if n, err := b.Count(t.Context(), Query{Text: "needle"}); err != nil || n.Exact || n.N > len(want) {
		t.Errorf("a count that takes its time: %+v %v", n, err)
	}
	b.Lists.searchTime = searchTime
	if n, err := b.Count(t.Context(), Query{Text: "needle"}); err != nil || !n.Exact || n.N != len(want) {
		t.Errorf("a count that has the time: %+v %v", n, err)
	}
}

// A watched list is filtered by a text, too.
func TestWatchedListIsFilteredByText(t *testing.T) {
	b := start(t, projection.Config{})
	w := b.watch(Query{Text: "needle"}, "")
	w.next()
	hay, needle := b.actor("ses_1"), b.actor("ses_2")
	needle.Spec.Input = &run.Input{Parameters: json.RawMessage(`{"prompt":"needle"}`)}
	b.write(hay.Queued(1), needle.Queued(1))
	for _, i := range w.until(map[string]run.Status{needle.Spec.ID: run.Pending}) {
		if d := i.Data.(RunsChanged); len(d.Runs) != 1 {
			t.Errorf("%+v", d)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	f := state.New(nil, nil, 0)
	for i, m := range prompted(b, 20_000, 400) {
		m.Seq = uint64(i + 1)
		f.Apply(m)
	}
	s := &search{text: "not to be found", agents: map[string]bool{}}
	for b.Loop() {
		for _, r := range slices.Backward(state.RunsBelow(f, math.MaxUint64)) {
			s.finds(f, r)
		}
	}
	b.ReportMetric(float64(b.N)*20_000/b.Elapsed().Seconds(), "runs/s")
}
