package trace

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"ao/shared/run"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestArrived: what a caller's headers have is kept unchanged, and what the specification calls invalid counts as
// missing.
func TestArrived(t *testing.T) {
	long := strings.Repeat("x", 130)
	for _, tt := range []struct {
		name         string
		header       http.Header
		parent, rest string
	}{
		{"none", http.Header{}, "", ""},
		{"a parent", http.Header{"Traceparent": {parent}}, parent, ""},
		{"as NATS spells it", http.Header{"traceparent": {parent}, "tracestate": {"a=1"}}, parent, "a=1"},
		{"not sampled", http.Header{"Traceparent": {strings.TrimSuffix(parent, "1") + "0"}},
			strings.TrimSuffix(parent, "1") + "0", ""},
		{"with state", http.Header{"Traceparent": {parent},
			"Tracestate": {"congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"}}, parent,
			"congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"},
		{"state in two lines", http.Header{"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}}, parent, "a=1,b=2"},
		{"state that is none", http.Header{"Traceparent": {parent}, "Tracestate": {"=;=\x00"}}, parent, ""},
		{"state alone", http.Header{"Tracestate": {"a=1"}}, "", ""},
		{"two parents", http.Header{"Traceparent": {parent, parent}}, "", ""},
		{"empty", http.Header{"Traceparent": {""}}, "", ""},
		{"capitals", http.Header{"Traceparent": {strings.ToUpper(parent)}}, "", ""},
		{"no trace", http.Header{"Traceparent": {"00-00000000000000000000000000000000-b7ad6b7169203331-01"}}, "", ""},
		{"no span", http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}}, "", ""},
		{"version ff", http.Header{"Traceparent": {"ff" + parent[2:]}}, "", ""},
		{"more than version 00 has", http.Header{"Traceparent": {parent + "-00"}}, "", ""},
		{"a later version, with more", http.Header{"Traceparent": {"cc" + parent[2:] + "-what-comes"}}, parent, ""},
		{"a later version, with more that does not begin as it must",
			http.Header{"Traceparent": {"cc" + parent[2:] + ".what"}}, "", ""},
		{"too short", http.Header{"Traceparent": {parent[:54]}}, "", ""},
		{"a line feed", http.Header{"Traceparent": {parent + "\n"}}, "", ""},
		{"long members of a long state go first",
			http.Header{"Traceparent": {parent},
				"Tracestate": {"a=1,b=" + long + ",c=" + strings.Repeat("y", 110) + ",d=" + long + ",e=" + long +
					",f=2"}},
			parent, "a=1,b=" + long + ",c=" + strings.Repeat("y", 110) + ",d=" + long + ",f=2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := FromContext(Extract(t.Context(), tt.header))
			if tt.parent == "" {
				if got != nil {
					t.Errorf("got %+v, want none", got)
				}
				return
			}
			if got == nil || got.Parent != tt.parent || got.State != tt.rest {
				t.Fatalf("got %+v, want %q and %q", got, tt.parent, tt.rest)
			}
			out := http.Header{headerState: {"old=1"}}
			Inject(ContextWith(t.Context(), got), out)
			if out.Get(HeaderParent) != tt.parent || out.Get(headerState) != tt.rest && tt.rest != "" {
				t.Errorf("sent on as %v", out)
			}
		})
	}
}

// TestNoTraceAllocatesNothing: without a tracer, nothing is allocated.
func TestNoTraceAllocatesNothing(t *testing.T) {
	var tracer *Tracer
	header := http.Header{"Accept": {"*/*"}}
	spec := &run.Spec{ID: "run_1"}
	type other struct{}
	ctx := context.WithValue(t.Context(), other{}, 1)
	n := testing.AllocsPerRun(100, func() {
		in := Extract(ctx, header)
		below, span := tracer.Start(in, Server, "POST /runs")
		span.SetRun(spec)
		span.Set(Run, spec.ID)
		span.SetInt(Attempt, 1)
		span.SetError("code")
		spec.Trace = FromContext(below)
		_, inner := Start(ContextWith(below, spec.Trace), "claim")
		inner.End()
		tracer.Finished(below, "queue", spec.CreatedAt, spec.CreatedAt).End()
		span.End()
	})
	if n != 0 || spec.Trace != nil {
		t.Errorf("%v allocations, %+v", n, spec.Trace)
	}
}

// FuzzArrived: whatever strangers send, what is kept of it is short, and read again it is the same.
func FuzzArrived(f *testing.F) {
	f.Add(parent, "a=1,b=2", "")
	f.Add("cc"+parent[2:]+"-more", "congo=t61rcWkgMzE", ",,a=1")
	f.Add(strings.ToUpper(parent), strings.Repeat("k=v,", 40), "x@y=z")
	f.Fuzz(func(t *testing.T, parent, state, more string) {
		got := FromContext(Extract(context.Background(),
			http.Header{"Traceparent": {parent}, "Tracestate": {state, more}}))
		if got == nil {
			return
		}
		if len(got.Parent) != 55 || len(got.State) > maxState ||
			strings.ContainsFunc(got.Parent+got.State, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("kept %q %q", got.Parent, got.State)
		}
		if again := FromContext(ContextWith(context.Background(), got)); again == nil || *again != *got {
			t.Fatalf("%+v is read as %+v", got, again)
		}
	})
}
