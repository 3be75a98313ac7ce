package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ao/coordinator/health"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/run"
)

// TestRefsToNamedSchemas: a schema of an agent or a request may refer to named ones. A run keeps what they were when it
// was accepted.
func TestRefsToNamedSchemas(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/schemas", `{"name":"level","schema":{"enum":["low","high"]}}`).want(201)
	s.post("/schemas", `{"name":"finding","schema":{"type":"object","properties":{"level":{"$ref":"schema:level"}}}}`).
		want(201)
	s.post("/agents", `{"name":"finder","parameters_schema":{"type":"object","properties":{"least":`+
		`{"$ref":"schema:level"}}},"output_schema":{"type":"array","items":{"$ref":"schema:finding"}}}`).want(201)
	const level = `{"$id":"schema:level","enum":["low","high"]}`
	literal(t, s.post("/runs", `{"agent_name":"finder","parameters":{"least":"none"}}`), 400,
		`{"error":"parameter_validation_failed","message":"Parameters do not match agent's parameters_schema",`+
			`"agent_name":"finder","validation_errors":[{`+
			`"path":"$.least",`+
			`"message":"'none' is not one of ['low', 'high']","schema_path":"properties.least.$ref.enum"}],`+
			`"parameters_schema":{"type":"object","properties":{"least":{"$ref":"schema:level"}},"definitions":{`+
			`"schema:level":`+level+`}}}`)
	for _, tt := range []struct{ more, want string }{
		{``, `{"type":"array","items":{"$ref":"schema:finding"},"definitions":{"schema:finding":{"$id":` +
			`"schema:finding","type":"object","properties":{"level":{"$ref":"schema:level"}}},"schema:level":` + level +
			`}}`},
		{`,"output_schema":{"$ref":"schema:level"}`, `{"enum":["low","high"]}`},
		{`,"output_schema":{"not":{"$ref":"schema:level"}}`, `{"not":{"$ref":"schema:level"},"definitions":{` +
			`"schema:level":` + level + `}}`},
		{`,"output_schema_name":"finding"`, `{"type":"object","properties":{"level":{"$ref":"schema:level"}},` +
			`"definitions":{"schema:level":` + level + `}}`},
	} {
		body := `{"agent_name":"finder","parameters":{"least":"low"}` + tt.more + `}`
		if g := s.post("/runs/validate", body); g.status != 200 || !strings.Contains(g.body, `"output":{"schema":`+
			tt.want+`,"schema_`) {
			t.Errorf("%s: %d %s\nwant %s", tt.more, g.status, g.body, tt.want)
		}
	}
	accepted := s.submit(`{"agent_name":"finder","parameters":{"least":"low"}}`)
	for _, tt := range []struct{ method, path, body, want string }{
		{"POST", "/runs", `{"agent_name":"finder","parameters":{},"output_schema":{"items":{"$ref":"schema:gone"}}}`,
			`"details":"Schema validation error at $.items['$ref']: 'schema:gone' refers to nothing: there is no ` +
				`schema ` +
				`of the name 'gone'","field":"output_schema"`},
		{"POST", "/runs", `{"agent_name":"finder","parameters":{},"output_schema":{"$ref":"schema:../x"}}`,
			`refers to `},
		{"POST", "/agents", `{"name":"a","parameters_schema":{"not":{"$ref":"schema:gone"}}}`,
			`"field":"parameters_schema"`},
		{"POST", "/agents", `{"name":"a","output_schema":{"not":{"$ref":"schema:gone"}}}`, `"field":"output_schema"`},
		{"PATCH", "/agents/finder", `{"output_schema":{"not":{"$ref":"schema:gone"}}}`, `there is no schema of the ` +
			`name`},
		{"POST", "/schemas", `{"name":"a","schema":{"$ref":"schema:a"}}`, `there is no schema of the name 'a'`},
		{"POST", "/agents/preview", `{"definition":{"name":"a","output_schema":{"$ref":"schema:gone"}},` +
			`"parameters":{"prompt":"x"}}`, `"field":"output_schema"`},
	} {
		if g := s.call(tt.method, tt.path, tt.body); g.status != 400 || !strings.Contains(g.body, tt.want) ||
			!strings.Contains(g.body, `"error":"InvalidSchema"`) {
			t.Errorf("%s %s %s: %d %s", tt.method, tt.path, tt.body, g.status, g.body)
		}
	}
	for _, tt := range []struct{ body, want string }{
		{`{"schema":{"$ref":"schema:finding"},"answer":"{\"level\":\"low\"}"}`, `"valid":true,"errors":[],"answer":{` +
			`"valid":true`},
		{`{"schema":{"$ref":"schema:finding"},"answer":"{\"level\":\"x\"}"}`, `"answer":{"valid":false`},
		{`{"schema":{"items":{"$ref":"schema:gone"}}}`, `"path":"$.items['$ref']","message":"'schema:gone' refers to ` +
			`nothing: there is no schema of the name 'gone'","line":1`},
	} {
		if g := s.post("/schemas/validate", tt.body); g.status != 200 || !strings.Contains(g.body, tt.want) {
			t.Errorf("%s: %d %s\nwant %s", tt.body, g.status, g.body, tt.want)
		}
	}
	if g := s.post("/agents/preview", `{"agent_name":"finder","parameters":{"least":"low"}}`); !strings.Contains(g.body,
		`\"$id\": \"schema:level\"`) {
		t.Errorf("the model is not shown the named schema: %s", g.body)
	}
	doc, _ := s.speak(versions[0]).call("list_agent_blueprints", `{}`)
	if !strings.Contains(doc, `"parameters_schema":{"type":"object","properties":{"least":{"$ref":"schema:level"}},`+
		`"definitions":{"schema:level":`+level) {
		t.Errorf("callers over MCP are not shown the named schema: %s", doc)
	}

	for path, want := range map[string]string{
		"/schemas/level": `"origin":"api","used_by":["finder"]}`, // it reads no other schema
		"/schemas":       `"origin":"api","used_by":["finder"],"referred_by":["finding"]}`,
	} {
		if g := s.get(path); !strings.Contains(g.body, want) {
			t.Errorf("%s: %s", path, g.body)
		}
	}
	literal(t, s.call("DELETE", "/schemas/finding", ""), 409, `{"error":"conflict","message":"Schema \"finding\" is `+
		`used by agent \"finder\"; change or delete that first","output_schema_name":"finding",`+
		`"agent_names":["finder"]}`)
	s.call("DELETE", "/agents/finder", "").want(204)
	literal(t, s.call("DELETE", "/schemas/level", ""), 409, `{"error":"conflict","message":"Schema \"level\" is `+
		`referred to by schema \"finding\"; delete that first","output_schema_name":"level",`+
		`"schema_names":["finding"]}`)
	s.call("DELETE", "/schemas/finding", "").want(204)
	s.call("DELETE", "/schemas/level", "").want(204)
	s.post("/schemas", `{"name":"level","schema":{"enum":["other"]}}`).want(201)
	var asked string
	s.workAs(thinker("minds"), func(q run.Queued) run.Outcome {
		asked = string(q.Output.Schema)
		return done(`[{"level":"low"}]`)
	})
	s.until(accepted.RunID, run.Completed)
	if !strings.Contains(asked, level) {
		t.Errorf("the run has %s", asked)
	}
}

// TestADeletedSchemaIsReferredToByNothing: what refers to a schema may come while it is deleted. One of both
// is refused.
func TestADeletedSchemaIsReferredToByNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	for n := range natstest.Load(15, 100) {
		for _, tt := range []struct{ path, body string }{
			{"/schemas", `{"name":"outer%d","schema":{"items":{"$ref":"schema:inner%d"}}}`},
			{"/agents", `{"name":"outer%d","output_schema_name":"inner%d"}`},
		} {
			inner := fmt.Sprintf("/schemas/inner%d", n)
			s.post("/schemas", fmt.Sprintf(`{"name":"inner%d","schema":{}}`, n)) // 409: the deletion was refused
			var group sync.WaitGroup
			var created, deleted got
			group.Go(func() { created = s.post(tt.path, fmt.Sprintf(tt.body, n, n)) })
			group.Go(func() { deleted = s.call("DELETE", inner, "") })
			group.Wait()
			there := s.get(inner).status == 200
			if (deleted.status == 204) == there || created.status == 201 && !there {
				t.Fatalf("%s: created: %d %s, deleted: %d %s; there: %v", tt.path, created.status, created.body,
					deleted.status, deleted.body, there)
			}
			if outer := s.get(fmt.Sprintf("%s/outer%d", tt.path, n)); (outer.status == 200) != (created.status == 201) {
				t.Fatalf("created: %d %s, then %d", created.status, created.body, outer.status)
			}
			s.call("DELETE", fmt.Sprintf("%s/outer%d", tt.path, n), "")
		}
	}
}

// TestAgentsThatReferToNothing: also an agent of a runner or of the API is broken while a schema of it is not there.
// Its callers are told about the agent, not about a member that they did not send.
func TestAgentsThatReferToNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "level.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, func(c *serve.Config) { c.Coordinator.SchemasDir = dir })
	takes, gives := echo("takes"), echo("gives")
	takes.ParametersSchema = json.RawMessage(`{"properties":{"a":{"$ref":"schema:later"}}}`)
	gives.OutputSchema = json.RawMessage(`{"items":{"$ref":"schema:later"}}`)
	w := s.work(func(run.Queued) run.Outcome { return done(`{}`) }, takes, gives)
	s.post("/agents", `{"name":"named","output_schema_name":"level"}`).want(201)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	const later = `refers to nothing: there is no schema of the name 'later'`
	broken := s.get("/agents?status=broken").body
	for name, tt := range map[string]struct{ runner, input, want string }{
		"takes": {w.id, `"parameters":{"a":1}`, `parameters_schema is not a valid JSON Schema: Schema validation ` +
			`error at $.properties.a['$ref']: 'schema:later' ` + later},
		"gives": {w.id, `"parameters":{}`, `output_schema is not a valid JSON Schema: Schema validation error at ` +
			`$.items['$ref']: 'schema:later' ` + later},
		"named": {"", `"prompt":"x"`, `Output schema 'level' not found`},
	} {
		row := `{"name":"` + name + `","path":"","status":"broken","error":"` + tt.want + `"`
		if tt.runner != "" {
			row += `,"runner_id":"` + tt.runner + `"`
		}
		if !strings.Contains(broken, row+"}") {
			t.Errorf("%s lacks %s", broken, row)
		}
		s.finds("agents", health.Fail, "agent "+name+" (")
		for _, path := range []string{"/runs", "/runs/validate"} {
			g := s.post(path, `{"agent_name":"`+name+`",`+tt.input+`}`)
			if name == "named" {
				literal(t, g, 404, `{"error":"SchemaNotFound","message":"`+tt.want+`","output_schema_name":"level",`+
					`"agent_name":"named"}`)
				continue
			}
			literal(t, g, 409, `{"error":"conflict","message":"Agent \"`+name+`\" is broken: `+tt.want+`",`+
				`"agent_name":"`+name+`"}`)
		}
	}
	if g := s.post("/agents/preview", `{"agent_name":"takes","parameters":{}}`); g.status != 409 ||
		strings.Contains(g.body, `"field"`) {
		t.Errorf("%d %s", g.status, g.body)
	}
	s.post("/schemas", `{"name":"later","schema":{}}`).want(201)
	s.post("/schemas", `{"name":"level","schema":{}}`).want(201)
	literal(t, s.get("/agents?status=broken"), 200, `{"agents":[]}`)
	s.post("/runs/validate", `{"agent_name":"takes","parameters":{"a":1}}`).want(200)
}

// TestSchemaFiles: a folder's files are named schemas, as they are now. What is wrong with one is its owner's matter.
func TestSchemaFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("report.json", "\ufeff"+`{"description":"What is told","type":"object","required":["n"]}`+"\n")
	write("refers.json", `{"items":{"$ref":"schema:report"}}`)
	write("notes.txt", `{`)
	s := start(t, func(c *serve.Config) { c.Coordinator.SchemasDir = dir })
	for _, check := range s.examined().Checks {
		if check.Check == "schemas" {
			t.Errorf("nothing is wrong yet: %s", check.Message)
		}
	}
	s.post("/schemas", `{"name":"mine","schema":{"type":"string"}}`).want(201)
	s.post("/agents", `{"name":"teller","output_schema_name":"report"}`).want(201)
	if g := s.get("/schemas/report"); !strings.HasPrefix(g.body, `{"name":"report","description":"What is told",`+
		`"schema":`+
		`{"description":"What is told","type":"object","required":["n"]},"created_at":"`) ||
		!strings.Contains(g.body, `"origin":"file","used_by":["teller"]}`) {
		t.Errorf("%d %s", g.status, g.body)
	}
	validate := func(more string) got {
		return s.post("/runs/validate", `{"agent_name":"teller","prompt":"x"`+more+`}`)
	}
	if g := validate(""); !strings.Contains(g.body, `"required":["n"]},"schema_name":"report"`) {
		t.Errorf("%d %s", g.status, g.body)
	}
	write("report.json", `{"type":"array"}`)
	if g := validate(""); !strings.Contains(g.body, `"schema":{"type":"array"},"schema_name":"report"`) {
		t.Errorf("after an edit: %d %s", g.status, g.body)
	}
	literal(t, s.post("/schemas", `{"name":"report","schema":{}}`), 409, `{"error":"conflict","message":"Schema `+
		`\"report\" is defined by a file in AO_SCHEMAS_DIR: use another name, or change the file",`+
		`"output_schema_name":"report"}`)
	literal(t, s.call("DELETE", "/schemas/report", ""), 409, `{"error":"conflict","message":"Schema \"report\" is `+
		`defined by a file in AO_SCHEMAS_DIR: remove the file","output_schema_name":"report"}`)

	write("mine.json", `{"type":`)
	write("ping.json", `{"$ref":"schema:pong"}`)
	write("pong.json", `{"$ref":"schema:ping"}`)
	write("a b.json", `{}`)
	write("UP.JSON", `{}`)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out.json")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"mine": "is not readable as JSON",
		"ping": "schemas that refer to each other in a circle: pong → ping → pong",
		"a b":  "use 1 to 60 letters",
		"out":  "a link leads out of the folder; put",
	} {
		s.finds("schemas", health.Fail, fmt.Sprintf("schema %s (%s) cannot be used: ", name,
			filepath.Join(dir, name+".json")))
		s.finds("schemas", health.Fail, want)
		if g := s.get("/schemas"); !strings.Contains(g.body, want) || strings.Count(g.body, `"name":"`+name+`"`) != 1 {
			t.Errorf("%s is not in the list as broken: %s", name, g.body)
		}
	}
	s.finds("schemas", health.Fail, "schema UP ("+filepath.Join(dir, "UP.JSON")+") cannot be used: its name must end "+
		"in .json")
	for _, more := range []string{`,"output_schema_name":"mine"`, `,"output_schema":{"items":{"$ref":"schema:mine"}}`,
		`,"output_schema_name":"out"`} {
		if g := validate(more); g.status != 503 || !strings.Contains(g.body, "is broken: ") ||
			strings.Contains(g.body, dir) {
			t.Errorf("%s: %d %s", more, g.status, g.body)
		}
	}
	if g := validate(`,"output_schema_name":"ping"`); g.status != 400 || !strings.Contains(g.body,
		"pong → ping → pong") {
		t.Errorf("schemas that refer to each other: %d %s", g.status, g.body)
	}
	validate("").want(200)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"", `,"output_schema_name":"of_api"`} {
		if g := validate(more); g.status != 503 || !strings.Contains(g.body, "AO_SCHEMAS_DIR cannot be read: ") ||
			strings.Contains(g.body, "broken") || strings.Contains(g.body, dir) {
			t.Errorf("without its folder: %d %s", g.status, g.body)
		}
	}
	s.finds("schemas", health.Fail, filepath.Base(dir))
}
