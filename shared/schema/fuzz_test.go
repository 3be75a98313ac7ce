package schema_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/shared/schema"
)

// seeds are the schemas and values of the official suite and of the hostile corpus, as far as they are short.
func seeds(f *testing.F, add func(raw, value string)) {
	f.Helper()
	for _, file := range slices.Concat(suiteFiles(f, "*.json"), suiteFiles(f, "optional/*.json"),
		suiteFiles(f, "optional/format/*.json")) {
		for _, g := range groups(f, file) {
			for _, tt := range g.Tests[max(0, len(g.Tests)-3):] {
				add(string(g.Schema), string(tt.Data))
			}
		}
	}
	for _, h := range hostile {
		if len(h.schema) < 4096 && len(h.value) < 4096 {
			add(h.schema, h.value)
		}
	}
}

// FuzzCompile: whatever is given compiles or is refused with reasons, on one line each, soon, and the same way again.
func FuzzCompile(f *testing.F) {
	seeds(f, func(raw, _ string) { f.Add(raw) })
	f.Fuzz(func(t *testing.T, raw string) {
		began := time.Now()
		s, err := schema.Compile(json.RawMessage(raw))
		if took := time.Since(began); took > timeLimit() {
			t.Errorf("took %v", took)
		}
		if err == nil {
			if string(s.Raw()) != raw {
				t.Error("Raw is not what was given")
			}
			return
		}
		bad, ok := err.(*schema.Error)
		if !ok || len(bad.Violations) == 0 || len(bad.Violations) > 100 {
			t.Fatalf("%T: %v", err, err)
		}
		for _, v := range bad.Violations {
			wellFormed(t, v)
		}
	})
}

// FuzzCheck: whatever is checked fits or is refused with reasons, soon, and the same way again.
func FuzzCheck(f *testing.F) {
	seeds(f, func(raw, value string) { f.Add(raw, value) })
	f.Fuzz(func(t *testing.T, raw, value string) {
		s, err := schema.Compile(json.RawMessage(raw))
		if err != nil {
			return
		}
		began := time.Now()
		first := s.Check(json.RawMessage(value))
		if took := time.Since(began); took > timeLimit() {
			t.Errorf("took %v", took)
		}
		if first == nil && !json.Valid([]byte(value)) {
			t.Error("no JSON, but it fits")
		}
		if len(first) > 100 {
			t.Errorf("%d violations", len(first))
		}
		for _, v := range first {
			wellFormed(t, v)
		}
		if again := s.Check(json.RawMessage(value)); !slices.Equal(first, again) {
			t.Errorf("first %v, then %v", first, again)
		}
	})
}

func wellFormed(t *testing.T, v schema.Violation) {
	t.Helper()
	switch {
	case !strings.HasPrefix(v.Path, "$"), v.Message == "", len(v.Message) > 16_000,
		strings.ContainsFunc(v.Path+v.Message+v.SchemaPath, func(r rune) bool { return r < ' ' || r == 0x7f }),
		strings.Contains(v.Message, "the validator failed"):
		t.Errorf("%+v", v)
	}
}
