package agents

import (
	"encoding/json"
	"slices"
	"testing"

	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/schema"
	"ao/shared/strictjson"
	"ao/worker/testexec"
)

// Each example agent loads, accepts its example and, without a model, returns what its output schema requires.
func TestAutonomousExamples(t *testing.T) {
	files, broken, err := agent.Load("autonomous", run.Autonomous, nil)
	if err != nil || len(broken) > 0 {
		t.Fatal(err, broken)
	}
	examples := map[string]string{
		"parametric-agent": `{"topic":"Machine learning in healthcare","format":"bullet_points","max_words":300}`,
		"security-scanner": `{"prompt":"Scan the folder src"}`,
		"pr-reviewer":      `{"diff":"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n","focus":["naming"]}`,
		"summarizer":       `{"prompt":"Summarize README.md"}`,
		"data-extractor":   `{"prompt":"Ada Lovelace met Charles Babbage in London in 1833."}`,
		"content-writer":   `{"topic":"AI Safety","format":"essay","max_words":500}`,
		"show-me":          `{"prompt":"@say Hello"}`,
		"show-me-summary":  `{"prompt":"Summarize"}`,
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
		t.Run(f.Name, func(t *testing.T) {
			params := json.RawMessage(examples[f.Name])
			s, err := f.InputSchema(t.Context(), run.Start, nil)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := s.Check(params); len(wrong) > 0 {
				t.Fatalf("its example is not what it takes: %v", wrong)
			}
			b := f.Blueprint
			if b.OutputSchema != nil { // as a worker puts it in
				b.SystemPrompt += prompt.Format(b.OutputSchema)
			}
			blueprint, err := strictjson.Encode(b)
			if err != nil {
				t.Fatal(err)
			}
			v := executor.Invocation{Mode: executor.Start, SessionID: "ses_1", RunID: "run_1", AgentName: f.Name,
				Parameters: params, Blueprint: blueprint}
			v.Prompt, err = prompt.Text(blueprint, v.Mode, params)
			if err != nil {
				t.Fatal(err)
			}
			o := testexec.Run(t.Context(), v, executor.Host{Emit: func(string, json.RawMessage) {}})
			if o.Status != run.Completed || f.SystemPrompt == "" || f.Description == "" {
				t.Errorf("%+v", o)
			}
			if f.OutputSchema == nil {
				return
			}
			out, err := schema.Compile(f.OutputSchema)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := out.Check([]byte(*o.Result.Text)); len(wrong) > 0 {
				t.Errorf("%s: %v", *o.Result.Text, wrong)
			}
		})
	}
	if len(names) != len(examples) || !slices.IsSorted(names) {
		t.Errorf("there are %v", names)
	}
}
