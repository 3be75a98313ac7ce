package serve_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestSchemasAreValidated: the verdict on a schema, with the place of each error in the text that was sent.
func TestSchemasAreValidated(t *testing.T) {
	t.Parallel()
	s := start(t)
	text := func(schema string) string { return `{"schema_text":` + strconv.Quote(schema) + `}` }
	for _, tt := range []struct{ name, body, want string }{
		{"good", `{"schema":{"type":"object"}}`, `{"valid":true,"errors":[]}`},
		{"good text", text(`{"type":"object"}`), `{"valid":true,"errors":[]}`},
		{"a keyword of the wrong type", text("{\n  \"properties\": [],\n  \"required\": \"a\"\n}"),
			`{"valid":false,"errors":[{"path":"$.properties","message":"[] is not of type 'object'","line":2,` +
				`"column":17},{"path":"$.required","message":"'a' is not of type 'array'","line":3,"column":15}]}`},
		{"broken JSON", text("{\n  \"type\": object\n}"),
			`{"valid":false,"errors":[{"path":"$","message":"is not readable as JSON: unexpected 'o' at byte 12",` +
				`"line":2,"column":11}]}`},
		{"no text", `{"schema_text":""}`, `{"valid":false,"errors":[{"path":"$","message":"is not readable as JSON: ` +
			`it ends too early","line":1,"column":1}]}`},
		{"a key twice", text("{\"type\":\"object\",\n\"type\":\"array\"}"),
			`{"valid":false,"errors":[{"path":"$.type","message":"'type' appears twice in this object","line":2,` +
				`"column":7}]}`},
		{"a number out of range", text("{\"maximum\":1e400}"),
			`{"valid":false,"errors":[{"path":"$.maximum","message":"1e400 is out of range for a number: its ` +
				`exponent must lie between -308 and 308","line":1,"column":12}]}`},
		{"digits and order", `{"schema":{"properties":{"10":{"maximum":9223372036854775807},"2":{"const":0.10},` +
			`"a":{}}},"answer":"{\"10\":9223372036854775808,\"2\":0.1}"}`,
			`{"valid":true,"errors":[],"answer":{"valid":false,"chosen":0,` +
				`"candidates":[{"text":"{\"10\":9223372036854775808,\"2\":0.1}","source":"whole_text","valid":false,` +
				`"errors":[{"path":"$['10']","message":"9223372036854775808 is greater than the maximum of ` +
				`9223372036854775807","schema_path":"properties['10'].maximum","line":1,"column":7}]}],"found":1}}`},
		{"no answer in it", `{"schema":{},"answer":"I can't"}`,
			`{"valid":true,"errors":[],"answer":{"valid":false,"chosen":null,"candidates":[],"found":0,"message":"No ` +
				`JSON output found but output_schema requires structured output"}}`},
		{"the last block that fits", `{"schema":{"required":["n"]},"answer":"{\"n\":1}\n` +
			"```json\\n{\\\"m\\\":\\n2}\\n```" + `\nend"}`,
			`{"valid":true,"errors":[],"answer":{"valid":true,"chosen":1,"candidates":[{"text":"{\"m\":\n2}",` +
				`"source":"fenced_block","valid":false,"errors":[{"path":"$.n","message":"'n' is a required ` +
				`property","schema_path":"required","line":1,"column":1}]},{"text":"{\"n\":1}","source":"embedded",` +
				`"valid":true,"errors":[]}],"found":2}}`},
		{"the whole text only", `{"schema":{},"answer":"It is {}","options":{"strict_json_only":true}}`,
			`{"valid":true,"errors":[],"answer":{"valid":false,"chosen":null,"candidates":[],"found":0,"message":"No ` +
				`JSON output found but output_schema requires structured output"}}`},
		{"reasoning is no answer", `{"schema":{},"answer":"<think>{\"a\":1}</think>[2]"}`,
			`{"valid":true,"errors":[],"answer":{"valid":true,"chosen":0,"candidates":[{"text":"[2]",` +
				`"source":"whole_text","valid":true,"errors":[]}],"found":1}}`},
	} {
		t.Run(tt.name, func(t *testing.T) { literal(t, s.post("/schemas/validate", tt.body), 200, tt.want) })
	}
	for body, field := range map[string]string{
		`{}`: "schema", `{"schema":{},"schema_text":"{}"}`: "schema_text",
		`{"schema":{},"options":{"max_retries":11}}`: "output_schema_options.max_retries",
		`{"schema":{},"nothing":1}`:                  "nothing", `{"schema":{"type":"a","type":"b"}}`: "type",
		`{"schema":{},"answer":"` + strings.Repeat("x", 1<<20+1) + `"}`: "answer",
	} {
		if m := s.post("/schemas/validate", body).want(400); m["field"] != field {
			t.Errorf("%.60s: %v", body, m)
		}
	}
	if many := s.post("/schemas/validate", `{"schema":{"required":["n"]},"answer":"`+
		strings.Repeat(`{} `, 500)+`"}`); !strings.Contains(many.body, `"found":500`) || len(many.body) > 20_000 {
		t.Errorf("%d bytes: %.200s", len(many.body), many.body)
	}
}

// TestAnAgentIsPreviewed: what a run of a definition would be given, by the code that workers use, and who would take
// it.
func TestAnAgentIsPreviewed(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.workAs(runnerapi.Runner{Identity: runnerapi.Identity{Hostname: "h", ProjectDir: "/p", ExecutorProfile: "plain",
		ExecutorType: run.Autonomous}, MaxConcurrentRuns: 1}, nil)
	s.work(nil, agent.Blueprint{Name: "echo", Type: run.Procedural, Command: "./echo", Status: agent.Active})
	s.post("/schemas", `{"name":"report","schema":{"required":["<n>"]}}`).want(201)

	type previewedRunner struct {
		Profile    string `json:"executor_profile"`
		Matches    bool   `json:"matches"`
		Mismatches []struct {
			Field string `json:"field"`
		} `json:"mismatches"`
	}
	type previewed struct {
		Valid        bool              `json:"valid"`
		Prompt       *string           `json:"prompt"`
		SystemPrompt *string           `json:"system_prompt"`
		Runners      []previewedRunner `json:"runners"`
	}
	ask := func(body string) (got, previewed) {
		t.Helper()
		g := s.post("/agents/preview", body)
		return g, into[previewed](g, 200)
	}
	text := func(p *string) string {
		if p == nil {
			return "null"
		}
		return *p
	}
	const block = "<inputs>\n10: 9223372036854775807\n2: 0.10\na: null\n</inputs>"
	g, p := ask(`{"definition":{"name":"x","parameters_schema":{"properties":{"10":{},"2":{}}},"system_prompt":"Be ` +
		`brief.","output_schema_name":"report","origin":"file","editable":true,"created_at":"2026-01-01T00:00:00Z"},` +
		`"parameters":{"10":9223372036854775807,"2":0.10,"a":null}}`)
	if !p.Valid || text(p.Prompt) != block {
		t.Errorf("%s", g.body)
	}
	if want := "Be brief.\n\n## Required Output Format\n"; !strings.HasPrefix(text(p.SystemPrompt), want) ||
		!strings.Contains(*p.SystemPrompt, `"<n>"`) {
		t.Errorf("got the prompt %s", text(p.SystemPrompt))
	}
	if !strings.Contains(g.body, `"parameters_schema":{"properties":{"10":{},"2":{}}}`) {
		t.Errorf("%s", g.body)
	}
	if len(p.Runners) != 2 || !p.Runners[0].Matches || p.Runners[0].Profile != "plain" || p.Runners[1].Matches ||
		p.Runners[1].Mismatches[0].Field != "executor_type" {
		t.Errorf("%+v", p.Runners)
	}
	g, p = ask(`{"definition":{"name":"x"},"parameters":{"prompt":"Do <it>"}}`)
	if !p.Valid || text(p.Prompt) != "Do <it>" || p.SystemPrompt != nil {
		t.Errorf("%s", g.body)
	}
	g, p = ask(`{"definition":{"name":"x"}}`)
	if p.Valid || p.Prompt != nil || !strings.Contains(g.body, `"validation_errors":[{"path":"$.prompt",`+
		`"message":"'prompt' is a required property","schema_path":"required"}]`) {
		t.Errorf("%s", g.body)
	}
	g, p = ask(`{"definition":{"name":"x","demands":{"tags":["gpu"]}},"parameters":{"prompt":"x"}}`)
	if p.Runners[0].Matches || p.Runners[0].Mismatches[0].Field != "tags" {
		t.Errorf("%s", g.body)
	}
	g, p = ask(`{"agent_name":"echo","parameters":{"a":1}}`)
	if !p.Valid || p.Prompt != nil || !p.Runners[0].Matches || p.Runners[0].Profile == "plain" {
		t.Errorf("%s", g.body)
	}
	s.workAs(runnerapi.Runner{
		Identity: runnerapi.Identity{Hostname: "h", ProjectDir: "/q", ExecutorProfile: "small",
			ExecutorType: run.Autonomous}, MaxConcurrentRuns: 1, Models: agent.Models{"small-*"},
	}, nil)
	ofSmall := func(p previewed) bool {
		at := slices.IndexFunc(p.Runners, func(r previewedRunner) bool { return r.Profile == "small" })
		return p.Runners[at].Matches
	}
	const not = `"mismatches":[{"field":"model","wanted":"large-1","has":["small-*"],"message":"models [small-*] do ` +
		`not include large-1"}],` +
		`"matches":false`
	g, p = ask(`{"definition":{"name":"x","model":"large-1"},"parameters":{"prompt":"x"}}`)
	if ofSmall(p) || !strings.Contains(g.body, not) {
		t.Errorf("%s", g.body)
	}
	for _, model := range []string{`,"model":"small-1"`, ``} {
		g, p = ask(`{"definition":{"name":"x"` + model + `},"parameters":{"prompt":"x"}}`)
		if !ofSmall(p) {
			t.Errorf("%s", g.body)
		}
	}
	for _, tt := range []struct {
		body   string
		status int
		code   string
	}{
		{`{}`, 400, "invalid_request"},
		{`{"definition":{"name":"x"},"agent_name":"echo"}`, 400, "invalid_request"},
		{`{"definition":[]}`, 400, "invalid_request"},
		{`{"definition":{"name":"a b"}}`, 400, "invalid_request"},
		{`{"definition":{"name":"x"},"parameters":[]}`, 400, "invalid_request"},
		{`{"definition":{"name":"x","parameters_schema":{"maximum":1e400}}}`, 400, "InvalidSchema"},
		{`{"definition":{"name":"x","output_schema_name":"none"}}`, 404, "SchemaNotFound"},
		{`{"agent_name":"none"}`, 404, "not_found"},
	} {
		refused := s.post("/agents/preview", tt.body)
		if m := refused.want(tt.status); m["error"] != tt.code {
			t.Errorf("%s: %v", tt.body, m)
		}
		literal(t, s.post("/agents/preview?report=true", tt.body), 200, `{"valid":false,"error":`+refused.body+`}`)
	}
	s.post("/agents/preview?report=yes", `{}`).want(400)
	if list := s.get("/agents").body; strings.Contains(list, `"name":"x"`) {
		t.Errorf("it is stored: %s", list)
	}
}
