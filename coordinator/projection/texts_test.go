package projection

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ao/shared/run"
)

func TestSearchText(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for _, tt := range []struct{ parameters, want string }{
		{`{"prompt":"Say Hello"}`, "say hello"},
		{`{"prompt":""}`, ""},
		{`{"prompt":"a\nb \"c\" \u00e4"}`, "a\nb \"c\" ä"},
		{`{"prompt":"` + long + `"}`, long[:256]},
		{`{"prompt":"` + strings.Repeat(`\u00e4`, 400) + `"}`, long[:256]},
		{`{"prompt":"x` + long + `"}`, "x" + long[:254]},
		{`{"prompt":"one","b":1}`, "one"},
		{`{"b":1,"prompt":"One"}`, `{"b":1,"prompt":"one"}`},
		{`{"prompt":5}`, `{"prompt":5}`},
		{``, ``},
	} {
		got := promptOf(&run.Spec{Input: &run.Input{Parameters: json.RawMessage(tt.parameters)}})
		if got != tt.want || !utf8.ValidString(got) || len(got) > textBytes {
			t.Errorf("%.60s\ngot  %q\nwant %q", tt.parameters, got, tt.want)
		}
	}
	if got := promptOf(&run.Spec{}); got != "" {
		t.Errorf("a large body: %q", got)
	}
	body := []byte(`{"v":1,"error":{"error":"command_failed","message":"It Ended","x":1}}`)
	if got, want := failureOf(body), "command_failed it ended"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Texts are what was stored, wherever they are, and a block is freed with its last one.
func TestTexts(t *testing.T) {
	var all texts
	var refs []textRef
	want := func(i int) string { return fmt.Sprint("text ", i, strings.Repeat("x", i%200)) }
	for i := range 1000 {
		refs = append(refs, all.keep(want(i)))
	}
	var o blockCache
	for _, i := range rand.Perm(1000) {
		if got := string(o.text(&all, refs[i])); got != want(i) {
			t.Fatalf("%q, want %q", got, want(i))
		}
	}
	if o.text(&all, textRef{}) != nil || all.keep("") != (textRef{}) {
		t.Error("no text is one")
	}
	for _, at := range refs {
		all.drop(at)
	}
	if len(all.blocks) != 1 {
		t.Errorf("%d blocks are left of nothing", len(all.blocks))
	}
	if raw, ends := (&textBlock{packed: []byte("nonsense")}).open(); raw != nil || ends != nil {
		t.Error("a damaged block has texts")
	}
}

// prompted are n ended runs whose prompts are prose of about so many bytes; every tenth failed.
func prompted(t testing.TB, n, size int) (records []Record) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(
		"the report must list every open finding of last week with its owner and a date please check the sources " +
			"first then compare prices for three vendors summarise what changed since the review and say which tests " +
			"fail why they fail what would mend them",
	)
	for i := range n {
		a := newActor(t, run.NewID(), run.NewSessionID(), "researcher")
		var b strings.Builder
		for b.Len() < size {
			fmt.Fprintf(&b, "%s %x ", words[rng.IntN(len(words))], rng.IntN(1<<12))
		}
		a.spec.Input = &run.Input{Parameters: json.RawMessage(`{"prompt":"` + b.String()[:size] + `"}`)}
		s := run.Completed
		if i%10 == 0 {
			s = run.Failed
		}
		for _, e := range []entry{a.queued(1), a.claimed(1), a.ended(1, s, 0)} {
			records = append(records, Record{Subject: e.Subject, Body: e.Body, Time: began})
		}
	}
	return records
}

// A run with a long prompt is kept in less than 0.9 KiB, its session and its search text included.
func TestMemoryOfRunsWithPrompts(t *testing.T) {
	runs := 30_000
	if raced() {
		runs = 5_000
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	f := newReducer(nil)
	before := heap()
	seq := 0
	for range runs / 1000 {
		for _, m := range prompted(t, 1000, 400) {
			seq++
			m.Seq = uint64(seq)
			f.apply(m)
		}
	}
	per := float64(heap()-before) / float64(runs)
	t.Logf("%.0f bytes for an ended run with its session and a prompt of 400 bytes", per)
	if f.ended != runs || per > 0.9*1024 {
		t.Errorf("%d ended runs, %.0f bytes each; want at most 921", f.ended, per)
	}
	runtime.KeepAlive(f)
}

// A search that takes its time returns what it has, and continues there: page by page everything is found, once.
func TestSearchInPages(t *testing.T) {
	f := newReducer(nil)
	var want []string
	for i := range 2000 {
		a := newActor(t, fmt.Sprintf("run_%d", i), fmt.Sprintf("ses_%d", i), "x")
		text := "hay"
		if i%97 == 0 {
			text = "a needle"
			want = append(want, a.spec.ID)
		}
		a.spec.Input = &run.Input{Parameters: json.RawMessage(`{"prompt":"` + text + `"}`)}
		e := a.queued(1)
		f.apply(Record{Subject: e.Subject, Body: e.Body, Seq: uint64(i + 1), Time: began})
	}
	slices.Reverse(want)
	b := start(t, Config{})
	b.changing(func(*reducer) { b.Projection.reducer = f })
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
	b := start(t, Config{})
	w := b.watch(Query{Text: "needle"}, "")
	w.next()
	hay, needle := b.actor("ses_1"), b.actor("ses_2")
	needle.spec.Input = &run.Input{Parameters: json.RawMessage(`{"prompt":"needle"}`)}
	b.write(hay.queued(1), needle.queued(1))
	for _, i := range w.until(map[string]run.Status{needle.spec.ID: run.Pending}) {
		if d := i.Data.(RunsChanged); len(d.Runs) != 1 {
			t.Errorf("%+v", d)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	f := newReducer(nil)
	for i, m := range prompted(b, 20_000, 400) {
		m.Seq = uint64(i + 1)
		f.apply(m)
	}
	s := &search{text: "not to be found", agents: map[string]bool{}}
	for b.Loop() {
		for i := len(f.order) - 1; i >= 0; i-- {
			s.finds(f, f.order[i])
		}
	}
	b.ReportMetric(float64(b.N)*20_000/b.Elapsed().Seconds(), "runs/s")
}
