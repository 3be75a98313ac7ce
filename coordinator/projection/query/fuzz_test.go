package query

import (
	"testing"
)

// FuzzPosition: Last-Event-ID and after. What is read is written as the same place.
func FuzzPosition(f *testing.F) {
	for _, seed := range []string{"1-2", "1-2.3", "", "-", "1-", "99999999999999999999-1", "1-2.17", "+1-2", "01-2",
		"1-2.", "1--2", "1-2.0.3", "1-2.3.4", "1-2.0.256", "1-2.0.0.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition(text)
		if err != nil || text == "" {
			return
		}
		if again, err := parsePosition(p.String()); err != nil || again != p {
			t.Errorf("%q is %+v, written %q, read as %+v, %v", text, p, p, again, err)
		}
	})
}

// FuzzCursor: a cursor that is taken is exactly one that a page gave.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{cursorAt(runCursor, 5), cursorAt(sessionCursor, 1<<63), "", "x", "cjE6", "cjE6MDU",
		"cjE6LTE"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []string{runCursor, sessionCursor} {
			if seq, err := cursor(kind, text); err == nil && text != "" && cursorAt(kind, seq) != text {
				t.Errorf("%q is taken for %d, whose cursor is %q", text, seq, cursorAt(kind, seq))
			}
		}
	})
}
