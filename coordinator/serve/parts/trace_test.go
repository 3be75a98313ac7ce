package parts

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"ao/coordinator/runs"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/trace"
)

// TestTraceInTheRecord: a caller's trace is in the run's record, and nothing without one. It is no part of what an
// idempotency key compares.
func TestTraceInTheRecord(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	register(t, c, runner("one", echo("a")))
	in := func(parent, state string) context.Context {
		return trace.Extract(t.Context(), map[string][]string{"Traceparent": {parent}, "Tracestate": {state}})
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	record := func(ctx context.Context, body, key string) (runs.Accepted, string) {
		t.Helper()
		a, err := c.Submit(ctx, []byte(body), "test", key)
		if err != nil {
			t.Fatal(err)
		}
		part := subject.Partition(a.SessionID)
		for _, at := range []string{subject.QueuedOf(part, a.RunID), subject.Accepted(part, a.SessionID, a.RunID)} {
			if found, err := c.bus.Records(t.Context(), at, 0, 1); err == nil && len(found) > 0 {
				return a, string(found[0].Body)
			}
		}
		t.Fatal("no record")
		return a, ""
	}
	for _, tt := range []struct {
		name, body string
		ctx        context.Context
		want       string
	}{
		{"queued", `{"agent_name":"a"}`, in(parent, "vendor=1"), `"trace":{"traceparent":"` +
			parent + `","tracestate":"vendor=1"}`},
		{"accepted", `{"agent_name":"a","additional_demands":{"tags":["nowhere"]}}`, in(parent, ""),
			`"trace":{"traceparent":"` + parent + `"}`},
		{"none", `{"agent_name":"a"}`, t.Context(), ""},
		{"invalid", `{"agent_name":"a"}`, in(strings.ToUpper(parent), "vendor=1"), ""},
	} {
		a, got := record(tt.ctx, tt.body, "")
		if tt.want == "" && strings.Contains(got, "trace") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %q", tt.name, got, tt.want)
		}
		r, err := c.Show(t.Context(), a.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if raw, _ := json.Marshal(r); strings.Contains(string(raw), "trace") {
			t.Errorf("%s: readers see %s", tt.name, raw)
		}
	}
	first, _ := record(in(parent, ""), `{"agent_name":"a"}`, "k")
	again, got := record(in(strings.Replace(parent, "0af", "1af", 1), ""), `{"agent_name":"a"}`, "k")
	if first.RunID != again.RunID || !strings.Contains(got, parent) {
		t.Errorf("the repeat is %s, of %s: %s", again.RunID, first.RunID, got)
	}
}

// TestARunWithoutATraceCostsNothing: what the hot path asks about traces allocates nothing.
func TestARunWithoutATraceCostsNothing(t *testing.T) {
	var none *trace.Tracer
	p := runs.Plan{Spec: run.Spec{ID: "run_1"}}
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := none.Start(t.Context(), trace.Producer, "submit")
		span.RecordError(nil)
		p.Spec.Trace = trace.FromContext(ctx)
		span.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
