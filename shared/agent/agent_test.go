package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/fault"
	"ao/shared/run"
)

func TestReadRefusesByField(t *testing.T) {
	for _, tt := range []struct{ in, kind, want string }{
		{`{"name":"a b"}`, run.Autonomous, `name "a b": use 1 to 60`},
		{`{"name":"-a"}`, run.Autonomous, `name "-a"`},
		{`{"description":"x"}`, run.Autonomous, `name ""`},
		{`{"name":"a","typ":"x"}`, run.Autonomous, `Unknown field "typ"`},
		{`{"name":"a","type":"magic"}`, run.Autonomous, `type must be autonomous or procedural`},
		{`{"name":"a"}`, run.Procedural, `a procedural agent needs command`},
		{`{"name":"a","command":"./x"}`, run.Autonomous, `command belongs to procedural agents`},
		{`{"name":"a","status":"off"}`, run.Autonomous, `status must be active or inactive`},
		{`{"name":"a","output_schema":{},"default_output_schema":{"type":"object"}}`, run.Autonomous,
			`output_schema and default_output_schema differ`},
		{`{"name":"a","default_output_schema_options":{},"output_schema_options":{"max_retries":1},` +
			`"output_schema":{}}`, run.Autonomous, `output_schema_options and default_output_schema_options differ`},
		{`{"name":"a","output_schema":{},"output_schema_name":"n"}`, run.Autonomous,
			`output_schema and output_schema_name exclude each other`},
		{`{"name":"a","output_schema_name":"a b"}`, run.Autonomous, `output_schema_name "a b": use 1 to 60`},
		{`{"name":"a","output_schema_options":{}}`, run.Autonomous,
			`output_schema_options say how an output schema is enforced, and there is none`},
		{`{"name":"a","output_schema":{},"default_output_schema_options":{"max_retries":11}}`, run.Autonomous,
			`output_schema_options.max_retries must be from 0 to 10`},
		{`{"name":"a","output_schema":{},"output_schema_options":{"xyz":1}}`, run.Autonomous,
			`Unknown field "output_schema_options.xyz"`},
		{`{"name":"a","max_attempts":101}`, run.Autonomous, `max_attempts must be from 1 to 100`},
		{`{"name":"a","mcp_servers":[]}`, run.Autonomous, `mcp_servers must be an object`},
		{`{"name":"a","tags":"x"}`, run.Autonomous, `tags must be a list of strings`},
		{`{"name":"a",}`, run.Autonomous, `not JSON`},
	} {
		t.Run(tt.in, func(t *testing.T) {
			if _, err := Read([]byte(tt.in), tt.kind); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestABadSchemaIsInvalidSchema(t *testing.T) {
	for _, tt := range []struct{ given, message string }{
		{"parameters_schema", "parameters_schema"}, {"output_schema", "output_schema"},
		{"default_output_schema", "output_schema"},
	} {
		for _, kind := range []string{run.Autonomous, run.Procedural} {
			_, err := Read([]byte(`{"name":"a","type":"autonomous","`+tt.given+`":{"type":"object","properties":[]}}`),
				kind)
			raw, _ := json.Marshal(fault.Of(err))
			if want := `{"error":"InvalidSchema","message":"` + tt.message +
				` is not a valid JSON Schema","details":"Schema validation error at $.properties: `; !strings.HasPrefix(
				string(raw), want) {
				t.Errorf("got %s, want %s…", raw, want)
			}
		}
	}
}

// TestOtherNamesOfOutputSchema: both names mean one member, and what is stored is what was given.
func TestOtherNamesOfOutputSchema(t *testing.T) {
	const given = `{"type":"object", "required":["z","a"],"maxProperties":12345678901234567890}`
	for _, def := range []string{
		`{"name":"a","output_schema":` + given +
			`,"output_schema_options":{"max_retries":0,"validation_mode":"strict"}}`,
		`{"name":"a","default_output_schema":` + given +
			`,"default_output_schema_options":{"max_retries":0,"validation_mode":"strict"}}`,
		`{"name":"a","default_output_schema":` + given + `,"output_schema":` + given +
			`,"output_schema_options":{"max_retries":0,"validation_mode":"strict"}}`,
	} {
		b, err := Read([]byte(def), run.Autonomous)
		if err != nil || string(b.OutputSchema) != given || *b.OutputSchemaOptions.MaxRetries != 0 {
			t.Errorf("%s: %v, %s", def, err, b.OutputSchema)
		}
		if strict, said := b.OutputSchemaOptions.Strict(); !strict || !said {
			t.Errorf("%s: not strict", def)
		}
	}
	if b, err := Read([]byte(`{"name":"a","output_schema":null,"default_output_schema":null}`),
		run.Autonomous); err != nil || b.OutputSchema != nil {
		t.Errorf("null: %v, %s", err, b.OutputSchema)
	}
}

func TestSchemaPrecedence(t *testing.T) {
	own := `{"type":"object","required":["topic"]}`
	implicit := `{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},` +
		`"additionalProperties":false}`
	for _, tt := range []struct{ def, kind, runType, want string }{
		{`{"name":"a"}`, run.Autonomous, run.Start, implicit},
		{`{"name":"a","parameters_schema":null}`, run.Autonomous, run.Start, implicit},
		{`{"name":"a","parameters_schema":` + own + `}`, run.Autonomous, run.Start, own},
		{`{"name":"a","parameters_schema":` + own + `}`, run.Autonomous, run.Resume, implicit},
		{`{"name":"a","command":"./x"}`, run.Procedural, run.Start, `{"type":"object"}`},
		{`{"name":"a","command":"./x","parameters_schema":` + own + `}`, run.Procedural, run.Start, own},
	} {
		b, err := Read([]byte(tt.def), tt.kind)
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.InputSchema(t.Context(), tt.runType, nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(s.Raw()) != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.def, tt.runType, s.Raw(), tt.want)
		}
	}
}

func TestLoadReportsBadFilesAndKeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("good/agent.json", "\ufeff"+`{"name":"good"}`) // with a byte order mark
	write("good/agent.system-prompt.md", "\ufeffYou are good.")
	write("flat.json", `{"name":"flat"}`)
	write("syntax/agent.json", `{"name":"syntax"`)
	write("twice.json", `{"name":"flat"}`)
	write("schema.json", `{"name":"schema","parameters_schema":{"type":"objekt"}}`)
	write("both/agent.json", `{"name":"both","system_prompt":"x"}`)
	write("both/agent.system-prompt.md", "y")
	write("notes.txt", "no agent")
	write("empty/readme.md", "no agent")
	good, broken, err := Load(dir, run.Autonomous, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(good) != 2 || good[0].Name != "flat" || good[1].SystemPrompt != "You are good." {
		t.Errorf("good: %+v", good)
	}
	reasons := map[string]string{}
	for _, b := range broken {
		reasons[b.Name] = b.Reason
	}
	for name, want := range map[string]string{
		"syntax": "ends too early", "twice": `the name "flat" is taken by`,
		"schema": "Schema validation error at $.type", "both": "keep one",
	} {
		if !strings.Contains(reasons[name], want) {
			t.Errorf("%s: got %q, want %q", name, reasons[name], want)
		}
	}
	if len(broken) != 4 {
		t.Errorf("broken: %v", reasons)
	}
}
