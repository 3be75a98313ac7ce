package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestTraceOfTheEnvironmentIsForwarded: ao in a script, or in an executor, continues the trace of its environment. An
// invalid one is omitted.
func TestTraceOfTheEnvironmentIsForwarded(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Traceparent") + " " + r.Header.Get("Tracestate")
		fmt.Fprint(w, `{}`)
	}))
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, tt := range []struct{ parent, state, want string }{
		{"", "", " "}, {parent, "", parent + " "}, {parent, "a=1", parent + " a=1"}, {"x\ny", "a=1", " "},
	} {
		t.Setenv("TRACEPARENT", tt.parent)
		t.Setenv("TRACESTATE", tt.state)
		if _, err := c.Get(t.Context(), nil, "runs"); err != nil || got != tt.want {
			t.Errorf("%q %q: got %q, %v", tt.parent, tt.state, got, err)
		}
	}
}
