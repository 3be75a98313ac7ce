package httpapi

import (
	"slices"
	"strings"
	"testing"

	"ao/shared/fault"
)

// FuzzQuery: a query string is refused by an Invalid fault, or has the parameters that the route knows, once each.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"status=running&limit=5", "limit=x", "limit=5&limit=6", "zz=1", "%zz", "status=a,b;c",
		"created_after=2026-01-01T00:00:00Z", "after=1-2", "=", "limit=+5"} {
		f.Add(seed)
	}
	known := []string{"status", "limit", "created_after"}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := readQuery(raw, known)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("%q is refused by %v", raw, err)
			}
			return
		}
		for name := range q.values {
			if !slices.Contains(known, name) {
				t.Errorf("%q has %q", raw, name)
			}
		}
		if n := q.number("limit", 7, 1, 100); n < 1 || n > 100 || q.err != nil &&
			(n != 7 || !strings.Contains(q.err.Error(), "limit")) {
			t.Errorf("%q: the limit is %d, %v", raw, n, q.err)
		}
		q.list("status")
	})
}

// FuzzRunner: a registration is refused by an Invalid fault, or is one runner.
func FuzzRunner(f *testing.F) {
	for _, seed := range []string{
		`{"hostname":"h","project_dir":"/p","executor_profile":"p","executor_type":"procedural","tags":["a"],` +
			`"agents":[{"name":"a","command":"x"}]}`,
		`{"executor.type":"procedural","executor":{"type":"autonomous"}}`, `{"agents":{}}`,
		`{"agents":[{"name":"a","runner_id":"r"}]}`, `{"agents":[null]}`, `[]`, `{"tags":[1]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := readRunner(raw)
		switch {
		case err != nil && fault.KindOf(err) != fault.Invalid:
			t.Errorf("%s is refused by %v", raw, err)
		case err == nil:
			_ = r.ID()
		}
	})
}
