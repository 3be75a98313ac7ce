package screen

import (
	"encoding/json"
	"testing"
	"time"
)

func TestEscapes(t *testing.T) {
	for _, tt := range []struct{ in, text, line, json string }{
		{"plain ünïcode 漢字 🙂", "plain ünïcode 漢字 🙂", "plain ünïcode 漢字 🙂", "plain ünïcode 漢字 🙂"},
		{"a\tb\nc", "a\tb\nc", `a\tb\nc`, "a\tb\nc"},
		{"\x1b[31mred\x1b]0;title\x07", `\x1b[31mred\x1b]0;title\x07`, `\x1b[31mred\x1b]0;title\x07`,
			`\u001b[31mred\u001b]0;title\u0007`},
		{"over\rwritten\b", `over\rwritten\x08`, `over\rwritten\x08`, `over\rwritten\u0008`},
		{"\x7f\u009b1m", `\x7f\x9b1m`, `\x7f\x9b1m`, `\u007f\u009b1m`},
		{"bad\xffutf8", `bad\xffutf8`, `bad\xffutf8`, `bad\u00ffutf8`},
		{"kept \ufffd", "kept \ufffd", "kept \ufffd", "kept \ufffd"},
		{"exe\u202egpj.\u2066x\u200f", `exe\u202egpj.\u2066x\u200f`, `exe\u202egpj.\u2066x\u200f`,
			`exe\u202egpj.\u2066x\u200f`},
		{"one\u2028two", `one\u2028two`, `one\u2028two`, `one\u2028two`},
	} {
		t.Run(tt.line, func(t *testing.T) {
			for _, c := range []struct{ name, got, want string }{
				{"Text", Text(tt.in), tt.text}, {"Line", Line(tt.in), tt.line}, {"JSON", JSON([]byte(tt.in)), tt.json},
			} {
				if c.got != c.want {
					t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
				}
			}
		})
	}
}

// TestJSONStaysTheSame: what is escaped for a terminal still means what it meant.
func TestJSONStaysTheSame(t *testing.T) {
	in := "a\x7f\u009b\u202e\u2028é"
	raw := []byte(`"` + in + `"`)
	var got string
	if err := json.Unmarshal([]byte(JSON(raw)), &got); err != nil || got != in {
		t.Errorf("got %q, %v; want %q", got, err, in)
	}
}

func TestTable(t *testing.T) {
	table := NewTable("RUN", "NOTE", "TAGS")
	table.Row("run_1", "waits\nfor\x1b[0m a slot", "")
	table.Row("run_234", "", "")
	const want = `
RUN      NOTE
run_1    waits\nfor\x1b[0m a slot
run_234  -
`
	if got := "\n" + table.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestFacts(t *testing.T) {
	var f Facts
	f.Add("run", "run_1")
	f.Add("parent", "")
	f.Add("error", "it failed\n  $.a: missing\n")
	const want = `
run    run_1
error  it failed
         $.a: missing
`
	if got := "\n" + f.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	for _, tt := range []struct {
		ago  time.Duration
		want string
	}{
		{-time.Hour, "now"}, {0, "now"}, {999 * time.Millisecond, "now"}, {time.Second, "1s ago"},
		{59 * time.Second, "59s ago"},
		{2*time.Minute + 30*time.Second, "2m ago"}, {3 * time.Hour, "3h ago"}, {47 * time.Hour, "47h ago"},
		{48 * time.Hour, "2d ago"},
		{31 * 24 * time.Hour, "2026-01-29"},
	} {
		if got := Age(now, now.Add(-tt.ago)); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.ago, got, tt.want)
		}
	}
	if got := Age(now, time.Time{}); got != "" {
		t.Errorf("never: got %q", got)
	}
}

func TestDuration(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{-1, "0ms"}, {12 * time.Millisecond, "12ms"}, {3140 * time.Millisecond, "3.1s"},
		{59999 * time.Millisecond, "59.9s"},
		{2*time.Minute + 3*time.Second, "2m03s"}, {26*time.Hour + 5*time.Minute, "26h05m"},
	} {
		if got := Duration(tt.d); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"short", "short"}, {"exactly 10", "exactly 10"}, {"more than that", "more than…"},
		{"ein läängerer", "ein lääng…"}, {" a\nb ", `a\nb`},
	} {
		if got := Truncate(tt.in, 10); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}
