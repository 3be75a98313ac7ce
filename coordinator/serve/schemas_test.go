package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

const numbered = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`

// TestNamedSchemas: the registry, with every answer as a caller reads it.
func TestNamedSchemas(t *testing.T) {
	t.Parallel()
	s := start(t)
	literal(t, s.get("/schemas"), 200, `{"schemas":[]}`)
	g := s.post("/schemas", `{"name":"report","description":"what <is> told","schema":{"z":1,`+
		`"a":12345678901234567890}}`)
	g.want(201)
	if !strings.HasPrefix(g.body, `{"name":"report","description":"what <is> told","schema":{"z":1,`+
		`"a":12345678901234567890},"created_at":"`) || g.header.Get("Location") != "/schemas/report" {
		t.Errorf("%s %s", g.header.Get("Location"), g.body)
	}
	if again := s.get("/schemas/report"); again.body != g.body || again.status != 200 {
		t.Errorf("%d %s", again.status, again.body)
	}
	if list := s.get("/schemas"); !strings.HasPrefix(list.body,
		`{"schemas":[{"name":"report","description":"what <is> told","created_at":"`) ||
		strings.Contains(list.body, `"schema":`) {
		t.Errorf("%s", list.body)
	}
	s.post("/agents", `{"name":"teller","output_schema_name":"report","output_schema_options":{"max_retries":0}}`).
		want(201)
	for _, path := range []string{"/schemas", "/schemas/report"} {
		if g := s.get(path); !strings.Contains(g.body, `"used_by":["teller"]`) {
			t.Errorf("%s", g.body)
		}
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/schemas", `{"name":"report","description":"what <is> told","schema":{"z":1,` +
			`"a":12345678901234567890}}`, 409,
			`{"error":"conflict","message":"Schema \"report\" already exists; it is identical, so there ` +
				`is nothing to do","output_schema_name":"report"}`},
		{"POST", "/schemas", `{"name":"report","schema":{}}`, 409,
			`{"error":"conflict","message":"Schema \"report\" already exists; schemas never change, so use another ` +
				`name","output_schema_name":"report"}`},
		{"POST", "/schemas", `{"name":"a","schema":{"type":"object","properties":[]}}`, 400,
			`{"error":"InvalidSchema","message":"schema is not a valid JSON Schema","details":"Schema validation ` +
				`error at $.properties: [] is not of type 'object'","field":"schema"}`},
		{"POST", "/schemas", `{"name":"a"}`, 400, `{"error":"invalid_request","message":"schema is required: the ` +
			`JSON Schema that results must match","field":"schema"}`},
		{"POST", "/schemas", `{"name":"a","schema":null}`, 400,
			`{"error":"invalid_request","message":"schema is required: the JSON Schema that results must match",` +
				`"field":"schema"}`},
		{"POST", "/schemas", `{"name":"a b","schema":{}}`, 400,
			`{"error":"invalid_request","message":"name \"a b\": use 1 to 60 letters, digits, '_' or '-', beginning ` +
				`with a letter or digit","field":"name"}`},
		{"POST", "/schemas", `{"name":"a","schema":{},"created_at":"2026-01-01T00:00:00Z"}`, 400,
			`{"error":"invalid_request","message":"created_at is set by the coordinator; leave it out",` +
				`"field":"created_at"}`},
		{"GET", "/schemas/none", ``, 404, `{"error":"SchemaNotFound","message":"Output schema 'none' not found",` +
			`"output_schema_name":"none"}`},
		{"DELETE", "/schemas/none", ``, 404, `{"error":"SchemaNotFound","message":"Output schema 'none' not found",` +
			`"output_schema_name":"none"}`},
		{"DELETE", "/schemas/report", ``, 409, `{"error":"conflict","message":"Schema \"report\" is used by ` +
			`agent \"teller\"; change or delete that first","output_schema_name":"report",` +
			`"agent_names":["teller"]}`},
		{"POST", "/agents", `{"name":"other","output_schema_name":"none"}`, 404,
			`{"error":"SchemaNotFound","message":"Output schema 'none' not found","output_schema_name":"none"}`},
		{"PATCH", "/agents/teller", `{"output_schema_name":"none"}`, 404,
			`{"error":"SchemaNotFound","message":"Output schema 'none' not found","output_schema_name":"none"}`},
		{"PATCH", "/agents/teller", `{"output_schema":{}}`, 400,
			`{"error":"invalid_request","message":"output_schema and output_schema_name exclude each other; keep one ` +
				`of them","field":"output_schema_name"}`},
		{"PATCH", "/agents/teller", `{"output_schema_name":null}`, 400,
			`{"error":"invalid_request","message":"output_schema_options say how an output schema is enforced, and ` +
				`there is none; give output_schema or output_schema_name, or leave them out",` +
				`"field":"output_schema_options"}`},
		{"PUT", "/schemas/report", `{}`, 405, `{"error":"method_not_allowed","message":"PUT is not possible here; ` +
			`possible: GET, HEAD, DELETE"}`},
	} {
		g := s.call(tt.method, tt.path, tt.body)
		if tt.method == http.MethodPut {
			g.want(405)
			continue
		}
		literal(t, g, tt.status, tt.want)
	}
	// Other names of a member change that member, and take it away.
	for _, patch := range []struct{ body, want string }{
		{`{"output_schema_name":null,"default_output_schema":{"a":1},"default_output_schema_options":null}`,
			`"output_schema":{"a":1},"status"`},
		{`{"default_output_schema":{"a":2}}`, `"output_schema":{"a":2},"status"`},
		{`{"default_output_schema":null}`, `"type":"autonomous","status"`},
	} {
		if g := s.call("PATCH", "/agents/teller", patch.body); g.status != 200 ||
			!strings.Contains(g.body, patch.want) {
			t.Errorf("%s: %d %s, want %s", patch.body, g.status, g.body, patch.want)
		}
	}
	literal(t, s.call("PATCH", "/agents/teller", `{"default_output_schema":{"a":2},"output_schema":null}`), 400,
		`{"error":"invalid_request","message":"output_schema and default_output_schema differ; they are two names of `+
			`one member, send one of them","field":"default_output_schema"}`)
	s.call("DELETE", "/schemas/report", "").want(204)
	s.get("/schemas/report").want(404)
	s.post("/schemas", `{"name":"report","schema":{}}`).want(201)
}

// TestOutputSchemaPrecedence: inline, then named, then the agent's; options of the request, then of the agent, then the
// defaults.
func TestOutputSchemaPrecedence(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/schemas", `{"name":"named","schema":{"type":"object"}}`).want(201)
	s.post("/agents", `{"name":"plain"}`).want(201)
	s.post("/agents", `{"name":"strict","default_output_schema":`+numbered+`}`).want(201)
	s.post("/agents", `{"name":"full","output_schema":`+numbered+`,"default_output_schema_options":{"max_retries":4,`+
		`"strict_json_only":true}}`).want(201)
	s.post("/agents", `{"name":"naming","output_schema_name":"named"}`).want(201)
	if g := s.get("/agents/strict"); !strings.Contains(g.body, `"output_schema":`+numbered) ||
		strings.Contains(g.body, "default_output_schema") {
		t.Errorf("%s", g.body)
	}
	if g := s.get("/agents"); !strings.Contains(g.body, `"output_schema_options":{"max_retries":4,`+
		`"strict_json_only":true}`) {
		t.Errorf("%s", g.body)
	}
	s.work(parrot, echo("tool"))
	blueprint, registry, request := `"schema_source":"blueprint"`,
		`{"schema":{"type":"object"},"schema_name":"named","schema_source":"registry"`,
		`{"schema":{"type":"array"},"schema_source":"request"`
	for _, tt := range []struct{ agent, more, want string }{
		{"plain", ``, `null`},
		{"plain", `"output_schema":null,"output_schema_options":null`, `null`},
		{"strict", ``, `{"schema":` + numbered + `,` + blueprint + `,"max_retries":1}`},
		{"strict", `"output_schema":null`, `{"schema":` + numbered + `,` + blueprint + `,"max_retries":1}`},
		{"strict", `"output_schema_options":{"max_retries":0}`, `{"schema":` + numbered + `,` +
			blueprint + `,"max_retries":0}`},
		{"full", ``, `{"schema":` + numbered + `,` + blueprint + `,"max_retries":4,"strict":true}`},
		{"full", `"output_schema_options":{"extract_json":true}`, `{"schema":` + numbered + `,` +
			blueprint + `,"max_retries":4}`},
		{"full", `"output_schema_options":{"max_retries":10}`, `{"schema":` + numbered + `,` +
			blueprint + `,"max_retries":10,"strict":true}`},
		{"full", `"output_schema":{"type":"array"}`, request + `,"max_retries":2}`},
		{"naming", ``, `{"schema":{"type":"object"},"schema_name":"named",` + blueprint + `,"max_retries":1}`},
		{"strict", `"output_schema_name":"named"`, registry + `,"max_retries":2}`},
		{"strict", `"output_schema_name":"named","output_schema":{"type":"array"}`, request + `,"max_retries":2}`},
		{"plain", `"output_schema_name":"named","output_schema_options":{"validation_mode":"strict","max_retries":3}`,
			registry + `,"max_retries":3,"strict":true}`},
		{"plain", `"output_schema_name":"named","output_schema_options":{"extract_json":false}`,
			registry + `,"max_retries":2,"strict":true}`},
		{"plain", `"output_schema_name":"named","output_schema_options":{"validation_mode":"lenient"}`,
			registry + `,"max_retries":2}`},
		{"tool", `"output_schema_name":"named"`, registry + `,"max_retries":0}`},
		{"tool", `"output_schema_name":"named","output_schema_options":{"max_retries":3}`,
			registry + `,"max_retries":0}`},
	} {
		if tt.more != "" {
			tt.more = "," + tt.more
		}
		if tt.agent != "tool" {
			tt.more += `,"prompt":"x"`
		}
		g := s.post("/runs/validate", `{"agent_name":"`+tt.agent+`"`+tt.more+`}`)
		g.want(200)
		if !strings.Contains(g.body, `"output":`+tt.want+`,"runner_available"`) {
			t.Errorf("%s%s: %s\nwant %s", tt.agent, tt.more, g.body, tt.want)
		}
	}
	for _, tt := range []struct {
		more   string
		status int
		want   string
	}{
		{`"output_schema":{"type":"object","properties":[]}`, 400,
			`{"error":"InvalidSchema","message":"output_schema is not a valid JSON Schema","details":"Schema ` +
				`validation error at $.properties: [] is not of type 'object'","field":"output_schema"}`},
		{`"output_schema_name":"nonexistent-schema"`, 404, `{"error":"SchemaNotFound","message":"Output schema ` +
			`'nonexistent-schema' not found","output_schema_name":"nonexistent-schema"}`},
		{`"output_schema_name":"a.b"`, 400, `{"error":"invalid_request","message":"output_schema_name \"a.b\": use 1 ` +
			`to 60 letters, digits, '_' or '-', beginning with a letter or digit","field":"output_schema_name"}`},
		{`"output_schema_options":{"max_retries":1}`, 400, `{"error":"invalid_request",` +
			`"message":"output_schema_options say how an output schema is enforced, and there is none: give ` +
			`output_schema or output_schema_name, as agent \"plain\" has none of its own",` +
			`"field":"output_schema_options"}`},
		{`"output_schema":{},"output_schema_options":{"max_retries":11}`, 400,
			`{"error":"invalid_request","message":"output_schema_options.max_retries must be from 0 to 10",` +
				`"field":"output_schema_options.max_retries"}`},
		{`"output_schema":{},"output_schema_options":{"max_retries":1.5}`, 400,
			`{"error":"invalid_request","message":"output_schema_options.max_retries must be a whole number, got ` +
				`1.5","field":"output_schema_options.max_retries"}`},
		{`"output_schema":{},"output_schema_options":{"validation_mode":"x"}`, 400,
			`{"error":"invalid_request","message":"output_schema_options.validation_mode must be strict or lenient",` +
				`"field":"output_schema_options.validation_mode"}`},
		{`"output_schema":{},"output_schema_options":{"xyz":1}`, 400,
			`{"error":"invalid_request","message":"Unknown field \"output_schema_options.xyz\"; known are ` +
				`max_retries, extract_json, strict_json_only, validation_mode","field":"output_schema_options.xyz"}`},
	} {
		for _, path := range []string{"/runs", "/runs/validate"} {
			literal(t, s.post(path, `{"agent_name":"plain","prompt":"x",`+tt.more+`}`), tt.status, tt.want)
		}
		literal(t, s.post("/runs/validate?report=true", `{"agent_name":"plain","prompt":"x",`+tt.more+`}`), 200,
			`{"valid":false,"error":`+tt.want+`}`)
	}
}

// TestDefaultsOfEnforcement: the coordinator's settings hold where nobody else decides.
func TestDefaultsOfEnforcement(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator.Retries, c.Coordinator.WholeOnly = -1, true })
	s.post("/agents", `{"name":"plain"}`).want(201)
	for more, want := range map[string]string{
		``: `"max_retries":0,"strict":true}`,
		`,"output_schema_options":{"extract_json":true,"max_retries":1}`: `"max_retries":1}`,
		`,"output_schema_options":{"max_retries":5}`:                     `"max_retries":5,"strict":true}`,
	} {
		if g := s.post("/runs/validate", `{"agent_name":"plain","prompt":"x","output_schema":{}`+
			more+`}`); !strings.Contains(g.body, want) {
			t.Errorf("%s: %s, want %s", more, g.body, want)
		}
	}
}

// TestCheckedResultIsTheSameEverywhere: what the worker reports of its enforcement is the same in every answer; what
// does not match is nowhere.
func TestCheckedResultIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	s := start(t)
	result := `{"n":1,"z":12345678901234567890}`
	validation := `{"valid":true,"schema_name":"numbered","schema_source":"registry","retry_count":1,` +
		`"rejected":[{"attempt":1,"errors":[{"path":"$.n","message":"'n' is a required property"}]}]}`
	s.post("/schemas", `{"name":"numbered","schema":`+numbered+`}`).want(201)
	s.work(func(q run.Queued) run.Outcome {
		var p struct{ Give json.RawMessage }
		if err := json.Unmarshal(q.Parameters, &p); err != nil {
			t.Error(err)
		}
		o := done(string(p.Give))
		o.Result.SchemaValidation, o.Result.RawOutput = json.RawMessage(validation), &result
		return o
	}, echo("tool"))
	g := s.post("/runs", `{"agent_name":"tool","mode":"sync","output_schema_name":"numbered","parameters":{"give":`+
		result+`}}`)
	out := into[runs.Outcome](g, 200)
	raw, _ := json.Marshal(result)
	want := `{"result_type":"procedural","result_text":null,"result_data":` +
		result + `,"exit_code":0,"schema_validation":` + validation + `,"raw_output":` + string(raw) + `}`
	if out.Status != run.Completed || !strings.Contains(g.body, `"result":`+want) {
		t.Errorf("%s", g.body)
	}
	literal(t, s.get("/runs/"+out.ID+"/result"), 200, want)
	literal(t, s.get("/sessions/"+out.SessionID+"/result"), 200, want)
	if w := s.get("/runs/" + out.ID + "/wait"); w.body != g.body {
		t.Errorf("wait answers %s", w.body)
	}
	if e := s.get("/sessions/" + out.SessionID + "/events"); !strings.Contains(e.body, strings.TrimPrefix(want, "{")) {
		t.Errorf("events: %s", e.body)
	}

	bad := into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync","output_schema":`+
		numbered+`,"parameters":{"give":{"n":"one"}}}`), 200)
	if bad.Status != run.Failed || bad.Error.Code != "OutputSchemaValidationError" ||
		bad.Error.Message != "Output validation failed after 1 retry" {
		t.Errorf("%s %v", bad.Status, bad.Error)
	}
	if e := s.get("/sessions/" + bad.SessionID + "/events"); !strings.Contains(e.body, run.EventFailed) ||
		strings.Contains(e.body, run.EventCompleted) {
		t.Errorf("events: %s", e.body)
	}
	if l := s.get("/ledger"); !strings.Contains(l.body, `"ok":true`) ||
		!strings.Contains(l.body, `"completed":1,"failed":1`) {
		t.Errorf("ledger: %s", l.body)
	}
}

// TestAWorkerCannotCompleteByItself: its own end record is a failure wherever a caller looks, on the live stream too.
func TestAWorkerCannotCompleteByItself(t *testing.T) {
	t.Parallel()
	s := start(t)
	w := s.work(parrot, echo("tool"))
	w.mu.Lock()
	w.lies = true
	w.mu.Unlock()
	stream := s.post("/runs", `{"agent_name":"tool","mode":"sync","output_schema":`+numbered+`,"parameters":{"n":1}}`,
		"Accept: text/event-stream")
	if !strings.Contains(stream.body, `"event_type":"`+run.EventFailed) ||
		strings.Contains(stream.body, `"result_data"`) || strings.Contains(stream.body, run.EventCompleted) {
		t.Errorf("stream: %s", stream.body)
	}
	const unchecked = `{"error":"result_unchecked","message":"The runner itself reported the run as completed, but a ` +
		`result with an output schema counts only after a coordinator has checked it; it is not shown"}`
	list := into[struct{ Runs []run.Run }](s.get("/runs?status=failed"), 200)
	if len(list.Runs) != 1 {
		t.Fatalf("%+v", list)
	}
	r := list.Runs[0]
	for _, path := range []string{"/runs/" + r.ID, "/runs/" + r.ID + "/wait"} {
		if g := s.get(path); !strings.Contains(g.body, `"status":"failed"`) ||
			!strings.Contains(g.body, `"error":`+unchecked) || strings.Contains(g.body, "result_data") {
			t.Errorf("%s: %s", path, g.body)
		}
	}
	literal(t, s.get("/runs/"+r.ID+"/result"), 409, fmt.Sprintf(`{"error":"no_result","message":"Run %s ended as `+
		`failed and has no result: %s","run_id":"%s","status":"failed","run_error":%s}`,
		r.ID, strings.TrimSuffix(unchecked[strings.Index(unchecked, "The runner"):], `"}`), r.ID, unchecked))
	if g := s.get("/sessions/" + r.SessionID + "/status"); !strings.Contains(g.body, `"status":"failed"`) {
		t.Errorf("%s", g.body)
	}
	if l := s.get("/ledger"); !strings.Contains(l.body, `"ok":true`) ||
		!strings.Contains(l.body, `"completed":0,"failed":1`) {
		t.Errorf("ledger: %s", l.body)
	}
}

// TestRunnersAgentsHaveOutputSchemas: what a runner announces is checked like any other definition, and holds.
func TestRunnersAgentsHaveOutputSchemas(t *testing.T) {
	t.Parallel()
	s := start(t)
	const runner = `{"hostname":"h","executor_profile":"p","executor_type":"procedural","agents":[{"name":"counter",` +
		`"command":"x",%s}]}`
	g := s.post("/runner/register", fmt.Sprintf(runner, `"default_output_schema":{"type":"objekt"}`))
	if g.status != 400 || !strings.Contains(g.body, `"error":"InvalidSchema","message":"output_schema is not a valid `+
		`JSON Schema"`) || !strings.Contains(g.body, `"agent_index":0`) {
		t.Errorf("%d %s", g.status, g.body)
	}
	counter := echo("counter")
	counter.OutputSchema = json.RawMessage(numbered)
	s.work(parrot, counter)
	if got := into[agent.Blueprint](s.get("/agents/counter"), 200); string(got.OutputSchema) != numbered {
		t.Errorf("%s", got.OutputSchema)
	}
	for give, want := range map[string]run.Status{`{"n":1}`: run.Completed, `{}`: run.Failed} {
		out := into[runs.Outcome](s.post("/runs", `{"agent_name":"counter","mode":"sync","parameters":`+give+`}`), 200)
		if out.Status != want {
			t.Errorf("%s: %s %v", give, out.Status, out.Error)
		}
		if out.Result == nil || !strings.Contains(string(out.Result.SchemaValidation),
			fmt.Sprintf(`{"valid":%t,"schema_name":null,"schema_source":"blueprint"`, want == run.Completed)) ||
			*out.Result.ExitCode != 0 {
			t.Errorf("%s: %+v", give, out.Result)
		}
	}
	// A worker may announce what is checked nowhere but at the coordinator.
	bad := counter
	bad.Name, bad.OutputSchema = "worse", json.RawMessage(`{"type":"objekt"}`)
	raw, _ := json.Marshal(runnerapi.Registration{
		Runner: runnerapi.Runner{
			Identity: runnerapi.Identity{Hostname: "there", ProjectDir: "/srv", ExecutorProfile: "procedural",
				ExecutorType: run.Procedural}, Instance: "two", Agents: []agent.Blueprint{bad}}})
	if _, err := s.bus.Request(t.Context(), "ao.fleet."+runnerapi.OpRegister, raw); err == nil ||
		!strings.Contains(err.Error(), "output_schema is not a valid JSON Schema") {
		t.Errorf("got %v", err)
	}
}

// TestASchemaOfAnotherCoordinator is known at once.
func TestASchemaOfAnotherCoordinator(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := s.another()
	s.post("/agents", `{"name":"plain"}`).want(201)
	for n := range 5 {
		name := fmt.Sprintf("s%d", n)
		s.post("/schemas", `{"name":"`+name+`","schema":{}}`).want(201)
		natstest.Until(t, "the agent is known", func() bool { return other.get("/agents/plain").status == 200 })
		other.post("/runs/validate", `{"agent_name":"plain","prompt":"x","output_schema_name":"`+name+`"}`).want(200)
		other.get("/schemas/" + name).want(200)
		s.post("/agents", `{"name":"by`+name+`","output_schema_name":"`+name+`"}`).want(201)
		other.call("DELETE", "/schemas/"+name, "").want(409)
		other.call("DELETE", "/agents/by"+name, "").want(204)
		other.call("DELETE", "/schemas/"+name, "").want(204)
		s.post("/runs/validate", `{"agent_name":"plain","prompt":"x","output_schema_name":"`+name+`"}`).want(404)
	}
}
