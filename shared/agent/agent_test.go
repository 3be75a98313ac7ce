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
		{`{"name":"a","output_schema":{}}`, run.Autonomous, `output_schema is not supported by this version`},
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
	_, err := Read([]byte(`{"name":"a","parameters_schema":{"type":"object","properties":[]}}`), run.Autonomous)
	raw, _ := json.Marshal(fault.Of(err))
	if !strings.Contains(string(raw), `"error":"InvalidSchema"`) || !strings.Contains(string(raw), `"details":"Schema validation error at $.properties: `) {
		t.Errorf("got %s", raw)
	}
}

func TestWhichSchemaHolds(t *testing.T) {
	own := `{"type":"object","required":["topic"]}`
	implicit := `{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},"additionalProperties":false}`
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
		s, err := b.InputSchema(tt.runType)
		if err != nil {
			t.Fatal(err)
		}
		if string(s.Raw()) != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.def, tt.runType, s.Raw(), tt.want)
		}
	}
}

func TestLoadTellsOfBadFilesAndKeepsTheRest(t *testing.T) {
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
	write("good/agent.json", `{"name":"good"}`)
	write("good/agent.system-prompt.md", "You are good.")
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
		"syntax": "ends too early", "twice": `the name "flat" is taken by`, "schema": "Schema validation error at $.type", "both": "keep one",
	} {
		if !strings.Contains(reasons[name], want) {
			t.Errorf("%s: got %q, want %q", name, reasons[name], want)
		}
	}
	if len(broken) != 4 {
		t.Errorf("broken: %v", reasons)
	}
}
