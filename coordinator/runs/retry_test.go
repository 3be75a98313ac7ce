package runs_test

import (
	"encoding/json"
	"testing"

	"ao/coordinator/runs"
	"ao/shared/run"
)

// TestARetryOfContradictingOptions: a run that an older version accepted with them can be retried, and means the same.
func TestARetryOfContradictingOptions(t *testing.T) {
	body, err := runs.RequestOf(run.Spec{Agent: "a", Mode: run.AsyncPoll, Input: &run.Input{
		Parameters: json.RawMessage(`{"prompt":"x"}`),
		Output:     &run.Output{Schema: json.RawMessage(`{}`), Source: run.SourceRequest}},
		Requested: &run.Requested{Options: &run.OutputOptions{ExtractJSON: new(true), ValidationMode: "strict"}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.ReadRequest(body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if strict, set := r.OutputSchemaOptions.Strict(); !strict || !set {
		t.Errorf("%s is not strict", body)
	}
}
