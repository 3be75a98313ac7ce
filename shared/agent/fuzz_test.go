package agent

import (
	"encoding/json"
	"testing"

	"ao/shared/fault"
	"ao/shared/run"
)

// FuzzRead: a definition from a file, a caller or a runner is refused with an Invalid fault, or can be stored. A stored
// one is read again as the same.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","description":"d"}`, `{"name":"a","command":"./run","parameters_schema":{"type":"object",` +
			`"properties":{"x":{"type":"integer"}}}}`,
		`{"name":"a","default_output_schema":{"type":"object"},` +
			`"output_schema_options":{"max_retries":1},"tags":["t"],` +
			`"demands":{"tags":["x"]}}`,
		`{"name":"../x"}`, `{"name":"a","parameters_schema":{"$ref":"file:///etc/passwd"}}`,
		`{"name":"a","type":"robot"}`, `[]`, `{"name":null}`,
		`{"name":"a","mcp_servers":{"s":{"command":"${X}"}},"executor_profile":"p","timeout_seconds":9,` +
			`"max_attempts":2,"status":"inactive","system_prompt":"s"}`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, procedural bool) {
		kind := run.Autonomous
		if procedural {
			kind = run.Procedural
		}
		b, err := Read(raw, kind)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("refused by %T %.200v", err, err)
			}
			return
		}
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(text, kind)
		if err != nil || again.Name != b.Name || again.Type != b.Type {
			t.Fatalf("%s\nis stored as %s\nand read as %+v, %v", raw, text, again, err)
		}
		if twice, _ := json.Marshal(again); string(twice) != string(text) {
			t.Errorf("%s\nis stored as %s\nand then as %s", raw, text, twice)
		}
	})
}
