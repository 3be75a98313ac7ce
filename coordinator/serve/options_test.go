package serve_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/run"
)

// TestContradictingOptions: what a caller sends is refused. What an older version stored, or an older worker registers,
// keeps working, also with changes and retries.
func TestContradictingOptions(t *testing.T) {
	t.Parallel()
	s := start(t)
	const both = `"output_schema_options":{"extract_json":true,"validation_mode":"strict"}`
	s.post("/agents", `{"name":"plain"}`).want(201)
	s.post("/agents", `{"name":"plain2","output_schema":{}}`).want(201)
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/runs", `{"agent_name":"plain","prompt":"x","output_schema":{},` + both + `}`},
		{"POST", "/agents", `{"name":"a","output_schema":{},` + both + `}`},
		{"POST", "/agents", `{"name":"a","output_schema":{},"default_` + both[1:] + `}`},
		{"PATCH", "/agents/plain2", `{` + both + `}`},
		{"POST", "/schemas/validate", `{"schema":{},"options":{"extract_json":true,"validation_mode":"strict"}}`},
	} {
		literal(t, s.call(tt.method, tt.path, tt.body), 400, `{"error":"invalid_request","message":`+
			`"output_schema_options: extract_json true and validation_mode strict contradict each other; leave one of `+
			`them out","field":"output_schema_options"}`)
	}

	stored, err := json.Marshal(map[string]any{"name": "old", "description": "", "type": "autonomous",
		"status": "active", "output_schema": map[string]any{},
		"output_schema_options": map[string]any{"extract_json": true, "validation_mode": "strict"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.bus.Bucket(subject.Agents).Create(t.Context(), "old", stored); err != nil {
		t.Fatal(err)
	}
	if g := s.post("/runs/validate", `{"agent_name":"old","prompt":"x"}`); g.status != 200 ||
		!strings.Contains(g.body, `"strict":true`) {
		t.Errorf("a stored agent: %d %s", g.status, g.body)
	}
	s.call("PATCH", "/agents/old", `{"description":"x"}`).want(200)

	late := echo("late")
	late.OutputSchema = json.RawMessage(`{}`)
	late.OutputSchemaOptions = &run.OutputOptions{ExtractJSON: new(true), ValidationMode: "strict"}
	s.work(parrot, late)
	if g := s.post("/runs/validate", `{"agent_name":"late"}`); g.status != 200 {
		t.Errorf("an agent of a worker: %d %s", g.status, g.body)
	}
	if _, err := agent.Read(stored, run.Autonomous); err != nil {
		t.Errorf("an agent's file: %v", err)
	}
}
